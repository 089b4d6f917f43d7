"""Runs of ExaHyPE experiments for tests: `update(setup, ...)` gives the run, the experiment and what it did."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import pytest

from offloadrt import openmp as omp
from offloadrt.papers.exahype.program import Experiment, Setup, Updated
from offloadrt.study import Run


@attrs.frozen
class Ran:
    """A finished run."""

    run: Run
    experiment: Experiment
    updates: list[Updated]

    def count(self, kind: str) -> int:
        """Events of a kind."""
        return sum(1 for event in self.run.trace.events if type(event).__name__ == kind)

    def copies(self, direction: str) -> list[int]:
        """Sizes in bytes of the copies in one direction, in order."""
        return [
            event.bytes
            for event in self.run.trace.events
            if type(event).__name__ == "CopyBegin" and event.direction == direction
        ]


def update_patches(
    setup: Setup,
    *,
    steps: int = 1,
    gear: str = "turbo",
    seed: int = 0,
    strategy: str = "fifo",
    allocator: str = "llvm",
    record: bool = True,
    warm_up: bool = False,
    overrides: Mapping[str, str] | None = None,
) -> Ran:
    """Advance the patches of `setup` by `steps` time steps on a fresh machine, after a warm-up if asked for."""
    run = Run(gear=gear, seed=seed, strategy=strategy, record=record, overrides=overrides)
    run.options = omp.OpenMPOptions(allocator=allocator, phantom=setup.phantom, num_devices=setup.devices)
    kept: list[Experiment] = []

    async def main() -> list[Updated]:
        experiment = Experiment(run.openmp, setup)
        kept.append(experiment)
        if warm_up:
            await experiment.warm_up()
        run.windows.start()
        return [await experiment.update() for _ in range(steps)]

    updates = run.sim.run(main)
    return Ran(run, kept[0], updates)


@pytest.fixture
def update() -> Callable[..., Any]:
    """`update(setup, steps=, gear=, seed=, strategy=, allocator=, warm_up=, overrides=)` -> Ran."""
    return update_patches
