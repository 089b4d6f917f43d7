"""The statistics of a trace against counting by hand."""

import pytest
from traced_offloading import StandIn, offload

from offloadrt.extensions.logs.statistics import TraceStatistics
from offloadrt.trace import Trace, events


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
