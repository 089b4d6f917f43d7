"""Recordings of real programs under the checker: what their sources say, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from offloadrt.extensions.checking.checked import CheckReport, check
from offloadrt.study.scripts import registry
from offloadrt.study.spec import RunSpec

STORED = Path(__file__).parents[1] / "recording" / "stored"
EXPECTED = {"devices": [("missed update", "devices.c:11")]}
"""`devices.c` updates an array on a device where it has unmapped it. The others make no mistake that a check knows."""
OF_THE_RUNTIME = {
    "members": [("missing unmap", "members.cpp:47")],
    "synchronization": [("misplaced update", "synchronization.c:57")],
}
"""LLVM leaves behind what the mapper of `members.cpp` maps twice: `omp_target_is_present` says so. It moves other
bytes of the section with gaps in `synchronization.c` than OpenMP says."""


def checked(file: Path) -> CheckReport:
    scenario = registry.find(str(file))
    return check(scenario, scenario.bind({"host_compute": "0"}), RunSpec())


@pytest.mark.parametrize("file", sorted(STORED.glob("*.rec")), ids=lambda file: file.stem)
def test_a_stored_recording(file: Path) -> None:
    report = checked(file)
    told = [(mistake.kind, mistake.stories[-1].where) for mistake in report.mistakes]
    assert told == EXPECTED.get(file.stem, [])
    faults = [(fault.kind, fault.stories[-1].where) for fault in report.runtime_faults if fault.happened]
    assert faults == OF_THE_RUNTIME.get(file.stem, [])
