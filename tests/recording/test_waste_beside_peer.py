"""What `check` finds of each kind of waste that OMPDataPerf knows, and of programs that this tool accuses wrongly.

OMPDataPerf (PPoPP 2026, https://github.com/lmarzen/ompdataperf) is a tool of OMPT that keeps a digest of each copy. A
duplicate brings a device, or the host, bytes that it has received before, of whatever array; a round trip brings bytes
back to where they came from; an allocation is repeated for the same host address and size; an allocation or a copy is
unused if no target region runs before its end.
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from recorded_programs import built
from test_recorded_mistakes import report_of
from test_recorded_waste import AGAIN, DUPLICATE, ROUND, UNREAD, wasted

from offloadrt.extensions.checking.checked import CheckReport
from offloadrt.extensions.recording.format import convert
from offloadrt.extensions.recording.toolchain import RecordOptions, record

pytestmark = pytest.mark.slow

UNUSED: Final = "unused allocation"
Wasted = dict[str, dict[str, int]]

IN_C: Final[dict[str, Wasted]] = {
    "map_around_each_kernel": {"a": {DUPLICATE: 2, AGAIN: 2}, "b": {AGAIN: 2}},
    "update_of_what_is_there": {"a": {DUPLICATE: 3}},
    "back_twice": {"a": {DUPLICATE: 1}},
    "always": {"a": {DUPLICATE: 3}},
    "by_routine": {"a": {DUPLICATE: 2}},
    "written_again": {"a": {DUPLICATE: 2}},
    "local_table": {"weights": {DUPLICATE: 2, AGAIN: 2}},
    "private_copies": {"a": {DUPLICATE: 2, AGAIN: 2}},
    "small_private_copies": {},
    "heap_of_each": {"heap": {DUPLICATE: 2, AGAIN: 2}},
    "half_of_it": {"a": {DUPLICATE: 3}},
    "only_read": {"a": {ROUND: 1}},
    "kept_by_the_host": {"a": {ROUND: 2, UNREAD: 2, AGAIN: 2}},
    "back_and_forth": {"a": {ROUND: 3, DUPLICATE: 1}},
    "scratch_of_each": {"c": {AGAIN: 2}},
    "block_of_each": {"device memory": {AGAIN: 2}},
    "no_kernel": {"c": {UNUSED: 1}},
    "not_by_this_kernel": {"c": {UNUSED: 1}},
    "behind_the_last_kernel": {"a": {UNREAD: 1}},
    "two_before_a_kernel": {"a": {UNREAD: 2}},
    "overwritten_by_the_kernel": {"a": {UNREAD: 1}},
    "results_of_each": {"b": {UNREAD: 2, AGAIN: 2}},
    "equal_arrays": {},
    "reset_by_the_host": {},
    "in_turns": {},
    "fresh_copies": {"a": {AGAIN: 2}},
    "equal_results": {},
    "to_and_fro": {},
    "zeros_come_back": {},
    "more_of_it": {},
    "two_blocks": {},
    "one_place_of_the_stack": {},
    "two_devices": {},
    "changed_in_one_byte": {},
    "as_a_store": {},
}
"""By case of `programs/transfers.c`: what is wasted, by array."""

IN_FORTRAN: Final[dict[str, Wasted]] = {
    "map_around_each_kernel": {"sent": {DUPLICATE: 4, AGAIN: 4}, "result": {DUPLICATE: 2, AGAIN: 4}},
    "only_read": {"given": {ROUND: 1}},
    "kept_by_the_host": {"field": {ROUND: 2, UNREAD: 2, AGAIN: 4, DUPLICATE: 2}},
    "two_before_a_kernel": {"field": {UNREAD: 2, DUPLICATE: 1}, "result": {DUPLICATE: 1}},
    "no_kernel": {"scratch": {UNREAD: 1, UNUSED: 2}},
    "equal_arrays": {},
    "fresh_copies": {"copy": {DUPLICATE: 2, AGAIN: 4}, "result": {DUPLICATE: 2, AGAIN: 4}},
    "by_assumed_shape": {"given": {DUPLICATE: 4, AGAIN: 4}, "result": {DUPLICATE: 2, AGAIN: 4}},
}
"""By case of `programs/transfers.f90`. An array that is allocatable or of assumed shape has a descriptor, which is sent
beside its bytes.
"""

IN_TOOL: Final[dict[str, tuple[int, ...]]] = {
    "map_around_each_kernel": (2, 2, 4, 0, 0),
    "update_of_what_is_there": (3, 0, 0, 0, 1),
    "back_twice": (1, 0, 0, 0, 0),
    "always": (3, 0, 0, 0, 0),
    "by_routine": (2, 0, 0, 0, 0),
    "written_again": (2, 0, 0, 0, 0),
    "local_table": (2, 0, 2, 0, 0),
    "private_copies": (2, 0, 2, 0, 0),
    "heap_of_each": (2, 0, 2, 0, 0),
    "half_of_it": (2, 0, 0, 0, 0),
    "only_read": (0, 1, 0, 0, 0),
    "kept_by_the_host": (0, 2, 2, 0, 0),
    "back_and_forth": (1, 4, 0, 0, 1),
    "scratch_of_each": (0, 0, 2, 0, 0),
    "block_of_each": (0, 0, 2, 0, 0),
    "no_kernel": (0, 0, 0, 1, 0),
    "not_by_this_kernel": (0, 0, 0, 0, 0),
    "behind_the_last_kernel": (0, 0, 0, 0, 1),
    "two_before_a_kernel": (0, 0, 0, 0, 2),
    "overwritten_by_the_kernel": (0, 0, 0, 0, 0),
    "results_of_each": (0, 0, 2, 0, 0),
    "equal_arrays": (1, 0, 0, 0, 0),
    "reset_by_the_host": (2, 0, 0, 0, 0),
    "in_turns": (2, 0, 0, 0, 0),
    "fresh_copies": (2, 0, 2, 0, 0),
    "equal_results": (2, 0, 0, 0, 0),
    "to_and_fro": (0, 1, 0, 0, 0),
    "zeros_come_back": (0, 1, 0, 0, 0),
    "more_of_it": (0, 0, 0, 0, 1),
    "two_blocks": (0, 0, 1, 0, 0),
    "one_place_of_the_stack": (0, 0, 0, 0, 0),
    "changed_in_one_byte": (0, 0, 0, 0, 0),
    "as_a_store": (0, 1, 0, 1, 1),
}
"""By case in C: what OMPDataPerf 0.0.1 reports with LLVM 22: duplicates, round trips, repeated allocations, unused
allocations, unused transfers. It crashes on two devices, and counts the small private copies as chance places them.
"""


Checked = Callable[[str, str], CheckReport]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("transfers")


def program(source: str, folder: Path) -> Path:
    (place := folder / source).mkdir(exist_ok=True)
    return built(source, place, "-g", "-O1")


@pytest.fixture(scope="module")
def checked(folder: Path) -> Checked:
    """Return the report of one case of a program, which is recorded once."""

    @functools.cache
    def report(source: str, case: str) -> CheckReport:
        raw, file = folder / f"{source}.{case}.raw", folder / f"{source}.{case}.rec"
        record([str(program(source, folder)), case], raw, [None], RecordOptions(check=True))
        convert(raw, file)
        return report_of(file)

    return report


CASES = [("transfers.c", case) for case in IN_C] + [("transfers.f90", case) for case in IN_FORTRAN]


@pytest.mark.parametrize(("source", "case"), CASES)
def test_a_case_wastes_what_its_source_says(source: str, case: str, checked: Checked) -> None:
    report = checked(source, case)
    assert wasted(report) == (IN_C if source == "transfers.c" else IN_FORTRAN)[case]
    assert not report.mistakes and not report.unknown_copies
    lines = [Path(waste.story.where).name.partition(":") for waste in report.wastes]
    assert all(name == source and int(line) > 0 and waste.advice and waste.time_s >= 0
               for (name, _, line), waste in zip(lines, report.wastes, strict=True))  # fmt: skip


def test_the_descriptor_of_an_array_belongs_to_the_row_of_its_bytes(checked: Checked) -> None:
    rows = checked("transfers.f90", "map_around_each_kernel").wastes
    assert sorted(row.subject for row in rows) == ["result", "sent"]
    resent = checked("transfers.f90", "two_before_a_kernel").wastes
    assert [row.subject for row in resent if "which the compiler sends" in row.advice] == ["field", "result"]


@pytest.mark.parametrize(
    ("case", "advice"),
    [
        ("map_around_each_kernel", "Keep a mapped around all of it"),
        ("local_table", "Let one weights last for all of it"),
        ("heap_of_each", "Let one heap last for all of it"),
        ("private_copies", "Each launch makes a copy of a (firstprivate)"),
    ],
)
def test_the_advice_says_what_keeps_the_data(case: str, advice: str, checked: Checked) -> None:
    assert any(row.advice.startswith(advice) for row in checked("transfers.c", case).wastes)


TOOL = shutil.which("ompdataperf")


@pytest.mark.skipif(TOOL is None, reason="OMPDataPerf is not on the PATH")
@pytest.mark.parametrize("case", IN_TOOL)
def test_the_tool_still_says_so(case: str, folder: Path) -> None:
    command = [str(TOOL), str(program("transfers.c", folder)), case]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert tuple(map(int, re.findall(r"Found (\d+) potential", said))) == IN_TOOL[case]
