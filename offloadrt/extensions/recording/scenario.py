"""A recording as a scenario: `offloadrt run app.rec threads=4 configuration=managed`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import attrs

from offloadrt.driver.calls import DriverError
from offloadrt.extensions import stdpar
from offloadrt.extensions.recording.format import Recording, RecordingError, RecordingFile
from offloadrt.extensions.recording.format.container import RunSummary
from offloadrt.extensions.recording.replay import Outcome, check_configuration, replay
from offloadrt.extensions.recording.replay.algorithms import replay_algorithms
from offloadrt.extensions.recording.replay.declared import read_declared
from offloadrt.extensions.recording.replay.program import (
    requires_unified_shared_memory,
    run_of,
    unified_configuration,
)
from offloadrt.machine.memory import MemoryAccessFault
from offloadrt.runtime.errors import OffloadError
from offloadrt.study.errors import ParameterError, UserError
from offloadrt.study.running.run import Run
from offloadrt.study.scripts.definition import Figure, Scenario
from offloadrt.study.scripts.parameters import Parameter, Range, Value, parameters_of
from offloadrt.study.scripts.tracebacks import innermost

_Configuration = Literal[
    "copy", "usm", "implicit_zero_copy", "eager_maps", "managed", "managed+prefetch", "environment", "unified"
]
_Switch = Literal["auto", "on", "off"]
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
        if file.meta(runs[0]).algorithms:
            return _of_algorithms(path, runs)
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

    figure = Figure(x="configuration", y="elapsed_s", bars=True, title=f"{path.stem}: time of the replay")
    return Scenario(
        path.name,
        replayed,
        "alex-a100",
        _parameters(replayed, known),
        figure=figure,
        results=("directives",),
        path=path,
    )


def _parameters(replayed: Callable[..., Any], known: Sequence[int]) -> dict[str, Parameter]:
    parameters = parameters_of(replayed)
    if len(known) > 1:
        words = ", ".join(map(str, known))
        parameters["threads"] = attrs.evolve(parameters["threads"], help=f"host threads; recorded with {words}")
    return parameters


def _of_algorithms(path: Path, runs: Sequence[RunSummary]) -> Scenario:
    """Make a scenario of a recorded program of C++ parallel algorithms."""
    known = list(dict.fromkeys(run.threads for run in runs))

    async def replayed(
        run: Run,
        implementation: Literal["acpp", "nvcpp", "rocstdpar", "icpx", "host"] = "acpp",
        pool: _Switch = "auto",
        elision: _Switch = "auto",
        prefetch: Literal["auto", "never", "first", "always", "after-sync"] = "auto",
        heuristic: _Switch = "auto",
        sampling: Literal["none", "host", "offload"] = "none",
        database: str = "",
        system_usm: bool = False,
        threads: Annotated[int, Range(1)] = known[0],
        host_compute: Annotated[float, Range(0)] = 1.0,
        process: Annotated[int, Range(0)] = 0,
    ) -> dict[str, Value]:
        """Replay a recorded program of C++ parallel algorithms.

        Parameters:
            implementation: whose compiler and runtime; host offloads nothing
            pool: the memory pool; auto is as the implementation has it, as of the next three
            elision: synchronization elision
            prefetch: the prefetch mode
            heuristic: the offload heuristic; it needs a database with runtimes of host and device, else it offloads all
            sampling: a run that only measures for the database, with all algorithms on the host or offloaded
            database: file with the runtimes that the heuristic knows, to which the run adds its own at the end
            system_usm: let the device use all memory of the host as it is; nothing is taken over or prefetched
            threads: with as many host threads, as it was recorded with
            host_compute: seconds of the host for each one that it worked when it was recorded
            process: which of the recorded processes, as MPI ranks are
        """
        chosen = stdpar.variant(implementation, pool=pool, elision=elision, prefetch=prefetch, heuristic=heuristic)
        if (sampling != "none" or database) and not chosen.heuristic:
            name = "database" if database else "sampling"
            raise ParameterError(name, f"{database or sampling}, but {implementation} has no heuristic here")
        run.options = stdpar.StdParOptions(
            implementation=chosen,
            heuristic=stdpar.HeuristicRules(sampling=stdpar.Sampling(sampling)),
            heuristic_file=Path(database) if database else None,
            system_usm=system_usm,
            phantom=True,
        )
        try:
            recording = loaded(path, run_of(runs, threads, process, path))
            await replay_algorithms(
                recording, run.program_as(stdpar.StdPar), host_time=host_compute, progress=run.progress,
                phases=run.windows.phases,
            )  # fmt: skip
        except (Exception, BaseExceptionGroup) as error:
            inner = innermost(error)
            if isinstance(inner, (*_OF_THE_PROGRAM, stdpar.CompilationRefused)):
                raise UserError(str(inner)) from None
            raise
        measured = run.program.algorithms(), run.program.barriers()
        return {**stdpar.algorithm_figures(*measured), **_ending(recording)}

    figure = Figure(x="implementation", y="elapsed_s", bars=True, title=f"{path.stem}: time of the replay")
    parameters = _parameters(replayed, known)
    return Scenario(path.name, replayed, "alex-a100", parameters, figure=figure, results=("algorithms",), path=path)


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
    measured: dict[str, Value] = {"directives": outcome.directives, **_ending(recording)}
    if outcome.compared:
        measured["operations_equal"] = outcome.equal
        measured["operations_moved"] = outcome.moved
        measured["operations_different"] = outcome.compared - outcome.equal - outcome.moved
    for number, difference in enumerate(outcome.differences, 1):
        measured[f"difference_{number}"] = str(difference)
    return measured


def _ending(recording: Recording) -> dict[str, Value]:
    """Say how the recorded program ended, if it did not come to its end."""
    if recording.meta.died is not None:
        return {"recording": f"the program {recording.meta.died}"}
    if recording.meta.ended == "exit":
        return {}
    words = {"stopped": "was stopped", "cut": "cut off: the program crashed or was killed"}
    return {"recording": words.get(recording.meta.ended, recording.meta.ended)}


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
