"""JSON Lines there and back; nothing global in structlog is used or changed."""

import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import attrs
import numpy as np
import pytest
import structlog
from traced_offloading import StandIn, offload

from offloadrt.extensions.logs.reading import read_json_lines
from offloadrt.extensions.logs.statistics import statistics_of
from offloadrt.trace import Event, Trace, events
from offloadrt.trace.events import to_ns
from offloadrt.trace.logs import JsonLines


def whole_nanoseconds(event: Event) -> Event:
    return attrs.evolve(event, time_ps=1000 * to_ns(event.time_ps))


def test_json_lines_come_back_with_integer_nanoseconds(tmp_path: Path) -> None:
    path, sim = tmp_path / "a.jsonl", StandIn()
    trace = offload(Trace(sim, sinks=[JsonLines(path)]), sim, threads=5, directives=30)
    assert list(read_json_lines(path)) == [whole_nanoseconds(event) for event in trace.events]

    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(lines) == trace.count
    assert all(type(line["time_ns"]) is int for line in lines)
    assert all(line["actor_name"] == f"host thread {line['actor']}" for line in lines)
    copy = next(line for line in lines if line["event"] == "CopyBegin")
    assert set(copy) == {
        *("event", "level", "time_ns", "actor", "actor_name", "device", "queue", "cause"),
        *("copy", "direction", "engine", "bytes", "memory"),
    }
    lock = next(line for line in lines if line["event"] == "ActorSpawned")
    assert not {"device", "queue", "cause"} & set(lock)
    assert {line["level"] for line in lines if line["event"] == "RuntimeError_"} == {"error"}


def test_a_line_that_is_no_event_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"event":"Drain","time_ns":1,"actor":0,"reason":"x"}\n{"event":"Drian"}\n')
    with pytest.raises(ValueError, match=r"bad\.jsonl, line 2: not an event"):
        list(read_json_lines(path))
    path.write_text('{"event":"Drain","time_ns":1' + "0" * 400 + ',"actor":0,"reason":"x"}\n')
    with pytest.raises(ValueError, match=r"bad\.jsonl, line 1: not an event"):
        list(read_json_lines(path))
    path.write_text('{"event":["Drain"],"time_ns":1}\n')
    with pytest.raises(ValueError, match=r"bad\.jsonl, line 1: not an event"):
        list(read_json_lines(path))
    path.write_text("nonsense\n")
    with pytest.raises(ValueError, match=r"bad\.jsonl, line 1: not an event"):
        list(read_json_lines(path))
    with pytest.raises(FileNotFoundError):
        list(read_json_lines(tmp_path / "none.jsonl"))
    with pytest.raises(FileNotFoundError):
        JsonLines(tmp_path / "none" / "a.jsonl")


def test_numbers_of_numpy_are_written_as_numbers_and_other_things_refused(tmp_path: Path) -> None:
    trace = Trace(StandIn(), sinks=[JsonLines(tmp_path / "a.jsonl")])
    trace(events.MapLookup, 0, -1, 0, "a", np.int64(4096), np.int64(8), np.bool_(True))
    trace.close()
    assert list(read_json_lines(tmp_path / "a.jsonl")) == [events.MapLookup(0, 0, 0, -1, 0, "a", 4096, 8, True)]
    trace = Trace(StandIn(), sinks=[JsonLines(tmp_path / "b.jsonl")])
    trace(events.Drain, 0, -1, 0, object())
    with pytest.raises(TypeError, match="a string or a number, not <object"):
        trace.close()


def test_a_log_is_written_and_read_in_memory_that_does_not_grow_with_it(tmp_path: Path) -> None:
    def peak(action: Callable[[], object]) -> int:
        tracemalloc.start()
        try:
            action()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    def write(directives: int) -> None:
        sim = StandIn()
        offload(Trace(sim, record=False, sinks=[JsonLines(path)]), sim, threads=5, directives=directives)

    path = tmp_path / "a.jsonl"
    write(50)
    statistics_of(path)  # imports and caches are of the first call alone
    short = peak(lambda: write(50)), peak(lambda: statistics_of(path))
    long = peak(lambda: write(200)), peak(lambda: statistics_of(path))
    assert long[0] < 1.1 * short[0]
    assert long[1] < 1.1 * short[1]


def test_structlog_is_left_alone(tmp_path: Path) -> None:
    with structlog.contextvars.bound_contextvars(leak="yes"):
        sim = StandIn()
        offload(Trace(sim, sinks=[JsonLines(tmp_path / "a.jsonl")]), sim)
    assert "leak" not in (tmp_path / "a.jsonl").read_text()
    assert not structlog.is_configured()


def test_importing_the_trace_loads_neither_structlog_nor_perfetto() -> None:
    names = "structlog perfetto google.protobuf rich msgspec"
    code = f"import sys, offloadrt.trace; print([name for name in {names.split()!r} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_a_line_that_is_no_text_is_refused_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"event": "\xf8"}\n')
    with pytest.raises(ValueError, match=r"log\.jsonl, line 1: not an event of a trace, .* \(it is no JSON\)"):
        [*read_json_lines(path)]
