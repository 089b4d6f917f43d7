"""Where barriers stay in a recorded list of operations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offloadrt.extensions.stdpar.elision import (
    Decision,
    Elided,
    Kept,
    Marker,
    Operation,
    Reason,
    table,
    windows,
)

ALG = Operation(Marker.ALGORITHM, "for_each")
SUM = Operation(Marker.RETURNING, "transform_reduce")
STACK = Operation(Marker.STACK_ACCESS)
STOPS = {
    Marker.HOST_ACCESS: Reason.ACCESS,
    Marker.CALL: Reason.CALL,
    Marker.ALLOCATION: Reason.ALLOCATION,
    Marker.RETURN: Reason.EXIT,
    Marker.HOST_ALGORITHM: Reason.HOST,
}


def waits(decisions: list[Decision]) -> int:
    return sum(isinstance(decision, Kept) for decision in decisions)


def test_a_loop_of_two_algorithms_has_one_wait() -> None:
    decisions = windows([*[ALG] * 200, Operation(Marker.HOST_ACCESS, "a")])
    assert len(decisions) == 200 and waits(decisions) == 1


def test_without_elision_every_algorithm_is_waited_for() -> None:
    decisions = windows([*[ALG] * 200, SUM], elision=False)
    assert waits(decisions) == len(decisions) == 201
    assert {one.reason for one in decisions if isinstance(one, Kept)} == {Reason.OFF, Reason.VALUE}


@pytest.mark.parametrize("marker", STOPS)
def test_what_ends_a_window(marker: Marker) -> None:
    stop = Operation(marker, line=7)
    first, second, _ = windows([ALG, ALG, stop, ALG])
    assert first == Elided(ALG, ALG)
    assert second == Kept(ALG, STOPS[marker], stop) and second.line == 7


def test_the_end_of_the_list_ends_the_function() -> None:
    (only,) = windows([ALG])
    assert isinstance(only, Kept) and only.reason is Reason.EXIT


def test_the_stack_ends_a_window_only_where_the_device_can_reach_it() -> None:
    assert waits(windows([ALG, STACK, ALG, STACK, ALG])) == 1
    under_system_usm = windows([ALG, STACK, ALG], system_usm=True)
    assert waits(under_system_usm) == 2
    assert isinstance(under_system_usm[0], Kept) and under_system_usm[0].reason is Reason.STACK


def test_an_algorithm_that_returns_a_value_waits_for_itself_and_for_those_before() -> None:
    decisions = windows([ALG, ALG, SUM, Operation(Marker.HOST_ACCESS)])
    assert decisions == [Elided(ALG, ALG), Elided(ALG, SUM), Kept(SUM, Reason.VALUE, SUM)]


def test_nothing_outstanding_nothing_to_wait_for() -> None:
    assert windows([Operation(Marker.CALL), Operation(Marker.ALLOCATION), STACK]) == []


def test_the_table_counts_places_and_names_reasons() -> None:
    alg = Operation(Marker.ALGORITHM, "fill", "lulesh.py", 12)
    free = Operation(Marker.ALLOCATION, "delete", "lulesh.py", 14)
    lines = table(windows([*[alg, free] * 3, alg, alg, free])).splitlines()
    assert lines[0].split() == ["where", "algorithm", "times", "barrier"]
    assert lines[1].split()[:3] == ["lulesh.py:12", "fill", "4"] and "delete (lulesh.py:14)" in lines[1]
    assert lines[2].split()[:3] == ["lulesh.py:12", "fill", "1"] and "elided" in lines[2]


operations = st.lists(st.sampled_from([*Marker]).map(lambda marker: Operation(marker)), max_size=40)


@given(operations, st.booleans())
def test_every_algorithm_is_decided_once_and_no_read_comes_before_its_wait(
    recorded: list[Operation], system_usm: bool
) -> None:
    decisions = windows(recorded, system_usm=system_usm)
    algorithms = [one for one in recorded if one.marker in (Marker.ALGORITHM, Marker.RETURNING)]
    assert [one.algorithm for one in decisions] == algorithms
    # One character an operation; a window is then a run of algorithms that something else ends.
    letters = {Marker.ALGORITHM: "a", Marker.RETURNING: "ar", Marker.STACK_ACCESS: "r" if system_usm else ""}
    text = "".join(letters.get(one.marker, "r") for one in recorded)
    assert waits(decisions) == sum(1 for run in text.split("r") if run)


@given(operations)
def test_elision_never_waits_more_often_and_never_leaves_anything_outstanding(recorded: list[Operation]) -> None:
    kept, every = windows(recorded), windows(recorded, elision=False)
    assert waits(kept) <= waits(every) == len(every) == len(kept)
    assert not kept or isinstance(kept[-1], Kept)
