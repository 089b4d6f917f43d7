"""A written Perfetto file, parsed back with Perfetto's own protos."""

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from perfetto_picture import Picture, check, parsed
from property_examples import examples
from traced_offloading import Actor, StandIn, offload

from offloadrt.cli import main
from offloadrt.extensions.explaining.perfetto import APART, PACKETS, MissingExtra, PerfettoFile
from offloadrt.trace import Event, Row, Trace, events


def test_a_run_parses_back(tmp_path: Path) -> None:
    path, sim = tmp_path / "a.pftrace", StandIn()
    trace = offload(Trace(sim, sinks=[PerfettoFile(path)]), sim, threads=4, directives=3)
    picture = parsed(path)
    check(picture)
    assert picture.titles("host") == [f"host thread {index}" for index in (1, 2, 3, 4)]
    assert picture.titles("locks") == ["device table", "waiting for device table"]
    device = picture.titles("device 0")
    assert {"copy engine h2d", "copy engine d2h", "compute units", "compute units (2)", "drains"} <= set(device)
    assert {f"hardware queue {index}" for index in (1, 2, 3, 4)} <= set(device)
    assert "compute units (3)" not in device

    held = sorted((slice.begin, slice.name) for slice in picture.on("device table"))
    acquired = [event for event in trace.events if isinstance(event, events.LockAcquire)]
    assert held == [((e.time_ps + 500) // 1000, f"host thread {e.actor}") for e in acquired]
    assert max(value for _, value in picture.counters["waiting for device table"]) == 3
    assert picture.counters["waiting for device table"][-1][1] == 0
    assert picture.counters["memory in use"][-1][1] == 0 < max(v for _, v in picture.counters["memory in use"])

    # Each directive: an arrow to its copy in, on to its kernel, on to its copy out.
    for directive in range(1, 13):
        chain = [slice for slice in picture.slices if directive in slice.flows]
        titles = [picture.title(slice.track).removesuffix(" (2)") for slice in chain]
        assert titles[1:] == ["copy engine h2d", "compute units", "copy engine d2h"]
        assert titles[0].startswith("host thread") and chain[0].name == "target"
        assert all(slice.notes["directive"] == directive for slice in chain)
    inside = [slice for slice in picture.on("host thread 2") if slice.depth == 1]
    assert {slice.name for slice in inside} >= {"wait for device table", "cuMemAlloc", "wait for stream 2", "cuMemFree"}
    assert [name for _, _, name in picture.instants].count("submit update") == 12
    assert [name for _, _, name in picture.instants].count("error in omp_target_alloc") == 1


def test_streaming_and_writing_afterwards_give_the_same_file(tmp_path: Path) -> None:
    sim = StandIn()
    trace = offload(Trace(sim, sinks=[PerfettoFile(tmp_path / "a")]), sim, threads=8, directives=200)
    assert trace.count > PACKETS
    PerfettoFile.of(tmp_path / "b", trace.rows)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    check(parsed(tmp_path / "b"))


def test_runs_of_a_comparison_lie_side_by_side_in_one_file(tmp_path: Path) -> None:
    """Each is drawn as it would be alone, with the variant's name before its groups, and numbers of its own."""
    path, alone = tmp_path / "both.pftrace", tmp_path / "alone.pftrace"
    words = ["overlap", "n=64", "threads=2"]
    compared = ["compare", *words, "configuration=copy,managed", "--machine", "alex-a100,h100", "--draws", "0"]
    assert main([*compared, "--jobs", "1", "--perfetto", str(path)]) == 0
    runs = [parsed(path, run, 4) for run in range(4)]
    variants = [(at, of) for at in ("alex-a100", "h100") for of in ("copy", "managed")]
    groups = [{of.process.process_name: of.process.pid for of in run.tracks.values() if of.process.pid} for run in runs]
    for run, group in zip(runs, groups, strict=True):
        ((variant, _),) = {(name.partition(": ")[0], name.count(": ")) for name in group}
        configuration, machine = (word.partition("=")[2] for word in variant.split())
        assert main(["run", *words, f"configuration={configuration}", "--machine", machine, "--draws", "0",
                     "--perfetto", str(alone)]) == 0  # fmt: skip
        picture = parsed(alone)
        variants.remove((machine, configuration))
        assert {f"{variant}: {of.process.process_name}" for of in picture.tracks.values() if of.process.pid} == set(
            group
        )
        seen, own = ([(at.title(s.track), s.name, s.begin, s.end, s.notes) for s in at.slices] for at in (run, picture))
        assert seen == own and run.counters == picture.counters
        assert {arrow % APART for arrow in run.arrows} == set(picture.arrows)
    assert not variants
    threads = [{of.thread.tid for of in run.tracks.values() if of.HasField("thread")} for run in runs]
    processes = [set(group.values()) for group in groups]
    for numbers in (processes, threads, [set(run.tracks) for run in runs], [set(run.arrows) for run in runs]):
        assert len(set().union(*numbers)) == sum(map(len, numbers)) > 4, "no two runs share one"


def drawn(path: Path, *happened: tuple[float, int, type[Event], tuple[object, ...]]) -> Picture:
    sim = StandIn()
    with Trace(sim, sinks=[PerfettoFile(path)]) as trace:
        for time, actor, kind, payload in happened:
            sim.now = time
            trace.by(actor, kind, 0, 0, 0, *payload)
    picture = parsed(path)
    check(picture)
    return picture


def test_kernels_at_once_take_the_lowest_free_lane(tmp_path: Path) -> None:
    start, end = events.KernelStart, events.KernelEnd
    picture = drawn(
        tmp_path / "a",
        (0e-9, 1, start, (1, "k1", 1)),
        (1e-9, 1, start, (2, "k2", 1)),
        (2e-9, 1, start, (3, "k3", 1)),
        (3e-9, 1, end, (2, "k2")),
        (3e-9, 1, start, (4, "k4", 1)),
        (4e-9, 1, end, (1, "k1")),
        (5e-9, 1, end, (3, "k3")),
        (6e-9, 1, end, (4, "k4")),
    )
    lanes = {title: [s.name for s in picture.on(title)] for title in picture.titles("device 0") if "compute" in title}
    assert lanes == {"compute units": ["k1"], "compute units (2)": ["k2", "k4"], "compute units (3)": ["k3"]}


def test_what_is_left_open_ends_with_the_trace_and_a_cancelled_wait_ends_at_once(tmp_path: Path) -> None:
    picture = drawn(
        tmp_path / "a",
        (0e-9, 1, events.DirectiveBegin, (1, "target")),
        (1e-9, 1, events.LockWait, ("table",)),
        (2e-9, 1, events.CallBegin, ("cuMemFree",)),
        (3e-9, 2, events.LockAcquire, ("table",)),
        (4e-9, 2, events.CopyBegin, (1, "h2d", "copy engine h2d", 8, "pinned")),
        (5e-9, 1, events.ActorFinished, ("x",)),
        (9e-9, 3, events.DirectiveBegin, (2, "target")),
        (9e-9, 9, events.CallEnd, ("cuMemFree",)),
        (9e-9, 9, events.LockRelease, ("other",)),
    )
    ends = {slice.name: (slice.begin, slice.end) for slice in picture.slices if picture.title(slice.track) == "actor 1"}
    assert ends == {"target": (0, 5), "wait for table": (1, 2), "cuMemFree": (2, 5)}
    assert [(slice.begin, slice.end) for slice in picture.on("copy engine h2d")] == [(4, 9)]
    assert [(slice.begin, slice.end) for slice in picture.on("table")] == [(3, 9)]
    assert picture.counters["waiting for table"] == [(1, 1), (2, 0)]


def test_a_pools_blocks_inside_the_drivers_are_not_counted_twice(tmp_path: Path) -> None:
    picture = drawn(
        tmp_path / "a",
        (1e-9, 1, events.Allocate, (4096, 100, "cuMemAlloc")),
        (1e-9, 1, events.Allocate, (4096, 80, "pool")),
        (2e-9, 1, events.Free, (4096, 80, "pool")),
        (3e-9, 1, events.Free, (4096, 100, "cuMemFree")),
        (3e-9, 1, events.Free, (4096, 100, "cuMemFree")),
    )
    assert picture.counters["memory in use"] == [(1, 100), (3, 0)]


def test_page_faults_are_slices_and_counters(tmp_path: Path) -> None:
    picture = drawn(
        tmp_path / "a",
        (1e-9, 1, events.PageFaultBegin, (1, 1)),
        (2e-9, 1, events.PageFaultBegin, (2, 4)),
        (3e-9, 1, events.PageFaultEnd, (1, 1)),
        (4e-9, 1, events.PageFaultEnd, (2, 0)),
        (5e-9, 2, events.Prefault, (8192, 2)),
        (6e-9, 2, events.FaultPhaseBegin, ("service", 7, 3, 9)),
        (7e-9, 2, events.FaultPhaseEnd, ("service",)),
    )
    assert [(slice.begin, slice.end) for slice in picture.on("page faults")] == [(1, 3)]
    assert [(slice.begin, slice.end) for slice in picture.on("page faults (2)")] == [(2, 4)]
    assert picture.counters["faults served"] == [(6, 3)]
    assert picture.counters["pages prefaulted"] == [(5, 2)]


KINDS = st.sampled_from(
    [
        (events.DirectiveBegin, st.tuples(st.integers(1, 4), st.just("target"))),
        (events.DirectiveEnd, st.tuples(st.integers(1, 4), st.just("target"))),
        (events.CallBegin, st.tuples(st.sampled_from(["cuMemAlloc", "cuMemFree"]))),
        (events.CallEnd, st.tuples(st.sampled_from(["cuMemAlloc", "cuMemFree"]))),
        (events.LockWait, st.tuples(st.sampled_from(["a", "b"]))),
        (events.LockAcquire, st.tuples(st.sampled_from(["a", "b"]))),
        (events.LockRelease, st.tuples(st.sampled_from(["a", "b"]))),
        (events.CopyBegin, st.tuples(st.integers(1, 3), *map(st.just, ("h2d", "engine", 8, "pinned")))),
        (events.CopyEnd, st.tuples(st.integers(1, 3), *map(st.just, ("h2d", "engine", 8, "pinned")))),
        (events.KernelStart, st.tuples(st.integers(1, 3), st.just("k"), st.just(1))),
        (events.KernelEnd, st.tuples(st.integers(1, 3), st.just("k"))),
        (events.PageFaultBegin, st.tuples(st.integers(1, 3), st.just(1))),
        (events.PageFaultEnd, st.tuples(st.integers(1, 3), st.just(1))),
        (events.Prefault, st.tuples(st.just(8), st.integers(0, 2))),
        (events.ObjectPlaced, st.tuples(st.just("a"), st.just(8), st.just("pinned"))),
        (events.Drain, st.tuples(st.just("cuMemFree"))),
        (events.Resume, st.tuples(st.just("cuMemFree"))),
        (events.SignalWaitBegin, st.tuples(st.just("s"))),
        (events.SignalWaitEnd, st.tuples(st.just("s"))),
        (events.ActorFinished, st.tuples(st.just("x"))),
    ]
)


@examples(150)
@given(data=st.data())
def test_slices_nest_whatever_happens(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Also when ends are missing, doubled, or out of order."""
    rows: list[Row] = []
    time = 0
    for _ in range(data.draw(st.integers(0, 40))):
        kind, payload = data.draw(KINDS)
        time += data.draw(st.sampled_from([0, 1, 700, 1500]))
        common = (time, data.draw(st.integers(1, 3)), data.draw(st.integers(-1, 1)), data.draw(st.integers(-1, 1)))
        rows.append((kind.label, *common, data.draw(st.integers(0, 4)), *data.draw(payload)))
    path = tmp_path_factory.mktemp("drawn") / "a"
    PerfettoFile.of(path, rows)
    check_nesting_only = parsed(path)
    for slice in check_nesting_only.slices:
        assert slice.end >= slice.begin
        if not check_nesting_only.tracks[slice.track].HasField("thread"):
            assert slice.depth == 0


def test_without_the_package_one_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "perfetto"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "perfetto", None)
    with pytest.raises(MissingExtra, match=r"pip install 'offloadrt\[perfetto\]'"):
        PerfettoFile(tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_a_name_that_arrives_late_is_no_error(tmp_path: Path) -> None:
    sim = StandIn()
    with Trace(sim, sinks=[PerfettoFile(tmp_path / "a")]) as trace:
        trace.by(5, events.CallBegin, 0, -1, 0, "cuInit")
        trace.actor_spawned(Actor(5, "late"))
    check(parsed(tmp_path / "a"))


def test_a_wait_for_a_lock_tells_its_holder_and_who_gave_it(tmp_path: Path) -> None:
    spawned, wait, acquire, release = events.ActorSpawned, events.LockWait, events.LockAcquire, events.LockRelease
    picture = drawn(
        tmp_path / "a",
        *((0.0, actor, spawned, (f"host thread {actor}",)) for actor in range(3)),
        (1e-6, 0, acquire, ("table",)),
        (2e-6, 1, wait, ("table",)),
        (3e-6, 0, release, ("table",)),
        (3e-6, 1, acquire, ("table",)),
        (4e-6, 1, release, ("table",)),
    )
    assert picture.titles("host") == ["host thread 0", "host thread 1", "host thread 2"]
    (waited,) = picture.on("host thread 1")
    assert waited.notes == {"held by": "host thread 0"}
    assert [name for _, _, name in picture.instants] == ["release table", "got table"]
    pids = {track.process.process_name: track.process.pid for track in picture.tracks.values()}
    assert pids["host"] < pids["locks"]
