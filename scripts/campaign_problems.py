# SPDX-License-Identifier: MIT
"""Random problems and ways to solve them, each from one seed."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from campaign_reference import AXES, Box, Reference, Side
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

KINDS = (
    "smooth",
    "jumps",
    "composites",
    "singular",
    "nearly",
    "scales",
    "guesses",
    "settings",
    "reuse",
    "fields",
    "refused",
)
"""The difficulties for which problems are drawn."""

TURNS = tuple(kind for kind in KINDS if kind != "refused") * 2 + ("jumps", "composites", "refused")
"""The kinds of consecutive seeds."""

GUESSES = ("none", "random", "exact", "near", "huge")
LARGE_EVERY = 500
"""One seed of so many has a large grid."""


@dataclass(frozen=True)
class Solve:
    """One solve: its source, and the kind of its guess, one of `GUESSES`."""

    f: Any
    guess: str = "none"


@dataclass(frozen=True)
class Trial:
    """A problem, the settings to solve it with, and the solves to make in one solver.

    Parameters
    ----------
    seed : int
        All of it follows from this.
    kind : str
        One of `KINDS`.
    box : Box
        The discrete problem.
    solves : tuple of Solve
        The first is that of the problem itself.
    options : dict
        The arguments of ``poisson.Solver`` beside the problem and the backend.
    size : float
        The magnitude of the data, for guesses.
    through : str
        ``Solver`` or ``solve``: what of the package solves it.
    """

    seed: int
    kind: str
    box: Box
    solves: tuple[Solve, ...]
    options: dict[str, Any] = field(default_factory=dict)
    size: float = 1.0
    through: str = "Solver"

    def boundary(self) -> dict[str, Any]:
        """The faces as ``poisson.Problem.on_box`` takes them."""
        tables: dict[str, Any] = {}
        for face, side in enumerate(self.box.sides):
            if side.kind == "periodic":
                tables[AXES[face // 2]] = "periodic"
            else:
                name = f"{AXES[face // 2]}_{'upper' if face % 2 else 'lower'}"
                tables[name] = {side.kind: side.value} | ({} if side.alpha is None else {"alpha": side.alpha})
        return tables

    def arguments(self, f: Any, initial: Any = None) -> dict[str, Any]:
        """The arguments of ``poisson.Problem.on_box``."""
        box = self.box
        given = {"shape": box.shape, "lower": box.lower, "upper": box.upper, "boundary": self.boundary()}
        given |= {"f": f, "a": box.a, "c": box.c}
        if not isinstance(box.a, float):
            given["mean"] = box.mean  # refused where it changes nothing
        return given if initial is None else given | {"initial": initial}

    def options_on(self, backend: str) -> dict[str, Any]:
        """The options for a backend: a number of threads only where it has threads."""
        has_threads = backend in ("auto", "openmp")
        return {name: value for name, value in self.options.items() if has_threads or name != "threads"}


def draw(seed: int) -> Trial:
    """The problem of a seed."""
    return _Draw(seed).trial()


class _Draw:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.kind = TURNS[seed % len(TURNS)]
        self.rng = np.random.default_rng([20261122, seed])

    def trial(self) -> Trial:
        rng, kind = self.rng, self.kind
        sides_kind = "closed" if kind in ("singular", "refused") or (kind == "nearly" and self.chance(0.7)) else "any"
        shape = self.shape()
        periodic = [self.chance(0.5 if sides_kind == "closed" else 0.25) for _ in shape]
        extent = self.extent(len(shape))
        lower = tuple(float(rng.choice([0.0, 0.0, -1.0, rng.uniform(-1, 1)])) * e for e in extent)
        upper = tuple(low + e for low, e in zip(lower, extent, strict=True))
        size = self.size()
        kinds = self.face_kinds(periodic, sides_kind)
        empty = Box(shape, lower, upper, tuple(Side(k, 0.0, 0.0 if k == "robin" else None) for k in kinds))
        a = self.coefficient(empty)
        a_typical = float(np.exp(np.log(empty.values(a)).mean()))
        large = float(rng.choice([0.0, 1.0, 1.0]) if kind != "refused" else 0.0)
        box = replace(
            empty, a=a, c=self.reaction(empty, a_typical), mean=str(rng.choice(["harmonic", "harmonic", "arithmetic"]))
        )
        sides = tuple(self.side(box, face, k, size * large, a_typical) for face, k in enumerate(kinds))
        box = replace(box, sides=sides)
        options = self.options(box)
        reference = Reference(box)
        f = self.balanced(reference, self.source(box, size, a_typical))
        solves = [Solve(f, self.guess())]
        if kind == "reuse" or (kind == "guesses" and self.chance(0.3)):
            for _ in range(int(rng.integers(1, 3))):
                again = f
                if self.chance(0.7):
                    again = self.source(box, size * 10.0 ** self.integer(-3, 4), a_typical)
                solves.append(Solve(self.balanced(reference, again), self.guess()))
        through = "solve" if len(solves) == 1 and self.chance(0.15) else "Solver"
        if self.chance(0.08):
            options["atol"] = size * a_typical / max(extent) ** 2 * self.power(-14, 0)
        sides = tuple(self.as_array(box, face, side) for face, side in enumerate(sides))
        return Trial(self.seed, kind, replace(box, sides=sides), tuple(solves), options, size, through)

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def integer(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high))

    def power(self, low: float, high: float) -> float:
        return float(10.0 ** self.rng.uniform(low, high))

    def pick(self, *of: Any) -> Any:
        return of[int(self.rng.integers(len(of)))]

    def shape(self) -> tuple[int, ...]:
        dimension = self.pick(1, 2, 2, 2, 3, 3)
        if self.seed % LARGE_EVERY == LARGE_EVERY - 1:
            middle = {1: 50_000, 2: 250, 3: 36}[dimension]
            return tuple(int(middle * self.rng.uniform(0.6, 1.4)) for _ in range(dimension))
        most = {1: 3.6, 2: 1.8, 3: 1.15}[dimension]
        sizes = []
        for _ in range(dimension):
            n = 3 if self.chance(0.08) else round(10 ** self.rng.uniform(np.log10(3), most))
            power = 2 ** round(np.log2(max(n, 3)))
            sizes.append(max(3, self.pick(n, n, n, power, power + 1, n | 1)))
        return tuple(sizes)

    def extent(self, dimension: int) -> tuple[float, ...]:
        wide = 3.0 if self.kind == "scales" or self.chance(0.1) else 0.5
        whole = self.power(-3, 3) if self.kind == "scales" or self.chance(0.1) else 1.0
        if self.chance(0.3):
            return (whole,) * dimension
        return tuple(min(1e3, max(1e-3, whole * self.power(-wide, wide))) for _ in range(dimension))

    def size(self) -> float:
        """The magnitude of the data."""
        if self.kind == "scales":
            return float(10.0 ** self.integer(-200, 201)) if self.chance(0.5) else self.power(-30, 30)
        return self.power(-6, 6) if self.chance(0.3) else 1.0

    def face_kinds(self, periodic: list[bool], sides: str) -> list[str]:
        kinds: list[str] = []
        for wraps in periodic:
            if wraps:
                kinds += ["periodic", "periodic"]
            elif sides == "closed":
                kinds += ["neumann", "neumann"]
            else:
                kinds += [self.pick("dirichlet", "dirichlet", "neumann", "robin") for _ in range(2)]
        return kinds

    def coefficient(self, box: Box) -> Any:
        """a."""
        rng, shape = self.rng, box.shape[::-1]
        plain = self.kind in ("smooth", "scales", "nearly", "singular", "refused", "guesses")
        form = (
            self.pick("one", "number", "text", "lognormal")
            if plain
            else self.pick(*("one", "number", "text", "lognormal", "half", "checkers", "boxes", "layers"))
        )
        if self.kind == "jumps" or (plain and self.chance(0.15)):
            form = self.pick("lognormal", "half", "half", "checkers", "boxes", "layers")
        jump = self.power(0, 6) if self.kind == "jumps" else self.power(0, 3)
        if self.kind == "composites" or self.chance(0.05):
            form = self.pick("lognormal", "checkers", "spots", "spots", "blobs", "network")
            jump = self.power(3, 10)
        level = self.power(-3, 3) if self.chance(0.2) else 1.0
        index = np.indices(shape)
        match form:
            case "one":
                return 1.0
            case "number":
                return self.power(-30, 30) if self.kind == "scales" and self.chance(0.3) else self.power(-3, 3)
            case "text":
                x, low, e = "x", box.lower[0], box.extent[0]
                return f"{level!r}*({1.0 + self.power(-2, 1)!r} + cos(2*pi*({x} - {low!r})/{e!r}))"
            case "lognormal":
                return level * np.exp(
                    self.pick(0.3, 1.0, 2.0, 4.0 if self.kind in ("jumps", "composites") else 1.5)
                    * rng.standard_normal(shape)
                )
            case "half":
                place = self.integer(0, len(shape))
                return level * np.where(index[place] < shape[place] * rng.uniform(0.2, 0.8), jump, 1.0)
            case "checkers":
                block = self.pick(1, 1, 2, 3, 8 if self.kind == "composites" else 1)
                return level * np.where((index // block).sum(axis=0) % 2 == 0, jump, 1.0)
            case "spots":
                part = self.pick(0.1, 0.5, rng.uniform(0.02, 0.98))
                return level * np.where(rng.random(shape) < part, jump, 1.0)
            case "blobs":
                noise = gaussian_filter(rng.standard_normal(shape), rng.uniform(0.7, 3.0), mode="wrap")
                return level * np.where(noise > rng.uniform(-1, 1) * noise.std(), self.pick(jump, 1.0 / jump), 1.0)
            case "network":
                walls = (index % self.integer(3, 12) == 1).any(axis=0)
                return level * np.where(walls, self.pick(jump, 1.0 / jump), 1.0)
            case "layers":
                place = self.integer(0, len(shape))
                values = 10.0 ** rng.uniform(0.0, np.log10(jump), shape[place])
                return level * np.ones(shape) * values.reshape([-1 if k == place else 1 for k in range(len(shape))])
        inside = np.zeros(shape, dtype=bool)
        for _ in range(self.integer(1, 4)):
            low = [self.integer(0, n) for n in shape]
            high = [self.integer(0, n) + 1 for n in shape]
            inside[tuple(slice(min(p, q - 1), max(p + 1, q)) for p, q in zip(low, high, strict=True))] = True
        return level * np.where(inside, jump, 1.0)

    def reaction(self, box: Box, a: float) -> Any:
        """c, beside a typical a."""
        unit = a / max(box.extent) ** 2
        if self.kind in ("singular", "refused"):
            return 0.0 if self.chance(0.7) else np.zeros(box.shape[::-1])
        if self.kind == "nearly":
            tiny = unit * self.power(-14, -3)
            return self.pick(tiny, tiny, tiny * self.rng.random(box.shape[::-1]), 0.0)
        match self.pick("zero", "zero", "zero", "number", "tiny", "huge", "array", "text"):
            case "zero":
                return 0.0
            case "number":
                return unit * self.power(-2, 3)
            case "tiny":
                return unit * 1e-12
            case "huge":
                return a / min(box.spacing) ** 2 * self.power(0, 4)
            case "text":
                return f"{unit!r}*(1 + cos(2*pi*(x - {box.lower[0]!r})/{box.extent[0]!r}))**2"
        c = unit * self.power(-1, 3) * self.rng.random(box.shape[::-1])
        return np.where(self.rng.random(c.shape) < 0.5, 0.0, c) if self.chance(0.5) else c

    def side(self, box: Box, face: int, kind: str, size: float, a: float) -> Side:
        """A face whose data are of this size in u."""
        if kind == "periodic":
            return Side(kind)
        unit = a / max(box.extent)
        value = (
            0.0
            if self.chance(0.3)
            else size * float(self.rng.standard_normal()) * (1.0 if kind == "dirichlet" else unit)
        )
        if self.kind == "singular" and kind == "neumann" and self.chance(0.5):
            value = 0.0
        alpha = None
        if kind == "robin":
            alpha = self.pick(unit, 0.0, unit * self.power(-3, 3), unit * 1e-10)
            if self.kind == "nearly":
                alpha = self.pick(0.0, unit * self.power(-14, -3))
        other = (face // 2 + 1) % len(box.shape)
        name, low, extent = AXES[other], box.lower[other], box.extent[other]
        if len(box.shape) == 1 or value == 0.0 or self.kind == "refused":
            return Side(kind, value, alpha)
        match self.pick("number", "text", "function"):
            case "text":
                return Side(kind, f"{value!r}*cos(pi*({name} - {low!r})/{extent!r})", alpha)
            case "function":
                return Side(kind, _Wave(value, other, low, extent), alpha)
        return Side(kind, value, alpha)

    def as_array(self, box: Box, face: int, side: Side) -> Side:
        """The same data of a face as an array, now and then."""
        if side.kind == "periodic" or len(box.shape) == 1 or not self.chance(0.1):
            return side
        return replace(side, value=box.values(side.value, len(box.shape) - 1 - face // 2, -(face % 2)))

    def source(self, box: Box, size: float, a: float) -> Any:
        """f, of this size in u; of a singular problem it balances, or of kind ``refused`` it does not."""
        shape, size = box.shape[::-1], size * a / max(box.extent) ** 2
        if self.kind == "scales":
            size = size * max(1.0, a)
        match self.pick("normal", "normal", "text", "spike", "number", "zero", "noise", "function"):
            case "normal":
                f: Any = size * self.rng.standard_normal(shape)
            case "text":
                f = f"{size!r}*sin(pi*(x - {box.lower[0]!r})/{box.extent[0]!r})"
            case "spike":
                f = np.zeros(shape)
                f.ravel()[self.integer(0, f.size)] = size * f.size
            case "number":
                f = size
            case "zero":
                f = 0.0
            case "noise":
                f = 1e-15 * size * self.rng.standard_normal(shape)
            case _:
                f = _Wave(size, 0, box.lower[0], box.extent[0])
        if self.kind == "refused":
            return size * (1.0 + self.rng.random(shape)) * self.pick(1.0, -1.0)
        return self.layout(f) if isinstance(f, np.ndarray) else f

    def balanced(self, reference: Reference, f: Any) -> Any:
        """f, so that a singular problem has a solution, but for a defect of the size of a quadrature error at most."""
        if not reference.singular or self.kind == "refused":
            return f
        values = reference.box.values(f)
        values = values - float(reference.defect(values)[0])
        most = min(1e-4, max(1.0 / count for count in reference.box.intervals) ** 2)
        return values * (1.0 + most * self.rng.random(values.shape)) if self.chance(0.1) else values

    def layout(self, f: NDArray[Any]) -> NDArray[Any]:
        """The same values in another order in memory, now and then."""
        if self.chance(0.1):
            return np.asfortranarray(f)
        if self.chance(0.1):
            return np.repeat(f, 2, axis=-1)[..., ::2]
        return f

    def guess(self) -> str:
        if self.kind == "guesses" or (self.kind == "reuse" and self.chance(0.6)) or self.chance(0.1):
            return str(self.pick(*GUESSES))
        return "none"

    def options(self, box: Box) -> dict[str, Any]:
        """How to solve: for most kinds as by default, now and then by any settings that fit."""
        options: dict[str, Any] = {}
        if self.chance(0.25):
            options["norm"] = "max"
        if self.kind in ("settings", "fields", "reuse") or self.chance(0.1 if self.kind == "composites" else 0.4):
            options |= self.settings(box)
        if self.chance(0.3):
            options["rtol"] = self.pick(0.0, 1e-14, 1e-13, 1e-12, 1e-10, 1e-6, 1e-4, 1e-2, 0.3, 0.9)
        elif options.get("precision") == "float32":
            options["rtol"] = self.pick(1e-3, 1e-4, 1e-5)
        if self.kind == "fields":
            options["fields"] = ("residual", "flux", "gradient", "E", "f", "a", "c")
        options["threads"] = self.pick(1, 2)
        return options

    def settings(self, box: Box) -> dict[str, Any]:
        plain = not isinstance(box.a, (str, np.ndarray)) and not isinstance(box.c, (str, np.ndarray))
        robin = any(side.kind == "robin" for side in box.sides)
        odd = any(n % 2 and wraps for n, wraps in zip(box.shape, box.periodic, strict=True))
        methods = ["auto", "auto", "multigrid", "multigrid", "cg", "cg", "jacobi", "chebyshev"]
        methods += [] if odd else ["sor"]
        methods += ["fft", "fft"] if plain and not robin else []
        method = self.pick(*methods)
        found: dict[str, Any] = {"method": method}
        cycle: dict[str, Any] = {}
        if method == "cg":
            found["preconditioner"] = self.pick("none", "jacobi", "multigrid", "multigrid", "fft")
        if method == "multigrid" or found.get("preconditioner") == "multigrid":
            cycle = {"cycle": self.pick("V", "V", "W", "F"), "smoother": self.pick("chebyshev", "chebyshev", "jacobi")}
            if not odd and self.chance(0.3):
                cycle["smoother"] = "red-black"
            cycle |= dict(zip(("pre", "post"), self.pick((2, 1), (2, 1), (1, 1), (2, 2), (0, 2), (3, 0)), strict=True))
        if method == "multigrid":
            cycle["full"] = self.chance(0.6)
        found |= cycle
        if method in ("jacobi", "chebyshev", "sor"):
            found["max_iterations"] = self.pick(1, 40, 400, 3000)
            if self.chance(0.3):
                found["check_every"] = self.pick(1, 7, 50)
        if method == "jacobi" and self.chance(0.5):
            found |= {"loop": self.pick("blocked", "fused", "staged"), "omega": self.pick(1.0, 0.7)}
        if method == "sor" and self.chance(0.5):
            found["omega"] = self.pick(1.0, 1.5, 1.9)
        precisions = ["float64", "float64", "float32"]
        if method in ("auto", "multigrid") or found.get("preconditioner") in ("multigrid", "fft"):
            precisions.append("mixed")
        found["precision"] = self.pick(*precisions)
        return found


@dataclass(frozen=True)
class _Wave:
    """A Python function of the coordinates, which shows what it is."""

    size: float
    axis: int
    low: float
    extent: float

    def __call__(self, *points: Any) -> Any:
        t = (points[self.axis] - self.low) / self.extent
        return self.size * (0.5 - t + t * t)
