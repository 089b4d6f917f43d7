"""The trace of the whole emulator at work: ExaHyPE on one A100, seen through every sink at once."""

from collections import Counter
from pathlib import Path

import pytest
from perfetto_picture import check, parsed

from offloadrt.extensions.explaining.perfetto import PerfettoFile
from offloadrt.extensions.logs.reading import read_json_lines
from offloadrt.extensions.logs.statistics import TraceStatistics
from offloadrt.study import execute, find_scenario
from offloadrt.trace import Row
from offloadrt.trace.logs import JsonLines


class Rows:
    """A sink that keeps what it gets."""

    def __init__(self) -> None:
        self.all: list[Row] = []

    def write(self, rows: list[Row]) -> None:
        self.all += rows

    def close(self) -> None:
        pass


@pytest.mark.parametrize("memory", ["map", "pool"])
def test_exahype_through_every_sink(memory: str, tmp_path: Path) -> None:
    rows = Rows()
    result = execute(
        find_scenario("exahype"),
        {"threads": 6, "patches": 8, "batch": 4, "memory": memory},
        hash=True,
        sinks=[rows, JsonLines(tmp_path / "a.jsonl"), PerfettoFile(tmp_path / "a.pftrace")],
    )
    kinds = Counter(row[0] for row in rows.all)

    picture = parsed(tmp_path / "a.pftrace")
    check(picture)
    threads = [title for title in picture.titles("host") if title.startswith("host thread")]
    assert sorted(threads) == [f"host thread {number}" for number in range(6)]
    device = picture.titles("device 0")
    assert any(title.startswith("copy engine") for title in device)
    assert any(title.startswith("hardware queue") for title in device)
    compute = [slice for title in device if title.startswith("compute units") for slice in picture.on(title)]
    assert len(compute) == kinds["KernelStart"] == kinds["KernelEnd"] == 12
    if memory == "map":
        for kernel in compute:
            chain = [slice for slice in picture.slices if kernel.flows[0] in slice.flows]
            titles = [picture.title(slice.track) for slice in chain]
            assert titles[0].startswith("host thread")
            assert titles[1].startswith("copy engine")

    # What ends has begun, and what the driver counted is what the trace tells.
    for begin, end in (("DirectiveBegin", "DirectiveEnd"), ("CallBegin", "CallEnd"), ("CopyBegin", "CopyEnd")):
        assert kinds[begin] == kinds[end] > 0
    assert kinds["LockAcquire"] == kinds["LockRelease"] > 0
    exit_ps = round(result.elapsed_s * 1e12)  # then pooled device blocks go back, which nobody measures
    ends = ("CallEnd", "LockRelease", "CopyEnd", "KernelEnd")
    sums = TraceStatistics.of([row for row in rows.all if row[1] < exit_ps or (row[1] == exit_ps and row[0] in ends)])
    assert {api: call.count for api, call in result.calls.items()} == {
        api: call.count for api, call in sums.calls.table().items()
    }
    for api, call in sums.calls.table().items():
        assert result.calls[api].total_s == pytest.approx(call.total_s, abs=1e-9)
    for name, use in sums.locks.items():
        if name in result.locks:
            counted = result.locks[name]
            if name == "entry locks":  # a free one is passed under the table lock: counted, but not traced
                assert use.acquired < counted.acquired
            else:
                assert use.acquired == counted.acquired
            assert use.contended == counted.contended
            assert use.wait_s == pytest.approx(result.locks[name].wait_s, abs=1e-9)
            assert use.hold_s == pytest.approx(result.locks[name].hold_s, abs=1e-9)
    assert len(list(read_json_lines(tmp_path / "a.jsonl"))) == len(rows.all)
    assert sum(share.share for share in result.where_time_went.values()) == pytest.approx(1.0)
