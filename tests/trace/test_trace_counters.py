"""Calls against NumPy; host time; statistics of a trace against counting by hand."""

import numpy as np
import pytest
from traced_offloading import StandIn, offload

from offloadrt.trace import HOST_TIME, Calls, HostTime, Trace, TraceStatistics, events


def test_calls_agree_with_numpy() -> None:
    rng = np.random.default_rng(3)
    durations = {
        "cuMemAlloc": rng.lognormal(-10, 2, 1000),
        "cuMemFree": rng.exponential(1e-5, 77),
        "cuInit": np.ones(1),
    }
    calls = Calls()
    for api, seconds in durations.items():
        for duration in seconds:
            calls.add(api, float(duration))
    table = calls.table()
    everything = np.concatenate(list(durations.values())).sum()
    for api, seconds in durations.items():
        row = table[api]
        assert row.count == calls.count(api) == len(seconds)
        assert (row.min_s, row.max_s) == (seconds.min(), seconds.max())
        assert row.total_s == pytest.approx(seconds.sum(), rel=1e-12)
        assert row.mean_s == pytest.approx(seconds.mean(), rel=1e-12)
        assert row.percent == pytest.approx(100 * seconds.sum() / everything, rel=1e-12)
    totals = [row.total_s for row in table.values()]
    assert totals == sorted(totals, reverse=True)


def test_calls_print_as_rocprof_does() -> None:
    calls = Calls()
    for duration in (1e-6, 3e-6):
        calls.add("cuMemAlloc", duration)
    calls.add("cuMemFree", 1e-6)
    calls.add("cuCtxGetDevice", 0.0)
    assert [line.split() for line in calls.lines()] == [
        ["Name", "Calls", "TotalDurationNs", "AverageNs", "MinNs", "MaxNs", "Percentage"],
        ["cuMemAlloc", "2", "4000", "2000", "1000", "3000", "80.00"],
        ["cuMemFree", "1", "1000", "1000", "1000", "1000", "20.00"],
        ["cuCtxGetDevice", "1", "0", "0", "0", "0", "0.00"],
    ]
    assert Calls().table() == {} and Calls().count("cuMemAlloc") == 0


def test_host_time_adds_up_to_the_lives_of_the_threads() -> None:
    time = HostTime()
    time.add("table lock", 3.0)
    time.add("driver", 1.0)
    time.add_wait(10.0, 20.0, [("copies", 5.0, 11.0), ("kernels", 12.0, 15.0), ("copies", 18.0, 30.0)])
    time.lived(10.0)
    time.lived(10.0)
    assert time.seconds["copies"] == 3.0 and time.seconds["kernels"] == 3.0 and time.seconds["device"] == 4.0
    shares = time.shares()
    assert list(shares) == [*HOST_TIME, "other"]
    assert shares["table lock"] == 0.15 and shares["other"] == pytest.approx(0.3)
    assert sum(shares.values()) == pytest.approx(1.0)
    assert [line.split("  ")[0] for line in time.lines()] == [
        "table lock",
        "driver",
        "copies",
        "kernels",
        "device",
        "other",
    ]


def test_host_time_without_time_and_with_a_wrong_category() -> None:
    assert set(HostTime().shares().values()) == {0.0} and HostTime().lines() == []
    with pytest.raises(ValueError, match="no category 'drivers' of host time; there are compute, compile, runtime"):
        HostTime().add("drivers", 1.0)


def test_statistics_count_what_happened() -> None:
    sim = StandIn()
    sink = TraceStatistics()
    trace = offload(Trace(sim, sinks=[sink]), sim, threads=4, directives=3)
    after = TraceStatistics.of(trace.rows)
    assert after.locks == sink.locks and after.engines == sink.engines and after.calls.table() == sink.calls.table()

    table = sink.locks["device table"]
    waits = [event for event in trace.events if isinstance(event, events.LockWait)]
    assert table.acquired == 12 and table.contended == len(waits)
    assert table.hold_s == pytest.approx(sink.calls.table()["cuMemAlloc"].total_s)
    waited = [
        next(
            after.time_ps - wait.time_ps
            for after in trace.events
            if isinstance(after, events.LockAcquire) and after.actor == wait.actor and after.time_ps >= wait.time_ps
        )
        for wait in waits
    ]
    assert table.wait_s == pytest.approx(sum(waited) * 1e-12)
    # At the start all four come at once; the last waits for the three allocations before its own.
    assert table.longest_wait_s == pytest.approx(3.001e-6 + 3.002e-6 + 3.003e-6, abs=1e-11)

    copies = [event for event in trace.events if isinstance(event, events.CopyEnd)]
    for direction, memory in (("h2d", "staged"), ("d2h", "pinned")):
        moved = sum(event.bytes for event in copies if event.direction == direction)
        use = sink.engines[0, f"copy engine {direction}"]
        assert use.copies == 12 and use.bytes == moved == sink.bytes[direction, memory]
        assert use.busy_s == pytest.approx(moved / 20e9, abs=1e-11)
    assert sink.kernels[0, "update"].launched == 12
    assert sink.kernels[0, "update"].resident_s == pytest.approx(4 * (5e-6 + 5.1e-6 + 5.2e-6), abs=1e-11)
    assert sink.calls.count("cuMemFree") == 12


@pytest.mark.parametrize("between", [[], [("CallBegin", "cuMemFree")]])
def test_a_wait_that_was_cancelled_is_no_wait_of_the_next_acquisition(between: list[tuple[str, str]]) -> None:
    steps = [
        (0, 1, "LockAcquire", "table"), (1, 2, "LockWait", "table"), (1, 3, "LockWait", "table"),
        (4, 1, "LockRelease", "table"), (4, 3, "LockAcquire", "table"), (5, 3, "LockRelease", "table"),
        *((6, 2, *step) for step in between),
        (9, 2, "LockAcquire", "table"), (9, 2, "LockRelease", "table"),
    ]  # fmt: skip
    table = TraceStatistics.of([(label, time * 10**12, actor, -1, -1, 0, name) for time, actor, label, name in steps])
    use = table.locks["table"]
    assert (use.acquired, use.contended, use.wait_s, use.longest_wait_s) == (3, 1, pytest.approx(3.0), pytest.approx(3))
