# SPDX-License-Identifier: MIT
"""The refusals of calls, as lines."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from poisson.errors import CaseError


def mistake_of(call: Callable[..., object], *given: Any, **named: Any) -> str:
    """The only mistake that a call is refused for: a line."""
    with pytest.raises(CaseError) as caught, np.errstate(all="ignore"):
        call(*given, **named)
    [line] = caught.value.mistakes
    assert "\n" not in line
    return line
