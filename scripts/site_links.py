# SPDX-License-Identifier: MIT
"""A hook of mkdocs: the site links to the repository and its issues, whose addresses pyproject.toml has.

The placeholder of a clone command in a page, ``git clone URL``, becomes the address too.
"""

import tomllib
from pathlib import Path
from typing import Any

URLS: dict[str, str] = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text("utf-8"))["project"][
    "urls"
]
"""The table ``[project.urls]``."""


def on_config(config: Any) -> Any:
    """Configuration of mkdocs with the repository in the header, and both addresses in the navigation."""
    config["repo_url"], config["repo_name"] = URLS["Repository"], "repository"
    config["nav"] = [*config["nav"], {"Project": [{name: address} for name, address in URLS.items()]}]
    return config


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Text of a page with the address in its clone command."""
    return markdown.replace("git clone URL", f"git clone {URLS['Repository']}")
