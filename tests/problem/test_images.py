# SPDX-License-Identifier: MIT
"""Voxel images as fields: pages, their order, labels, and what is refused."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poisson.errors import CaseError, PackageMissing
from poisson.problem.fields import FieldFile
from poisson.problem.images import phases_of

LABELS = np.random.default_rng(5).integers(0, 3, (11, 5, 6)).astype(np.uint8)
PHASES = {0: 1.0, "1": 10, 2: 0.0}
VALUES = np.array([1.0, 10.0, 0.0])[LABELS]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pillow = pytest.importorskip("PIL.Image")
    pages = [pillow.fromarray(page) for page in LABELS]
    pages[0].save(tmp_path / "stack.tif", save_all=True, append_images=pages[1:])
    for number, page in enumerate(pages):
        page.save(tmp_path / f"slice{number}.png")
    return tmp_path


@pytest.mark.parametrize("name", ["slice*.png", "stack.tif"])
def test_pages_are_an_array_in_the_order_of_their_numbers(folder: Path, name: str) -> None:
    field = FieldFile(folder / name, None, phases_of(PHASES))
    field.check(LABELS.shape)
    assert field.shape == LABELS.shape
    np.testing.assert_array_equal(field.read(0, 11), VALUES)
    np.testing.assert_array_equal(field.read(2, 5, [(1, 4), (0, 6)]), VALUES[2:5, 1:4])
    np.testing.assert_array_equal(field.read_runs([[(9, 11), (0, 1)], [(0, 5)], [(5, 6)]]), VALUES[[9, 10, 0], :, 5:])
    np.testing.assert_array_equal(FieldFile(folder / name).read(3, 4), LABELS[3:4])  # without phases the shades


def test_one_page_is_an_array_of_two_axes(folder: Path) -> None:
    field = FieldFile(folder / "slice7.png", None, phases_of(PHASES))
    field.check(LABELS.shape[1:])
    np.testing.assert_array_equal(field.read(1, 3), VALUES[7, 1:3])


@pytest.mark.parametrize("kind", [bool, np.uint8, np.int64, np.float32])
def test_labels_may_have_any_type(tmp_path: Path, kind: Any) -> None:
    path = tmp_path / "image.npy"
    np.save(path, (LABELS > 0).astype(kind))
    field = FieldFile(path, None, phases_of({0: 2.0, 1: 3.0}))
    field.check(LABELS.shape)
    np.testing.assert_array_equal(field.read(0, 11), np.where(LABELS, 3.0, 2.0))


def test_black_and_white_is_0_and_1(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image").fromarray(255 * (LABELS[0] > 1).astype(np.uint8)).convert("1")
    image.save(tmp_path / "mask.png")
    field = FieldFile(tmp_path / "mask.png")
    field.check((5, 6))
    np.testing.assert_array_equal(field.read(0, 5), LABELS[0] > 1)


def test_what_cannot_be_an_image_is_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pillow = pytest.importorskip("PIL.Image")
    pillow.fromarray(np.zeros((5, 6, 3), np.uint8)).save(folder / "colours.png")
    pillow.fromarray(np.zeros((5, 7), np.uint8)).save(folder / "slice11.png")
    (folder / "broken.tif").write_text("no image")
    (folder / "folder.png").mkdir()
    lines = {
        "colours.png": "'{}' is in colours; save the image in shades of grey",
        "slice*.png": f"'{folder / 'slice11.png'}' has the shape (5, 7), and the first page (5, 6)",
        "broken.tif": "'{}' cannot be read as a .tif file: cannot identify image file ",
        "folder.png": "'{}' is a directory",
        "none*.png": "no such file: '{}'",
    }
    for name, line in lines.items():
        with pytest.raises(CaseError) as caught:
            FieldFile(folder / name).read(0, 12)
        assert str(caught.value).startswith(line.format(folder / name)) and "\n" not in str(caught.value)
    with pytest.raises(CaseError, match="has the value 2, which is no phase; the phases are 0, 1"):
        FieldFile(folder / "stack.tif", None, phases_of({0: 1.0, 1: 2.0})).read(0, 11)
    with pytest.raises(CaseError, match=r"is a \.tif file, which has no datasets; leave 'dataset' out"):
        FieldFile(folder / "stack.tif", "f").read(0, 11)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(PackageMissing, match="images need pillow: pip install pillow"):
        FieldFile(folder / "stack.tif").read(0, 11)


@pytest.mark.parametrize("given", [{}, {0: 0.0}, {0: -1.0, 1: 1.0}, {0.5: 1.0}, {"1": 1.0, "01": 2.0}, {0: np.inf}])
def test_wrong_phases_are_refused(given: dict[Any, float]) -> None:
    with pytest.raises(ValueError):
        phases_of(given)
