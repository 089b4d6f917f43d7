"""Replay recorded OpenMP programs through the same actors that scenarios use, and compare every step.

A case is one line of a JSON Lines file: a sequential program on one device (`steps`) and what LLVM's libomptarget did
in each step: operations in order, present table, presence, host and device values, return codes, errors. The replay
starts from the clauses; the lowering (order of items, map types) is ours.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import attrs
import msgspec

from offloadrt.sim import Gear, Simulation
from offloadrt.study.conformance.recorded import RecordedProgram
from offloadrt.study.conformance.replay import Replay, ReplayDifference

__all__ = [
    "ConformanceFileError",
    "ConformanceReport",
    "RecordedProgram",
    "ReplayDifference",
    "conform",
    "read_cases",
    "replay_case",
]

MACHINES: Final = {"copy": "alex-a100", "usm": "mi300a"}
"""The machine on which a case replays, by its mode: one whose devices can do what the mode asks of them."""


@attrs.frozen
class ConformanceReport:
    """cases: how many were replayed; differences: the first of each case that differs."""

    cases: int
    differences: tuple[ReplayDifference, ...]

    @property
    def agrees(self) -> bool:
        return not self.differences

    @property
    def differing(self) -> int:
        return len(self.differences)

    def __str__(self) -> str:
        lines = [str(difference) for difference in self.differences]
        lines.append(f"{self.cases - self.differing} of {self.cases} cases agree, {self.differing} differ")
        return "\n".join(lines)


class ConformanceFileError(ValueError):
    """A file that cannot be read as conformance cases; the message names file, line, and what in it."""


def read_cases(path: Path) -> Iterator[RecordedProgram]:
    """Read the cases of a JSON Lines file, plain or gzipped. Raises ConformanceFileError."""
    try:
        raw = path.read_bytes()
        text = gzip.decompress(raw) if path.suffix == ".gz" else raw
    except OSError as error:
        raise ConformanceFileError(f"{path}: {error.strerror or error}") from None
    except (EOFError, zlib.error) as error:
        raise ConformanceFileError(f"{path}: {error}") from None
    decoder = msgspec.json.Decoder(RecordedProgram)
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            yield decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConformanceFileError(f"{path}: line {number}: no conformance case: {error}") from None


def conform(
    paths: Sequence[str | Path],
    gear: Gear = "turbo",
    machine: str = "",
    progress: Callable[[str], None] | None = None,
) -> ConformanceReport:
    """Replay every case of the files. machine: as in `replay_case`. progress is told each case's name as it begins.

    Raises ConformanceFileError.
    """
    cases = 0
    first: list[ReplayDifference] = []
    for path in paths:
        for case in read_cases(Path(path)):
            if progress is not None:
                progress(case.name)
            cases += 1
            first.extend(replay_case(case, gear, machine)[:1])
    if not cases:
        raise ConformanceFileError(f"{', '.join(map(str, paths))}: holds no case")
    return ConformanceReport(cases, tuple(first))


def replay_case(
    case: RecordedProgram, gear: Gear = "turbo", machine: str = "", lowering: bool = False
) -> list[ReplayDifference]:
    """List all differences of one case, in order; empty if the emulator does what was recorded.

    `machine` replaces the one of `MACHINES` for the case's mode. With `lowering`, the lowered items (order, addresses,
    sizes, map types) are compared with clang's as well.
    """
    sim = Simulation(gear=gear)
    replay = Replay(case, sim, machine or MACHINES[case.mode], lowering)
    try:
        sim.run(replay.run)
    except Exception as error:  # the emulator differs from the record by whatever it raises
        replay.differences.append(
            ReplayDifference(case.name, replay.step, "error", None, f"{type(error).__name__}: {error}")
        )
    return replay.differences
