"""Reads recordings as programs, for the commands `offloadrt run`, `show`, `stats` and `kernels`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import RenderableType

    from offloadrt.extensions.recording.shown import RealRuntimeRecord, RecordedKernelsRecord, RecordingRecord
    from offloadrt.study.scripts.definition import Scenario

_COMPILERS: Final = {
    ".c": "cc", **dict.fromkeys((".cc", ".cpp", ".cxx"), "cxx"), **dict.fromkeys((".f", ".f90", ".f95"), "fc")
}  # fmt: skip
"""File name endings of source files, and the offloadrt command that compiles each for recording."""


class Recordings:
    """Reads recordings for the commands `offloadrt run`, `show`, `stats` and `kernels`.

    `ProgramFiles` (`study/scripts/definition.py`) explains the methods. Each imports what it needs, so that other
    commands start fast.
    """

    sources = tuple(_COMPILERS)

    def holds(self, path: Path) -> bool:
        from offloadrt.extensions.recording.format import is_recording

        return is_recording(path)

    def hint(self, path: Path) -> str:
        compiler = _COMPILERS.get(path.suffix.lower())
        if compiler is not None:
            return (
                f"; build it with `offloadrt {compiler} -fopenmp {path} -o {path.stem}`, record it with "
                f"`offloadrt record -o {path.stem}.rec ./{path.stem}`, and give the recording"
            )
        if path.is_file() and path.read_bytes()[:4] == b"\x7fELF":
            return (
                f"; a program is recorded with `offloadrt record -o {path.name}.rec {path}`, and the recording is given"
            )
        return ""

    def scenario_of(self, path: Path) -> Scenario:
        from offloadrt.extensions.recording.scenario import scenario_of

        return scenario_of(path)

    def shown(self, path: Path) -> Iterable[RenderableType]:
        from offloadrt.extensions.recording import shown

        return shown.recording(path)

    def statistics(self, path: Path) -> Iterable[RenderableType]:
        from offloadrt.extensions.recording import shown

        return shown.statistics(path)

    def kernels(self, path: Path) -> Iterable[RenderableType]:
        from offloadrt.extensions.recording import shown

        return shown.kernels(path)

    def record_of(self, path: Path) -> RecordingRecord:
        from offloadrt.extensions.recording.shown import RecordingRecord

        return RecordingRecord.of(path)

    def statistics_record(self, path: Path) -> list[RealRuntimeRecord]:
        from offloadrt.extensions.recording.shown import RealRuntimeRecord

        return RealRuntimeRecord.all_of(path)

    def kernels_record(self, path: Path) -> list[RecordedKernelsRecord]:
        from offloadrt.extensions.recording.shown import RecordedKernelsRecord

        return RecordedKernelsRecord.all_of(path)
