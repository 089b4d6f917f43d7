"""`offloadrt record`: runs a program with the recorder loaded before it, and keeps what it wrote.

The raw files of a run lie in `RECORDING.raw/run-N/`, as the native part wrote them (`native/slots.h`). They are
readable at any time, also after a crash, for each slot is whole once it has a kind.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs
import numpy as np
from attrs import field, frozen

from offloadrt.recording.format.slots import RAW_VERSION, SLOT_BYTES, SLOT_WORDS, Slot
from offloadrt.recording.toolchain import RecordingRefused, find_compiler, recorder_library

_PROGRESS_INTERVAL_S = 0.5
_ALL_LAUNCHES = 1 << 30
"""As a number of samples: no program launches a kernel as often."""


@frozen
class RecordOptions:
    """How a program is recorded.

    `samples` launches of each kernel and shape are traced; `stop_after` ends the program after so many directives or
    seconds; `host_touches` asks for the pages that host code touches. `check` asks for what a check needs: every launch
    is traced, and each byte that host code touches is told apart.
    """

    samples: int = 1
    host_touches: bool = True
    check: bool = False
    stop_directives: int | None = None
    stop_seconds: float | None = None


@frozen
class RecordedRun:
    """One run of the program: where its raw files are and how it ended."""

    folder: str
    threads: int | None
    exit: int | None
    signal: int | None
    stopped: bool
    seconds: float
    samples: int
    host_touches: bool
    directives: int = field(kw_only=True)

    def ending(self) -> str:
        """Return how the program ended, in words for a message."""
        if self.stopped:
            return "was stopped, as you asked"
        if self.signal is not None:
            return f"was ended by signal {self.signal} ({signal.Signals(self.signal).name})"
        return f"ended with exit code {self.exit}"


def parse_stop_after(text: str) -> tuple[int | None, float | None]:
    """Read `--stop-after`: a number of directives (`1000`), or seconds (`30s`). Raises RecordingRefused."""
    number, seconds = (text[:-1], True) if text.endswith("s") else (text, False)
    try:
        value = float(number) if seconds else int(number)
    except ValueError:
        value = 0
    if not 0 < value < math.inf:
        raise RecordingRefused(f"--stop-after {text}: give a number of directives (1000) or of seconds (30s)")
    return (None, value) if seconds else (int(value), None)


def record(
    command: Sequence[str],
    raw: Path,
    threads: Sequence[int | None],
    options: RecordOptions,
    progress: Callable[[int, float], None] = lambda directives, seconds: None,
) -> list[RecordedRun]:
    """Run the program once for each number of threads, and return what was recorded.

    `raw` is made anew. `progress` is told the directives and seconds so far, about twice a second. Raises
    RecordingRefused where the program cannot be run, or calls no offloading runtime, and where something else has the
    name of `raw`; ToolchainMissing.
    """
    program = shutil.which(command[0])
    if program is None:
        raise RecordingRefused(f"{command[0]}: no such program, or it may not be executed")
    library = recorder_library(find_compiler("cc"))
    if raw.is_file() or (raw.is_dir() and any(raw.iterdir()) and not any(raw.glob("run-*"))):
        raise RecordingRefused(f"{raw}: is no folder of raw files, which would be made there; move it")
    shutil.rmtree(raw, ignore_errors=True)
    runs: list[RecordedRun] = []
    for number, count in enumerate(threads):
        folder = raw / f"run-{number}"
        folder.mkdir(parents=True)
        run = _run([program, *command[1:]], library, folder, count, options, progress)
        if not any(folder.glob("*.jsonl")):
            raise RecordingRefused(
                f"{command[0]} {run.ending()} and called no OpenMP offloading runtime: is it linked with libomptarget "
                "dynamically? Build it with `offloadrt cc -fopenmp` (or cxx, fc)"
            )
        runs.append(run)
        _write_record(raw, command, runs)
        if run.signal == signal.SIGINT:
            break  # the user wants no further run
    return runs


def _write_record(raw: Path, command: Sequence[str], runs: Sequence[RecordedRun]) -> None:
    record = {"version": RAW_VERSION, "command": list(command), "runs": [attrs.asdict(run) for run in runs]}
    (raw / "record.json").write_text(json.dumps(record, indent=1), encoding="utf-8")


def _environment(library: Path, folder: Path, threads: int | None, options: RecordOptions) -> dict[str, str]:
    preloaded = [str(library), *filter(None, [os.environ.get("LD_PRELOAD")])]
    environment = {
        **os.environ,
        "LD_PRELOAD": ":".join(preloaded),
        "OFFLOADRT_RECORDING": str(folder.resolve()),
        "OFFLOADRT_SAMPLES": str(_ALL_LAUNCHES if options.check else options.samples),
        "OFFLOADRT_HOST_TOUCHES": "2" if options.check else "1" if options.host_touches else "0",
        # A second team shows what teams do to one another, however few iterations there are.
        "OFFLOADRT_LEAST_TEAMS": "2" if options.check else "1",
    }
    if options.stop_directives is not None:
        environment["OFFLOADRT_STOP_AFTER"] = str(options.stop_directives)
    if threads is not None:
        environment["OMP_NUM_THREADS"] = str(threads)
    return environment


def _run(
    command: Sequence[str],
    library: Path,
    folder: Path,
    threads: int | None,
    options: RecordOptions,
    progress: Callable[[int, float], None],
) -> RecordedRun:
    began = time.monotonic()
    counter = DirectiveCounter(folder)
    process = subprocess.Popen(command, env=_environment(library, folder, threads, options))
    stopped = False
    while True:
        try:
            process.wait(_PROGRESS_INTERVAL_S)
            break
        except subprocess.TimeoutExpired:
            seconds = time.monotonic() - began
            progress(counter.count(), seconds)
            if options.stop_seconds is not None and seconds >= options.stop_seconds and not stopped:
                stopped = True
                process.terminate()
        except KeyboardInterrupt:
            continue  # the terminal sent it to the program as well, which decides what it means
    stopped = stopped or _was_stopped(folder)
    code = process.returncode
    return RecordedRun(
        folder=folder.name,
        threads=threads,
        exit=code if code >= 0 else None,
        signal=-code if code < 0 else None,
        stopped=stopped,
        seconds=round(time.monotonic() - began, 3),
        samples=options.samples,
        host_touches=options.host_touches,
        directives=counter.count(),
    )


def _was_stopped(folder: Path) -> bool:
    """Tell whether a process of the run says that it reached the number of directives to stop after."""
    return any('"how":"stopped"' in path.read_text(encoding="ascii") for path in folder.glob("*.jsonl"))


class DirectiveCounter:
    """Counts the directives in the raw files of a run, reading each slot once while the program still writes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}
        self._directives = 0

    def count(self) -> int:
        """Return how many calls of the runtime that are not inside another one were written so far."""
        for path in sorted(self._folder.glob("*.slots")):
            self._read[path] = self._read_from(path, self._read.get(path, 0))
        return self._directives

    def _read_from(self, path: Path, begin: int) -> int:
        slots = np.fromfile(path, dtype="<u8", offset=begin)
        slots = slots[: slots.size // SLOT_WORDS * SLOT_WORDS].reshape(-1, SLOT_WORDS)
        kinds = slots[:, 0] & 0xFF
        unused = np.flatnonzero(kinds == 0)
        written = int(unused[0]) if unused.size else len(slots)
        self._directives += int(np.count_nonzero((kinds[:written] == Slot.CALL) & (slots[:written, 3] == 0)))
        return begin + written * SLOT_BYTES
