# SPDX-License-Identifier: MIT
"""Draw the pictures of the README and the gallery from the cases, and the roofline from its table.

    python scripts/make_pictures.py [IMAGES]

IMAGES is where the pictures go, by default ``docs/images``. It needs matplotlib.
"""

import re
import runpy
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
from make_source import main as make_source
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import Colormap
from matplotlib.figure import Figure
from scipy.ndimage import gaussian_filter

import poisson
from poisson import backends
from poisson.perf import roofline
from poisson.perf.traffic import cost
from poisson.perf.workload import box, every_operation
from poisson.problem.problem import Problem
from poisson.solvers.multigrid import galerkin

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
DOTS_PER_INCH = 80

GALLERY = (
    ("point_charge", "A smeared charge", {}),
    ("pressure_projection", "Pressure and its gradient", {"vectors": True}),
    ("electrolyte", "Screened charges", {}),
    ("grounded_box", "A charge in a grounded box", {"lines": True}),
    ("dipole", "A dipole and its field", {"lines": True}),
    ("capacitor", "A capacitor with dielectric", {"lines": True}),
    ("heated_plate", "A heated plate that air cools", {"vectors": True}),
    ("anisotropic_channel", "A long channel", {}),
)
"""The cases of the gallery with their titles and what is drawn beside u: a row of squares, and one of wide boxes."""

BODIES_AND_AXES = (
    ("electrodes", "Electrodes and a rod that floats", {"lines": True}),
    ("electrode", "An electrode on a wall", {"lines": True}),
    ("wall_layers", "Layers at two walls", {}),
    ("staggered", "Cells, periodic in y", {"levels": 20}),
)
"""As `GALLERY`: bodies, a face in patches, a stretched axis and cells."""

H200 = roofline.Roof(4267e9, 33140e9)
"""The limits that `poisson roofline` measured on an H200: the copy, and the peak of arithmetic."""

_SMOOTH = 160
"""Colours of a file that belong to its colour maps."""
_FAR = 6
"""Levels of red, green or blue between two colours that are not the same to the eye."""

METHODS = ("jacobi", "chebyshev", "sor", "cg", "multigrid")


def solve(name: str, *overrides: str) -> poisson.Solution:
    """The solution of one of the case files."""
    with TemporaryDirectory() as folder:
        case = Path(folder) / f"{name}.toml"
        case.write_bytes((ROOT / "cases" / case.name).read_bytes())
        make_source(Path(folder))
        return poisson.solve(poisson.load_case(case, overrides))


def solve_tutorial() -> poisson.Solution:
    """The solution of the case that the first tutorial is about."""
    [text] = re.findall(r"^```toml\n(.*?)^```$", (ROOT / "docs" / "tutorial.md").read_text("utf-8"), re.M | re.S)
    with TemporaryDirectory() as folder:
        case = Path(folder) / "discs.toml"
        case.write_text(text, "utf-8")
        return poisson.solve(poisson.load_case(case))


def draw_field(axes: Axes, name: str, title: str, **options: Any) -> None:
    """The solution of a case; in 3D in the plane z of the largest value. Ticks show where a stretched y has nodes."""
    solution = solve(name)
    grid = solution.problem.lattice
    if grid.dimension == 3:
        z = np.unravel_index(np.abs(solution.host_u).argmax(), grid.array_shape)[0]
        options["slice"] = {"z": float(grid.coordinates(2)[z])}
    replace(solution, problem=replace(solution.problem, title=title)).plot(ax=axes, **options)
    if (y := grid.axes[1].placement) and not y.even:
        axes.set_yticks(grid.coordinates(1)[::8], minor=True)


def draw_histories(axes: Axes) -> None:
    """The residual norm of each method against its iterations, on the heated square."""
    problem: Problem = poisson.load_case(ROOT / "cases" / "heated_square.toml").problem
    for method in METHODS:
        options: Any = {"preconditioner": "none"} if method == "cg" else {}
        solution = poisson.Solver(problem, method, rtol=1e-10, **options).solve()
        iterations, norms = np.array(solution.history).T
        marker = "." if iterations.size < 20 else ""
        axes.loglog(np.maximum(iterations, 0.5), norms / norms[0], marker=marker, label=method)
    axes.set(title="Residual norms", xlabel="iterations", ylabel="residual / first residual", box_aspect=1.0)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))


def draw_coarse_grids() -> Figure:
    """How residuals fall with each kind of coarse grids, where a jumps from node to node and between blobs."""
    random, shape = np.random.default_rng(0), (129, 129)
    noise = gaussian_filter(random.standard_normal(shape), 2.0)
    coefficients = {
        "spots of $10^6$ on half of the nodes": np.where(random.random(shape) < 0.5, 1e6, 1.0),
        "blobs of $10^4$": np.where(noise > 0.0, 1e4, 1.0),
        "exp(4N)": np.exp(4.0 * random.standard_normal(shape)),
    }
    kinds = (("averages", "geometric", {}), ("products", "galerkin", {2: ()}), ("and clusters", "galerkin", None))
    figure = Figure(figsize=(12.0, 3.2), layout="constrained")
    f = random.standard_normal(shape)
    for axes, (title, a) in zip(figure.subplots(1, 3, sharey=True), coefficients.items(), strict=True):
        for label, coarse, thresholds in kinds:
            with patch.dict(galerkin.THRESHOLDS, thresholds or {}):
                solver = poisson.Solver(
                    *(Problem.on_box(shape, a=a, f=f), "cg"),
                    **{"preconditioner": "multigrid", "coarse": coarse, "rtol": 1e-8, "max_iterations": 150},
                )
            iterations, norms = np.array(solver.solve().history).T
            axes.semilogy(iterations, norms / norms[0], label=label)
        axes.set(title=title, xlabel="iterations", xlim=(0, 150))
        axes.grid(alpha=0.3)
    figure.axes[0].set_ylabel("residual / first residual")
    figure.axes[0].legend(fontsize="small")
    return figure


def draw_cavity() -> Figure:
    """The flow under a lid at Re = 1000, by the program of the case."""
    program = runpy.run_path(str(ROOT / "cases" / "lid_driven_cavity.py"))
    cavity = program["Cavity"](96, 1000)
    cavity.run(until=60.0)
    return program["draw"](cavity, 1000)


def draw_roofline() -> Figure:
    """The operations of one H200 at 4096² below its roof, from the tables of docs/performance.md."""
    text = (ROOT / "docs" / "performance.md").read_text("utf-8")
    table = text.partition("Effective bandwidth over the copy:")[2].partition("\n### ")[0]
    reached = dict(re.findall(r"^\| ([a-z_ ,]+?)(?:, order 8)? \| ([0-9.]+) \|", table, re.MULTILINE))
    [sweep_ms] = re.findall(r"^\| in a pass, ms a sweep \| ([0-9.]+) \|", table, re.MULTILINE)
    # An operation has the same flops for each byte on every backend and, but for the edges, on every grid.
    ledger = every_operation(backends.create("numpy", np.dtype("float64")), box((512, 512)))
    costs = {call.label: cost(call) for call in ledger.samples}
    rows = []
    for label, needed in costs.items():
        name = label.replace(" + ", " with ").replace(", no source", " without a source")
        if name in reached and needed.intensity:
            intensity = needed.intensity
            rate = float(reached[name]) * H200.bandwidth * intensity
            rows.append({"operation": label, "flops_per_byte": intensity, "flops_per_second": rate})
    sweeps = 6
    flops = sweeps * costs["sweep"].flops / 512**2 * 4096**2
    many = {"operation": f"sweeps x{sweeps}", "flops_per_byte": sweeps * costs["sweep"].intensity}
    rows.append(many | {"flops_per_second": flops / (sweeps * float(sweep_ms) * 1e-3)})
    figure = Figure(layout="constrained")
    roofline.draw(figure, "one NVIDIA H200, 4096 x 4096 nodes, float64", H200, rows)
    return figure


def save(figure: Figure, path: Path, dots_per_inch: int = DOTS_PER_INCH) -> Path:
    """Write a picture with few colours, so that the file is small, and with all those of its colour maps."""
    from PIL import Image

    figure.savefig(path, dpi=dots_per_inch)
    with Image.open(path) as image:
        picture = image.convert("RGB")
        colours = np.unique(np.asarray(picture).reshape(-1, 3), axis=0)
        few = np.linspace(0, 255, 16).round()[:, None].repeat(3, axis=1)
        if maps := colour_maps(figure):
            ramp = np.linspace(0.0, 1.0, _SMOOTH // len(maps))
            few = np.concatenate([few, *((255 * colours(ramp)[:, :3]).round() for colours in maps)])
        # The rest of the palette is for colours that are far from these.
        distance = np.min([np.abs(colours - colour).max(axis=1) for colour in few], axis=0)
        far = Image.fromarray(colours[distance > _FAR][None])
        others = far.quantize(256 - len(few)).getpalette() or []
        palette = Image.new("P", (1, 1))
        palette.putpalette([*few.astype(int).ravel().tolist(), *others])
        picture.quantize(palette=palette, dither=Image.Dither.NONE).save(path, optimize=True)
    return path


def colour_maps(figure: Figure) -> list[Colormap]:
    """The colour maps of the fields in a picture."""
    found = {image.get_cmap().name for axes in figure.axes for image in axes.get_images()}
    return [colormaps[name] for name in sorted(found)]


def main(images: Path) -> list[Path]:
    """Draw the pictures and return the paths of the files."""
    images.mkdir(parents=True, exist_ok=True)
    front = Figure(figsize=(12.0, 3.2), layout="constrained")
    axes = front.subplots(1, 3)
    draw_field(axes[0], "heated_square", "Heated square")
    draw_field(axes[1], "source_from_file", "Two charges", lines=True)
    draw_histories(axes[2])
    gallery = Figure(figsize=(15.0, 6.2), layout="constrained")
    panels = gallery.subplots(2, 4, height_ratios=(1.0, 0.75))
    for panel, (name, title, options) in zip(panels.flat, GALLERY, strict=True):
        draw_field(panel, name, title, **options)
    others = Figure(figsize=(15.0, 3.0), layout="constrained")
    for panel, (name, title, options) in zip(others.subplots(1, 4), BODIES_AND_AXES, strict=True):
        draw_field(panel, name, title, **options)
    pictures = {
        "solutions": front,
        "gallery": gallery,
        "bodies_and_axes": others,
        "box": solve("grounded_box").plot(lines=True),
        "discs": solve_tutorial().plot(lines=True),
        "open": solve("free_charge").plot(lines=True),
        "obstacles": solve("obstacles").plot(lines=True),
        "disc": solve("eccentric_wire").plot(lines=True),
        "tube": solve("ball_in_tube").plot(lines=True),
        "edge": solve("disc_in_space").plot(lines=True),
        "cavity": draw_cavity(),
        "coarse_grids": draw_coarse_grids(),
    }
    written = [save(figure, images / f"{name}.png") for name, figure in pictures.items()]
    return [*written, save(draw_roofline(), images / "roofline_h200.png", 110)]


if __name__ == "__main__":
    print(*main(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES), sep="\n")
