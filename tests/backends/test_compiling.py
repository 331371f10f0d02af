# SPDX-License-Identifier: MIT
"""How the kernels of the gpu backend are compiled.

Covers poisson.backends.gpu.cupy.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from test_backends import fake_cupy


@pytest.mark.parametrize(("declared", "dynamic", "asked"), [(0, 49152, None), (184, 49152, 49152), (184, 48968, None)])
def test_a_kernel_asks_for_more_shared_memory_than_there_is_unasked(
    declared: int, dynamic: int, asked: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = SimpleNamespace(num_regs=32, shared_size_bytes=declared, local_size_bytes=0)
    loaded_by(monkeypatch, function)._Module("", (), None).get_function("poisson_transform", dynamic)
    assert getattr(function, "max_dynamic_shared_size_bytes", None) == asked


def loaded_by(monkeypatch: pytest.MonkeyPatch, function: Any, version: tuple[int, int] | None = (13, 0)) -> Any:
    """The module of the runtime, with a CuPy whose kernels are all this function; without a version it is of ROCm."""
    cupy = fake_cupy(1)
    cupy.compiled = []  # type: ignore[attr-defined]
    cupy.cuda.runtime.is_hip = version is None
    cupy.cuda.nvrtc = SimpleNamespace(getVersion=lambda: version)

    def raw_module(code: str, options: tuple[str, ...]) -> SimpleNamespace:
        cupy.compiled.append((code, options))
        return SimpleNamespace(get_function=lambda name: function)

    cupy.RawModule = raw_module  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, "poisson.backends.gpu.cupy", ModuleType("the real one, for after the test"))
    del sys.modules["poisson.backends.gpu.cupy"]
    return import_module("poisson.backends.gpu.cupy")


@pytest.mark.parametrize(("version", "shorter"), [((13, 0), True), ((12, 4), True), ((12, 3), False), (None, False)])
def test_cupy_sees_one_set_of_options(
    version: tuple[int, int] | None, shorter: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = SimpleNamespace(num_regs=32, shared_size_bytes=0, local_size_bytes=0)
    runtime = loaded_by(monkeypatch, function, version)
    text = "KERNEL one() {\n}\nKERNEL other() {\n}\n"
    for number in (1, 2):
        module = runtime._Module(text, ("-std=c++17", f"-DNUMBER={number}", "-DFLAG"), None)
        module.get_function("other")
    assert runtime.cp.compiled == [
        (
            f"#define NUMBER {number}\n#define FLAG 1\n#line 1\n\n\nKERNEL other() {{\n}}\n",
            ("-std=c++17", "-minimal") if shorter else ("-std=c++17",),
        )
        for number in (1, 2)
    ]
