"""The configuration `otm`: what its placements move, and that the numbers are those of copies."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from otm_rig import (
    ALL_EXPLICIT,
    ALL_IMPLICIT,
    BLOCK,
    SIZE,
    Body,
    N,
    add,
    arrays_of,
    faults,
    mechanisms,
    plain_targets,
    room_for,
    run_body,
    step,
    three_objects,
)
from property_examples import examples

from offloadrt import openmp as omp
from offloadrt.extensions.otm.configuration import object_table, placements_on
from offloadrt.kernels import ArrayUse, Kernel

# What it moves


def test_pinning_takes_away_the_migrations_of_one_object_and_no_other() -> None:
    fits, _ = run_body(three_objects, overrides=ALL_IMPLICIT)
    pinned, _ = run_body(three_objects, overrides={**ALL_IMPLICIT, **room_for(2)})
    managed, _ = run_body(three_objects, "managed", overrides=room_for(2))
    assert mechanisms(pinned) == {"c": "implicit", "a": "implicit", "b": "pinned"}
    assert faults(fits, "bytes_transfer_htod", "bytes_transfer_dtoh", "evicted_blocks") == [3 * SIZE, 3 * SIZE, 0]
    assert faults(pinned, "bytes_transfer_htod", "bytes_transfer_dtoh", "evicted_blocks") == [2 * SIZE, 2 * SIZE, 0]
    assert faults(managed, "evicted_blocks") > [0] and managed.statistics.faults["bytes_transfer_htod"] > 3 * SIZE


@pytest.mark.parametrize("body", [three_objects, plain_targets])
@pytest.mark.parametrize("arrays", [1, 2])
def test_what_is_explicit_or_pinned_neither_migrates_nor_is_evicted(body: Body, arrays: int) -> None:
    run, _ = run_body(body, overrides={**ALL_EXPLICIT, **room_for(arrays)})
    assert set(mechanisms(run).values()) == {"explicit", "pinned"}
    assert faults(run, "bytes_transfer_htod", "bytes_transfer_dtoh", "evicted_blocks") == [0, 0, 0]
    assert run.statistics.sections["otm"].figures == {
        "explicit_bytes": arrays * SIZE,
        "implicit_bytes": 0,
        "budget_bytes": arrays * SIZE,
    }


def test_when_everything_is_implicit_it_is_managed_memory() -> None:
    """But for the host time of the decisions, also at the table."""
    free = {"otm.decision": "0 s"}
    implicit, _ = run_body(three_objects, overrides={**ALL_IMPLICIT, **free})
    managed, _ = run_body(three_objects, "managed")
    assert implicit.statistics.faults == managed.statistics.faults
    assert implicit.elapsed == pytest.approx(managed.elapsed, rel=1e-9)


def test_when_everything_is_explicit_the_bytes_are_those_of_copies() -> None:
    explicit, _ = run_body(three_objects, overrides=ALL_EXPLICIT)
    copied, _ = run_body(three_objects, "copy")
    assert explicit.device().bytes_moved() == copied.device().bytes_moved()
    assert explicit.elapsed == pytest.approx(copied.elapsed, rel=0.02), "copies wait for a stream once more"


def test_a_copy_has_the_pages_come_back_that_the_device_owns() -> None:
    sparse = Kernel("sparse", arrays=(ArrayUse("c", 0, reads=0.01),))

    async def body(t: omp.HostThread) -> None:
        _, b, c = arrays_of(t)
        await t.target(sparse, c, maps=omp.map(tofrom=c), teams=64, iterations=N)
        await t.target(add, b, c, maps=omp.map(to=[b, c]))

    run, _ = run_body(body)
    assert mechanisms(run) == {"c": "explicit", "b": "explicit"}
    assert faults(run, "bytes_transfer_htod", "bytes_transfer_dtoh") == [SIZE, SIZE]


def test_a_copy_back_takes_the_pages_that_the_device_owns_of_the_original() -> None:
    async def body(t: omp.HostThread) -> None:
        _, b, c = arrays_of(t)
        async with t.target_data(omp.map(to=b), omp.map(tofrom=c)):
            await t.target(add, b, c, maps=omp.map(tofrom=[b, c]))
            await t.prefetch(c)

    run, _ = run_body(body)
    assert faults(run, "bytes_transfer_htod", "bytes_transfer_dtoh") == [SIZE, SIZE]


def test_a_map_that_demands_presence_is_carried_out_with_the_others() -> None:
    async def body(t: omp.HostThread) -> float:
        _, b, c = arrays_of(t)
        async with t.target_data(omp.map(to=b), omp.map(tofrom=c)):
            async with t.target_data(omp.map(to=[b, c], present=True)):
                await t.target(add, b, c, maps=omp.map(tofrom=[b, c], present=True))
        return float(c.data.sum())

    run, found = run_body(body)
    assert found == run_body(body, "copy")[1]
    assert run.device().bytes_moved() == {"h2d": 2 * SIZE, "d2h": SIZE, "d2d": 0, "p2p": 0}


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
        ("otm", {**room_for(5), "otm.leave": "program"}),
    ]
    for configuration, overrides in variants:
        _, found = run_body(body, configuration, overrides=overrides, threads=3, gear=gear)
        for mine, theirs in zip(chain(*found), chain(*expected), strict=True):
            assert np.array_equal(mine, theirs), (configuration, overrides)


def test_threads_share_the_budget() -> None:
    run, _ = run_body(three_objects, overrides=room_for(4), threads=3)
    found = placements_on(run.program.devices)
    assert [one.name for one in found] == ["c"] * 3 + ["a"] * 3 + ["b"] * 3
    assert run.statistics.sections["otm"].figures["explicit_bytes"] <= 4 * SIZE
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
    assert len(device.table) == len(device.blocks) == 0
    assert object_table(device).counters.total == 0


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


@examples(25)
@given(
    STEPS,
    st.integers(0, 3),
    st.fixed_dictionaries({
        "otm.leave": st.sampled_from(["region", "data", "program"]),
        "otm.evicts": st.sampled_from(["true", "false"]),
    }),
)  # fmt: skip
def test_any_correct_program_has_the_numbers_of_copies(steps: list[Any], blocks: int, rules: dict[str, str]) -> None:
    body = program_of(steps)
    size = {"mem.size": f"{(blocks + 1) * BLOCK} B", "mem.reserved": "0 B", "otm.reserve": f"{BLOCK} B"}
    run, found = run_body(body, overrides={**size, **rules})
    assert np.array_equal(found, run_body(body, "copy")[1])
    assert (
        max(
            run.statistics.sections["otm"].figures["explicit_bytes"],
            run.statistics.sections["otm"].figures["implicit_bytes"],
        )
        <= run.statistics.sections["otm"].figures["budget_bytes"]
    )
    device = run.openmp.devices[0]
    assert len(device.table) == len(device.blocks) == 0
    assert rules["otm.leave"] == "program" or object_table(device).counters.total == 0
