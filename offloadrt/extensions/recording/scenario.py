"""A recording as a scenario: `offloadrt run app.rec threads=4 configuration=managed`."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final, Literal

import attrs

from offloadrt.driver.calls import DriverError
from offloadrt.extensions.recording.format import Recording, RecordingError, RecordingFile
from offloadrt.extensions.recording.format.container import RunSummary
from offloadrt.extensions.recording.replay import Outcome, check_configuration, replay
from offloadrt.extensions.recording.replay.declared import read_declared
from offloadrt.extensions.recording.replay.program import (
    requires_unified_shared_memory,
    run_of,
    unified_configuration,
)
from offloadrt.machine.memory import MemoryAccessFault
from offloadrt.runtime.errors import OffloadError
from offloadrt.study.errors import UserError
from offloadrt.study.running.run import Run
from offloadrt.study.scripts.definition import Figure, Scenario
from offloadrt.study.scripts.parameters import Range, Value, parameters_of
from offloadrt.study.scripts.tracebacks import innermost

_Configuration = Literal[
    "copy", "usm", "implicit_zero_copy", "eager_maps", "managed", "managed+prefetch", "environment", "unified"
]
UNIFIED: Final = "unified"
"""The configuration that a program asks for that requires unified shared memory."""
_OF_THE_PROGRAM = (RecordingError, OffloadError, DriverError, MemoryAccessFault)
"""Errors that end a replay with a message: the recording, or what was asked of it, is then wrong."""


def scenario_of(path: Path) -> Scenario:
    """Make a scenario of a recording. Raises UserError."""
    path = path.resolve()
    file = opened(path)
    runs = file.runs
    known = list(dict.fromkeys(run.threads for run in runs))
    with _of_recordings():
        asked: _Configuration = UNIFIED if requires_unified_shared_memory(file.meta(runs[0])) else "copy"

    async def replayed(
        run: Run,
        threads: Annotated[int, Range(1)] = known[0],
        configuration: _Configuration = asked,
        allocator: Literal["llvm", "direct", "malloc"] = "llvm",
        host_compute: Annotated[float, Range(0)] = 1.0,
        process: Annotated[int, Range(0)] = 0,
        costs: str = "",
    ) -> dict[str, Value]:
        """Replay a recorded program.

        Parameters:
            threads: with as many host threads, as it was recorded with
            configuration: what a map means; unified: usm, or managed where kernels cannot use the host's memory
            allocator: of device memory
            host_compute: seconds of the host for each one that it worked when it was recorded
            process: which of the recorded processes, as MPI ranks are
            costs: a TOML file with costs of kernels, where none were recorded
        """
        try:
            return await _replay(run, loaded(path, run_of(runs, threads, process, path)), host_compute, costs)
        except (Exception, BaseExceptionGroup) as error:
            inner = innermost(error)
            if isinstance(inner, _OF_THE_PROGRAM):
                raise UserError(str(inner)) from None
            raise

    parameters = parameters_of(replayed)
    if len(known) > 1:
        words = ", ".join(map(str, known))
        parameters["threads"] = attrs.evolve(parameters["threads"], help=f"host threads; recorded with {words}")
    figure = Figure(x="configuration", y="elapsed_s", bars=True, title=f"{path.stem}: time of the replay")
    return Scenario(path.name, replayed, "alex-a100", parameters, figure=figure, results=("directives",), path=path)


async def _replay(run: Run, recording: Recording, host_compute: float, costs: str) -> dict[str, Value]:
    unified = requires_unified_shared_memory(recording.meta)
    run.configure(phantom=True, requires_unified_shared_memory=unified, num_devices=recording.devices_used)
    if run.configuration == UNIFIED:
        run.configure(configuration=unified_configuration(run.spec))
    program = run.openmp
    chosen = program.devices[0].configuration.name
    check_configuration(recording, chosen)
    outcome = await replay(
        recording,
        program,
        host_time=host_compute,
        declared=read_declared(Path(costs)) if costs else None,
        progress=run.progress,
        phases=run.windows.phases,
    )
    measured = _measured(recording, outcome)
    if unified:
        measured["requires"] = f"unified_shared_memory, so configuration {chosen}"
    return measured


def _measured(recording: Recording, outcome: Outcome) -> dict[str, Value]:
    measured: dict[str, Value] = {"directives": outcome.directives}
    if recording.meta.died is not None:
        measured["recording"] = f"the program {recording.meta.died}"
    elif recording.meta.ended != "exit":
        measured["recording"] = {"stopped": "was stopped", "cut": "cut off: the program crashed or was killed"}.get(
            recording.meta.ended, recording.meta.ended
        )
    if outcome.compared:
        measured["operations_equal"] = outcome.equal
        measured["operations_moved"] = outcome.moved
        measured["operations_different"] = outcome.compared - outcome.equal - outcome.moved
    for number, difference in enumerate(outcome.differences, 1):
        measured[f"difference_{number}"] = str(difference)
    return measured


def opened(path: Path) -> RecordingFile:
    """Open a recording. Raises UserError."""
    with _of_recordings():
        return RecordingFile.read(path)


@contextmanager
def _of_recordings() -> Iterator[None]:
    """Turn what is wrong with a recording into a UserError."""
    try:
        yield
    except RecordingError as error:
        raise UserError(str(error)) from None


def loaded(path: Path, run: RunSummary) -> Recording:
    """Load a run; it is kept until the file is written again. Raises RecordingError."""
    return _loaded(path, run, (path / "meta.json" if path.is_dir() else path).stat().st_mtime_ns)


@functools.lru_cache(maxsize=2)
def _loaded(path: Path, run: RunSummary, written: int) -> Recording:
    return RecordingFile.read(path).load(run)
