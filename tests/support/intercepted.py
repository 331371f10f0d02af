# SPDX-License-Identifier: MIT
"""A NumPy backend whose operations are handed to a test before they run."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from poisson.backends.numpy import NumpyBackend
from poisson.backends.operations import OPERATIONS


class Intercepted(NumpyBackend):
    """Each operation that is asked for, by it or by what it binds, goes to `asked`; what an operation uses does not."""

    def __init__(self) -> None:
        super().__init__(np.float64)
        self._intercept(NumpyBackend(np.float64), self, None)

    def asked(self, name: str, operation: Callable[..., None], *arguments: Any, **named: Any) -> None:
        """Called in the place of an operation."""
        raise NotImplementedError

    def bind(self, subject: Any) -> Any:
        bound = super().bind(subject)
        self._intercept(NumpyBackend(np.float64).bind(subject), bound, type(subject))
        return bound

    def _intercept(self, specification: Any, outside: Any, subject: type | None) -> None:
        for spec in OPERATIONS.values():
            if spec.subject is subject:
                operation = getattr(specification, spec.method)
                setattr(outside, spec.method, partial(self.asked, spec.name, operation))
