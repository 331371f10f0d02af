# SPDX-License-Identifier: MIT
"""Solving one problem for many sources: everything that does not depend on the source is set up once."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Unpack

import numpy as np

from poisson.case import Case
from poisson.case.combinations import checked_settings, clashes
from poisson.case.settings import FieldName
from poisson.discrete.discretisation import Discretisation, carry
from poisson.errors import CaseError, PoissonError
from poisson.output.record import POTENTIAL, SIGNAL
from poisson.problem.fields import PartField
from poisson.problem.given import Boundary, Condition, Data
from poisson.problem.problem import Problem, no_problem
from poisson.run import distribution, interrupts
from poisson.run.backend import NextBackend, next_backend
from poisson.run.batch import solve_together
from poisson.run.concerns import warn_of_concerns
from poisson.run.exclusive import Exclusive
from poisson.run.loader import Loader, sources_of
from poisson.run.method import renewed, set_up, set_up_on
from poisson.run.notices import Watching, judged, observer_of
from poisson.run.operator import unchanged
from poisson.run.outcome import Solved, apart, copies, copy_of, finish, provenance, require_place, unfinished
from poisson.run.ranks import Ranks, communicator_of
from poisson.run.request import BackendName, Method, Options, Precision, Request, checked_fields, kept_arrays
from poisson.run.setup_view import SetupView
from poisson.run.solution import Interrupted, Solution
from poisson.solvers.iteration import Task
from poisson.solvers.spectrum import remove_mean
from poisson.solvers.stopping import Later, Observer

if TYPE_CHECKING:
    from poisson.problem.bodies import Body
    from poisson.run.checkpoints import Checkpoints
    from poisson.run.conductors import Floating

CTRL_C = (signal.SIGINT,)
"""The signals that end a solve started from Python; looking at more would take a part of a small solve."""


class Call(NamedTuple):
    """The arguments of one solve."""

    given: Mapping[str, Any] = MappingProxyType({})  # Other data, as `Problem.having` takes them.
    out: Any = None
    observer: Observer | None = None
    interrupted: Callable[[], bool] | None = None  # Without it Ctrl-C ends the solve.
    checkpoints: Checkpoints | None = None
    bodies: tuple[Body, ...] = ()  # The same bodies with other values.
    stays: bool = False  # Whether a large u may stay on a device.


class Solver(SetupView):
    """Solves a problem, for its own source or for many others.

    The operator, its coefficients, the levels, plans, graphs, compiled kernels and arrays are set up once, here.
    Several threads may use one solver, which then solves for one after the other, and several solvers at the same time.
    A copy, or what pickle makes of it elsewhere, is set up anew.

    Parameters
    ----------
    problem : Problem
        Such as `Problem.on_box` makes, or that of a case. On several processes it may be given on the first alone, and
        None on the others: then each gets its part of the arrays.
    method : str
        ``auto``, or the name of a method, such as ``multigrid``: docs/methods.md has them all.
    backend : str
        ``auto``, or one of `poisson.backends.NAMES`.
    precision : str
        ``float64``, ``float32`` or ``mixed``.
    threads : int
        Of a backend on the CPU; 0 takes ``OMP_NUM_THREADS``, or else all processors that the process may use.
    fields : sequence of str
        What a solution holds beside u: ``f``, ``a``, ``c``, ``residual``, ``error``, ``gradient``, ``flux``, ``E``.
    order : int
        Order of accuracy of the differences of ``gradient``, ``flux`` and ``E``.
    comm : communicator of mpi4py, optional
        The processes that solve the problem together, each of which has a part of the grid and makes a solver; by
        default this one alone. See docs/parallel.md.
    ranks : int or sequence of int, optional
        How many processes there must be, or into how many blocks, one a process, the grid is divided along x, y(, z),
        with 1 along x; by default it is divided so that the least is exchanged.
    **options
        The further keys of ``[solver]``, such as ``rtol=1e-10``; see `Options`.

    Raises
    ------
    PoissonError
        If a setting is wrong or does not fit the problem, the backend is not available, or memory is short.

    Examples
    --------
    >>> problem = poisson.Problem.on_box((33, 33), f="sin(pi*x)*sin(pi*y)")
    >>> solver = poisson.Solver(problem, rtol=1e-10)
    >>> first, second = solver.solve(), solver.solve(f=lambda x, y: x * y)
    """

    _arrays: tuple[Problem | None, tuple[str, ...]] = (None, ())
    """The problem with its arrays, where only the first rank has it, and the names of these, until they are sent."""

    def __init__(
        self,
        problem: Problem | None,
        method: Method = "auto",
        backend: BackendName = "auto",
        precision: Precision = "float64",
        *,
        threads: int = 0,
        fields: Sequence[FieldName] = (),
        order: Literal[2, 4, 6, 8] = 2,
        comm: Any = None,
        ranks: int | Sequence[int] | None = None,
        **options: Unpack[Options],
    ) -> None:
        communicator, given, names = communicator_of(comm), problem, tuple[str, ...]()
        if communicator.size > 1:
            problem, names = distribution.without_arrays(communicator, given)
        if not isinstance(problem, Problem):
            raise no_problem(problem)
        run: dict[str, Any] = {"backend": backend, "precision": precision, "threads": threads}
        if ranks is not None:
            run["ranks"] = ranks if isinstance(ranks, int) else list(ranks)
        settings, machine = checked_settings({"method": method, **options}, run, problem)
        wanted = checked_fields(fields, order, exact=problem.exact is not None)
        self._arrays = (given, names)
        places, kept = Ranks(communicator, machine.ranks), kept_arrays(problem)
        self._begin(Request(problem, settings, machine, wanted, order, places, kept=kept))

    @classmethod
    def of(cls, case: Case, *, count: bool = False, comm: Any = None) -> Solver:
        """The solver of a case; with `count` it counts the operations (`ledger`).

        Examples
        --------
        >>> case = poisson.load_case("cases/unit_square.toml", ["domain.shape = [33, 33]"])
        >>> poisson.Solver.of(case).solve().u.shape
        (33, 33)
        """
        return of_request(cls, Request.of_case(case, comm, count=count))

    def _begin(self, request: Request) -> None:
        self._floating: Floating | None = None
        if any(body.floating for body in request.problem.bodies):
            from poisson.run.conductors import Floating, held

            self._floating = Floating(request.problem)
            request = replace(request, problem=held(request.problem, {}))
        self.request = request
        self.problem, self.settings = request.problem, request.settings
        self.run, self.ranks = request.run, request.ranks
        self._exclusive = Exclusive("Solver")
        self._seconds = 0.0
        self._failed: dict[str, str] = {}
        self._checked = False
        began = time.perf_counter()
        with np.errstate(all="ignore"), self.ranks.speaking(), self.ranks.communicator.together():
            self._set_up_somewhere()
        self._seconds = time.perf_counter() - began

    def _set_up_somewhere(self) -> None:
        """Set up on the backend asked for, or on the first that does not fail where ``auto`` may choose it."""
        while True:
            try:
                self._setup = set_up(self.request, self._divided, self._failed)
                break
            except NextBackend as failed:
                self._failed[failed.name] = failed.reason
        self._loader = Loader(self._setup, self.ranks.share)
        self._operator_of: Problem | None = self.problem

    def _divided(self) -> Problem:
        """The problem with the values of its arrays on the part of the grid that this rank has."""
        if self._arrays[1]:
            self.problem = distribution.with_arrays(self.ranks, self.problem, *self._arrays)
        self._arrays = (None, ())
        return self.problem

    def __reduce__(self) -> tuple[Any, ...]:
        # Arrays, plans and kernels belong to one solver in one process: a copy sets up its own.
        if self.ranks.size > 1:
            raise PoissonError("a Solver on several processes cannot be copied or pickled: make one on each process")
        problem = self._floating.problem if self._floating else self.request.problem
        alone = Ranks(communicator_of(None), self.run.ranks)
        return of_request, (type(self), replace(self.request, problem=problem, ranks=alone))

    def solve(
        self,
        f: Data | None = None,
        initial: Data | None = None,
        *,
        boundary: Boundary | Condition | None = None,
        a: Data | None = None,
        c: Data | None = None,
        out: Any = None,
        observer: Watching | None = None,
        interrupted: Callable[[], bool] | None = None,
        strict: bool = False,
    ) -> Solution:
        """Solve for a source, and for other data.

        Ctrl-C ends it as it ends `poisson.solve`, unless the caller asks to be asked.

        Parameters
        ----------
        f, initial : number, text, function, array or field, optional
            The source and the initial guess in the place of the problem's; as `Problem.on_box` takes them. On several
            processes an array may also be given on the first alone, or on each one its part, which has the shape of the
            solution's u there.
        boundary : mapping, number, text, function or array, optional
            Other data of faces, as `Problem.on_box` takes them, of the same kinds; a mapping may name some of them.
        a, c : number, text, function, array or field, optional
            Other coefficients for this call alone: a call without them has those of the problem. Their values go into
            the arrays that the solver has, and the solution has the same bits as one by a new solver. A number or
            expression that is the same as in the call before costs nothing; an array or function is looked at, and
            costs no more where its values are the same. More is set up where a number follows a field or a field
            follows a number, the problem becomes singular or regular, or ``auto`` chooses another method.
        out : array, optional
            Where u is written: of its shape and type, of NumPy, or on the backend's device.
        observer : function or Observer, optional
            Told the iteration and the norm of its residual, whenever that is read; an `Observer` also the target.
        interrupted : callable, optional
            Asked now and then; true ends the solve. Signals are then left alone.
        strict : bool
            Whether a solve that did not converge is an error; else it is a warning.

        Returns
        -------
        Solution
            u is a NumPy array, `out` if it is given, and else one that no later solve changes; where f or the initial
            guess is an array on the backend's device, u is one too, and nothing was copied to the host.

        Raises
        ------
        PoissonError
            If the data are not finite, a singular problem has no solution, or this solver is asked from within one of
            its own solves.
        NotConverged
            If the solve did not converge, and `strict`.
        Interrupted
            If Ctrl-C was pressed. It is a KeyboardInterrupt, and its ``solution`` is the last complete iterate.

        Examples
        --------
        >>> solver = poisson.Solver(poisson.Problem.on_box((33, 33)), "multigrid", rtol=1e-6)
        >>> for source in (1.0, "sin(2*pi*x)", lambda x, y: x * y, np.ones((33, 33))):
        ...     solution = solver.solve(f=source)
        >>> solver.solve(f=source, initial=solution.u).iterations
        0
        """
        given = {"f": f, "initial": initial, "a": a, "c": c, "boundary": boundary}
        solution = self._solve_somewhere(Call(given, out, observer_of(observer), interrupted))
        if self._speaks_first():
            warn_of_concerns(replace(self.request, problem=solution.problem))
        return judged(solution, strict=strict, speaks=self.ranks.speaks)

    def solve_many(self, fs: Any, *, strict: bool = False) -> list[Solution]:
        """Solve for several sources.

        Parameters
        ----------
        fs : array or iterable
            An array of NumPy, or on a device, with an axis more than the grid's, the first; or an iterable of what
            `solve` takes as f.
        strict : bool
            As of `solve`.

        Returns
        -------
        list of Solution
            One for each source, in order.

        Raises
        ------
        PoissonError
            As of `solve`, for the first source that it is raised for; nothing is returned then.

        Examples
        --------
        >>> solver = poisson.Solver(poisson.Problem.on_box((33, 33)))
        >>> [solution.u.shape for solution in solver.solve_many([1.0, "sin(pi*x)"])]
        [(33, 33), (33, 33)]
        """
        solutions = []
        for f, found in self._together(sources_of(fs, self.problem.lattice.array_shape)):
            solution = found or self._solve_somewhere(Call({"f": f}))
            if self._speaks_first():
                warn_of_concerns(replace(self.request, problem=solution.problem))
            solutions.append(judged(solution, strict=strict, speaks=self.ranks.speaks))
        return solutions

    def _speaks_first(self) -> bool:
        """Whether this rank warns, after the first solve alone: to look for concerns may take as long as a solve."""
        first, self._checked = not self._checked, True
        return first and self.ranks.speaks

    def _together(self, sources: Iterable[Any]) -> list[tuple[Any, Solution | None]]:
        """Sources, with the solutions for those that are solved for at once, and None for others."""
        if self.request.fields or self.ranks.size > 1 or self._floating:
            return [(f, None) for f in sources]
        with self._exclusive.use(), self._setup.backend.in_use():
            self._take_operator(self.problem)
            return solve_together(self._setup, self._loader, self.problem, self.ranks, sources)

    def keep_on(
        self,
        checkpoints: Checkpoints | None,
        observer: Observer | None,
        interrupted: Callable[[], bool] | None,
        f: Data | None = None,
        *,
        bodies: tuple[Body, ...] = (),
        stays: bool = False,
    ) -> Solution:
        """Solve, from a checkpoint on and with others on the way, without a word of the end or of concerns.

        `bodies`: the same bodies with other values. `stays`: whether a large u may stay on a device.

        Examples
        --------
        >>> poisson.Solver(poisson.Problem.on_box((33, 33), f=1.0)).keep_on(None, None, lambda: False).status
        <Status.CONVERGED: 'converged'>
        """
        return self._solve_somewhere(Call({"f": f}, None, observer, interrupted, checkpoints, bodies, stays))

    def _solve_somewhere(self, call: Call) -> Solution:
        """Solve where the solver is set up, and on the next backend where that fails and ``auto`` had chosen it."""
        ranks, interrupted, solution = self.ranks, call.interrupted, None
        own = interrupts.Noted(CTRL_C) if interrupted is None else contextlib.nullcontext(interrupted)
        # While another thread solves here, Ctrl-C ends the wait.
        with self._exclusive.use(), ranks.speaking(), own as asked:
            while solution is None:
                setup = self._setup
                with setup.backend.in_use(), ranks.communicator.together(), np.errstate(all="ignore"):
                    try:
                        solution = self._solve(call, asked)
                        continue
                    except Exception as error:
                        failed = next_backend(error, setup.local, self.request)
                self._failed[failed.name] = failed.reason
                with np.errstate(all="ignore"):
                    self._set_up_somewhere()
                if self._floating:
                    self._floating.forget()
                if call.checkpoints:
                    call.checkpoints.go_on_from_the_last()
        if interrupted is None and ranks.communicator.agree(asked()):
            number = getattr(asked, "number", 0) or signal.SIGINT
            name = {SIGNAL: signal.Signals(number).name}
            raise Interrupted(replace(solution, provenance=dict(solution.provenance) | name), number)
        return solution

    def _solve(self, call: Call, interrupted: Callable[[], bool]) -> Solution:
        ranks, problem, given, out = self.ranks, self.problem, call.given, call.out
        if call.bodies:
            problem = replace(problem, bodies=call.bodies)
        shape = problem.lattice.array_shape
        if ranks.size > 1:
            backend = self._setup.backend
            given = {
                name: data if name == "boundary" else distribution.array(ranks, name, data, shape, backend)
                for name, data in given.items()
            }
        with ranks.agreed():
            others = {name for name, data in given.items() if data is not None}
            if others:
                problem = problem.having(**given)
            if problem.bodies and isinstance(problem.a, PartField):
                raise CaseError("a: an array of a part of the grid; allowed with bodies: the whole on every process")
            # A source has no say in what goes together.
            for clash in clashes(self.settings, self.run, problem) if others - {"f"} else ():
                raise CaseError(f"{clash.path[0]}.{clash.path[1]}: {clash.item!r}; allowed: {clash.allowed}")
            if out is not None:
                require_place(out, ranks, shape, self._setup.backend)
                problem = apart(problem, out, self._setup.local)
        if self._floating is None:
            return self._solve_for(problem, self.request, call, interrupted)
        return self._solve_floating(self._floating, problem, call, interrupted)

    def _solve_floating(self, floating: Floating, problem: Problem, call: Call, asked: Callable[[], bool]) -> Solution:
        """Solve with all bodies that float at 0, and go on from the sum of this and what their potentials add."""
        from poisson.run.conductors import gone_on

        bare, kept = replace(self.request, fields=()), list[Any]()

        def solved(given: Problem, observer: Any = None, checkpoints: Any = None) -> tuple[Solution, Any]:
            """The solution, and the array of its u with the norm of the residual that it aimed at."""
            this = Call(observer=observer, checkpoints=checkpoints)
            return (found := self._solve_for(given, bare, this, asked, keep=kept.append)), (kept.pop(), found.target)

        first, (u, target) = solved(replace(problem, exact=None), call.observer, call.checkpoints)
        began, ledger = time.perf_counter(), self._setup.ledger
        with ledger.paused() if ledger else contextlib.nullcontext():
            settled = floating.settled(problem, first, solved)
        self._seconds = time.perf_counter() - began
        for potential, (part, its_target) in settled.parts:
            self._setup.backend.axpby(potential, part, 1.0, u)
            target = max(target, abs(potential) * its_target)
        call = call._replace(observer=call.observer and Later(call.observer, first.iterations), checkpoints=None)
        found = self._solve_for(settled.problem, self.request, call, asked, settled.potentials, guess=(u, target))
        return gone_on(first, found)

    def _solve_for(
        self,
        problem: Problem,
        request: Request,
        call: Call,
        interrupted: Callable[[], bool],
        potentials: Mapping[str, float] = MappingProxyType({}),
        *,
        guess: tuple[Any, float] | None = None,
        keep: Callable[[Any], None] | None = None,
    ) -> Solution:
        """Solve a problem with the operator of the setup, or with other coefficients.

        `guess`: an array in the place of the problem's, and a residual norm that will do. `keep`: gets a copy of u.
        """
        ranks, checkpoints = self.ranks, call.checkpoints
        began, started = time.perf_counter(), datetime.now(UTC)
        if problem is not self._operator_of:
            self._take_operator(problem)
        setup = self._setup
        data, discretisation = checkpoints.resumed(problem) if checkpoints else problem, setup.discretisation
        if data is not problem:
            carry(data, problem)
        if discretisation.problem is not data:
            discretisation = Discretisation(data, share=ranks.share)
        discretisation = self._loader.fill(discretisation)
        times = {"setup": time.perf_counter() - began + self._seconds}
        self._seconds = 0.0
        origin = provenance(setup, ranks, started) | {f"{POTENTIAL}{name}": u for name, u in potentials.items()}
        stopping, asked = setup.stopping, ranks.interrupted(interrupted)
        begun, between = None, lambda iterate: asked()
        if checkpoints:
            begun = checkpoints.begun
            made = partial(unfinished, request, setup, problem, origin)
            between = checkpoints.between(ranks, asked, made)
        began, before = time.perf_counter(), setup.local.kernel_seconds
        if problem.guess and setup.operator.singular and not begun:
            remove_mean(setup.operations, setup.u, setup.workspace(), setup.norms)
        method = setup.method_for(guess=problem.guess or guess is not None)
        stopping = replace(stopping, begun=begun) if begun else stopping
        if guess is not None:
            setup.backend.axpby(1.0, guess[0], 0.0, setup.u)
            stopping = replace(stopping, atol=max(stopping.atol, guess[1]))
        copy = None if setup.backend.on_host else copies(setup, problem, ranks, call.out)
        blank, norms = self._loader.blank and guess is None, self._loader.source
        task = Task(setup.u, setup.source, stopping, call.observer, between, copy, blank=blank, norms=norms)
        result = method.run(task)
        self._loader.wait()
        ended = time.perf_counter()
        if keep:
            keep(copy_of(setup.backend, result.u))
        if before is not None:
            times["kernels"] = (setup.local.kernel_seconds or 0.0) - before
        times["solve"] = ended - began - times.get("kernels", 0.0)
        with ranks.agreed():
            self._loader.solved(result.u)
        if result.instead:
            origin["method"] = setup.described_with(result.instead)
        solution = finish(request, setup, Solved(problem, discretisation, result, call.out, times, origin, call.stays))
        times["finish"] = time.perf_counter() - ended
        return solution if ranks.size == 1 else replace(solution, times=ranks.slowest(times))

    def _take_operator(self, problem: Problem) -> None:
        """Set up again what depends on the operator, and on the boundary values, where they are others."""
        before = self._operator_of
        same = before and problem.a is before.a and problem.c is before.c and problem.faces is before.faces
        alike = before is not None and (same or unchanged(problem, before) == {"a", "c"})
        if before is not None and alike and problem.bodies:
            carry(problem, before)
        if before is None or not alike:
            # What ends this leaves arrays that are those of neither problem.
            self._operator_of = None
            request = replace(self.request, problem=problem)
            if before is None or not renewed(self._setup, request, before):
                self._setup = set_up_on(self._setup.local, request)
                self._loader = Loader(self._setup, self.ranks.share)
        elif problem.faces is not before.faces or problem.bodies is not before.bodies:
            self._setup.take_boundary(Discretisation(problem, share=self.ranks.share))
        self._operator_of = problem


def of_request(kind: type[Solver], request: Request) -> Solver:
    """The solver of a request."""
    solver = kind.__new__(kind)
    solver._begin(request)
    return solver
