# SPDX-License-Identifier: MIT
"""Solves a random problem with the package, and judges what comes out against the independent reference."""

import logging
import math
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from campaign_problems import Solve, Trial
from campaign_reference import LONG, Array, Reference
from numpy.typing import NDArray

import poisson

DEFECTS = {
    "wrong": "converged or reported what the reference contradicts",
    "false-stagnated": "ended as stagnated or at rounding above a target that a textbook method reaches",
    "false-diverged": "ended as diverged although a textbook method reaches the target",
    "early": "ended far above rounding, which a textbook method reaches, with a target below that",
    "destroyed": "the result is worse than the guess, and far above rounding",
    "slow": "took many times the iterations of a textbook method, or too long",
    "crash": "an exception, or the refusal of a legal problem",
    "reuse": "another solve of the same solver differs from that of a new one",
    "nullspace": "the solution of a singular problem has no zero mean",
    "nan": "a warning of a floating-point operation",
}
"""Outcomes that count as defects of the package."""

OUTCOMES = {
    "converged": "as asked for",
    "many": "a method that the package chose took more than 60 iterations",
    "at-rounding": "the target is not attainable, the residual is at its rounding level, and the status says so",
    "limited": "the limit on iterations of a slow method, as asked for",
    "refused": "a problem without a solution was refused",
    "hard": "ended unsuccessfully, and says so; textbook methods do not either, or A is singular to rounding",
    "stalled": "a method that was asked for and does not suit the problem gave up, and says so",
    "out-of-range": "the numbers leave the range of the precision",
    "unjudged": "the reference is not accurate enough",
}
"""Outcomes that are no defects."""

WATCHED = tuple(Path(module.__file__).resolve().parent for module in (poisson, np))
"""The folders of the packages whose warnings count; the name of a folder above them says nothing."""

SECONDS = 5.0
"""No solve of these sizes needs so long, in processor time."""
ROOM = 10.0
"""A target so many times above the rounding of the exact solution is attainable."""
VANISHED = 1e-90
"""A residual that has fallen so far, to a target of zero, is zero."""
ROUNDING = 30.0
"""A residual is at rounding up to so many times that of the exact solution."""
AT_ROUNDING = 3.0
"""A residual up to so many times that is at rounding for certain, and a success if the target is below it."""
EARLY = 100.0
"""The same for a target that is not attainable, which a solve may give up sooner."""
MANY = 60
"""More iterations of a method that the package chose are counted."""
TEXTBOOK = 20
"""A method that takes so many times the iterations of textbook conjugate gradients, and 1000 at least, is slow."""
MOST_CONDITION = 1e6
"""The condition number of D⁻¹A from which corrections in float32 may be of no use."""
SLOW_METHODS = ("jacobi", "chebyshev", "sor")
TINY = {np.float32: 1e-30, np.float64: 1e-280}
HUGE = {np.float32: 1e30, np.float64: 1e280}


@dataclass(frozen=True)
class Verdict:
    """The outcome of one solve: a key of `DEFECTS` or `OUTCOMES`, and the numbers."""

    name: str
    detail: str

    @property
    def bad(self) -> bool:
        return self.name in DEFECTS


class Late(Exception):
    """A solve that took longer than `SECONDS`."""


class Limit:
    """Ends a solve that takes longer than `SECONDS`: as ``interrupted`` of a solver, or as an observer, by `Late`."""

    def __init__(self) -> None:
        self.begun = time.process_time()

    def __call__(self, *read: Any) -> bool:
        late = time.process_time() - self.begun > SECONDS
        if late and read:
            raise Late
        return late

    def start(self, *given: Any) -> None:
        """The solve begins."""


class Judgement:
    """The solves of one trial on one backend.

    Parameters
    ----------
    trial : Trial
        What to solve.
    backend : str
        Where.
    """

    def __init__(self, trial: Trial, backend: str = "auto") -> None:
        self.trial, self.backend = trial, backend
        self.options = trial.options_on(backend)
        self.reference = Reference(trial.box)
        self.precision = self.options.get("precision", "float64")
        self.dtype: Any = np.float32 if self.precision == "float32" else np.float64
        self.norm = self.options.get("norm", "rms")
        self.extreme = False
        self.data: list[float] = []
        self.rng = np.random.default_rng([trial.seed, 1])
        self.verdicts: list[Verdict] = []

    def run(self) -> list[Verdict]:
        """All verdicts, at least one."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                self._run()
            except poisson.PoissonError as error:
                self._refusal(error)
            except Late:
                self._say("slow", f"poisson.solve took more than {SECONDS:g} s")
            except Exception as error:
                self._say("crash", f"{type(error).__name__}: {error}")
        for warning in caught:
            if any(Path(warning.filename).resolve().is_relative_to(folder) for folder in WATCHED):
                self._say(
                    "nan", f"{warning.category.__name__}: {warning.message} ({warning.filename}:{warning.lineno})"
                )
        return self.verdicts

    def _say(self, name: str, detail: str = "") -> None:
        self.verdicts.append(Verdict(name, detail))

    def _refusal(self, error: poisson.PoissonError) -> None:
        line = str(error)
        if self.trial.kind == "refused" and type(error).__name__ == "IncompatibleSource":
            self._say("refused", line)
        elif "do not fit into float" in line or self._out_of_range():
            self._say("out-of-range", line)
        else:
            self._say("crash", f"{type(error).__name__}: {line}")

    def _out_of_range(self) -> bool:
        box = self.trial.box
        a = box.values(box.a)
        numbers = [*(k.astype(np.float64) for k in self.reference.links), a]
        numbers += [box.values(solve.f) for solve in self.trial.solves]
        return not all(self._fits(values) for values in numbers)

    def _fits(self, values: Array) -> bool:
        sizes = abs(values[values != 0]) if values.size else values
        return bool(sizes.size == 0 or (sizes.max() < HUGE[self.dtype] and sizes.max() > TINY[self.dtype]))

    def _run(self) -> None:
        trial, reference = self.trial, self.reference
        exact = []
        for solve in trial.solves:
            f = trial.box.values(solve.f)
            shift = reference.defect(f)[0] if reference.singular else 0.0
            b = reference.source(f, shift=shift)
            entering = abs(reference.entering_size / reference.weights).max()
            self.data.append(float(abs(f).max() + entering))
            exact.append((b, None if trial.kind == "refused" else reference.solve(b)))
        if any(u is not None and not np.isfinite(u).all() for _, u in exact):
            self._say("unjudged", "the matrix of the reference is singular in float64")
            return
        guesses = [self._guess(solve, u) for solve, (_, u) in zip(trial.solves, exact, strict=True)]
        problem = poisson.Problem.on_box(**trial.arguments(trial.solves[0].f, guesses[0]))
        if trial.through == "solve":
            solution = poisson.solve(problem, backend=self.backend, observer=Limit(), **self.options)
            self._judged(0, solution, *exact[0], guesses[0])
            return
        solver = poisson.Solver(problem, backend=self.backend, **self.options)
        for number, (solve, guess, (b, u)) in enumerate(zip(trial.solves, guesses, exact, strict=True)):
            given = {} if number == 0 else {"f": solve.f, "initial": 0.0 if guess is None else guess}
            solution = solver.solve(**given, interrupted=Limit())
            self._judged(number, solution, b, u, guess)
            if number > 0:
                self._compare(number, solve, guess, solution)
        if trial.kind == "fields":
            self._check_linear_operator(problem, exact[0][0])

    def _judged(self, number: int, solution: Any, b: Array, u: Array | None, guess: Array | None) -> None:
        if u is None:
            self._say("wrong", "a problem without a solution was solved")
            return
        before = len(self.verdicts)
        self._judge(number, solution, b, u, guess)
        for place in range(before, len(self.verdicts)):
            said = self.verdicts[place]
            self.verdicts[place] = Verdict(said.name, f"solve {number}: {said.detail}")

    def _guess(self, solve: Solve, u: Array | None) -> NDArray[np.float64] | None:
        if u is None or solve.guess == "none" or self.options.get("method") == "fft":
            return None
        size = float(abs(u).max()) or self.trial.size
        noise = self.rng.standard_normal(u.shape)
        match solve.guess:
            case "random":
                return size * noise
            case "huge":
                return size * 1e6 * noise
            case "near":
                return (u + 1e-10 * size * noise).astype(np.float64)
        return u.astype(np.float64)

    def _judge(self, number: int, solution: Any, b: Array, u: Array, guess: Array | None) -> None:
        reference, norm, eps = self.reference, self.norm, float(np.finfo(self.dtype).eps)
        accuracy = reference.norm(reference.residual(u, b), norm)
        level64 = reference.norm(reference.rounding(u, b), norm) * np.finfo(np.float64).eps
        if not accuracy <= level64 + TINY[np.float64]:
            self._say("unjudged", f"the reference leaves {accuracy:.3g}, its rounding is {level64:.3g}")
            return
        level = eps * reference.norm(reference.rounding(u, b), norm)
        found, status = np.asarray(solution.u), solution.status.value
        if not (self._fits(u) and self._fits(reference.rounding(u, b))):
            whole = np.isfinite(found).all() and math.isfinite(solution.residual)
            said = whole or status == "diverged"
            self._say("out-of-range" if said else "wrong", f"{status}, u to {float(abs(u).max()):.3g}")
            return
        about = f"{status} after {solution.iterations} by {solution.provenance['method']}"
        if found.dtype != self.dtype or found.shape != u.shape:
            self._say("wrong", f"u is {found.dtype} {found.shape}")
            return
        if not np.isfinite(found).all():
            if status == "diverged" and not self._attainable(solution.target, level, b, u, guess):
                self._say("hard", f"{about}, u is not finite")
            else:
                self._say("destroyed" if status != "converged" else "wrong", f"{about}, u is not finite")
            return
        given = reference.fixed[~reference.free].astype(self.dtype)
        # A device has elementary functions of its own, which may differ in the last digit.
        near = 4.0 * np.finfo(self.dtype).eps * abs(given) if self.backend == "gpu" else 0.0
        if not (abs(found[~reference.free] - given) <= near).all():
            self._say("wrong", "the values on the Dirichlet faces are not those given")
        r = reference.residual(found, b)
        size = float(reference.norm(r, norm))
        if norm == "rms" and size > 0 and not 1e-140 <= size * math.sqrt(reference.free.sum()) < 1.3e154:
            # The squares leave the range of float64: the package takes the maximum.
            self.norm, self.extreme = "max", True
            norm = "max"
            size, level = float(reference.norm(r, norm)), eps * reference.norm(reference.rounding(u, b), norm)
        allowed = 4.0 * np.finfo(np.float64).eps * float(reference.norm(reference.rounding(found, b), norm))
        allowed += TINY[np.float64]
        self._check_report(number, solution, b, size, allowed, guess)
        self._check_mean(found)
        about += f", residual {size:.3g}, target {solution.target:.3g}, rounding {float(level):.3g}"
        if status == "converged":
            met = size <= solution.target * (1 + 1e-6) + allowed
            self._say("converged" if met else "wrong", about)
        else:
            self._unsuccessful(solution, b, u, guess, size, float(level), about)
        self._check_effort(solution, b, u, guess, float(level), about)
        self._check_fields(solution, r, found)

    def _unsuccessful(
        self, solution: Any, b: Array, u: Array, guess: Array | None, size: float, level: float, about: str
    ) -> None:
        reference, status = self.reference, solution.status.value
        if status == "interrupted":
            self._say("slow", f"{about}; more than {SECONDS:g} s")
            return
        if solution.target == 0.0 and size <= VANISHED * max(norm for _, norm in solution.history):
            self._say("at-rounding", about)  # on the way to u = 0
            return
        hopeless = not solution.status.success and reference.condition() * np.finfo(self.dtype).eps > 0.1
        start = np.where(reference.free, 0.0 if guess is None else guess, reference.fixed)
        before = float(reference.norm(reference.residual(start, b), self.norm))
        errors = [
            float(abs(values - u).max()) for values in (np.asarray(solution.u), reference.full(reference.inside(start)))
        ]
        if size > 10 * max(before, ROUNDING * level) and errors[1] * 10 < errors[0] and not hopeless:
            self._say(
                "destroyed", f"{about}; residual of the guess {before:.3g}, errors {errors[1]:.3g} -> {errors[0]:.3g}"
            )
            return
        if status == "max_iterations" and "max_iterations" in self.options:
            self._say("limited", about)
            return
        goal = max(solution.target, ROOM * level)
        if size <= max(ROUNDING * level, solution.target) or (solution.target < goal and size <= EARLY * level):
            told = status == "at_rounding" and size > solution.target
            certain = size <= AT_ROUNDING * level and self._small_correction(solution, b, AT_ROUNDING)
            if status != "max_iterations" and (not certain or self.options.get("method") in SLOW_METHODS):
                told = size > solution.target
            false = "slow" if status == "max_iterations" else f"false-{status}"
            self._say("at-rounding" if told else false if false in DEFECTS else "wrong", about)
            return
        if solution.target < goal and self._small_correction(solution, b):
            self._say("at-rounding", about)
            return
        if hopeless or not self._attainable(goal, level, b, u, guess):
            self._say("hard", about)
        elif status == "max_iterations":
            self._say("slow", f"{about}; attainable {goal:.3g}")
        elif self._unsuitable(solution):
            self._say("stalled", about)
        else:
            false = f"false-{status}" if f"false-{status}" in DEFECTS else "false-stagnated"
            self._say(false if solution.target == goal else "early", f"{about}; attainable {goal:.3g}")

    def _small_correction(self, solution: Any, b: Array, times: float = ROUNDING) -> bool:
        """Whether the residual would change no value of u by more than so many times eps of the largest one."""
        reference, found = self.reference, np.asarray(solution.u)
        diagonal = reference.matrix.diagonal()
        correction = abs(reference.inside(reference.residual(found, b) * reference.weights)) / diagonal
        return bool(correction.max() <= times * np.finfo(self.dtype).eps * float(abs(found).max()))

    def _attainable(self, goal: Any, level: Any, b: Array, u: Array, guess: Array | None) -> bool:
        """Whether a textbook method in the same precision gets there."""
        reference = self.reference
        if goal < ROOM * level:
            return False
        direct = reference.rounded_solution(b, self.dtype)
        if not reference.norm(reference.residual(direct, b), self.norm) <= goal:
            return False
        # The choice of the method is the package's own, and a direct solution is not beyond it.
        chosen = self.options.get("method", "auto") == "auto" and self.dtype == np.float64
        return chosen or self._textbook(goal, b, guess) is not None

    def _textbook(self, goal: Any, b: Array, guess: Array | None) -> int | None:
        reference = self.reference
        start = reference.full(reference.inside(np.zeros(b.shape) if guess is None else guess).astype(LONG))
        limit = 20 * int(reference.free.sum()) + 1000
        with np.errstate(all="ignore"):
            return reference.conjugate_gradients(b, start, goal, self.norm, self.dtype, limit)

    def _unsuitable(self, solution: Any) -> bool:
        """Whether what was asked for does not suit: cycles where a varies strongly, float32 if A is nearly singular."""
        method = self.options.get("method", "auto")
        if self.precision == "mixed" and method != "auto" and self.reference.condition() > MOST_CONDITION:
            return True
        if method != "multigrid":
            return False
        a = self.trial.box.values(self.trial.box.a)
        norms = [norm for _, norm in solution.history]
        return bool(a.max() > 10 * a.min() and min(norms) > 0.1 * min(norms[:-20] or norms[:1]))

    def _check_report(
        self, number: int, solution: Any, b: Array, size: float, allowed: float, guess: Array | None
    ) -> None:
        """The residual and the target that the solution reports."""
        reference = self.reference
        # A direct method begins at zero, whatever the guess is.
        starts = [
            np.where(reference.free, values, reference.fixed) for values in ([0.0] if guess is None else [guess, 0.0])
        ]
        source, first = b / reference.weights, [reference.residual(start, b) for start in starts]
        rtol, atol = self.options.get("rtol", 1e-8), self.options.get("atol", 0.0)
        wanted = []
        norm = self.options.get("norm", "rms")
        for kind in (norm, "max") if self.extreme or self.trial.kind == "scales" else (norm,):
            scale = max(float(reference.norm(source, kind)), reference.boundary_scale(kind))
            # A source that cancels but for rounding may count as zero, or not.
            noise = scale <= 10 * float(np.finfo(self.dtype).eps) * self.data[number]
            wanted += [scale] + ([float(reference.norm(each, kind)) for each in first] if noise else [])
        targets = [max(atol, rtol * scale) for scale in wanted]
        near = 1e-5 if self.dtype == np.float64 else 1e-3
        between = len(targets) > 1 and min(targets) <= solution.target <= max(targets)
        if not (between or any(abs(solution.target - it) <= near * it + TINY[self.dtype] for it in targets)):
            self._say("wrong", f"the target is {solution.target:.6g}, and by the tolerances {targets[0]:.6g}")
        if not abs(solution.residual - size) <= 1e-6 * size + allowed:
            largest = float(self.reference.norm(self.reference.residual(np.asarray(solution.u), b), "max"))
            if not abs(solution.residual - largest) <= 1e-6 * largest + allowed * math.sqrt(b.size):
                self._say("wrong", f"the residual is reported as {solution.residual:.6g} and is {size:.6g}")

    def _check_mean(self, found: Array) -> None:
        reference = self.reference
        if not reference.singular:
            return
        mean = float(abs((reference.weights * found.astype(LONG)).sum() / reference.weights.sum()))
        largest = float(abs(found).max())
        if mean > 8 * float(np.finfo(self.dtype).eps) * largest:
            self._say("nullspace", f"mean {mean:.3g} of u up to {largest:.3g}")

    def _check_effort(self, solution: Any, b: Array, u: Array, guess: Array | None, level: float, about: str) -> None:
        if self.options.get("method", "auto") == "auto" and solution.iterations > MANY:
            self._say("many", about)
        slow = self.options.get("method") in SLOW_METHODS or self.options.get("preconditioner") in ("none", "fft")
        if solution.iterations <= 1000 or slow or self.verdicts[-1].bad:
            return
        # A solve whose target is below rounding ends when it sees that, which takes time.
        limit = self._textbook(solution.target, b, guess) if solution.target >= ROOM * level else None
        if limit is not None and solution.iterations > TEXTBOOK * limit:
            self._say("slow", f"{about}; textbook conjugate gradients take {limit}")

    def _check_fields(self, solution: Any, r: Array, found: Array) -> None:
        fields, reference, box = solution.fields, self.reference, self.trial.box
        if not fields:
            return
        eps = float(np.finfo(np.float64).eps)
        f = box.values(solution.problem.f.values if hasattr(solution.problem.f, "values") else self.trial.solves[0].f)
        shift = float(reference.defect(f)[0]) if reference.singular else 0.0
        b = reference.source(f, shift=shift)
        own = {"residual": r, "f": f - shift, "a": box.values(box.a), "c": box.values(box.c)}
        # Expressions may be evaluated in another order, with errors of the size of the largest value, and so may the
        # sum that the mean of f follows from.
        largest = (8 + np.sqrt(f.size) / 4) * eps * (abs(f).max() + abs(shift))
        room = {"residual": 8 * eps * reference.rounding(found, b) + largest, "f": largest}
        for name, values in own.items():
            away = abs(fields[name] - values) - room.get(name, 8 * eps * abs(values))
            if fields[name].shape != values.shape or (away > TINY[np.float64]).any():
                self._say("wrong", f"field {name} is off by {float(away.max()):.3g}")
        if not np.array_equal(fields["E"], -fields["gradient"]):
            self._say("wrong", "field E is not the negative gradient")
        eps = float(np.finfo(self.dtype).eps)
        for axis in range(len(box.shape)):
            place = len(box.shape) - 1 - axis
            h, along = box.spacing[axis], np.moveaxis(found.astype(LONG), place, 0)
            inner = slice(None) if box.periodic[axis] else slice(1, -1)
            slope = ((np.roll(along, -1, 0) - np.roll(along, 1, 0)) / (2 * h))[inner]
            given = np.moveaxis(fields["gradient"][..., axis], place, 0)[inner]
            if (abs(given - slope) > 16 * eps * (abs(slope) + abs(along).max() / h)).any():
                self._say("wrong", f"field gradient is off along axis {axis}")

    def _check_linear_operator(self, problem: Any, b: Array) -> None:
        """The operator for SciPy's solvers, which works with values times the roots of the weights."""
        reference = self.reference
        operator = poisson.LinearOperator(problem, self.backend)
        roots = np.sqrt(reference.inside(reference.weights))
        x = self.rng.standard_normal(len(roots))
        u = np.zeros(b.shape)
        u[reference.free] = x / roots
        fixed = np.where(reference.free, 0.0, reference.fixed)
        pairs = (
            ("@", operator @ x, reference.apply(u), reference.apply(u, size=True)),
            ("rhs", operator.rhs, b - reference.apply(fixed), reference.apply(fixed, size=True) + abs(b)),
        )
        for name, given, values, size in pairs:
            away = abs(given - reference.inside(values) / roots)
            size = reference.inside(size) / roots
            room = 16 * np.finfo(np.float64).eps * (size + abs(b).max()) + TINY[np.float64]
            if not (away <= room).all():
                self._say("wrong", f"LinearOperator {name} is off by {float(away.max()):.3g}")

    def _compare(self, number: int, solve: Solve, guess: Array | None, solution: Any) -> None:
        """The solve of a solver that has solved before beside that of a new one."""
        if solution.status.value == "interrupted":
            return
        problem = poisson.Problem.on_box(**self.trial.arguments(solve.f, guess))
        fresh = poisson.Solver(problem, backend=self.backend, **self.options).solve(interrupted=Limit())
        if fresh.provenance["method"] != solution.provenance["method"] or fresh.status.value == "interrupted":
            return
        if fresh.status is not solution.status or fresh.iterations != solution.iterations:
            ends = [f"{it.status.value} after {it.iterations}" for it in (solution, fresh)]
            self._say("reuse", f"solve {number}: {ends[0]}, a new solver {ends[1]}")
        elif not np.array_equal(np.asarray(fresh.u), np.asarray(solution.u), equal_nan=True):
            away = float(abs(np.asarray(fresh.u) - np.asarray(solution.u)).max())
            self._say(
                "reuse", f"solve {number}: u differs by {away:.3g} of {float(abs(np.asarray(fresh.u)).max()):.3g}"
            )


def judge(trial: Trial, backend: str = "auto") -> list[Verdict]:
    """Solve the problem of a trial on a backend, and say what became of it."""
    log = logging.getLogger("poisson")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        return Judgement(trial, backend).run()
    finally:
        log.setLevel(before)
