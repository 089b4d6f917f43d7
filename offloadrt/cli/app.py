"""The application, and the commands that look at things; those that run scenarios are in `running.py`.

Each command imports what it needs when it runs, so that `--help` and `list` need no machine.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

import offloadrt
from offloadrt.cli.options import Gear, Json, Overrides, Predicated, Runtime, ScenarioName, overrides_of
from offloadrt.cli.terminal import NEGATIVE, console, print_json

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
app.register_install_completion_command(help="Install completion for this shell: bash, zsh, fish or PowerShell.")


@app.command(name="list")
def list_(*, json: Json = False) -> None:
    """Show the scenarios that come with offloadrt or with another package."""
    from offloadrt.study.scripts import listing

    entries = listing.from_index()
    if entries is None:
        from offloadrt.study.scripts import registry  # which imports what scenarios need

        entries = registry.listed()
    if json:
        print_json(entries)
        return
    from offloadrt.cli import render

    console().print(*render.scenarios(entries), sep="\n")


@app.command
def show(scenario: ScenarioName, /, *, json: Json = False) -> None:
    """Show what a scenario does, its parameters and their values; what a recording holds."""
    from offloadrt.cli import render
    from offloadrt.study.scripts import registry

    if json:
        from offloadrt.cli.recording_records import RecordingRecord
        from offloadrt.cli.records import ScenarioRecord

        of_recording = registry.is_recording(scenario)
        print_json(RecordingRecord.of(Path(scenario)) if of_recording else ScenarioRecord.of(registry.find(scenario)))
        return
    if registry.is_recording(scenario):
        from offloadrt.cli import recordings

        console().print(*recordings.recording(Path(scenario)), sep="\n")
    console().print(*render.scenario(registry.find(scenario)), sep="\n")


@app.command
def stats(log: Path, /, *, json: Json = False) -> None:
    """Show a log's statistics: API calls, locks, engines and bytes; what a recording's real runtime did.

    Of the locks of table entries a log has those that somebody held for some time or waited for. `offloadrt run` counts
    also those that a look-up passed while they were free.

    Parameters
    ----------
    log:
        A file that `offloadrt run --log` wrote, or a recording.
    """
    from offloadrt.cli import render
    from offloadrt.study.logs import statistics_of
    from offloadrt.study.scripts.registry import is_recording

    if json:
        from offloadrt.cli.recording_records import RealRuntimeRecord

        print_json(RealRuntimeRecord.all_of(log) if is_recording(str(log)) else statistics_of(log).record())
        return
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
    from offloadrt.study.running import profiles

    named = [name for name in (machine, other) if name is not None]
    specs = [profiles.load(name, overrides_of(set_), runtime=runtime) for name in named]
    if json:
        from offloadrt.cli.records import machines_record

        print_json(machines_record(specs))
    elif not specs:
        console().print(render.machines(profiles.summaries()))
        console().print(render.runtimes(profiles.runtimes()))
    elif len(specs) == 1:
        console().print(*render.machine(specs[0]), sep="\n")
    else:
        console().print(*render.machine_difference(*specs), sep="\n")


@app.command
def kernels(scenario: str, /, *, predicated: Predicated = False, json: Json = False) -> None:
    """Show what the source of each kernel says: accesses, LAF, index ranges, flops and bytes; and the objects' GAF.

    Parameters
    ----------
    scenario:
        A scenario's name, a script, SCRIPT.py:NAME, or a recording, whose kernels are shown with their counted costs.
    """
    from offloadrt.study.scripts.registry import is_recording

    if json:
        from offloadrt.cli.kernels import record_of
        from offloadrt.cli.recording_records import RecordedKernelsRecord

        print_json(RecordedKernelsRecord.all_of(Path(scenario)) if is_recording(scenario) else record_of(scenario))
        return
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
    json: Json = False,
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
    from offloadrt.cli.calibration import calibrated, calibration

    found, compared = calibrated(files, base, output, recording)
    if json:
        from offloadrt.cli.calibration import CalibrationRecord

        print_json(CalibrationRecord.of(found, str(output)))
    else:
        console().print(*calibration(found, compared, output), sep="\n")


@app.command
def conform(*files: Path, gear: Gear = "turbo", json: Json = False) -> int:
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
    if json:
        from offloadrt.cli.records import ConformanceRecord

        print_json(ConformanceRecord.of(report))
    else:
        print(report)
    return NEGATIVE if report.differing else 0


@app.command
def schema(command: str, /) -> None:
    """Print the JSON schema of what a command prints with --json.

    Parameters
    ----------
    command:
        A command, as in `offloadrt schema run`.
    """
    import json

    from offloadrt.cli.schemas import schema_of

    print(json.dumps(schema_of(command), indent=2, ensure_ascii=False))
