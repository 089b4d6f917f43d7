"""Page faults are seen as they are served, and counted alike by the run, its trace, its log and its pictures."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from perfetto_picture import Picture, parsed

from offloadrt.cli import render
from offloadrt.extensions.explaining.causal_log import CausalLog
from offloadrt.extensions.explaining.perfetto import PerfettoFile
from offloadrt.extensions.explaining.sentence import Observed, observe
from offloadrt.extensions.explaining.tracks import kind_of, timeline_of
from offloadrt.extensions.logs.reading import read_json_lines
from offloadrt.study import Result, execute, find_scenario
from offloadrt.study.spec import RunSpec
from offloadrt.trace import Row
from offloadrt.trace.logs import JsonLines

STORM = {"gib": 0.25, "warm_up": 0, "launches": 2}
SMALL = RunSpec(overrides={"mem.size": "600MiB"}, hash=True)
"""A kernel that sweeps over more managed memory than the device has left, twice."""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> tuple[Observed, Path, Picture, Result]:
    folder = tmp_path_factory.mktemp("storm")
    log, picture = folder / "storm.jsonl", folder / "storm.pftrace"
    causal_log = CausalLog(history=False)
    sinks = [JsonLines(log), PerfettoFile(picture, causal_log)]
    runs: list[Any] = []
    scenario = find_scenario("oversubscription")
    result = execute(scenario, STORM, spec=SMALL, sinks=sinks, causal_log=causal_log, before_run=runs.append)
    runs[0].trace.close()
    return observe(scenario, STORM, SMALL), log, parsed(picture), result


def begun(rows: Any) -> list[tuple[str, int, int]]:
    return [(row[6], row[8], row[9]) for row in rows if row[0] == "FaultPhaseBegin"]


def test_faults_entries_batches_and_services_are_counted_alike_everywhere(
    seen: tuple[Observed, Path, Picture, Result],
) -> None:
    observed, log, picture, result = seen
    counted = result.faults
    faults, duplicates = counted["faults"], counted["duplicates"]
    batches, services = counted["fault_batches"], counted["gpu_page_fault"]
    (line,) = [one for one in map(str, render.result(result)) if one.startswith("page faults")]
    assert f"services {services}, batches {batches}, faults {faults}, duplicates {duplicates}" in line
    assert f"entries {faults + duplicates}, " in line  # which the program's own figures call faults, as papers do
    assert (result.measured["faults"], result.measured["pages"]) == (faults + duplicates, faults)
    assert faults > 100 and duplicates > 0 and services > batches > 5
    of_log: list[Row] = [
        (event.label, event.time_ps, event.actor, -1, -1, 0, event.phase, event.block, event.pages, event.entries)  # type: ignore[attr-defined]
        for event in read_json_lines(log)
        if event.label == "FaultPhaseBegin"
    ]
    for phases in (begun(observed.rows), begun(of_log)):
        assert sum(pages for phase, pages, _ in phases if phase == "service") == faults
        assert sum(entries for phase, _, entries in phases if phase == "fetch") == faults + duplicates
        names = Counter(phase for phase, _, _ in phases)
        assert (names["fetch"], names["preprocess"], names["replay"]) == (batches,) * 3
        assert names["service"] == services
    timeline = timeline_of(observed.rows, observed.path, (0, observed.windows[-1][1]), observed.causal_log)
    (counter,) = [one for one in timeline.counters if one.name == "faults served"]
    assert counter.values[-1] == faults
    (handler,) = [track for track in timeline.tracks if track.name == "device 0 page fault handler"]
    assert sum(one.name == "fetch" for one in handler.slices) == batches
    assert sum(one.name == "service" for one in picture.on("device 0 page fault handler")) == services
    assert {kind_of(handler, one) for one in handler.slices} == {"page faults"}


def test_phases_lie_in_one_another_in_order_of_time(seen: tuple[Observed, Path, Picture, Result]) -> None:
    observed = seen[0]
    times = [row[1] for row in observed.rows]
    assert times == sorted(times)
    within: dict[int, list[str]] = {}
    outer: dict[str, set[str]] = {}
    for label, _, actor, _, _, _, *payload in observed.rows:
        open_ = within.setdefault(actor, [])
        if label == "FaultPhaseBegin":
            outer.setdefault(payload[0], set()).add(open_[-1] if open_ else "")
            open_.append(payload[0])
        elif label == "FaultPhaseEnd":
            assert open_.pop() == payload[0]
    assert outer["evict"] == outer["unmap"] == {"service"}
    assert outer["service"] == outer["fetch"] == outer["replay"] == {""}


def test_who_looks_at_phases_changes_nothing(seen: tuple[Observed, Path, Picture, Result]) -> None:
    hashes = {
        execute(find_scenario("oversubscription"), STORM, spec=SMALL, gear=gear).trace_hash
        for gear in ("turbo", "native")
    }
    assert hashes == {seen[3].trace_hash}


def test_faults_of_an_apu_and_of_its_host_are_seen_as_they_are_served() -> None:
    scenario = find_scenario("overlap")
    spec = RunSpec(machine="mi300a", configuration="implicit_zero_copy")
    observed = observe(scenario, scenario.bind({"threads": 2}), spec)
    pages = sum(row[7] for row in observed.rows if row[0] == "PageFaultEnd")
    assert pages > 0
    assert sum(pages for phase, pages, _ in begun(observed.rows) if phase == "service") == pages
