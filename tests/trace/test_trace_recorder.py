"""Recording, decoding, hashing; the observer's side with the real simulation, in both gears."""

import os
import struct
import subprocess
import sys
from hashlib import blake2b
from pathlib import Path
from zlib import crc32

import attrs
import numpy as np
import pytest
from traced_offloading import Actor, StandIn, offload

from offloadrt.sim import Lock, Simulation
from offloadrt.trace import Event, Row, Trace, events
from offloadrt.trace.recorder import BLOCK

GOLDEN = "a046bf1710b6dbebfeb118bef4f1cfbb"
"""Of `traced_offloading.py` run as a script. It changes only with the workload or with the definition of the hash."""

HERE = Path(__file__).parent


@attrs.define
class Collector:
    """A sink that remembers."""

    rows: list[Row] = attrs.field(factory=list)
    closed: int = 0

    def write(self, rows: list[Row]) -> None:
        self.rows += rows

    def close(self) -> None:
        self.closed += 1


def test_a_row_holds_integer_picoseconds_and_decodes_to_its_event() -> None:
    sim = StandIn()
    trace = Trace(sim)
    sim.now, sim.current = 1.5e-6, Actor(7, "host thread 7")
    trace(events.CopyBegin, 0, 3, 12, 1, "h2d", "copy engine h2d", 4096, "pinned")
    trace.by(2, events.LockAcquire, -1, -1, 0, "table")
    assert trace.rows == [
        ("CopyBegin", 1_500_000, 7, 0, 3, 12, 1, "h2d", "copy engine h2d", 4096, "pinned"),
        ("LockAcquire", 1_500_000, 2, -1, -1, 0, "table"),
    ]
    assert trace.events[0] == events.CopyBegin(
        1_500_000, 7, 0, 3, 12, copy=1, direction="h2d", engine="copy engine h2d", bytes=4096, memory="pinned"
    )
    assert [type(event) for event in trace.events] == [events.CopyBegin, events.LockAcquire]
    assert [event.actor for event in trace.events[1:]] == [2]
    assert len(trace.events) == trace.count == 2


def test_sinks_get_every_row_once_and_are_closed_once() -> None:
    sim, first, second = StandIn(), Collector(), Collector()
    with offload(Trace(sim, sinks=[first, second]), sim, threads=8, directives=12) as trace:
        pass
    assert trace.count > 2 * BLOCK
    assert first.rows == second.rows == trace.rows
    assert first.closed == second.closed == 1


@pytest.mark.parametrize("counted", [BLOCK - 1, BLOCK, BLOCK + 1])
def test_an_uncounted_event_behind_the_last_counted_one_is_kept(counted: int) -> None:
    collected = Collector()
    trace = Trace(StandIn(), sinks=[collected])
    for _ in range(counted):
        trace(events.Drain, 0, -1, 0, "cuMemFree")
    trace.aside(events.FaultPhaseEnd, (0, 0, 0), ("service",))
    trace.close()
    assert [row[0] for row in collected.rows[-2:]] == ["Drain", "FaultPhaseEnd"]
    assert len(collected.rows) == counted + 1


def test_a_sink_that_fails_does_not_keep_the_others_open() -> None:
    class Full(Collector):
        def write(self, rows: list[Row]) -> None:
            raise OSError("disk full")

    other = Collector()
    trace = Trace(StandIn(), sinks=[Full(), other])
    trace(events.Drain, 0, -1, 0, "cuMemFree")
    with pytest.raises(OSError, match="disk full"):
        trace.close()
    assert other.closed == 1


def test_without_record_there_is_the_hash_and_the_count_and_nothing_else() -> None:
    sim = StandIn()
    kept = offload(Trace(sim), sim)
    sim = StandIn()
    hashed = offload(Trace(sim, record=False), sim)
    assert hashed.hash() == kept.hash() and hashed.count == kept.count > 0
    with pytest.raises(ValueError, match="record=False"):
        _ = hashed.rows
    with pytest.raises(ValueError, match="hash=False"):
        Trace(StandIn(), hash=False).hash()


def one(kind: type[Event], time: float, actor: int, *rest: object) -> str:
    sim = StandIn()
    trace = Trace(sim, record=False)
    sim.now = time
    trace.by(actor, kind, *rest)  # type: ignore[arg-type]  # rows are built in bulk
    return trace.hash()


def test_the_hash_is_of_time_actor_kind_and_sizes() -> None:
    base = one(events.Allocate, 1e-6, 1, 0, -1, 0, 0x7000, 64, "cuMemAlloc")
    assert base == one(events.Allocate, 1e-6, 1, 1, 4, 9, 0x8000, 64, "omp_target_alloc")
    others = [
        one(events.Allocate, 1e-6 + 1e-12, 1, 0, -1, 0, 0x7000, 64, "cuMemAlloc"),
        one(events.Allocate, 1e-6, 2, 0, -1, 0, 0x7000, 64, "cuMemAlloc"),
        one(events.Free, 1e-6, 1, 0, -1, 0, 0x7000, 64, "cuMemAlloc"),
        one(events.Allocate, 1e-6, 1, 0, -1, 0, 0x7000, 65, "cuMemAlloc"),
    ]
    assert len({base, *others}) == 5


def test_the_hash_does_not_depend_on_when_one_looks() -> None:
    sims = StandIn(), StandIn()
    once, often = Trace(sims[0]), Trace(sims[1])
    for step in range(3 * BLOCK):
        for sim, trace in zip(sims, (once, often), strict=True):
            sim.now = step * 1e-9
            trace(events.Allocate, 0, -1, 0, step, 8 * step, "cuMemAlloc")
        if step % 100 == 0:
            often.hash()
    assert once.hash() == often.hash()


@pytest.mark.parametrize("seed", ["0", "1", "4711"])
def test_the_hash_is_the_same_on_every_python_under_any_hash_seed(seed: str) -> None:
    """Every Python that runs the tests is held to the same constant."""
    run = subprocess.run(
        [sys.executable, HERE / "traced_offloading.py"],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == GOLDEN


def test_the_hash_is_what_its_documentation_says() -> None:
    """Counted again with struct, from the decoded events."""
    sim = StandIn()
    trace = offload(Trace(sim), sim, threads=8, directives=5)
    assert trace.count > BLOCK
    digest = blake2b(digest_size=16)
    for start in range(0, trace.count, BLOCK):
        block = trace.events[start : start + BLOCK]
        sizes = [getattr(event, size) for event in block for size in event.sizes]
        codes = [crc32(type(event).__name__.encode()) for event in block]
        for column in (codes, [event.time_ps for event in block], [event.actor for event in block], sizes):
            digest.update(struct.pack(f"<{len(column)}q", *column))
    assert trace.hash() == digest.hexdigest()


def test_numpy_numbers_count_as_numbers() -> None:
    base = one(events.Allocate, 1e-6, 1, 0, -1, 0, 0x7000, 64, "cuMemAlloc")
    assert base == one(events.Allocate, float(np.float64(1e-6)), 1, 0, -1, 0, 0x7000, np.int64(64), "cuMemAlloc")


def test_a_payload_of_a_wrong_width_is_noticed() -> None:
    trace = Trace(StandIn())
    trace(events.Drain, 0, -1, 0, "cuMemFree")
    trace(events.DirectiveEnd, 0, -1, 0, "target")
    with pytest.raises(ValueError, match=r"of the last 2 events one .* there were DirectiveEnd, Drain"):
        trace.hash()
    with pytest.raises(ValueError, match="wrong width: 2 fields instead of 3"):
        _ = trace.rows


def test_time_beyond_the_picoseconds_that_fit_is_an_error() -> None:
    with pytest.raises(OverflowError, match="a trace reaches"):
        one(events.Drain, 1e7, 1, 0, -1, 0, "cuMemFree")


def locking(gear: str) -> Trace:
    """Three actors and one lock, on the real simulation."""
    sim = Simulation(gear=gear)  # type: ignore[arg-type]  # the parameter of a test
    trace = Trace(sim)
    sim.observer = trace

    async def body(lock: Lock, number: int) -> None:
        for _ in range(20):
            sim.current.cause += 1
            async with lock:
                trace(events.CallBegin, 0, -1, sim.current.cause, "cuMemAlloc")
                await sim.sleep(1e-6 * number)
                trace(events.CallEnd, 0, -1, sim.current.cause, "cuMemAlloc")
            await sim.sleep(2e-6)

    async def main() -> None:
        lock = Lock(sim, "table")
        async with sim.open_nursery() as nursery:
            for number in range(1, 4):
                nursery.spawn(body, lock, number, name=f"host thread {number}")

    sim.run(main)
    return trace


def test_the_observer_writes_locks_and_actors_alike_in_both_gears() -> None:
    native, turbo = locking("native"), locking("turbo")
    assert native.rows == turbo.rows
    assert native.hash() == turbo.hash()
    names = [event.name for event in native.events if isinstance(event, events.ActorSpawned)]
    assert names == ["main", "host thread 1", "host thread 2", "host thread 3"]
    waits = sum(isinstance(event, events.LockWait) for event in native.events)
    acquires = [event for event in native.events if isinstance(event, events.LockAcquire)]
    releases = sum(isinstance(event, events.LockRelease) for event in native.events)
    assert 0 < waits < len(acquires) == releases == 60
    assert {event.cause for event in acquires} == set(range(1, 21))
