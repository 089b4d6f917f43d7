"""Writing a calibration as a profile that is based on another one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from offloadrt.calibration.calibration import CalibratedEntry, Calibration
from offloadrt.calibration.errors import CalibrationError


def write(calibration: Calibration, base: str, path: Path) -> None:
    """Write the profile. `base`: the name or the file of the base, as the user gave it.

    Raises CalibrationError.
    """
    text = "\n".join(_lines(calibration, base, path.stem)) + "\n"
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CalibrationError(f"{path}: cannot be written: {error.strerror or error}") from None


def _lines(calibration: Calibration, base: str, name: str) -> Iterator[str]:
    """Yield the file's lines; a base that is a file is named by its whole path, so that the profile can be moved."""
    file = Path(base)
    yield "[machine]"
    yield f"name = {_quoted(name)}"
    yield f"base = {_quoted(str(file.resolve()) if file.is_file() else base)}"
    title = f"{calibration.base.name}, with {len(calibration.entries)} costs from files of a machine"
    note = (
        "`offloadrt calibrate` wrote this file. Values are medians. Calls in a trace include the profiler's own cost."
    )
    yield f"title = {_quoted(title)}"
    yield f"notes = [{_quoted(note)}]\n"
    yield "[sources]"
    for key, text in calibration.sources.items():
        yield f"{key} = {_quoted(text)}"
    for entry in calibration.entries:
        yield from _entry(entry)


def _entry(entry: CalibratedEntry) -> Iterator[str]:
    unit, measured = entry.base.unit, entry.measurement
    assert unit is not None  # what is measured is a number
    low, high = (f"{end / unit.factor:.4g}" for end in (measured.low, measured.high))
    yield f"\n[entry.{_quoted(entry.base.key)}]"
    yield f"value = {measured.value / unit.factor:.6g}"
    yield f"unit = {_quoted(unit.text)}"
    yield f"source = {_quoted(entry.source)}"
    yield 'source_type = "measured"'
    if entry.base.reference:
        yield "reference = true"
    spread = f"the middle 80 % from {low} to {high} {unit.text}"
    yield f"note = {_quoted(f'median of {measured.count}: {measured.what}; {spread}')}"


def _quoted(text: str) -> str:
    """Write a TOML string: JSON's escapes are TOML's, but JSON leaves DEL as it is."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
