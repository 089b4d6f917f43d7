"""Replays a recording on an emulated machine, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
from raw_program import only

from offloadrt import Run
from offloadrt.extensions.recording.format import Recording
from offloadrt.extensions.recording.replay import Outcome, replay
from offloadrt.machine import ComputeUnits


@attrs.frozen
class Replayed:
    outcome: Outcome
    run: Run

    @property
    def hash(self) -> str:
        assert self.run.trace is not None
        return self.run.trace.hash()

    @property
    def compute(self) -> ComputeUnits:
        return self.run.machine.devices[0].compute


def replayed(
    recording: Path | Recording,
    *,
    machine: str = "alex-a100",
    gear: str = "turbo",
    sample_phases: bool = False,
    **options: Any,
) -> Replayed:
    """Replay the only run of a recording; options: those of the program, and of `replay`."""
    found = only(recording) if isinstance(recording, Path) else recording
    of_replay = {name: options.pop(name) for name in ("host_time", "declared") if name in options}
    run = Run(machine=machine, gear=gear, record=True, sample_phases=sample_phases)
    run.configure(**{"phantom": True, "allocator": "malloc", "num_devices": found.devices_used, **options})
    outcomes: list[Outcome] = []

    async def main() -> None:
        outcomes.append(await replay(found, run.openmp, phases=run.windows.phases, **of_replay))
        await run.finish()

    run.sim.run(main)
    return Replayed(outcomes[0], run)
