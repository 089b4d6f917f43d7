"""Recordings of real programs under the checker: what their sources say, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from offloadrt.extensions.checking.checked import CheckReport, check
from offloadrt.study.scripts import registry
from offloadrt.study.spec import RunSpec

STORED = Path(__file__).parents[1] / "recording" / "stored"
EXPECTED = {"devices": [("missed update", "devices.c:11")], "members": [("missing unmap", "members.cpp:47")]}
"""`devices.c` updates an array on a device where it has unmapped it. LLVM leaves behind what the mapper of
`members.cpp` maps twice: `omp_target_is_present` says so. The others make no mistake that a check knows."""


def checked(file: Path) -> CheckReport:
    scenario = registry.find(str(file))
    return check(scenario, scenario.bind({"host_compute": "0"}), RunSpec())


@pytest.mark.parametrize("file", sorted(STORED.glob("*.rec")), ids=lambda file: file.stem)
def test_a_stored_recording(file: Path) -> None:
    told = [(mistake.kind, mistake.stories[-1].where) for mistake in checked(file).mistakes]
    assert told == EXPECTED.get(file.stem, [])
