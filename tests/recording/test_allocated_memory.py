"""What recorded kernels do with memory of omp_target_alloc, which no clause maps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from recorded_programs import built
from replaying import replayed

from offloadrt.extensions.checking.checked import check
from offloadrt.extensions.recording.format import convert
from offloadrt.extensions.recording.toolchain import RecordOptions, record
from offloadrt.study.scripts import registry
from offloadrt.study.spec import RunSpec

MAPPED, ALLOCATED, UNINITIALISED, UNORDERED, POINTER_IN_MEMORY = range(5)
Recorded = Callable[[int], Path]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Record a case of the program."""
    folder = tmp_path_factory.mktemp("allocated")
    program = built("allocated.c", folder)

    def run(case: int) -> Path:
        raw, file = folder / f"{case}.raw", folder / f"{case}.rec"
        if not file.exists():
            record([str(program), str(case)], raw, [1], RecordOptions(check=True))
            convert(raw, file)
        return file

    return run


def test_a_kernel_takes_as_long_in_allocated_memory_as_in_mapped_arrays(recorded: Recorded) -> None:
    mapped, allocated = (replayed(recorded(case)).compute.statistics().alone_s for case in (MAPPED, ALLOCATED))
    assert allocated == mapped > 0


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (MAPPED, []),
        (ALLOCATED, []),
        (UNINITIALISED, ["uninitialised data"]),
        (UNORDERED, ["race"]),
        (POINTER_IN_MEMORY, []),
    ],
)
def test_a_check_knows_what_kernels_do_with_allocated_memory(
    recorded: Recorded, case: int, expected: list[str]
) -> None:
    scenario = registry.find(str(recorded(case)))
    assert [one.kind for one in check(scenario, scenario.bind({}), RunSpec()).mistakes] == expected
