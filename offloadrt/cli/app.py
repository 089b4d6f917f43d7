"""The application, and the commands that look at things; those that run scenarios are in `running.py`.

Each command imports what it needs when it runs, so that `--help` and `list` need no machine.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

import offloadrt
from offloadrt.cli.exit_codes import NEGATIVE
from offloadrt.cli.options import Gear, Json, Overrides, Predicated, Runtime, overrides_of
from offloadrt.cli.terminal import console

app = App(
    name="offloadrt",
    help="What would this offloading program do under another memory configuration, thread count, runtime policy or "
    "machine, and why?",
    help_epilogue="Exit codes: 0 success; 1 a check found differences or a claim does not hold; 2 what was asked for "
    "cannot be done; 3 the program or script failed; 130 interrupted.",
    help_format="plaintext",
    suppress_keyboard_interrupt=False,
    version=offloadrt.__version__,
)


@app.command(name="list")
def list_(*, json: Json = False) -> None:
    """Show the scenarios that come with offloadrt or with another package."""
    from offloadrt.study.scripts import listing

    entries = listing.from_index()
    if entries is None:
        from offloadrt.study.scripts import registry  # which imports what scenarios need

        entries = registry.listed()
    if json:
        import msgspec

        sys.stdout.buffer.write(msgspec.json.encode(entries) + b"\n")
        return
    from offloadrt.cli import render

    console().print(*render.scenarios(entries), sep="\n")


@app.command
def show(scenario: str, /) -> None:
    """Show what a scenario does, its parameters and their values; what a recording holds.

    Parameters
    ----------
    scenario:
        A scenario's name, a script, SCRIPT.py:NAME, or a recording.
    """
    from offloadrt.cli import render
    from offloadrt.study.scripts import registry

    if registry.is_recording(scenario):
        from offloadrt.cli import recordings

        console().print(*recordings.recording(Path(scenario)), sep="\n")
    console().print(*render.scenario(registry.find(scenario)), sep="\n")


@app.command
def stats(log: Path, /) -> None:
    """Show a log's statistics: API calls, locks, engines and bytes; what a recording's real runtime did.

    Parameters
    ----------
    log:
        A file that `offloadrt run --log` wrote, or a recording.
    """
    from offloadrt.cli import render
    from offloadrt.study.logs import statistics_of
    from offloadrt.study.scripts.registry import is_recording

    if is_recording(str(log)):
        from offloadrt.cli import recordings

        console().print(*recordings.statistics(log), sep="\n")
        return
    console().print(*render.statistics(statistics_of(log)), sep="\n")


@app.command
def machines(
    machine: str | None = None,
    other: str | None = None,
    /,
    *,
    runtime: Runtime = None,
    set_: Overrides = None,
    json: Json = False,
) -> None:
    """Show the machines and the runtimes, one machine's entries with value, unit and source, or what two differ in.

    Parameters
    ----------
    machine:
        A machine's name or a TOML file of your own.
    other:
        A second one: only the entries whose value or range differs are shown, with kind and source.
    """
    from offloadrt.cli import render
    from offloadrt.study.errors import UserError
    from offloadrt.study.running import profiles

    screen = console()
    if json and other is None:
        raise UserError("machines: --json compares two machines; name both")
    if machine is not None and other is not None:
        from offloadrt.cli.machines import as_json, compared
        from offloadrt.machine.profile.difference import differences

        overrides = overrides_of(set_)
        one, two = (profiles.load(name, overrides, runtime=runtime) for name in (machine, other))
        found = differences(one, two)
        if json:
            sys.stdout.buffer.write(as_json(one, two, found) + b"\n")
        else:
            screen.print(*compared(one, two, found), sep="\n")
    elif machine is None:
        screen.print(render.machines(profiles.summaries()))
        screen.print(render.runtimes(profiles.runtimes()))
    else:
        overrides = overrides_of(set_)
        screen.print(*render.machine(profiles.load(machine, overrides, runtime=runtime)), sep="\n")


@app.command
def kernels(scenario: str, /, *, predicated: Predicated = False) -> None:
    """Show what the source of each kernel says: accesses, LAF, index ranges, flops and bytes; and the objects' GAF.

    Parameters
    ----------
    scenario:
        A scenario's name, a script, SCRIPT.py:NAME, or a recording, whose kernels are shown with their counted costs.
    """
    from offloadrt.study.scripts.registry import is_recording

    if is_recording(scenario):
        from offloadrt.cli import recordings

        console().print(*recordings.kernels(Path(scenario)), sep="\n")
        return
    from offloadrt.cli.kernels import kernels_of, predicated_kernels_of

    if predicated:
        console().print(*predicated_kernels_of(scenario), sep="\n", soft_wrap=True)
    else:
        console().print(*kernels_of(scenario), sep="\n")


@app.command
def calibrate(
    *files: Path,
    base: str,
    output: Annotated[Path, Parameter(name=["--output", "-o"])],
    recording: Path | None = None,
) -> None:
    """Write a profile of your machine: a base profile, with the unit costs that files from the machine show.

    Parameters
    ----------
    files:
        Nsight Systems exports (SQLite), rocpd files of rocprofv3, results of bench/hardware (JSON lines).
    base:
        The machine from which everything else comes: a name (see `offloadrt machines`) or a TOML file.
    output:
        The profile to write, for `--machine`.
    recording:
        Compare the kernels' times in the files with what the counts of this recording (`offloadrt record`) say.
    """
    from offloadrt.cli.calibration import calibrated

    console().print(*calibrated(files, base, output, recording), sep="\n")


@app.command
def conform(*files: Path, gear: Gear = "turbo") -> int:
    """Replay recorded programs and compare, step by step, with what the real runtime did.

    Prints the first step and field that differ, per case; the exit code is 0 only when all agree.

    Parameters
    ----------
    files:
        Files of recorded cases (JSON Lines).
    """
    from offloadrt.study.errors import UserError

    if not files:
        raise UserError("conform: name at least one file of recorded cases")
    for file in files:
        if file.is_dir():
            raise UserError(f"{file}: is a directory; name the files in it")
        if not file.exists():
            raise UserError(f"{file}: cannot be read: no such file")
    from offloadrt.study.conformance import conform as conformance

    try:
        report = conformance.conform(list(files), gear=gear)
    except conformance.ConformanceFileError as error:
        raise UserError(str(error)) from None
    print(report)
    return NEGATIVE if report.differing else 0
