"""Makes a scenario of a recording: `offloadrt run app.rec threads=4 configuration=managed`."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import attrs

from offloadrt.driver.calls import DriverError
from offloadrt.extensions.checking.recorded import ProgramDied
from offloadrt.extensions.recording.doubts import RecordedRanges, doubts_of, ranges_by_threads
from offloadrt.extensions.recording.format import Recording, RecordingError, RecordingFile
from offloadrt.extensions.recording.format.container import RunSummary
from offloadrt.extensions.recording.format.ranks import ENDS_ALL
from offloadrt.extensions.recording.format.summary import last_call_of
from offloadrt.extensions.recording.replay import Outcome, check_configuration, replay
from offloadrt.extensions.recording.replay.program import (
    ranks_of,
    requires_unified_shared_memory,
    run_of,
    unified_configuration,
)
from offloadrt.kernels import Kernel, KernelError
from offloadrt.machine.memory import MemoryAccessFault
from offloadrt.models.host.process import Process
from offloadrt.models.openmp import OpenMP
from offloadrt.runtime.errors import OffloadError
from offloadrt.study.errors import ParameterError, UserError
from offloadrt.study.running.run import Run
from offloadrt.study.scripts.definition import Figure, Scenario
from offloadrt.study.scripts.parameters import Range, Value, parameters_of
from offloadrt.study.scripts.tracebacks import innermost

_Configuration = Literal[
    "copy", "keep_mapped", "usm", "implicit_zero_copy", "eager_maps", "managed", "managed+prefetch", "environment",
    "unified",
]  # fmt: skip
_Switch = Literal["auto", "on", "off"]
_TOGETHER: Final = -1
"""The value of the parameter `process` for all ranks together."""
_MISTAKES: Final = 20
"""The largest number of mistakes of the ranks that are reported."""
UNIFIED: Final = "unified"
"""The configuration for a program that requires unified shared memory: usm or managed, whichever the machine offers."""
_OF_THE_PROGRAM = (RecordingError, OffloadError, DriverError, MemoryAccessFault)
"""Errors that end a replay with a message: the recording is wrong, or what was asked of it."""


def scenario_of(path: Path) -> Scenario:
    """Make the scenario that replays a recording. Raises UserError for a file that cannot be read."""
    path = path.resolve()
    file = opened(path)
    runs = file.runs
    known = list(dict.fromkeys(run.threads for run in runs))
    recorded_ranks = max(run.ranks for run in runs)
    with _of_recordings():
        ranges = ranges_by_threads(path.stem, [(run.threads, file.meta(run)) for run in runs], known)
        if file.meta(runs[0]).algorithms:
            return _of_algorithms(path, runs, ranges)
        asked: _Configuration = UNIFIED if requires_unified_shared_memory(file.meta(runs[0])) else "copy"

    async def replayed(
        run: Run,
        threads: Annotated[int, Range(1)] = known[0],
        configuration: _Configuration = asked,
        allocator: Literal["llvm", "direct", "malloc"] = "llvm",
        host_compute: Annotated[float, Range(0)] = 1.0,
        ranks: Annotated[int, Range(1)] = max(1, recorded_ranks),
        nodes: Annotated[int, Range(1)] = 1,
        gpus_per_node: Annotated[int, Range(0)] = 0,
        process: Annotated[int, Range(_TOGETHER)] = _TOGETHER if recorded_ranks else 0,
        costs: str = "",
    ) -> dict[str, Value]:
        """Replay a recorded program.

        Parameters:
            threads: with as many host threads, as it was recorded with
            configuration: what a map means; unified: usm, or managed where kernels cannot use the host's memory
            allocator: of device memory
            host_compute: seconds of the host for each one that it worked when it was recorded
            ranks: of MPI, as many as were recorded
            nodes: on which the ranks run, as many on each
            gpus_per_node: devices that the ranks of a node take in turn; 0: as many as a rank uses
            process: one of the recorded processes alone, without its calls of MPI; -1: all ranks together
            costs: a TOML file with costs of kernels, where none were recorded
        """
        with _of_the_program():
            if (process == _TOGETHER or ranks > max(1, recorded_ranks)) and not run.is_observed:
                of_ranks = [_as_drawn(run, path, one, ranges) for one in ranks_of(runs, threads, ranks, path)]
                run.configure(num_devices=gpus_per_node or max(len(one.device_numbers) for one in of_ranks) or 1)
                return await _replay_ranks(run, of_ranks, host_compute, costs)
            run.configure(num_processes=1, num_nodes=1)
            chosen = run_of(runs, threads, max(0, process), path)
            measured = await _replay(run, _as_drawn(run, path, chosen, ranges), host_compute, costs)
            _tell_deaths(run, file, [one for one in runs if one.threads == threads and one != chosen])
            return measured

    return _replaying(path, replayed, runs, "configuration", "directives")


def _replaying(path: Path, replayed: Callable[..., Any], runs: Sequence[RunSummary], x: str, result: str) -> Scenario:
    """Make the scenario of a function that replays a recording; parameters about ranks only if the recording has some.

    x: the parameter along the x axis of its figure. result: the figure that no schedule may change.
    """
    parameters = parameters_of(replayed)
    known = list(dict.fromkeys(run.threads for run in runs))
    if not any(run.ranks for run in runs):
        for name in ("nodes", "gpus_per_node", *(["ranks"] if all(run.rank is None for run in runs) else [])):
            parameters.pop(name, None)
    if len(known) > 1:
        words = ", ".join(map(str, known))
        parameters["threads"] = attrs.evolve(parameters["threads"], help=f"host threads; recorded with {words}")
    figure = Figure(x=x, y="elapsed_s", bars=True, title=f"{path.stem}: time of the replay")
    return Scenario(path.name, replayed, "alex-a100", parameters, figure=figure, results=(result,), path=path)


def _of_algorithms(path: Path, runs: Sequence[RunSummary], ranges: Mapping[int, RecordedRanges]) -> Scenario:
    """Make the scenario of a recorded program of C++ parallel algorithms."""
    known = list(dict.fromkeys(run.threads for run in runs))

    async def replayed(
        run: Run,
        implementation: Literal["acpp", "nvcpp", "rocstdpar", "icpx", "sycl", "native", "host"] = "acpp",
        pool: _Switch = "auto",
        elision: _Switch = "auto",
        prefetch: Literal["auto", "never", "first", "always", "after-sync"] = "auto",
        heuristic: _Switch = "auto",
        sampling: Literal["none", "host", "offload"] = "none",
        database: str = "",
        system_usm: bool = False,
        policy: Literal["recorded", "par", "par_unseq"] = "recorded",
        timed: str = "",
        threads: Annotated[int, Range(1)] = known[0],
        host_compute: Annotated[float, Range(0)] = 1.0,
        process: Annotated[int, Range(0)] = 0,
    ) -> dict[str, Value]:
        """Replay a recorded program of C++ parallel algorithms.

        Parameters:
            implementation: whose compiler and runtime; sycl and native have device memory and copies of their own, host
                offloads nothing
            pool: the memory pool; auto is as the implementation has it, as of the next three
            elision: synchronization elision
            prefetch: the prefetch mode
            heuristic: the offload heuristic; it needs a database with runtimes of host and device, else it offloads all
            sampling: a run that only measures for the database, with all algorithms on the host or offloaded
            database: file with the runtimes that the heuristic knows, to which the run adds its own at the end
            system_usm: let the device use all memory of the host as it is; nothing is taken over or prefetched
            policy: of all parallel algorithms; AdaptiveCpp offloads those under par on some devices only
            timed: measure a part only: from the first call of an algorithm at a place (FILE:LINE) to the last; or
                A-B, from each call at A to the next one at B
            threads: with as many host threads, as it was recorded with
            host_compute: seconds of the host for each one that it worked when it was recorded
            process: which of the recorded processes, as MPI ranks are
        """
        if (
            run.is_observed
        ):  # a check is of what kernels and host do with memory, which is the same in any implementation
            run.configure(configuration=unified_configuration(run.spec))
            with _of_the_program():
                return await _replay(run, loaded(path, run_of(runs, threads, process, path)), host_compute, "")
        from offloadrt.extensions import stdpar
        from offloadrt.extensions.recording.replay.algorithms import Timed, replay_algorithms

        try:
            chosen = stdpar.variant(implementation, pool=pool, elision=elision, prefetch=prefetch, heuristic=heuristic)
        except ValueError as error:  # the implementation has no such feature
            raise UserError(str(error)) from None
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
        with _of_the_program(stdpar.CompilationRefused):
            recording = _as_drawn(run, path, run_of(runs, threads, process, path), ranges)
            part = Timed.at(timed, recording, run.measure) if timed else None
            await replay_algorithms(
                recording, run.program_as(stdpar.StdPar), host_time=host_compute, progress=run.progress,
                phases=run.windows.phases, timed=part,
                policy=None if policy == "recorded" else stdpar.ExecutionPolicy(policy),
            )  # fmt: skip
        if part is not None and not run.windows.spans:
            raise ParameterError("timed", f"{timed}, but the program does not come from the one to the other")
        measured = run.measured.algorithms, run.measured.barriers
        return {**stdpar.algorithm_figures(*measured), **_ending(recording)}

    return _replaying(path, replayed, runs, "implementation", "algorithms")


async def _replay(run: Run, recording: Recording, host_compute: float, costs: str) -> dict[str, Value]:
    """Replay one process alone, and return what it measured."""
    run.configure(num_devices=recording.devices_used)
    chosen = _chosen_configuration(run, [recording])
    outcome = await replay(
        recording,
        run.openmp,
        host_time=host_compute,
        declared=read_declared(Path(costs)) if costs else None,
        progress=run.progress,
        phases=run.windows.phases,
    )
    return _measured([recording], [outcome], chosen)


def _tell_deaths(run: Run, file: RecordingFile, others: Sequence[RunSummary]) -> None:
    """Report to the checker of one process how others of the run have died."""
    for one in others if run.is_observed else ():
        death = file.meta(one).died
        if death is not None and run.openmp.tell is not None:
            run.openmp.tell(ProgramDied(f"in process {one.pid} {death.how}", death.where, death.message))


async def _replay_ranks(run: Run, recordings: Sequence[Recording], host_compute: float, costs: str) -> dict[str, Value]:
    """Replay all ranks of a program together, with all instances of phases, as each depends on other ranks."""
    chosen = _chosen_configuration(run, recordings)
    declared = read_declared(Path(costs)) if costs else None
    total = sum(recording.directives for recording in recordings)
    done = [0] * len(recordings)

    worlds: list[Any] = []

    async def main(process: Process) -> Outcome:
        def progress(directives: int, _: int) -> None:
            done[process.rank] = directives
            run.progress(sum(done), total)

        program = process.program
        assert isinstance(program, OpenMP)
        recording = recordings[process.rank]
        if not worlds and recording.meta.mpi is not None:
            worlds.append(process.world)
        return await replay(
            recording, program, host_time=host_compute, declared=declared, progress=progress, process=process
        )

    outcomes: list[Outcome] = await run.mpiexec(main)
    measured = _measured(recordings, outcomes, chosen)
    mistakes = _without_finalize(recordings)
    if worlds and all(recording.meta.ended == "exit" for recording in recordings):
        mistakes += worlds[0].mistakes()
    for number, mistake in enumerate(mistakes[:_MISTAKES], 1):
        measured[f"mpi_mistake_{number}"] = mistake
    return measured


def _without_finalize(recordings: Sequence[Recording]) -> list[str]:
    """Say which ranks came to their end without MPI_Finalize; mpiexec kills the others then."""
    last = {
        rank: last_call_of(recording) for rank, recording in enumerate(recordings) if recording.meta.ended == "exit"
    }
    return [
        f"rank {rank} ends without MPI_Finalize, after {call}"
        for rank, call in last.items()
        if call and not call.startswith((ENDS_ALL, "MPI_Abort"))
    ]


def _chosen_configuration(run: Run, recordings: Sequence[Recording]) -> str:
    """Configure the run for the recorded processes; return its memory configuration. Raises ReplayRefused."""
    unified = requires_unified_shared_memory(recordings[0].meta)
    run.configure(phantom=True, requires_unified_shared_memory=unified)
    if run.configuration == UNIFIED:
        run.configure(configuration=unified_configuration(run.spec))
    chosen = run.openmp.devices[0].configuration.name
    for recording in recordings:
        check_configuration(recording, chosen)
    return chosen


def _measured(recordings: Sequence[Recording], outcomes: Sequence[Outcome], configuration: str) -> dict[str, Value]:
    """Return what the replays of one process, or of all ranks, measured, by name."""
    measured: dict[str, Value] = {"directives": sum(outcome.directives for outcome in outcomes)}
    for recording in reversed(recordings):
        measured |= _ending(recording)
    if left_out := sum(outcome.calls_left_out for outcome in outcomes):
        measured["mpi"] = f"{left_out} calls left out, for this process is played alone"
    compared = sum(outcome.compared for outcome in outcomes)
    equal, moved = sum(outcome.equal for outcome in outcomes), sum(outcome.moved for outcome in outcomes)
    if compared:
        measured["operations_equal"] = equal
        measured["operations_moved"] = moved
        measured["operations_different"] = compared - equal - moved
    differences = dict.fromkeys(str(difference) for outcome in outcomes for difference in outcome.differences)
    for number, difference in enumerate(differences, 1):
        measured[f"difference_{number}"] = difference
    if requires_unified_shared_memory(recordings[0].meta):
        measured["requires"] = f"unified_shared_memory, so configuration {configuration}"
    return measured


def _ending(recording: Recording) -> dict[str, Value]:
    """Return how the recorded program ended, in words by name; empty if it came to its end."""
    if recording.meta.died is not None:
        return {"recording": f"the program {recording.meta.died}"}
    if recording.meta.ended == "exit":
        return {}
    words = {
        "exec": "the program replaced itself by exec",
        "stopped": "was stopped",
        "cut": "cut off: the program crashed or was killed",
    }
    return {"recording": words.get(recording.meta.ended, recording.meta.ended)}


def opened(path: Path) -> RecordingFile:
    """Open a recording. Raises UserError for a file that cannot be read."""
    with _of_recordings():
        return RecordingFile.read(path)


@contextmanager
def _of_the_program(*more: type[Exception]) -> Iterator[None]:
    """Turn errors of a recording and of its program into a UserError. more: further classes of such errors."""
    try:
        yield
    except (Exception, BaseExceptionGroup) as error:
        inner = innermost(error)
        if isinstance(inner, (*_OF_THE_PROGRAM, *more)):
            raise UserError(str(inner)) from None
        raise


@contextmanager
def _of_recordings() -> Iterator[None]:
    """Turn errors of a recording into a UserError."""
    try:
        yield
    except RecordingError as error:
        raise UserError(str(error)) from None


def _as_drawn(run: Run, path: Path, chosen: RunSummary, ranges: Mapping[int, RecordedRanges]) -> Recording:
    """Load a process with host times and costs drawn from their ranges, and add its doubts to the run's warnings."""
    recording = loaded(path, chosen)
    if run.is_observed:
        return recording
    run.doubts += _doubts(path, chosen, recording)
    return ranges[chosen.threads].drawn(recording)


@functools.lru_cache(maxsize=64)
def _doubts(path: Path, run: RunSummary, recording: Recording) -> tuple[str, ...]:
    return tuple(f"{path.name}: {text}" for text in doubts_of(recording))


def loaded(path: Path, run: RunSummary) -> Recording:
    """Load one run of a recording, cached until the file changes. Raises RecordingError if it cannot be read."""
    return _loaded(path, run, (path / "meta.json" if path.is_dir() else path).stat().st_mtime_ns)


@functools.lru_cache(maxsize=64)
def _loaded(path: Path, run: RunSummary, written: int) -> Recording:
    return RecordingFile.read(path).load(run)


# Costs of kernels that were not recorded, declared by name in a TOML file.
_DECLARED: Final = {
    "flops_per_iteration": float,
    "bytes_per_iteration": float,
    "single_flops_per_iteration": float,
    "threads_per_team": int,
    "registers_per_thread": int,
    "efficiency": float,
    "dependent_accesses": float,
    "loads_in_flight": float,
    "bytes_per_load": float,
    "precision": str,
}
"""The fields of `Kernel` that may be declared for a kernel, with their types."""


def read_declared(path: Path) -> dict[str, Kernel]:
    """Read the kernels of a file, each a table such as ``[kernel."main_l10"]`` with ``flops_per_iteration = 2``.

    Raises RecordingError for a wrong file; the message names the file, the kernel and the field.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecordingError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecordingError(f"{path}: {error}") from None
    kernels = tables.pop("kernel", {})
    if tables or not isinstance(kernels, dict) or not kernels:
        raise RecordingError(f'{path}: holds tables [kernel."NAME"] and nothing else')
    return {name: _declared(path, name, fields) for name, fields in kernels.items()}


def _declared(path: Path, name: str, fields: object) -> Kernel:
    if not isinstance(fields, dict):
        raise RecordingError(f"{path}: kernel {name!r} is no table")
    for field, value in fields.items():
        kind = _DECLARED.get(field)
        if kind is None:
            raise RecordingError(f"{path}: kernel {name!r}: no field {field!r}; there are {', '.join(_DECLARED)}")
        if isinstance(value, bool) or not isinstance(value, (int, float) if kind is float else kind):
            raise RecordingError(f"{path}: kernel {name!r}: {field} is {value!r}, but must be {kind.__name__}")
    try:
        return Kernel(name, None, **fields)
    except KernelError as error:
        raise RecordingError(f"{path}: {error}") from None
