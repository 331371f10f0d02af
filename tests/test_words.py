# SPDX-License-Identifier: MIT
"""The words of messages and docstrings: plurals and articles that follow from the noun, and words that neither has."""

import ast
import re
from collections.abc import Iterator

import pytest
from support.places import ROOT

from poisson.words import article, plural, quantity


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (1, "thread", "1 thread"),
        (2, "thread", "2 threads"),
        (0, "iteration", "0 iterations"),
        (3, "process", "3 processes"),
        (2, "axis", "2 axes"),
        (4, "entry", "4 entries"),
        (2, "array", "2 arrays"),
        (1, "GPU", "1 GPU"),
    ],
)
def test_a_number_has_its_noun(number: int, noun: str, text: str) -> None:
    assert quantity(number, noun) == text
    assert number == 1 or text.endswith(plural(noun))


@pytest.mark.parametrize(
    ("noun", "text"),
    [
        ("int", "an int"),
        ("float", "a float"),
        ("str", "a str"),
        ("Expression", "an Expression"),
        ("ndarray", "an ndarray"),
        ("uint8", "a uint8"),
        ("ufunc", "a ufunc"),
        ("object", "an object"),
        ("NoneType", "a NoneType"),
    ],
)
def test_a_noun_has_its_article(noun: str, text: str) -> None:
    assert article(noun) == text


# ---- the messages of the package
def docstrings(tree: ast.Module) -> set[int]:
    """The identities of the texts that stand alone as statements: docstrings of modules, classes, functions, names."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def messages(source: str) -> Iterator[tuple[int, str]]:
    """The line and the words of every string literal that is no docstring; values in it stand as ``{}``."""
    tree = ast.parse(source)
    skipped = docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            yield node.lineno, "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.lineno, node.value


NOUNS = ("thread", "iteration", "process", "core", "CPU", "GPU", "argument", "combination", "rank", "call", "warning")
WRONG = {
    "an expression, not a text": re.compile(r"\ba text\b|\btexts\b"),
    "a plural from poisson.words.quantity": re.compile(rf"(?:\{{\}}|%d) (?:{'|'.join(map(plural, NOUNS))})\b(?! per)"),
    "an article from poisson.words.article": re.compile(r"\ban? \{\}(?:;| that| of)"),
    "the subject first": re.compile(r"is too much|there is such a|which ends here|cannot be told"),
}


def wrong_words(source: str) -> list[str]:
    """One line for each message with words that no message has, and what it should have."""
    return [
        f"{line}: {text!r}: {advice}"
        for line, text in messages(source)
        for advice, pattern in WRONG.items()
        if pattern.search(text)
    ]


def test_messages_have_plain_words() -> None:
    for path in (ROOT / "poisson").rglob("*.py"):
        assert (path, wrong_words(path.read_text("utf-8"))) == (path, [])


@pytest.mark.parametrize(
    "source",
    [
        'raise E("f: a number or a text")',
        'say(f"CPU, {threads} threads, OpenMP")',
        'raise E(f"f: a {kind}; allowed: a number")',
        'log.info("%s after %d iterations", path, count)',
        'raise E(f"{name!r} is too much")',
    ],
)
def test_words_that_no_message_has_are_found(source: str) -> None:
    assert len(wrong_words(source)) == 1
    assert wrong_words(f'def f():\n    """A text of 2 threads, {{a}} text."""\n    {source}') == [
        f"3{line[1:]}" for line in wrong_words(source)
    ]


# ---- the docstrings of the package, the scripts and what the tests share

OPENINGS = {"Those", "Which", "Of", "What", "To", "So", "It", "That"}
"""Words that stand for a noun which the reader does not see; a docstring names its subject first."""


def without_subject(source: str) -> list[str]:
    """The beginnings of the docstrings of modules, classes, functions and names that do not name their subject."""
    standing = [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Expr)]
    found = [each.value for each in standing if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return [text[:60] for text in found if re.split(r"\W", text.strip(), maxsplit=1)[0] in OPENINGS]


def test_docstrings_begin_with_their_subject() -> None:
    for folder in ("poisson", "scripts", "tests/support"):
        for path in (ROOT / folder).rglob("*.py"):
            assert (path, without_subject(path.read_text("utf-8"))) == (path, [])


@pytest.mark.parametrize("opening", sorted(OPENINGS))
def test_docstrings_without_a_subject_are_found(opening: str) -> None:
    for source in (
        '"""{}, all."""',
        'class A:\n    """{} a b."""',
        'def f():\n    """{}\n\n    all."""',
        'A = 1\n"""{} it."""',
    ):
        assert len(without_subject(source.format(opening))) == 1
        assert without_subject(source.format("The")) == []
