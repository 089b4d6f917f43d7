"""The NiO performance test on an OpenMP program: parameters, initialisation, steps, and what was assumed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import attrs
import numpy as np

from offloadrt.models import openmp as omp
from offloadrt.papers.zerocopy.qmcpack import structure
from offloadrt.papers.zerocopy.qmcpack.counts import Plan, PlanError, plan
from offloadrt.papers.zerocopy.qmcpack.crowd import Arrays, Crowd, host_bytes
from offloadrt.papers.zerocopy.qmcpack.inputs import ACCESSES_GROWTH, MAP_ITEMS, Inputs
from offloadrt.papers.zerocopy.qmcpack.structure import SIZES, Size
from offloadrt.study.errors import ParameterError

MATRICES = 4
"""The number of a walker's large arrays: inverse and derivatives of two spins."""
ALLOCATIONS_PER_WALKER = MATRICES + 1 + 2
"""The large arrays, the positions and two distance tables."""


@attrs.frozen
class QmcpackSetup:
    """One run; `create` checks what a user gives."""

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
        """Check the parameters and make the run that they describe.

        `walkers` counts those of all crowds; None takes the preset number as far as it fits. `jobs` counts the batches
        of the non-local pseudopotential per crowd in the full run; None takes those that follow from the published
        copies. The other arguments say where the ranges in `inputs` are taken. Raises ParameterError.
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
    """A `QmcpackSetup` on an OpenMP program, whose generator gives the numbers by which kernels vary.

    `progress` is called now and then with the moves done and all moves of the measured part; `steps` gives the numbers
    of a crowd's steps that are run.
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
        """Run everything before the measured time: bulk transfers, walkers, first moves. All threads are then done."""

        async def body(t: omp.HostThread) -> None:
            if t.number == 0:
                await self._share(t)
            await t.barrier()
            await self.crowds[t.number].initialise(t)
            await t.barrier()
            await self.crowds[t.number].warm_up(t)

        await self.program.parallel(body, num_threads=self.setup.threads)

    async def _share(self, t: omp.HostThread) -> None:
        """Allocate and transfer the arrays that all crowds read, above all the spline table."""
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
        """Return what was run and what was assumed, by name, as results show it."""
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
