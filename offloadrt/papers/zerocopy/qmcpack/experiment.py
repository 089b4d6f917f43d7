"""The NiO performance test on an OpenMP program: parameters, initialisation, steps, and what was assumed.

A crowd is one host thread with its walkers: arrays, prepared directives, and the order in which they are run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import cycle
from typing import Any

import attrs
import numpy as np

from offloadrt.kernels import Kernel
from offloadrt.models import openmp as omp
from offloadrt.models.openmp.host_thread import TargetData
from offloadrt.papers.zerocopy.qmcpack import structure
from offloadrt.papers.zerocopy.qmcpack.structure import (
    ACCESSES_GROWTH,
    MAP_ITEMS,
    SIZES,
    THREADS_PER_TEAM,
    CrowdPlan,
    Inputs,
    KernelKind,
    MonteCarloStep,
    Plan,
    PlanError,
    Size,
    plan,
)
from offloadrt.study.errors import ParameterError

VARIANTS = 16
"""How many launches of one kernel, which differ in their work, a crowd chooses among at random."""

Arrays = dict[str, omp.HostArray]

S2 = SIZES["S2"]
GROWN = "ratio parts"
"""The name of the reduction array on the host that now and then outgrows its capacity."""
GROWTH = 1024
"""Bytes by which it grows."""
PROGRESS_MOVES = 32
"""The number of moves after which a crowd reports its progress."""


def host_bytes(t: omp.HostThread, name: str, nbytes: int) -> omp.HostArray:
    """Make an array of bytes that the host has filled; a map clause of it maps only these, no pointer variable."""
    return t.array(name, nbytes, np.uint8, fill=0)


@attrs.frozen
class Move:
    """The directives that move one electron of every walker, each a prepared construct, named after what it computes.

    gradient: that of the wave function. distances, pairs: the distances to and the pair terms with other particles.
    orbitals: their values. accept: whether the move is accepted. update, pairs_update: the new matrix of each spin, and
    the new pair terms. There are several variants, in which the kernels' work differs.
    """

    gradient: omp.Construct
    distances: omp.Construct
    orbitals: omp.Construct
    pairs: omp.Construct
    accept: omp.Construct
    update: tuple[omp.Construct, ...]
    pairs_update: omp.Construct


@attrs.define
class Crowd:
    """The walkers (samples of all electrons' positions) of one host thread, which move together.

    plan: how often each directive runs. inputs: values that the paper does not give. draw: the generator that varies
    how long kernels work. shared: the arrays of all crowds, by name. arrays: those of this crowd.
    """

    size: Size
    plan: CrowdPlan
    inputs: Inputs
    draw: np.random.Generator
    shared: Arrays
    on_moves: Callable[[int], object] = lambda moves: None
    """Called with the number of moves done since the last call."""
    steps: Callable[[int], Iterable[int]] = range
    """Called with the number of a crowd's steps; returns the numbers of the steps that are run."""
    arrays: Arrays = attrs.field(factory=dict)
    _moves: list[Move] = attrs.field(init=False)
    _jobs: list[list[omp.Construct]] = attrs.field(init=False)
    _choices: Iterator[int] = attrs.field(init=False)
    _updates: Iterator[omp.Construct] = attrs.field(init=False)
    _positions: omp.Construct = attrs.field(init=False)
    _points: omp.Construct = attrs.field(init=False)
    _result: omp.Construct = attrs.field(init=False)
    _pointers: TargetData = attrs.field(init=False)
    _work: dict[str, list[Kernel]] = attrs.field(factory=dict)

    # initialisation

    async def initialise(self, t: omp.HostThread) -> None:
        """Allocate and transfer the arrays of the crowd and of its walkers, and evaluate their orbitals once."""
        for buffer in structure.CROWD_BUFFERS:
            nbytes = buffer.nbytes(self.size, self.plan.walkers)
            self.arrays[buffer.name] = await self._allocate(t, buffer.name, nbytes)
        self._prepare(t)
        updates: list[omp.Construct] = []
        kernels = self.plan.orbital_kernels
        walkers = max(1, self.plan.initialised)
        for number in range(self.plan.initialised):
            matrices = await self._walker(t, number)
            updates += [self._update(t, matrix) for matrix in matrices]
            orbitals = self._region(t, structure.INITIAL_ORBITALS, self._one_walker(t), 1, matrices)
            for _ in range(kernels * (number + 1) // walkers - kernels * number // walkers):
                await t.run(orbitals)
        self._updates = cycle(updates)
        for number in range(self.plan.blocks):
            await self._allocate(t, f"block {number}", self.inputs.block_bytes)

    async def _walker(self, t: omp.HostThread, number: int) -> list[omp.HostArray]:
        """Allocate the arrays of one walker and transfer them; return its matrices."""
        size, matrices = self.size, []
        for name, nbytes in (("inverse", size.matrix_bytes), ("derivatives", 5 * size.matrix_bytes)):
            for spin in ("up", "down"):
                matrix = await self._allocate(t, f"walker {number} {name} {spin}", nbytes)
                await t.target_update(omp.to(matrix))
                matrices.append(matrix)
        positions = await self._allocate(t, f"walker {number} positions", 3 * 8 * size.electrons)
        await t.target_update(omp.to(positions))
        for table in ("electrons", "ions"):
            await t.target_enter_data(omp.map(to=host_bytes(t, f"walker {number} {table} table", 512)))
        return matrices

    async def _allocate(self, t: omp.HostThread, name: str, nbytes: int) -> omp.HostArray:
        """Allocate host memory that is mapped for its whole life, as QMCPACK's allocator does."""
        array = host_bytes(t, name, nbytes)
        await t.target_enter_data(omp.map(alloc=array))
        return array

    # directives

    def _prepare(self, t: omp.HostThread) -> None:
        """Prepare all directives that are run again and again, each distinct one once."""
        for kind in (*structure.MOVE, *structure.JOB):
            self._work[kind.name] = self._kernels(t, kind)
        self._moves = [self._move(t, number) for number in range(VARIANTS)]
        self._jobs = [self._job(t, number) for number in range(VARIANTS)]
        launches = self.plan.warm_up_moves + self.plan.warm_up_jobs
        launches += sum(step.moves + step.jobs for step in self.plan.steps)
        self._choices = iter(self.draw.integers(0, VARIANTS, launches).tolist())
        self._positions = t.construct_target_update(omp.to(self.arrays[structure.NEW_POSITIONS]))
        self._points = t.construct_target_update(omp.to(self.arrays[structure.JOB_POINTS]))
        self._result = t.construct_target_update(omp.from_(self.arrays[structure.JOB_RESULT]))
        self._pointers = t.target_data(omp.map(to=self.arrays[structure.UPDATE_POINTERS], always=True))

    def _kernels(self, t: omp.HostThread, kind: KernelKind) -> list[Kernel]:
        """Make the kernel of one kind in VARIANTS variants of its work."""
        flops, traffic = kind.work(self.size)
        walkers, spread = self.plan.walkers, self.inputs.spread
        accesses = self.inputs.accesses_of(kind, self.size, walkers, t.declarations.grid.teams)
        # The work is log-normal with mean 1. A crowd chooses each launch among a few regions, because a region is
        # prepared once and run many times. The mean work of one kind in a crowd then deviates from 1 by about
        # spread / sqrt(VARIANTS), a quarter of the spread.
        factors = self.draw.lognormal(-spread * spread / 2, spread, VARIANTS).tolist()
        return [
            Kernel(
                kind.name,
                flops_per_iteration=flops * factor,
                bytes_per_iteration=traffic * factor,
                dependent_accesses=accesses * factor,
                threads_per_team=THREADS_PER_TEAM,
            )
            for factor in factors
        ]

    def _one_walker(self, t: omp.HostThread) -> Kernel:
        """Make the kernel of the initialisation, which evaluates the orbitals of one walker."""
        kind = structure.INITIAL_ORBITALS
        flops, traffic = kind.work(self.size)
        accesses = self.inputs.accesses_of(kind, self.size, 1, t.declarations.grid.teams)
        return Kernel(
            kind.name,
            flops_per_iteration=flops,
            bytes_per_iteration=traffic,
            dependent_accesses=accesses,
            threads_per_team=THREADS_PER_TEAM,
        )

    def _region(
        self, t: omp.HostThread, kind: KernelKind, kernel: Kernel, walkers: int, more: Sequence[omp.HostArray] = ()
    ) -> omp.Construct:
        """Make a target region with its map clauses.

        It maps the arrays that it transfers, those that it uses, and resident arrays up to `map_items` in all.
        """
        named = [self._array(name) for name in kind.uses]
        moved = [self.arrays[name] for name in (kind.to, kind.from_) if name is not None]
        own = dict.fromkeys([*moved, *more, *named])
        lasting = [array for name, array in self.arrays.items() if name != GROWN]
        resident = [array for array in (*self.shared.values(), *lasting) if array not in own]
        used = [*own, *resident[: max(0, self.inputs.map_items - len(own))]]
        maps: list[Any] = []
        if kind.to is not None:
            maps.append(omp.map(to=self.arrays[kind.to], always=True))
        if kind.from_ is not None:
            maps.append(omp.map(from_=self.arrays[kind.from_], always=True))
        maps.append(omp.map(to=[array for array in used if array not in moved]))
        teams = kind.teams(self.size, walkers, t.declarations.grid.teams)
        return t.construct_target(kernel, *used, maps=maps, teams=teams, threads=THREADS_PER_TEAM, iterations=walkers)

    def _array(self, name: str) -> omp.HostArray:
        """Return an array of the crowd, or one that all crowds share, by its name in `structure`."""
        return self.shared[name] if name in self.shared else self.arrays[name]

    def _variant(self, t: omp.HostThread, kind: KernelKind, number: int) -> omp.Construct:
        return self._region(t, kind, self._work[kind.name][number], self.plan.walkers)

    def _move(self, t: omp.HostThread, number: int) -> Move:
        """Make the directives of a move, with variant `number` of each kernel."""
        gradient, distances, orbitals, pairs = (self._variant(t, kind, number) for kind in structure.PROPOSE)
        return Move(
            gradient,
            distances,
            orbitals,
            pairs,
            self._variant(t, structure.DECIDED, number),
            tuple(self._variant(t, kind, number) for kind in structure.UPDATE),
            self._variant(t, structure.PAIRS_UPDATE, number),
        )

    def _job(self, t: omp.HostThread, number: int) -> list[omp.Construct]:
        """Make the directives of a job, with variant `number` of each kernel."""
        return [self._variant(t, kind, number) for kind in structure.JOB]

    def _update(self, t: omp.HostThread, matrix: omp.HostArray) -> omp.Construct:
        """Make the directive that copies a walker's matrix, or a part of it, to the host."""
        at_s2 = matrix.nbytes * S2.matrix_bytes // self.size.matrix_bytes
        if matrix.nbytes > self.size.matrix_bytes:
            at_s2 = at_s2 * 4 // 5  # without the values: gradients and Laplacian only
        nbytes = self.inputs.update_bytes(self.size, at_s2, matrix.nbytes)
        return t.construct_target_update(omp.from_(omp.section(matrix, 0, nbytes)))

    # the run

    async def warm_up(self, t: omp.HostThread) -> None:
        """Run the first moves, during which the device touches every array for the first time."""
        for _ in range(self.plan.warm_up_moves):
            await self._one_move(t)
        for _ in range(self.plan.warm_up_jobs):
            await self._one_job(t)

    async def advance(self, t: omp.HostThread) -> None:
        """Run all Monte Carlo steps: move every electron once, then evaluate pseudopotential and walkers' matrices."""
        for _ in range(self.plan.extra_kernels):
            await t.run(self._moves[0].distances)
        for number in self.steps(len(self.plan.steps)):
            await self._step(t, self.plan.steps[number])

    async def _step(self, t: omp.HostThread, step: MonteCarloStep) -> None:
        run, updates = t.run, self._updates
        for begin in range(0, step.moves, PROGRESS_MOVES):
            moves = min(PROGRESS_MOVES, step.moves - begin)
            for _ in range(moves):
                await self._one_move(t)
            self.on_moves(moves)
        for _ in range(step.updates):
            await run(next(updates))
        for _ in range(step.reallocations):
            await self._grow(t)
        for _ in range(step.jobs):
            await self._one_job(t)

    async def _one_move(self, t: omp.HostThread) -> None:
        run, move = t.run, self._moves[next(self._choices)]
        await run(move.gradient)
        await run(self._positions)
        await run(move.distances)
        await run(move.orbitals)
        await run(move.pairs)
        # The source spreads the host's work over the move (deviates, pointers, test, Jastrow). Here it is one piece,
        # because only its sum is estimated.
        await t.compute(self.inputs.host_s * self.plan.walkers)
        await run(move.accept)
        async with self._pointers:
            for kernel in move.update:
                await run(kernel)
        await run(move.pairs_update)

    async def _one_job(self, t: omp.HostThread) -> None:
        run, job = t.run, self._jobs[next(self._choices)]
        await t.compute(self.inputs.host_s * self.plan.walkers)
        await run(self._points)
        for kernel in job[:2]:
            await run(kernel)
        await run(self._result)
        for kernel in job[2:]:
            await run(kernel)

    async def _grow(self, t: omp.HostThread) -> None:
        """Replace the reduction array by a larger one, on the host and on the device."""
        old = self.arrays[GROWN]
        await t.target_exit_data(omp.map(delete=old))
        grown = self.arrays[GROWN] = t.array(GROWN, old.nbytes + GROWTH, np.uint8)
        await t.first_touch(grown)
        await t.target_enter_data(omp.map(alloc=grown))
        place = next(place for place, kind in enumerate(structure.JOB) if kind.from_ == GROWN)
        for number, job in enumerate(self._jobs):
            job[place] = self._variant(t, structure.JOB[place], number)


MATRICES = 4
"""How many large arrays a walker has: inverse and derivatives of two spins."""
ALLOCATIONS_PER_WALKER = MATRICES + 1 + 2
"""How many allocations a walker has: the large arrays, the positions and two distance tables."""


@attrs.frozen
class QmcpackSetup:
    """The parameters of one run: a problem size, host threads, and walkers (samples) in all. `create` checks a user's.

    fraction: the part of the steps that is run. inputs: values that the paper does not give. plan: how often directives
    run.
    """

    size: Size
    threads: int
    walkers: int
    fraction: float
    inputs: Inputs
    plan: Plan

    @classmethod
    def create(
        cls,
        *,
        size: str = "S2",
        threads: int = 8,
        fraction: float = 1.0,
        walkers: int | None = None,
        map_items: int = MAP_ITEMS,
        jobs: int | None = None,
        kernel_work: str = "mean",
        host_work: str = "mean",
        copy_growth: str = "mean",
    ) -> QmcpackSetup:
        """Check the parameters and make the setup of the run that they describe.

        `walkers` counts those of all crowds; None takes QMCPACK's preset number, as far as it fits into memory. `jobs`
        counts the batches of the non-local pseudopotential per crowd in the full run; None derives it from the
        published number of copies. `fraction` is the part of the steps to run, `map_items` the map items of each target
        region. `kernel_work`, `host_work` and `copy_growth` say where in the ranges of `Inputs` values are taken: low,
        mean or high. Raises ParameterError.
        """
        if size not in SIZES:
            raise ParameterError("size", f"{size} is none of {', '.join(SIZES)}")
        for name, number, least in (("threads", threads, 1), ("map_items", map_items, structure.FEWEST_MAP_ITEMS)):
            if number < least:
                raise ParameterError(name, f"{number} is less than {least}")
        if not 0.0 < fraction <= 1.0:
            raise ParameterError("fraction", f"{fraction} does not lie between 0 and 1")
        try:
            inputs = Inputs.at(kernel_work, host_work, copy_growth, map_items)
        except ValueError as error:
            raise ParameterError("kernel_work, host_work, copy_growth", str(error)) from None
        chosen = SIZES[size]
        population = chosen.walkers() if walkers is None else walkers
        try:
            counts = plan(
                chosen,
                threads,
                population,
                (len(structure.SHARED_BUFFERS), len(structure.CROWD_BUFFERS)),
                ALLOCATIONS_PER_WALKER,
                inputs.reallocations,
                fraction,
                jobs,
            )
        except PlanError as error:
            raise ParameterError("walkers" if walkers is not None else "jobs", str(error)) from None
        return cls(chosen, threads, population, fraction, inputs, counts)


@attrs.define
class QmcpackExperiment:
    """Runs what a `QmcpackSetup` describes on an OpenMP program, whose random generator varies kernels' work.

    `progress` is called now and then with the moves done and all moves of the measured part; `steps` chooses which of a
    crowd's steps are run. `shared` are the arrays of all crowds.
    """

    program: omp.OpenMP
    setup: QmcpackSetup
    progress: Callable[[int, int], object] | None = None
    steps: Callable[[int], Iterable[int]] = range
    _done: int = 0
    shared: Arrays = attrs.field(factory=dict)
    crowds: list[Crowd] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        setup = self.setup
        self.crowds = [
            Crowd(
                setup.size, crowd, setup.inputs, np.random.default_rng(seed), self.shared, self._count_moves, self.steps
            )
            for crowd, seed in zip(
                setup.plan.crowds, self.program.sim.rng.integers(0, 2**32, setup.threads).tolist(), strict=True
            )
        ]

    def _count_moves(self, moves: int) -> None:
        self._done += moves
        if self.progress is not None:
            self.progress(self._done, self.setup.plan.measured_moves)

    async def initialise(self) -> None:
        """Run all before the measured time: bulk transfers, walkers, first moves, until all threads have finished."""

        async def body(t: omp.HostThread) -> None:
            if t.number == 0:
                await self._share(t)
            await t.barrier()
            await self.crowds[t.number].initialise(t)
            await t.barrier()
            await self.crowds[t.number].warm_up(t)

        await self.program.parallel(body, num_threads=self.setup.threads)

    async def _share(self, t: omp.HostThread) -> None:
        """Allocate and transfer the arrays that all crowds read. The largest is the spline table."""
        for name in structure.SHARED_BUFFERS:
            nbytes = 4096
            if name == "spline":
                nbytes = max(1 << 20, int(self.setup.size.spline_bytes * self.setup.fraction) // 8 * 8)
            array = self.shared[name] = host_bytes(t, name, nbytes)
            await t.target_enter_data(omp.map(alloc=array))
            await t.target_update(omp.to(array))

    async def advance(self) -> None:
        """Run the measured part: all steps of all crowds."""
        await self.program.parallel(lambda t: self.crowds[t.number].advance(t), num_threads=self.setup.threads)

    def assumed(self) -> dict[str, float | int]:
        """Return how much the run does and which values it assumed, by name, as results show them."""
        setup, counts = self.setup, self.setup.plan
        first_crowd = counts.crowds[0]
        return {
            "walkers": setup.walkers,
            "electrons": setup.size.electrons,
            "steps": len(first_crowd.steps),
            "moves": counts.moves,
            "nonlocal_jobs": counts.jobs,
            "kernels": counts.kernels,
            "kernels_in_initialisation": sum(
                crowd.orbital_kernels
                + crowd.warm_up_moves * len(structure.MOVE)
                + crowd.warm_up_jobs * len(structure.JOB)
                for crowd in counts.crowds
            ),
            "copies": counts.copies,
            "copies_on_target": counts.attached_copies,
            "copies_on_target_data": counts.data_copies,
            "copies_by_target_update": counts.update_copies,
            "allocations": counts.allocations,
            "map_items_per_kernel": setup.inputs.map_items,
            "map_items": counts.kernels * setup.inputs.map_items + counts.data_copies + counts.allocations,
            "kernel_accesses_s2": setup.inputs.accesses,
            "kernel_accesses_growth": ACCESSES_GROWTH,
            "kernel_spread": setup.inputs.spread,
            "host_s_per_walker": setup.inputs.host_s,
            "update_growth": setup.inputs.update_growth,
            "reallocations": round(setup.inputs.reallocations * setup.fraction),
            "spline_bytes": setup.size.spline_bytes,
        }
