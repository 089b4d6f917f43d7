"""The configuration `otm`: which objects lie where, for how long, who is told of it, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from otm_rig import (
    ALL_EXPLICIT,
    ALL_IMPLICIT,
    BLOCK,
    GIVEN,
    SIZE,
    Body,
    N,
    add,
    arrays_of,
    faults,
    known,
    mechanisms,
    plain_targets,
    room_for,
    run_body,
    step,
    three_objects,
)

from offloadrt import openmp as omp
from offloadrt.extensions.otm.configuration import object_table, placements_on
from offloadrt.extensions.otm.ranking import HostProgram
from offloadrt.kernels import ArrayUse, Kernel
from offloadrt.study import Run, UserError, execute, scenario
from offloadrt.study.reporting.results import row, to_json
from offloadrt.trace import events

# What is placed where


@pytest.mark.parametrize("body", [three_objects, plain_targets])
def test_ranks_and_densities_come_from_the_source(body: Body) -> None:
    run, _ = run_body(body, program=HostProgram.of(body, {"step": step, "add": add}))
    placed = {one.name: one for one in placements_on(run.program.devices)}
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
    assert {one.name: one.density for one in placements_on(run.program.devices)} == {"a": 1.0, "b": 0.25}
    assert mechanisms(run) == {"a": "explicit", "b": "implicit"}


def test_an_array_passed_twice_counts_twice() -> None:
    half = Kernel("half", arrays=(ArrayUse("a", 0, reads=0.4), ArrayUse("b", 1, writes=0.3)))

    async def body(t: omp.HostThread) -> None:
        a, _, _ = arrays_of(t)
        await t.target(half, a, a, maps=omp.map(tofrom=a), teams=4, iterations=N)

    assert placements_on(run_body(body)[0].program.devices)[0].density == pytest.approx(0.7)


def test_a_loop_over_objects_is_a_target_for_each() -> None:
    twice = Kernel("twice", arrays=(ArrayUse("x", 0, reads=1.0, writes=1.0),))

    async def body(t: omp.HostThread) -> None:
        a, b, _ = arrays_of(t)
        for array in (b, a):
            await t.target(twice, array, maps=omp.map(tofrom=array), teams=4, iterations=N)
            if t.number:
                break

    run, _ = run_body(body, program=HostProgram.of(body, {"twice": twice}))
    assert [(one.name, one.gaf, one.rank) for one in placements_on(run.program.devices)] == [
        ("b", 2.0, 1),
        ("a", 1.0, 2),
    ]


def test_under_other_configurations_nothing_is_placed() -> None:
    run, _ = run_body(three_objects, "managed")
    assert run.statistics.sections == {}


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
        _, b, c = arrays_of(t)
        await t.target_enter_data(omp.map(alloc=[b, c]))
        await t.target_update(omp.to(b, c))
        await t.target(add, b, c, maps=omp.map(tofrom=[b, c]))
        await t.target_exit_data(omp.map(release=b), omp.map(from_=c))
        return c.data.copy()

    assert np.array_equal(run_body(body)[1][0], run_body(body, "copy")[1][0])


def test_what_nobody_has_written_is_not_copied_to_the_device() -> None:
    async def body(t: omp.HostThread) -> None:
        _, b, c = arrays_of(t)
        async with t.target_data(omp.map(to=b), omp.map(from_=c)):
            await t.target(add, b, c, maps=omp.map(tofrom=[b, c]))

    moved = run_body(body)[0].device().bytes_moved()
    assert (moved["h2d"], moved["d2h"]) == (SIZE, SIZE)


# When objects leave


@pytest.mark.parametrize(("leave", "active"), [("region", 0), ("data", 0), ("program", SIZE)])
def test_plain_targets_end_the_activity_of_their_objects(leave: str, active: int) -> None:
    async def body(t: omp.HostThread) -> int:
        _, b, c = arrays_of(t)
        await t.target(add, b, c, maps=omp.map(tofrom=[b, c]))
        objects = object_table(t.program.devices[0])
        return objects.counters.implicit // 2

    assert run_body(body, overrides={**ALL_IMPLICIT, "otm.leave": leave})[1] == [active]


@pytest.mark.parametrize(("leave", "implicit"), [("region", 0), ("data", 2 * SIZE), ("program", 2 * SIZE)])
def test_a_data_directive_keeps_its_objects_active(leave: str, implicit: int) -> None:
    async def body(t: omp.HostThread) -> int:
        _, b, c = arrays_of(t)
        async with t.target_data(omp.map(tofrom=[b, c])):
            await t.target(add, b, c, maps=omp.map(tofrom=[b, c]))
            objects = object_table(t.program.devices[0])
            return objects.counters.implicit

    assert run_body(body, overrides={**ALL_IMPLICIT, "otm.leave": leave})[1] == [implicit]


def test_explicit_objects_stay_as_long_as_they_have_a_block() -> None:
    async def body(t: omp.HostThread) -> tuple[int, int]:
        _, b, c = arrays_of(t)
        objects = object_table(t.program.devices[0])
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
        objects = object_table(t.program.devices[0])
        return objects.counters.implicit

    run, counted = run_body(body, overrides={**ALL_IMPLICIT, "otm.leave": "program"})
    assert counted == [SIZE]
    assert mechanisms(run) == {"c": "implicit", "b": "implicit"}


def test_what_a_data_directive_pins_stays_pinned_until_it_ends() -> None:
    """Also when objects leave at the end of each region: `b` would fit when `add` comes alone."""
    run, _ = run_body(three_objects, overrides={**ALL_IMPLICIT, **room_for(2), "otm.leave": "region"})
    assert mechanisms(run)["b"] == "pinned"
    assert run.calls.table()["cuMemAdvise"].count == 1


def test_an_object_is_active_while_any_target_uses_it() -> None:
    sparse = Kernel("sparse", arrays=(ArrayUse("c", 0, reads=0.01),))
    slow = Kernel("slow", flops_per_iteration=1e9, arrays=sparse.arrays)
    shared: list[omp.HostArray] = []

    async def body(t: omp.HostThread) -> int:
        if t.number == 0:
            shared[:] = [t.array("c", N, fill=1.0)]
        await t.barrier()
        one = slow if t.number == 0 else sparse
        await t.target(one, shared[0], maps=omp.map(tofrom=shared), teams=64, iterations=N)
        objects = object_table(t.program.devices[0])
        return objects.counters.implicit

    assert run_body(body, threads=2)[1] == [0, SIZE]


def test_a_construct_that_is_run_again_follows_a_new_decision() -> None:
    sparse = Kernel("sparse", arrays=(ArrayUse("c", 0, reads=0.01),))

    async def body(t: omp.HostThread) -> None:
        a, b, c = arrays_of(t)
        both = t.construct_target(add, a, b, maps=omp.map(tofrom=[a, b]))
        async with t.target_data(omp.map(tofrom=c)):
            await t.target(sparse, c, maps=omp.map(tofrom=c), teams=64, iterations=N)
            await t.run(both)
            assert mechanisms(run_now[0]) == {"c": "implicit", "a": "pinned", "b": "pinned"}
        await t.run(both)

    run_now: list[Run] = []
    run, _ = run_body(body, overrides=room_for(1), before=run_now.append)
    assert mechanisms(run) == {"c": "implicit", "a": "explicit", "b": "pinned"}
    assert run.calls.table()["cuMemAlloc"].count == 1


def test_what_was_pinned_migrates_again_when_it_is_placed_anew() -> None:
    async def body(t: omp.HostThread) -> None:
        a, b, c = arrays_of(t)
        await t.target(step, a, b, c, maps=omp.map(tofrom=[a, b, c]))
        await t.target(add, b, c, maps=omp.map(tofrom=[b, c]))

    run, _ = run_body(body, overrides={**ALL_IMPLICIT, **room_for(2)})
    assert mechanisms(run)["b"] == "implicit"
    assert run.calls.table()["cuMemAdvise"].count == 2
    assert faults(run, "bytes_transfer_htod") == [3 * SIZE]


# What a run tells of it


def test_the_trace_tells_each_decision() -> None:
    run, _ = run_body(plain_targets, overrides={**room_for(2), "otm.leave": "program"})
    assert run.trace is not None
    placed = [event for event in run.trace.events if isinstance(event, events.ObjectPlaced)]
    assert [(one.array, one.size, one.mechanism) for one in placed] == [
        ("c", SIZE, "explicit"),
        ("b", SIZE, "explicit"),
        ("a", SIZE, "pinned"),
    ]


@scenario(machine="summitdev-p100")
async def placing(run: Run, configuration: str = "otm") -> None:
    """Three objects, of which two fit."""
    run.configure(phantom=True, host_program=GIVEN)

    async def body(t: omp.HostThread) -> None:
        a, b, c = (t.array(name, N, fill=1.0, align=BLOCK) for name in "abc")
        await t.target(step, a, b, c, maps=omp.map(tofrom=[a, b, c]))

    await run.parallel(body)


def test_results_show_placements_and_counters() -> None:
    record = json.loads(to_json(execute(placing, overrides=room_for(2))))
    assert list(record["placements"]) == ["c", "a", "b"]
    pinned = {"nbytes": SIZE, "rank": 3, "gaf": 4.0, "density": 1.0, "place": "cpu", "mechanism": "pinned"}
    assert record["placements"]["b"] == pinned
    assert record["otm"] == {"explicit_bytes": 2 * SIZE, "implicit_bytes": 0, "budget_bytes": 2 * SIZE}
    cells = row(execute(placing, overrides=room_for(2)))
    assert cells["placements.a.mechanism"] == "explicit" and cells["otm.explicit_bytes"] == 2 * SIZE


def test_other_results_have_no_placements() -> None:
    record = json.loads(to_json(execute(placing, {"configuration": "managed"})))
    assert record.keys().isdisjoint({"placements", "otm"})


# Refusals


@pytest.mark.parametrize(
    ("machine", "devices", "program", "message"),
    [
        ("summitdev-p100", 1, None, "option host_program is missing"),
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


def test_several_devices_are_refused() -> None:
    run = Run(machine="summitdev-p100")
    run.options = omp.OpenMPOptions(configuration="otm", num_devices=2)

    async def body(t: omp.HostThread) -> None:
        await t.target_enter_data(omp.map(to=t.array("a", 8)))

    with pytest.raises(UserError, match="one device only"):
        run.sim.run(lambda: run.parallel(body))
