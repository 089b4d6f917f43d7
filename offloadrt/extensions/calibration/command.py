"""The commands `calibrate`, with what it prints with `--json`, and `machines`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import attrs
from cyclopts import Parameter

from offloadrt.cli.options import DEFAULTS, Json
from offloadrt.cli.terminal import console, print_json
from offloadrt.study.spec import Overrides, Runtime

if TYPE_CHECKING:
    from offloadrt.extensions.calibration.calibration import CalibratedEntry, Calibration


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
        A recording of the program (`offloadrt record`): its kernels' counted work (operations and bytes) becomes times
        on the new machine, which are shown beside those of the files.
    """
    from offloadrt.extensions.calibration.calibration import calibrated, calibration

    found, compared = calibrated(files, base, output, recording)
    if json:
        print_json(CalibrationRecord.of(found, str(output)))
    else:
        console().print(*calibration(found, compared, output), sep="\n")


@attrs.frozen
class CalibratedRecord:
    """A measured entry: median, tenth (low) and ninetieth (high) percentile in SI units, of `count` operations.

    `entry` is its name in the profile, `value` the median, and `what` says in words what was measured. `source` is the
    key of the measured file among the new profile's sources. `factor` says how far the value lies outside the base
    profile's range (1: inside).
    """

    entry: str
    value: float
    low: float
    high: float
    count: int
    what: str
    source: str
    factor: float

    @classmethod
    def of(cls, found: CalibratedEntry) -> CalibratedRecord:
        """Convert a measured entry, `found`, to the JSON record; `factor` is 1 if the value is in the base's range."""
        measured = found.measurement
        return cls(
            found.base.key, measured.value, measured.low, measured.high, measured.count, measured.what,
            found.source, found.factor,
        )  # fmt: skip


@attrs.frozen
class CalibrationRecord:
    """The JSON record that `calibrate` prints; `not_shown` names the entries that the files do not measure.

    `output` is the new profile's file, and `base` the machine from which everything else comes. `remarks` are sentences
    about signs that the files are from another machine than `base`, and about what could be recorded in addition.
    """

    output: str
    base: str
    entries: list[CalibratedRecord]
    not_shown: list[str]
    remarks: list[str]

    @classmethod
    def of(cls, calibration: Calibration, output: str) -> CalibrationRecord:
        """Convert a calibration to the record that `--json` prints; `output` is the new profile's file."""
        entries = [CalibratedRecord.of(entry) for entry in calibration.entries]
        return cls(output, calibration.base.name, entries, list(calibration.not_shown), list(calibration.remarks))


def machines(
    machine: str | None = None,
    other: str | None = None,
    /,
    *,
    runtime: Runtime = None,
    overrides: Overrides = DEFAULTS.overrides,
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
    from offloadrt.extensions.calibration import machines as shown
    from offloadrt.study.running import profiles

    named = [name for name in (machine, other) if name is not None]
    specs = [profiles.load(name, overrides, runtime=runtime) for name in named]
    if json:
        print_json(shown.machines_record(specs))
    elif not specs:
        console().print(shown.listed(shown.summaries()))
        console().print(shown.listed_runtimes(shown.runtimes()))
    elif len(specs) == 1:
        console().print(*shown.shown_machine(specs[0]), sep="\n")
    else:
        console().print(*shown.shown_difference(*specs), sep="\n")
