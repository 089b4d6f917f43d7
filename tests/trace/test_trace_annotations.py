"""What threads do for one another is in the picture of a run, and changes nothing about the run."""

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from perfetto_picture import Picture, Slice, check, parsed

from offloadrt.cli import main
from offloadrt.extensions.explaining.causal_log import FIRST_TASK, CausalLog
from offloadrt.extensions.explaining.perfetto import PerfettoFile
from offloadrt.extensions.explaining.sentence import observe
from offloadrt.extensions.explaining.tracks import timeline_of
from offloadrt.kernels import kernel
from offloadrt.models import openmp as omp
from offloadrt.study import Result, Run, execute, scenario
from offloadrt.study.spec import RunSpec
from offloadrt.trace import events

THREADS = 8
LAST = 3
"""The thread that works longest, and so comes last."""
LEN = 4096
TEAM = [f"host thread {number}" for number in range(THREADS)]


@kernel(flops_per_iteration=4, bytes_per_iteration=48)
def sweep(a: Any) -> None:
    a += 1.0


@scenario(machine="alex-a100")
async def relaxing(run: Run) -> None:
    """Each thread works, sweeps arrays in deferred tasks and behind one, and meets the others."""

    async def body(t: omp.HostThread) -> None:
        a, b = t.array(f"a of {t.number}", LEN), t.array(f"b of {t.number}", LEN)
        await t.compute(50e-3 if t.number == LAST else 1e-6)
        await t.target(sweep, a, maps=omp.map(tofrom=a), iterations=LEN, nowait=True, depend=omp.depend(out=a))
        await t.target(sweep, b, maps=omp.map(tofrom=b), iterations=LEN, depend=omp.depend(in_=a))
        await t.target(sweep, a, maps=omp.map(tofrom=a), iterations=LEN, nowait=True)
        await t.taskwait()
        await t.barrier()

    await run.parallel(body, num_threads=THREADS)


def run_of(path: Path | None) -> tuple[Result, Run]:
    runs: list[Run] = []
    causal_log = None if path is None else CausalLog(history=False)
    sinks = [] if path is None else [PerfettoFile(path, causal_log)]
    result = execute(relaxing, {}, record=True, sinks=sinks, causal_log=causal_log, before_run=runs.append)
    assert runs[0].trace is not None
    runs[0].trace.close()
    return result, runs[0]


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Run, Picture]:
    path = tmp_path_factory.mktemp("annotations") / "a.pftrace"
    result, run = run_of(path)
    return result, run, parsed(path)


@pytest.fixture(scope="module")
def picture(traced: tuple[Result, Run, Picture]) -> Picture:
    return traced[2]


def of(picture: Picture, name: str) -> list[Slice]:
    return [slice for slice in picture.slices if slice.name == name]


def test_a_run_that_is_drawn_is_the_run_that_is_not(traced: tuple[Result, Run, Picture]) -> None:
    drawn, run, picture = traced
    plain, other = run_of(None)
    assert plain == drawn and plain.trace_hash
    assert run.trace is not None and other.trace is not None
    assert run.trace.rows == other.trace.rows
    check(picture)


def test_all_threads_have_tracks_and_their_work_is_on_them(picture: Picture) -> None:
    assert [title for title in picture.titles("host") if title in TEAM] == TEAM
    work = {picture.title(slice.track): slice.end - slice.begin for slice in of(picture, "compute")}
    assert work.pop(TEAM[LAST]) == 50_000_000
    assert set(work) == set(TEAM) - {TEAM[LAST]}


def test_who_waits_at_the_barrier_is_told_who_came_last(picture: Picture) -> None:
    waits = of(picture, "barrier")
    last = max(waits, key=lambda slice: slice.begin)
    assert picture.title(last.track) == TEAM[LAST] and last.begin == last.end
    for slice in waits:
        if slice is not last:
            assert slice.notes == {"let go on by": TEAM[LAST]} and slice.end == last.begin


def test_waits_for_tasks_name_the_helper_that_ended_them(picture: Picture) -> None:
    for name, task in (("taskwait", "target nowait"), ("depend", "target nowait")):
        waits = of(picture, name)
        assert {picture.title(slice.track) for slice in waits} == set(TEAM)
        for slice in waits:
            helper = str(slice.notes["let go on by"])
            assert slice.end in [done.end for done in picture.on(helper) if done.name == task]


def test_arrows_lead_from_giver_to_waiter_and_from_maker_to_task(picture: Picture) -> None:
    tasks = [arrow for flow, arrow in picture.arrows.items() if flow >= FIRST_TASK]
    assert Counter(arrow[0][0] for arrow in tasks) == dict.fromkeys(TEAM, 2)
    for (_, made, instant), (helper, begun, directive) in tasks:
        assert instant == "make task target nowait" and directive == "target nowait"
        assert helper.startswith("hidden helper thread") and made <= begun
    barriers = [arrow for arrow in picture.arrows.values() if arrow[0][2].startswith("barrier")]
    assert {arrow[0][0] for arrow in barriers} == {TEAM[LAST]}
    assert sorted(arrow[1][0] for arrow in barriers) == sorted(set(TEAM) - {TEAM[LAST]})
    assert all(gave == got for (_, gave, _), (_, got, _) in barriers)


def test_calls_tell_their_arguments_and_directives_what_they_map(picture: Picture) -> None:
    for number in range(THREADS):
        for array, copies in (("a", 2), ("b", 1)):
            name = f"{array} of {number}"
            for call in ("cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemAlloc", "cuMemFree"):
                made = [slice for slice in of(picture, call) if slice.notes.get("array") == name]
                assert len(made) == copies, (call, name)
                assert all(slice.notes["bytes"] == LEN * 8 for slice in made)
    addresses = {str(s.notes["address"]) for s in of(picture, "cuMemAlloc") if "array" in s.notes}
    assert all(int(address, 16) > 0 for address in addresses)
    mapped = Counter(str(slice.notes["maps"]) for slice in picture.slices if "maps" in slice.notes)
    assert mapped == {f"{array} of {n}": 3 - number for n in range(THREADS) for number, array in ((1, "a"), (2, "b"))}
    assert {slice.notes["kernel"] for slice in of(picture, "cuLaunchKernel")} == {"sweep"}
    assert all(str(s.notes["at"]).startswith("test_trace_annotations.py:") for s in of(picture, "target"))


def test_counters_rise_with_each_begin_and_fall_to_nothing(traced: tuple[Result, Run, Picture]) -> None:
    _, run, picture = traced
    assert run.trace is not None
    happened = Counter(type(event) for event in run.trace.events)
    for name, begins in (("resident kernels", events.KernelStart), ("present entries", events.MapInsert)):
        values = [value for _, value in picture.counters[name]]
        assert len(values) == 2 * happened[begins] and min(values) == values[-1] == 0 < max(values)
    copied = Counter[str]()
    for event in run.trace.events:
        if isinstance(event, events.CopyBegin):
            copied[event.direction] += event.bytes
    for direction, total in copied.items():
        values = [0, *(value for _, value in picture.counters[f"bytes in flight {direction}"])]
        rises = [after - before for before, after in pairwise(values) if after > before]
        assert sum(rises) == total and values[-1] == 0


def test_a_report_has_the_same_waits() -> None:
    observed = observe(relaxing, {}, RunSpec())
    timeline = timeline_of(observed.rows, observed.path, (0, observed.windows[-1][1]), observed.causal_log)
    waits = {t.name: s.notes for t in timeline.tracks for s in t.slices if s.name == "barrier"}
    assert waits == dict.fromkeys(set(TEAM) - {TEAM[LAST]}, f"let go on by: {TEAM[LAST]}")


def test_the_command_draws_them_too(tmp_path: Path) -> None:
    path = tmp_path / "a.pftrace"
    main(["run", f"{Path(__file__)}:relaxing", "--perfetto", str(path)])
    assert len(of(parsed(path), "barrier")) == THREADS
