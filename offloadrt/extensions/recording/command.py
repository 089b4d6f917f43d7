"""The commands that build and record real programs: `cc`, `cxx`, `fc` and `record`."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from offloadrt.cli.terminal import PROGRAM_FAILED
from offloadrt.study.reporting.words import counted

if TYPE_CHECKING:
    from offloadrt.extensions.recording.toolchain import Language

_MOST_REPEATS = 99
Arguments = Annotated[str, Parameter(allow_leading_hyphen=True)]


_WITH_VALUE = ("--output", "-o", "--threads", "--samples", "--stop-after", "--repeat")


def program_apart(tokens: Sequence[str]) -> list[str]:
    """Return a command line with `--` before the program to record, whose options are then not those of `record`."""
    at = 1
    while list(tokens[:1]) == ["record"] and at < len(tokens):
        if not tokens[at].startswith("-"):
            return [*tokens[:at], "--", *tokens[at:]]
        if tokens[at] == "--":
            break
        at += 2 if tokens[at] in _WITH_VALUE else 1
    return list(tokens)


def _compile(language: Language, arguments: tuple[str, ...]) -> None:
    from offloadrt.extensions.recording.toolchain import RecordingRefused, compile_for_recording
    from offloadrt.study.errors import UserError

    try:
        compile_for_recording(language, arguments)
    except RecordingRefused as error:
        raise UserError(str(error)) from None


def _compiler_command(name: str) -> App:
    """Make a command whose arguments all belong to the compiler, `--help` and `--version` too."""
    return App(name=name, help_flags=[], version_flags=[])


cc_command, cxx_command, fc_command = (_compiler_command(name) for name in ("cc", "cxx", "fc"))


@cc_command.default
def cc(*arguments: Arguments) -> None:
    """Compile C for recording, with the host as the device; takes clang's arguments and can be CC of a makefile."""
    _compile("cc", arguments)


@cxx_command.default
def cxx(*arguments: Arguments) -> None:
    """Compile C++ for recording, with the host as the device; takes clang's arguments."""
    _compile("cxx", arguments)


@fc_command.default
def fc(*arguments: Arguments) -> None:
    """Compile Fortran for recording, with the host as the device; takes flang's arguments."""
    _compile("fc", arguments)


def record(
    *command: Arguments,
    output: Annotated[Path, Parameter(name=["--output", "-o"])],
    threads: str | None = None,
    samples: int = 1,
    repeat: int = 1,
    check: Annotated[bool, Parameter(negative=())] = False,
    stop_after: str | None = None,
    host_touches: bool = True,
    keep_raw: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Run a program and record its directives, its kernels' costs and its host threads.

    Parameters
    ----------
    command:
        The program and its arguments.
    output:
        The recording to write.
    threads:
        Record once for each of these values of OMP_NUM_THREADS, as in 1,4,16.
    repeat:
        Run the program so many times. Its host times are the medians; random samples take times from all repeats.
    check:
        Record all that `offloadrt check` can use: every launch is traced, and the host's memory accesses are recorded
        byte by byte. The program takes longer, which the recorded times of the host include.
    samples:
        Trace so many launches of each kernel and shape; the others are counted only.
    stop_after:
        End the program after so many directives (1000) or seconds (30s).
    host_touches:
        Record which pages host code accesses between directives (code compiled by `offloadrt cc`).
    keep_raw:
        Keep the raw files as well, in RECORDING.raw.
    """
    from offloadrt.cli.options import check_not_read
    from offloadrt.extensions.recording import toolchain
    from offloadrt.extensions.recording.doubts import doubts, loaded
    from offloadrt.extensions.recording.format import RecordingError, convert, is_recording
    from offloadrt.extensions.recording.toolchain import RecordingRefused
    from offloadrt.study.errors import UserError, writing

    if not command:
        raise UserError("record: name the program to run, as in `offloadrt record -o app.rec ./app 100`")
    check_not_read("-o", output, [shutil.which(command[0]), *command])
    if output.is_dir() and not is_recording(output):
        raise UserError(f"-o {output}: is a folder and no recording; name a file, as in app.rec")
    try:
        counts = _numbers(threads)
        if not 0 < repeat <= _MOST_REPEATS:
            raise RecordingRefused(f"--repeat {repeat}: give a number from 1 to {_MOST_REPEATS}")
        directives, seconds = (None, None) if stop_after is None else toolchain.parse_stop_after(stop_after)
        if repeat > 1 and seconds is not None:
            raise RecordingRefused(
                f"--stop-after {stop_after} --repeat {repeat}: each repeat would end elsewhere; give a number of "
                "directives (1000)"
            )
        wishes = toolchain.RecordOptions(samples, host_touches, check, directives, seconds, repeat)
        raw = output.with_name(output.name + ".raw")
        runs = toolchain.record(command, raw, counts, wishes, _progress)
        with writing(output):
            processes = convert(raw, output)
    except (RecordingRefused, RecordingError) as error:
        raise UserError(str(error)) from None
    for run in (run for run in runs if not run.repeat):
        with_threads = "" if run.threads is None else f" with {counted(run.threads, 'thread')}"
        times = "" if repeat == 1 else f", {sum(one.threads == run.threads for one in runs)} times"
        ending = f"{run.ending()}{times}: {counted(run.directives, 'directive')} in {output}"
        print(f"{command[0]}{with_threads} {ending}", file=sys.stderr)
        for process in processes:
            if process.died and process.folder.startswith(f"{run.folder}/"):
                print(f"  process {process.pid} {process.died}", file=sys.stderr)
    for text in doubts(loaded(output)):
        print(f"offloadrt: warning: {text}", file=sys.stderr)
    if not keep_raw:
        shutil.rmtree(raw)
    return 0 if all(run.exit == 0 or run.stopped for run in runs) else PROGRAM_FAILED


def _numbers(threads: str | None) -> list[int | None]:
    from offloadrt.extensions.recording.toolchain import RecordingRefused

    if threads is None:
        return [None]
    counts = threads.split(",")
    if not all(count.isdecimal() and int(count) > 0 for count in counts):
        raise RecordingRefused(f"--threads {threads}: give numbers of threads, as in 1,4,16")
    return [*dict.fromkeys(int(count) for count in counts)]


def _progress(directives: int, seconds: float) -> None:
    if sys.stderr.isatty():
        print(f"\r{directives} directives, {seconds:.0f} s", end="", file=sys.stderr, flush=True)
