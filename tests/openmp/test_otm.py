"""The configuration `otm`: which objects lie where, what that moves, and that the numbers are those of copies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offloadrt import openmp as omp
from offloadrt.kernels import ArrayUse, HostProgram, Kernel, ObjectFrequency, kernel
from offloadrt.study.errors import UserError
from offloadrt.study.run import Run
from offloadrt.trace import events

BLOCK = 2 << 20
N = 3 * BLOCK // 8
SIZE = 8 * N
Body = Callable[[omp.HostThread], Awaitable[Any]]
ALL_IMPLICIT = {"otm.threshold": "2"}
ALL_EXPLICIT = {"otm.threshold": "0"}


def room_for(arrays: int) -> dict[str, str]:
    return {"mem.size": f"{arrays * SIZE} B", "mem.reserved": "0 B", "otm.reserve": "0 B"}


@kernel
def step(a: Any, b: Any, c: Any) -> None:
    for i in range(len(a)):
        c[i] = c[i] + a[i]
        if b[i] > 0.5:
            a[i] = a[i] + 1.0


@kernel
def add(b: Any, c: Any) -> None:
    for i in range(len(b)):
        c[i] = c[i] + b[i]


def arrays_of(t: omp.HostThread) -> list[omp.HostArray]:
    rng = np.random.default_rng(t.number)
    return [t.array(name, N, fill=rng.random(N), align=BLOCK) for name in "abc"]


async def three_objects(t: omp.HostThread) -> list[Any]:
    """The common program: `target data` around a loop of targets."""
    a, b, c = arrays_of(t)
    async with t.target_data(omp.map(tofrom=[a, b, c])):
        for _ in range(3):
            await t.target(add, b, c, maps=omp.map(tofrom=[b, c]))
            await t.target(step, a, b, c, maps=omp.map(tofrom=[a, b, c]))
    for array in (a, b, c):
        await t.host_access(array)
    return [array.data.copy() for array in (a, b, c)]


async def plain_targets(t: omp.HostThread) -> list[Any]:
    """The other common program: each target has its maps, and none is open between."""
    a, b, c = arrays_of(t)
    for _ in range(3):
        await t.target(add, b, c, maps=[omp.map(to=b), omp.map(tofrom=c)])
        await t.target(step, a, b, c, maps=[omp.map(tofrom=[a, c]), omp.map(to=b)])
    for array in (a, b, c):
        await t.host_access(array)
    return [array.data.copy() for array in (a, b, c)]


def known(**gaf: float) -> HostProgram:
    """Objects in order of rank."""
    return HostProgram((), tuple(ObjectFrequency(name, f, k, ()) for k, (name, f) in enumerate(gaf.items(), 1)))


GIVEN = known(c=9.0, a=5.0, b=4.0)


def run_body(
    body: Body,
    configuration: str = "otm",
    program: HostProgram | None = GIVEN,
    overrides: dict[str, str] | None = None,
    threads: int = 1,
    machine: str = "summitdev-p100",
    gear: str = "turbo",
    phantom: bool = False,
    devices: int = 1,
) -> tuple[Run, list[Any]]:
    run = Run(machine=machine, gear=gear, record=True)
    for key, value in (overrides or {}).items():
        run.set(key, value)
    run.configuration, run.host_program, run.phantom, run.num_devices = configuration, program, phantom, devices

    async def main() -> list[Any]:
        returned = await run.parallel(body, threads)
        await run.finish()
        return returned

    return run, run.sim.run(main)


def mechanisms(run: Run) -> dict[str, str]:
    return {one.name: one.mechanism for one in run.device().placements}


def faults(run: Run, *names: str) -> list[int]:
    return [run.faults[name] for name in names]


# What is placed where


@pytest.mark.parametrize("body", [three_objects, plain_targets])
def test_ranks_and_densities_come_from_the_source(body: Body) -> None:
    run, _ = run_body(body, program=HostProgram.of(body, {"step": step, "add": add}))
    placed = {one.name: one for one in run.device().placements}
    assert [one.rank for one in placed.values()] == [1, 2, 3]
    assert [one.name for one in placed.values()] == ["c", "b", "a"]  # 3 × (2 + 2), 3 × (1 + 1), 3 × (1 + 0.5 × 2)
    assert [one.gaf for one in placed.values()] == [12.0, 6.0, 6.0]
    assert all(one.density == 1.0 and one.mechanism == "explicit" and one.nbytes == SIZE for one in placed.values())


def test_objects_go_by_rank_as_far_as_memory_goes() -> None:
    found = [mechanisms(run_body(three_objects, overrides=room_for(arrays))[0]) for arrays in (0, 1, 2, 3)]
    order = ["explicit"] * 3
    for arrays, one in enumerate(found):
        assert list(one) == ["c", "a", "b"]
        assert list(one.values()) == order[:arrays] + ["pinned"] * (3 - arrays)


def test_the_trip_count_of_the_launch_makes_the_density() -> None:
    sparse = Kernel("sparse", arrays=(ArrayUse("a", 0, reads=2.0), ArrayUse("b", 1, reads=0.5)))

    async def body(t: omp.HostThread) -> None:
        a, b, _ = arrays_of(t)
        await t.target(sparse, a, b, maps=omp.map(tofrom=[a, b]), teams=4, iterations=N // 2)

    run, _ = run_body(body)
    assert {one.name: one.density for one in run.device().placements} == {"a": 1.0, "b": 0.25}
    assert mechanisms(run) == {"a": "explicit", "b": "implicit"}


def test_an_array_passed_twice_counts_twice() -> None:
    half = Kernel("half", arrays=(ArrayUse("a", 0, reads=0.4), ArrayUse("b", 1, writes=0.3)))

    async def body(t: omp.HostThread) -> None:
        a, _, _ = arrays_of(t)
        await t.target(half, a, a, maps=omp.map(tofrom=a), teams=4, iterations=N)

    assert run_body(body)[0].device().placements[0].density == pytest.approx(0.7)


def test_under_other_configurations_nothing_is_placed() -> None:
    run, _ = run_body(three_objects, "managed")
    assert run.device().placements == () and run.objects == {}


# Data directives


def test_target_data_pins_by_rank_what_the_first_target_alone_would_have_placed() -> None:
    """`add` comes first and does not use `a`; without the data directive `b` takes its room."""
    assert mechanisms(run_body(three_objects, overrides=room_for(2))[0])["b"] == "pinned"

    async def without(t: omp.HostThread) -> None:
        a, b, c = arrays_of(t)
        await t.target(add, b, c, maps=omp.map(tofrom=[b, c]))
        await t.target(step, a, b, c, maps=omp.map(tofrom=[a, b, c]))

    run, _ = run_body(without, overrides={**room_for(2), "otm.leave": "program"})
    assert mechanisms(run) == {"c": "explicit", "a": "pinned", "b": "explicit"}


def test_counts_of_the_present_table_are_those_of_copies() -> None:
    def counts(configuration: str) -> dict[str, list[tuple[str, int]]]:
        trace = run_body(three_objects, configuration, overrides=ALL_EXPLICIT)[0].trace
        assert trace is not None
        found: dict[str, list[tuple[str, int]]] = {name: [] for name in "abc"}
        for event in trace.events:
            if isinstance(event, events.MapInsert | events.MapCount):
                found[event.array].append((type(event).__name__, event.dynamic))
        return found

    assert counts("otm") == counts("copy")
    assert counts("otm")["a"] == [("MapInsert", 1)] + [("MapCount", 2), ("MapCount", 1)] * 3 + [("MapCount", 0)]


def test_an_update_before_the_first_target_is_not_lost() -> None:
    """`alloc` copies nothing, and there is no block yet that the update could write to."""

    async def body(t: omp.HostThread) -> Any:
        a, b, c = arrays_of(t)
        await t.target_enter_data(omp.map(alloc=[b, c]))
        await t.target_update(omp.to(b, c))
        await t.target(add, b, c, maps=omp.map(tofrom=[b, c]))
        await t.target_exit_data(omp.map(release=b), omp.map(from_=c))
        return c.data.copy()

    assert np.array_equal(run_body(body)[1][0], run_body(body, "copy")[1][0])


def test_what_nobody_has_written_is_not_copied_to_the_device() -> None:
    async def body(t: omp.HostThread) -> None:
        a, b, c = arrays_of(t)
        async with t.target_data(omp.map(to=b), omp.map(from_=c)):
            await t.target(add, b, c, maps=omp.map(tofrom=[b, c]))

    moved = run_body(body)[0].device().bytes_moved()
    assert (moved["h2d"], moved["d2h"]) == (SIZE, SIZE)


# When objects leave


@pytest.mark.parametrize(("leave", "active"), [("region", 0), ("data", 0), ("program", SIZE)])
def test_plain_targets_end_the_activity_of_their_objects(leave: str, active: int) -> None:
    async def body(t: omp.HostThread) -> int:
        a, b, c = arrays_of(t)
        await t.target(add, b, c, maps=omp.map(tofrom=[b, c]))
        objects = t.program.devices[0].objects
        assert objects is not None
        return objects.counters.implicit // 2

    assert run_body(body, overrides={**ALL_IMPLICIT, "otm.leave": leave})[1] == [active]


@pytest.mark.parametrize(("leave", "implicit"), [("region", 0), ("data", 2 * SIZE), ("program", 2 * SIZE)])
def test_a_data_directive_keeps_its_objects_active(leave: str, implicit: int) -> None:
    async def body(t: omp.HostThread) -> int:
        a, b, c = arrays_of(t)
        async with t.target_data(omp.map(tofrom=[b, c])):
            await t.target(add, b, c, maps=omp.map(tofrom=[b, c]))
            objects = t.program.devices[0].objects
            assert objects is not None
            return objects.counters.implicit

    assert run_body(body, overrides={**ALL_IMPLICIT, "otm.leave": leave})[1] == [implicit]


def test_explicit_objects_stay_as_long_as_they_have_a_block() -> None:
    async def body(t: omp.HostThread) -> tuple[int, int]:
        a, b, c = arrays_of(t)
        objects = t.program.devices[0].objects
        assert objects is not None
        async with t.target_data(omp.map(tofrom=[b, c])):
            await t.target(add, b, c, maps=omp.map(tofrom=[b, c]))
            inside = objects.counters.explicit
        return inside, objects.counters.explicit

    assert run_body(body, overrides={"otm.leave": "region"})[1] == [(2 * SIZE, 0)]


def test_a_freed_object_gives_its_budget_back() -> None:
    async def body(t: omp.HostThread) -> int:
        b, c = (t.array(name, N, fill=1.0, kind="heap") for name in "bc")
        maps = omp.map(tofrom=[omp.section(b), omp.section(c)])
        await t.target(add, b, c, maps=maps)
        t.free(b)
        objects = t.program.devices[0].objects
        assert objects is not None
        return objects.counters.implicit

    assert run_body(body, overrides={**ALL_IMPLICIT, "otm.leave": "program"})[1] == [SIZE]


def test_what_was_pinned_migrates_again_when_it_is_placed_anew() -> None:
    async def body(t: omp.HostThread) -> None:
        a, b, c = arrays_of(t)
        await t.target(step, a, b, c, maps=omp.map(tofrom=[a, b, c]))
        await t.target(add, b, c, maps=omp.map(tofrom=[b, c]))

    run, _ = run_body(body, overrides={**ALL_IMPLICIT, **room_for(2)})
    assert mechanisms(run)["b"] == "implicit"
    assert run.calls.table()["cuMemAdvise"].count == 2
    assert faults(run, "bytes_transfer_htod") == [3 * SIZE]


# What it moves


def test_pinning_takes_away_the_migrations_of_one_object_and_no_other() -> None:
    fits, _ = run_body(three_objects, overrides=ALL_IMPLICIT)
    pinned, _ = run_body(three_objects, overrides={**ALL_IMPLICIT, **room_for(2)})
    managed, _ = run_body(three_objects, "managed", overrides=room_for(2))
    assert mechanisms(pinned) == {"c": "implicit", "a": "implicit", "b": "pinned"}
    assert faults(fits, "bytes_transfer_htod", "bytes_transfer_dtoh", "evicted_blocks") == [3 * SIZE, 3 * SIZE, 0]
    assert faults(pinned, "bytes_transfer_htod", "bytes_transfer_dtoh", "evicted_blocks") == [2 * SIZE, 2 * SIZE, 0]
    assert faults(managed, "evicted_blocks") > [0] and managed.faults["bytes_transfer_htod"] > 3 * SIZE


@pytest.mark.parametrize("body", [three_objects, plain_targets])
@pytest.mark.parametrize("arrays", [1, 2])
def test_what_is_explicit_or_pinned_neither_migrates_nor_is_evicted(body: Body, arrays: int) -> None:
    run, _ = run_body(body, overrides={**ALL_EXPLICIT, **room_for(arrays)})
    assert set(mechanisms(run).values()) == {"explicit", "pinned"}
    assert faults(run, "bytes_transfer_htod", "bytes_transfer_dtoh", "evicted_blocks") == [0, 0, 0]
    assert run.objects == {"explicit_bytes": arrays * SIZE, "implicit_bytes": 0, "budget_bytes": arrays * SIZE}


def test_when_everything_is_implicit_it_is_managed_memory() -> None:
    """But for the host time of the decisions, also at the table."""
    free = {"otm.decision": "0 s"}
    implicit, _ = run_body(three_objects, overrides={**ALL_IMPLICIT, **free})
    managed, _ = run_body(three_objects, "managed")
    assert implicit.faults == managed.faults
    assert implicit.elapsed == pytest.approx(managed.elapsed, rel=1e-9)


def test_when_everything_is_explicit_the_bytes_are_those_of_copies() -> None:
    explicit, _ = run_body(three_objects, overrides=ALL_EXPLICIT)
    copied, _ = run_body(three_objects, "copy")
    assert explicit.device().bytes_moved() == copied.device().bytes_moved()
    assert explicit.elapsed == pytest.approx(copied.elapsed, rel=0.01)


def test_a_copy_has_the_pages_come_back_that_the_device_owns() -> None:
    sparse = Kernel("sparse", arrays=(ArrayUse("c", 0, reads=0.01),))

    async def body(t: omp.HostThread) -> None:
        a, b, c = arrays_of(t)
        await t.target(sparse, c, maps=omp.map(tofrom=c), teams=64, iterations=N)
        await t.target(add, b, c, maps=omp.map(to=[b, c]))

    run, _ = run_body(body)
    assert mechanisms(run) == {"c": "explicit", "b": "explicit"}
    assert faults(run, "bytes_transfer_htod", "bytes_transfer_dtoh") == [SIZE, SIZE]


def test_the_decision_costs_host_time_for_each_object_of_a_call() -> None:
    costs = [run_body(three_objects, overrides={"otm.decision": cost})[0].elapsed for cost in ("0 s", "1 ms")]
    assert costs[1] - costs[0] == pytest.approx((3 + 3 * (2 + 3)) * 1e-3, rel=1e-6)


# The numbers


@pytest.mark.parametrize("gear", ["native", "turbo"])
@pytest.mark.parametrize("body", [three_objects, plain_targets])
def test_the_numbers_are_those_of_copies_and_of_managed_memory(body: Body, gear: str) -> None:
    expected = run_body(body, "copy", threads=3, gear=gear)[1]
    variants: list[tuple[str, dict[str, str]]] = [
        ("managed", {}),
        ("otm", {}),
        ("otm", ALL_IMPLICIT),
        ("otm", room_for(4)),
        ("otm", {**room_for(5), "otm.leave": "region"}),
        ("otm", {**room_for(5), "otm.leave": "program", "table.items_per_hold": "8"}),
    ]
    for configuration, overrides in variants:
        _, found = run_body(body, configuration, overrides=overrides, threads=3, gear=gear)
        assert np.array_equal(found, expected), (configuration, overrides)


def test_threads_share_the_budget() -> None:
    run, _ = run_body(three_objects, overrides=room_for(4), threads=3)
    found = run.device().placements
    assert [one.name for one in found] == ["c"] * 3 + ["a"] * 3 + ["b"] * 3
    assert run.objects["explicit_bytes"] <= 4 * SIZE
    assert run.device().memory.peak <= 4 * SIZE


@pytest.mark.parametrize("kind", ["to", "alloc"])
def test_threads_that_come_at_once_carry_out_a_data_directive_once(kind: str) -> None:
    shared: list[omp.HostArray] = []

    async def body(t: omp.HostThread) -> Any:
        if t.number == 0:
            shared[:] = [t.array("b", N, fill=2.0, align=BLOCK)]
            await t.target_enter_data(omp.map(to=shared) if kind == "to" else omp.map(alloc=shared))
            await t.target_update(omp.to(*shared))
        await t.barrier()
        c = t.array("c", N, fill=float(t.number), align=BLOCK)
        await t.target(add, shared[0], c, maps=[omp.map(alloc=shared), omp.map(tofrom=c)])
        await t.barrier()
        if t.number == 0:
            await t.target_exit_data(omp.map(release=shared))
        return c.data[[0, -1]].tolist()

    run, found = run_body(body, threads=6)
    assert found == [[2.0 + k] * 2 for k in range(6)]
    assert run.device().bytes_moved()["h2d"] == 7 * SIZE
    device = run.openmp.devices[0]
    assert len(device.table) == device.live_blocks == 0
    assert device.objects is not None and device.objects.counters.total == 0


SMALL = BLOCK // 8
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["enter", "exit", "host", "add", "step", "sparse"]),
        st.permutations("abc"),
        st.sampled_from(["to", "alloc"]),
    ),
    min_size=1,
    max_size=12,
)


def program_of(steps: list[tuple[str, list[str], str]]) -> Body:
    """A correct program of such steps: what the host writes is updated, what it reads comes back before."""
    sparse = Kernel("sparse", lambda x: np.multiply(x, 3.0, out=x), arrays=(ArrayUse("x", 0, 0.1, 0.1),))

    async def body(t: omp.HostThread) -> list[Any]:
        arrays = {name: t.array(name, SMALL, fill=float(k), align=BLOCK) for k, name in enumerate("abc")}
        entered: list[str] = []

        async def back(name: str) -> None:
            await t.target_update(omp.from_(arrays[name]))
            await t.target_exit_data(omp.map(release=arrays[name]))
            entered.remove(name)

        for what, names, kind in steps:
            x, y, z = (arrays[name] for name in names)
            if what == "enter":
                clause = omp.map(to=x) if kind == "to" else omp.map(alloc=x)
                await t.target_enter_data(clause)
                if kind == "alloc" and names[0] not in entered:
                    await t.target_update(omp.to(x))
                entered.append(names[0])
            elif what == "exit" and names[0] in entered:
                await back(names[0])
            elif what == "host":
                await t.target_update(omp.from_(x))
                await t.host_access(x)
                x.data[:] = x.data + 1.0
                await t.target_update(omp.to(x))
            elif what == "add":
                await t.target(add, x, y, maps=omp.map(tofrom=[x, y]))
            elif what == "step":
                await t.target(step, x, y, z, maps=omp.map(tofrom=[x, y, z]))
            elif what == "sparse":
                await t.target(sparse, x, maps=omp.map(tofrom=x), teams=4, iterations=SMALL)
        for name in [*entered]:
            await back(name)
        return [array.data.copy() for array in arrays.values()]

    return body


@settings(max_examples=60, deadline=None)
@given(STEPS, st.integers(0, 3), st.sampled_from(["region", "data", "program"]), st.booleans())
def test_any_correct_program_has_the_numbers_of_copies(steps: list[Any], blocks: int, leave: str, evicts: bool) -> None:
    body = program_of(steps)
    size = {"mem.size": f"{(blocks + 1) * BLOCK} B", "mem.reserved": "0 B", "otm.reserve": f"{BLOCK} B"}
    run, found = run_body(body, overrides={**size, "otm.leave": leave, "otm.evicts": str(evicts).lower()})
    assert np.array_equal(found, run_body(body, "copy")[1])
    assert run.objects["explicit_bytes"] + run.objects["implicit_bytes"] <= 2 * blocks * BLOCK
    objects = run.openmp.devices[0].objects
    assert objects is not None and (leave == "program" or objects.counters.total == 0)


# Refusals


@pytest.mark.parametrize(
    ("machine", "devices", "program", "message"),
    [
        ("summitdev-p100", 1, None, "run.host_program is missing"),
        ("mi300a", 1, None, "share one memory"),
        ("summitdev-p100", 2, GIVEN, "one device only"),
    ],
)
def test_what_cannot_be_done_is_refused(machine: str, devices: int, program: Any, message: str) -> None:
    with pytest.raises(UserError, match=f"'otm'.*{message}"):
        run_body(three_objects, program=program, machine=machine, devices=devices)


def test_an_object_that_the_analysis_does_not_know_is_refused() -> None:
    with pytest.raises(omp.PlacementError, match=r"no object 'b'.*it has: c, a") as refused:
        run_body(plain_targets, program=known(c=1.0, a=0.5))
    assert refused.value.call == "target" and refused.value.array == "b"


def test_the_address_of_an_object_is_not_to_be_had() -> None:
    async def body(t: omp.HostThread) -> None:
        a, _, _ = arrays_of(t)
        async with t.target_data(omp.map(to=a), omp.use_device_ptr(a)):
            pass

    with pytest.raises(omp.PlacementError, match="use_device_ptr and use_device_addr of array 'a'"):
        run_body(body)


def test_globals_and_the_programs_own_blocks_are_no_objects() -> None:
    fill = Kernel("fill", lambda g, p, c: c.__iadd__(g + p))

    async def body(t: omp.HostThread) -> Any:
        table = t.program.declare_target("table", N, fill=2.0)
        block = await t.omp_target_alloc(SIZE)
        assert block is not None
        c = t.array("c", N, fill=1.0)
        await t.omp_target_memcpy(block, c, SIZE)
        pointer = block.viewed(np.float64)
        await t.target(fill, table, pointer, c, maps=omp.map(tofrom=c), is_device_ptr=pointer, teams=8)
        return c.data[:3].tolist()

    run, found = run_body(body)
    assert found == [[4.0, 4.0, 4.0]]
    assert list(mechanisms(run)) == ["c"]


def test_on_an_a100_it_can_be_asked_for() -> None:
    run, _ = run_body(three_objects, machine="alex-a100")
    assert set(mechanisms(run).values()) == {"explicit"}


def test_both_gears_give_the_same_hash() -> None:
    runs = [run_body(three_objects, overrides=room_for(4), threads=3, gear=gear)[0] for gear in ("native", "turbo")]
    hashes = [None if run.trace is None else run.trace.hash() for run in runs]
    assert hashes[0] == hashes[1] is not None
