"""The offload heuristic: what it decides from which runtimes, and how these are kept."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offloadrt import stdpar as std
from offloadrt.extensions.stdpar.arrays import HeuristicDatabaseError
from offloadrt.extensions.stdpar.heuristic import (
    HeuristicDatabase,
    HeuristicRules,
    OffloadHeuristic,
    OperationId,
    Place,
    Sampling,
    Why,
)

FILL, COPY = OperationId("fill(double)", 1000), OperationId("copy(double)", 1000)
MS = 1e-3


def database(*samples: tuple[OperationId, Place, float]) -> HeuristicDatabase:
    found = HeuristicDatabase()
    for operation in dict.fromkeys(operation.name for operation, _, _ in samples):
        found.add(OperationId(operation, 0), Place.HOST, 1e9)  # the first does not count
    for operation, place, seconds in samples:
        found.add(operation, place, seconds)
    return found


def timed(host_s: float, offload_s: float, *operations: OperationId) -> HeuristicDatabase:
    sides = ((Place.HOST, host_s), (Place.OFFLOAD, offload_s))
    return database(*((one, place, seconds) for one in operations or (FILL,) for place, seconds in sides))


@attrs.define
class Thread:
    """Calls operations in virtual time; each takes 1/64 s, of which sums are exact."""

    heuristic: OffloadHeuristic
    now: float = 0.0
    step: float = 1 / 64

    def runs(self, times: int, *operations: OperationId, used_bytes: int = 0, batch: int = 1) -> list[bool]:
        made = []
        for _ in range(times):
            for one in operations or (FILL,):
                made.append(self.heuristic.decide(one, used_bytes, self.now, batch))
                self.now += self.step
        return made


def thread(known: HeuristicDatabase, **rules: Any) -> Thread:
    return Thread(OffloadHeuristic(known, HeuristicRules(**rules)))


# decisions


def test_without_runtimes_of_the_host_everything_is_offloaded() -> None:
    for known in (HeuristicDatabase(), database((FILL, Place.OFFLOAD, 1.0))):
        one = thread(known)
        assert all(one.runs(500))
        assert {decision.why for decision in one.heuristic.decisions} == {Why.NO_DATA}


def test_the_faster_side_is_taken_at_once() -> None:
    assert thread(timed(1 * MS, 2 * MS)).runs(1) == [False]
    assert thread(timed(2 * MS, 1 * MS)).runs(1) == [True]


def test_the_first_decision_knows_no_tolerance_and_no_transfer() -> None:
    assert thread(timed(1.1 * MS, 1 * MS)).runs(1, used_bytes=1 << 40) == [True]
    assert thread(timed(1 * MS, 1.1 * MS)).runs(1, used_bytes=1 << 40) == [False]


def test_the_heuristic_decides_anew_after_so_many_operations_and_so_much_time() -> None:
    by_operations = thread(timed(1 * MS, 2 * MS), min_operations=10, min_time_s=5 / 64)
    by_operations.runs(30)
    assert [one.time_s * 64 for one in by_operations.heuristic.decisions] == [0, 9, 19, 29]
    by_time = thread(timed(1 * MS, 2 * MS), min_operations=1, min_time_s=5 / 64)
    by_time.runs(16)
    assert [one.time_s * 64 for one in by_time.heuristic.decisions] == [0, 5, 10, 15]


def test_costs_that_come_to_favour_the_host_switch_to_the_host() -> None:
    known = timed(1 * MS, 0.1 * MS)
    one = thread(known, min_operations=10, min_time_s=0.1)
    assert all(one.runs(20))
    for _ in range(2000):
        known.add(FILL, Place.OFFLOAD, 9 * MS)
    made = one.runs(20)
    assert made[-1] is False
    assert sum(decision.changed for decision in one.heuristic.decisions) == 1


@pytest.mark.parametrize(("host_ms", "stays"), [(0.81, True), (0.79, False), (1.19, True), (1.5, True)])
def test_a_difference_within_the_tolerance_changes_nothing(host_ms: float, stays: bool) -> None:
    known = timed(5 * MS, 1 * MS)
    one = thread(known, min_operations=10, min_time_s=0.1)
    one.runs(1)
    one.heuristic.database = timed(host_ms * MS, 1 * MS)
    assert one.runs(15)[-1] is stays


def test_the_side_without_the_data_pays_for_the_transfer() -> None:
    rules = {"min_operations": 10, "min_time_s": 0.1, "transfer_bytes_per_s": 1e9}
    bytes_of_2ms = 2_000_000
    offloading = thread(timed(5 * MS, 1 * MS), **rules)
    offloading.runs(1)
    offloading.heuristic.database = timed(0.5 * MS, 1 * MS)
    assert offloading.runs(15, used_bytes=bytes_of_2ms * 10)[-1] is True
    assert offloading.heuristic.decisions[-1].host_s > 20 * MS
    on_the_host = thread(timed(1 * MS, 5 * MS), **rules)
    on_the_host.runs(1)
    on_the_host.heuristic.database = timed(10 * MS, 5 * MS)
    assert on_the_host.runs(15, used_bytes=bytes_of_2ms * 100)[-1] is False


def test_in_the_first_batch_nothing_is_transferred() -> None:
    one = thread(timed(1 * MS, 5 * MS), min_operations=10, min_time_s=0.1)
    one.runs(1, batch=0)
    one.heuristic.database = timed(10 * MS, 5 * MS)
    assert one.runs(15, used_bytes=1 << 40, batch=0)[-1] is True


def test_the_sides_are_added_up_along_what_followed_last_time() -> None:
    # Alone, a fill is faster on the device, and a copy much slower there.
    known = database(
        (FILL, Place.HOST, 2 * MS),
        (FILL, Place.OFFLOAD, 1 * MS),
        (COPY, Place.HOST, 1 * MS),
        (COPY, Place.OFFLOAD, 9 * MS),
    )
    one = thread(known, min_operations=8, min_time_s=0.0)
    assert one.runs(1, FILL, COPY) == [True, True]
    assert one.runs(10, FILL, COPY)[-1] is False
    assert one.heuristic.predicted(FILL) == [FILL, COPY] * 4
    last = one.heuristic.decisions[-1]
    assert last.predicted == 8 and last.host_s == pytest.approx(12 * MS)


def test_the_prediction_ends_where_a_runtime_is_not_known() -> None:
    one = thread(timed(1 * MS, 2 * MS, FILL), min_operations=8, min_time_s=0.0)
    one.runs(5, FILL, COPY)
    assert [decision.predicted for decision in one.heuristic.decisions if decision.operation == FILL] == [1]


@pytest.mark.parametrize("sampling", [Sampling.HOST, Sampling.OFFLOAD])
def test_sampling_runs_stay_on_one_side(sampling: Sampling) -> None:
    one = thread(timed(1 * MS, 2 * MS), sampling=sampling)
    assert set(one.runs(500)) == {sampling is Sampling.OFFLOAD}
    assert [decision.why for decision in one.heuristic.decisions] == [Why.SAMPLING]


@given(st.lists(st.tuples(st.sampled_from([FILL, COPY]), st.floats(0, 0.5), st.floats(1e-6, 1e-2)), max_size=60))
def test_decisions_keep_their_distance_and_nothing_changes_between(
    steps: list[tuple[OperationId, float, float]],
) -> None:
    known = timed(1 * MS, 1 * MS, FILL, COPY)
    heuristic = OffloadHeuristic(known, HeuristicRules(min_operations=3, min_time_s=0.2))
    now, made = 0.0, []
    for operation, gap, seconds in steps:
        now += gap
        made.append((heuristic.decide(operation, 1000, now, 1), len(heuristic.decisions)))
        known.add(operation, Place.OFFLOAD, seconds)
    times = [decision.time_s for decision in heuristic.decisions]
    assert all(later - earlier >= 0.2 for earlier, later in itertools.pairwise(times))
    assert all(offload == heuristic.decisions[count - 1].offload for offload, count in made)
    for before, after in zip(heuristic.decisions, heuristic.decisions[1:], strict=False):
        assert after.changed == (before.offload != after.offload)


def test_a_decision_is_told_in_words() -> None:
    one = thread(timed(1 * MS, 2 * MS))
    one.runs(1)
    assert str(one.heuristic.decisions[0]) == (
        "0.000000 s: from fill(double) of size 1000 on it stays on the host, it is predicted to be faster: "
        "host 1.000e-03 s, device 2.000e-03 s for 1 operations"
    )


@pytest.mark.parametrize("field", ["min_operations", "min_time_s", "transfer_bytes_per_s", "tolerance"])
def test_numbers_that_make_no_sense_are_refused_by_name(field: str) -> None:
    with pytest.raises(ValueError, match=f"{field} is -1"):
        HeuristicRules(**{field: -1})


# the database


def test_the_first_measurement_of_an_operation_does_not_count() -> None:
    known = HeuristicDatabase()
    known.add(FILL, Place.HOST, 100.0)
    assert known.estimate(FILL, Place.HOST) is None
    known.add(FILL, Place.OFFLOAD, 1.0)
    known.add(FILL, Place.OFFLOAD, 2.0)
    known.add(FILL, Place.OFFLOAD, 6.0)
    assert known.estimate(FILL, Place.OFFLOAD) == pytest.approx(3.0)


@given(st.lists(st.floats(1e-9, 10.0), min_size=1, max_size=30))
def test_an_estimate_of_a_known_size_is_the_mean(seconds: list[float]) -> None:
    known = database(*((FILL, Place.HOST, one) for one in seconds))
    assert known.estimate(FILL, Place.HOST) == pytest.approx(sum(seconds) / len(seconds))


@given(st.floats(1e-9, 1e-3), st.floats(0, 1e-3), st.lists(st.integers(1, 10**6), min_size=2, max_size=6, unique=True))
def test_between_and_beyond_known_sizes_a_line_is_a_line(slope: float, at_zero: float, sizes: list[int]) -> None:
    known = database(*((OperationId("f", size), Place.HOST, at_zero + slope * size) for size in sizes))
    for size in (1, 500, 2 * 10**6):
        assert known.estimate(OperationId("f", size), Place.HOST) == pytest.approx(at_zero + slope * size, rel=1e-6)


def test_one_other_size_is_taken_as_proportional() -> None:
    assert timed(1.0, 2.0).estimate(OperationId(FILL.name, 3000), Place.HOST) == pytest.approx(3.0)


def test_an_estimate_is_never_nothing() -> None:
    known = database((OperationId("f", 100), Place.HOST, 1.0), (OperationId("f", 200), Place.HOST, 10.0))
    estimate = known.estimate(OperationId("f", 10), Place.HOST)
    assert estimate is not None and 0 < estimate < 1e-20


def test_a_batch_gives_each_operation_the_same_part() -> None:
    known = timed(1.0, 1.0, FILL, COPY)
    known.add_batch([COPY, COPY, COPY], 6.0)
    assert known.estimate(COPY, Place.OFFLOAD) == pytest.approx((1.0 + 3 * 2.0) / 4)


def test_what_is_written_is_read_back_and_decides_the_same(tmp_path: Path) -> None:
    path = tmp_path / "stdpar.json"
    known = timed(1 * MS, 2 * MS, FILL, COPY)
    known.write(path)
    again = HeuristicDatabase.read(path)
    assert [again.samples(one.name) for one in (FILL, COPY)] == [known.samples(one.name) for one in (FILL, COPY)]
    assert thread(again).runs(1) == thread(known).runs(1) == [False]
    again.write(path)
    assert HeuristicDatabase.read(path).samples(FILL.name) == known.samples(FILL.name)


def test_each_run_leaves_its_own_first_measurement_out(tmp_path: Path) -> None:
    path = tmp_path / "stdpar.json"
    timed(1.0, 1.0).write(path)
    again = HeuristicDatabase.read(path)
    again.add(FILL, Place.HOST, 100.0)
    assert again.estimate(FILL, Place.HOST) == 1.0


def test_no_file_is_an_empty_database(tmp_path: Path) -> None:
    assert len(HeuristicDatabase.read(tmp_path / "none.json")) == 0


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{", "no database of the offload heuristic"),
        ('{"version": 1}', "operations"),
        ('{"version": 2, "operations": {}}', "version is 2"),
        (
            '{"version": 1, "operations": {"f": [{"place": "moon", "size": 1, "seconds": 1, "measurements": 1}]}}',
            "place",
        ),
        (
            '{"version": 1, "operations": {"f": [{"place": "host", "size": 1, "seconds": -1, "measurements": 1}]}}',
            "seconds -1",
        ),
        (
            (
                '{"version": 1, "operations": {"f": [{"place": "host", "size": 1, "seconds": 1, "measurements": 1},'
                '{"place": "host", "size": 1, "seconds": 2, "measurements": 1}]}}'
            ),
            "operations.f has two samples",
        ),
    ],
)
def test_a_file_that_is_no_database_is_told_in_one_message(tmp_path: Path, content: str, complaint: str) -> None:
    path = tmp_path / "stdpar.json"
    path.write_text(content)
    with pytest.raises(HeuristicDatabaseError, match=complaint) as raised:
        HeuristicDatabase.read(path)
    assert str(path) in str(raised.value)


def test_a_file_that_cannot_be_written_or_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(HeuristicDatabaseError, match="cannot be written"):
        HeuristicDatabase().write(tmp_path / "nowhere" / "stdpar.json")
    with pytest.raises(HeuristicDatabaseError, match="cannot be read"):
        HeuristicDatabase.read(tmp_path)


def test_a_decision_says_in_a_line_what_it_was_made_from() -> None:
    one = thread(timed(4 * MS, 1 * MS))
    assert one.runs(1) == [True]
    decision = one.heuristic.decisions[0]
    assert isinstance(decision, std.OffloadDecision) and decision.offload and not decision.changed
    assert decision.offload_s < decision.host_s
    assert "from fill(double) of size 1000 on it offloads" in str(decision)
