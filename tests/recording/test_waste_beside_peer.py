"""What `check` finds of each kind of waste that OMPDataPerf knows, and of programs that this tool accuses wrongly.

OMPDataPerf (PPoPP 2026, https://github.com/lmarzen/ompdataperf) is a tool of OMPT that keeps a digest of each copy. Its
kinds are: a duplicate brings a device, or the host, bytes that it has received before, of whatever array; a round trip
brings bytes back to where they came from; an allocation is repeated for the same array and size; an allocation or a
copy is unused if no target region runs before its end. `OF_PEER` has what the tool said of each case.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest
from recorded_programs import PROGRAMS, built
from test_recorded_mistakes import report_of
from test_recorded_waste import AGAIN, DUPLICATE, ROUND, UNREAD, wasted

from offloadrt.extensions.checking.checked import CheckReport
from offloadrt.extensions.recording.format import convert
from offloadrt.extensions.recording.toolchain import RecordOptions, find_compiler, record

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
"""By case of `programs/transfers.f90`. An array that is allocatable or of assumed shape has a descriptor, which is mapped
and sent beside its bytes.
"""
