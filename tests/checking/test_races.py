"""Races are what no synchronization of the program orders, whoever came first in this run."""

from __future__ import annotations

import pytest
from checked_programs import Body, N, add, double, double_views, fill, fill_part, found, kinds, run_checked, total

from offloadrt import openmp as omp


def test_an_update_races_with_a_kernel_that_nobody_waited_for() -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", N, fill=1.0)
        async with t.target_data(omp.map(to=a)):
            await t.target(double, a, N, nowait=True)
            await t.target_update(omp.from_(a))
            await t.taskwait()

    (race,) = run_checked(body)[0]
    assert race.kind == "race" and race.subject == "a on device 0"
    update, kernel = race.stories
    assert update.did == "copies a from the device in target update" and update.who == "host thread 0"
    assert kernel.did == "writes a in kernel 'double' of target nowait" and kernel.who == "task of host thread 0"
    assert update.where.startswith("test_races.py:") and "taskwait" in race.advice


@pytest.mark.parametrize("first", ["double", "fill"])
def test_a_read_before_a_racing_write_is_the_race_and_no_uninitialised_data_beside_it(first: str) -> None:
    """Each is one mistake: with an order, the data would be written. What nobody writes is told beside a race."""

    async def body(t: omp.HostThread) -> None:
        a, b = t.array("a", N, fill=1.0), t.array("b", N, fill=1.0)
        async with t.target_data(omp.map(alloc=[a, b])):
            await t.target(double if first == "double" else fill, a, N, nowait=True)
            await t.target(double, a, N)
            await t.target(double, b, N)
            await t.taskwait()

    told = found(body)
    assert ("race", "a on device 0") in told and ("uninitialised data", "b") in told
    assert (("uninitialised data", "a") in told) == (first == "double")


@pytest.mark.parametrize("delay_us", [0, 1, 10, 100, 1000])
def test_a_race_is_reported_whichever_comes_first(delay_us: int) -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", N, fill=1.0)
        async with t.target_data(omp.map(to=a)):
            await t.target(double, a, N, nowait=True)
            await t.compute(delay_us * 1e-6)
            await t.target_update(omp.from_(a))
            await t.taskwait()

        assert a[0] >= 1.0

    assert found(body) == [("race", "a on device 0")], "that the host may have an old value is the race"


@pytest.mark.parametrize("delay_us", [0, 1000])
@pytest.mark.parametrize("reads_first", [True, False])
@pytest.mark.parametrize("orders", ["nothing", "taskwait", "depend"])
def test_a_result_that_only_the_last_user_of_a_mapping_brings_back_is_a_race(
    delay_us: int, reads_first: bool, orders: str
) -> None:
    """Neither region touches what the other one uses; but one that ends last may bring nothing back."""

    async def body(t: omp.HostThread) -> None:
        a, s = t.array("a", N, fill=1.0), t.array("s", 1, fill=0.0)

        async def start(reads: bool) -> None:
            use, maps = (total, omp.map(to=a, tofrom=s)) if reads else (fill_part, omp.map(tofrom=a))
            arguments = (a, s, N // 2) if reads else (a, N // 2, N // 2)
            depend = omp.depend(inout=a) if orders == "depend" else None
            await t.target(use, *arguments, maps=maps, nowait=True, depend=depend)

        await start(reads_first)
        await t.compute(delay_us * 1e-6)
        if orders == "taskwait":
            await t.taskwait()
        await start(not reads_first)
        await t.taskwait()
        a[N - 1] + s[0]

    assert kinds(body) == (["race"] if orders == "nothing" else [])


def _chain(orders: str) -> Body:
    """Two kernels and a look at the result, ordered in some way."""

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", N, fill=1.0)
        depend = omp.depend(inout=a) if "depend" in orders else ()
        async with t.target_data(omp.map(tofrom=a)):
            await t.target(double, a, N, nowait="nowait" in orders, depend=depend)
            if "between" in orders:
                await t.taskwait()
            await t.target(double, a, N, nowait="nowait" in orders, depend=depend)
            if "after" in orders:
                await t.taskwait()
        assert a[0] >= 1.0

    return body


@pytest.mark.parametrize(
    "orders", ["", "nowait depend after", "nowait between after", "depend", "nowait between depend after"]
)
def test_what_the_program_orders_is_no_race(orders: str) -> None:
    assert found(_chain(orders)) == []


@pytest.mark.parametrize("orders", ["nowait after", "nowait depend", "nowait between"])
def test_what_is_left_unordered_is_one(orders: str) -> None:
    assert kinds(_chain(orders)) == ["race"]


@pytest.mark.parametrize("seed", range(4))
def test_threads_that_write_one_array_race_unless_a_barrier_stands_between(seed: int) -> None:
    shared: dict[str, omp.HostArray] = {}

    def body(barrier: bool) -> Body:
        async def member(t: omp.HostThread) -> None:
            if t.number == 0:
                shared["a"] = t.array("a", N, fill=1.0)
            await t.barrier()
            if t.number == 0:
                await t.target(double, shared["a"], N)
            if barrier:
                await t.barrier()
            if t.number == 1:
                await t.target(double_views, shared["a"], iterations=N)

        return member

    options = {"strategy": "random", "seed": seed}
    assert kinds(body(barrier=False), 2, **options) == ["race"]
    assert kinds(body(barrier=True), 2, **options) == []


def test_threads_may_share_a_mapping_that_they_only_read() -> None:
    shared: dict[str, omp.HostArray] = {}

    async def body(t: omp.HostThread) -> None:
        if t.number == 0:
            shared["a"] = t.array("a", N, fill=1.0)
        await t.barrier()
        own = t.array("own", N)
        await t.target(add, own, shared["a"], N, maps=[omp.map(to=shared["a"]), omp.map(from_=own)])
        assert own[0] == 1.0

    assert found(body, 4) == []


def test_threads_that_use_their_own_halves_do_not_race() -> None:
    shared: dict[str, omp.HostArray] = {}

    async def body(t: omp.HostThread) -> None:
        if t.number == 0:
            shared["a"] = t.array("a", N, fill=1.0)
        await t.barrier()
        a, half = shared["a"], N // 2
        first = t.number * half
        a[first : first + half] = 2.0
        await t.target(fill_part, a, first, half, maps=omp.map(tofrom=omp.section(a, first, half)))
        assert a[first] == 3.0

    assert found(body, 2) == []


def test_a_host_write_races_with_a_kernel_in_place() -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", N, fill=1.0)
        await t.target(fill, a, N, nowait=True)
        a[0] = 5.0
        await t.taskwait()

    assert found(body, machine="mi300a", configuration="implicit_zero_copy") == [("race", "a on the host")]


@pytest.mark.parametrize("atomic", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_maps_of_several_threads_are_atomic_unless_the_runtime_keeps_no_events(atomic: bool, seed: int) -> None:
    shared: dict[str, omp.HostArray] = {}

    async def body(t: omp.HostThread) -> None:
        if t.number == 0:
            shared["a"] = t.array("a", N, fill=1.0)
        await t.barrier()
        own = t.array("own", N)
        for _ in range(3):
            await t.target(add, own, shared["a"], N, maps=[omp.map(tofrom=shared["a"]), omp.map(from_=own)])

    options = {"strategy": "random", "seed": seed}
    if not atomic:
        options["environment"] = {"LIBOMPTARGET_MAP_FORCE_ATOMIC": "false"}
    mistakes = run_checked(body, 4, **options)[0]
    assert {mistake.kind for mistake in mistakes} == (set() if atomic else {"race"})
    assert all("LIBOMPTARGET_MAP_FORCE_ATOMIC=false" in mistake.advice for mistake in mistakes)


@pytest.mark.parametrize(("use", "way"), [("read", "tofrom"), ("write", "to"), ("read", "to")])
@pytest.mark.parametrize("order", ["none", "barrier", "outer map"])
def test_a_map_that_copies_nothing_in_this_run_may_copy_in_another_order(use: str, way: str, order: str) -> None:
    """Thread 1 maps what thread 0 has mapped, and unmaps it earlier: so it is neither the first user nor the last."""
    shared: dict[str, omp.HostArray] = {}

    async def body(t: omp.HostThread) -> None:
        if t.number == 0:
            shared["a"] = t.array("a", N, fill=1.0)
            if order == "outer map":
                await t.target_enter_data(omp.map(to=shared["a"]))
        await t.barrier()
        a = shared["a"]
        if t.number == 1:
            await t.compute(1e-3)
            own = t.array("own", N)
            await t.target(add, own, a, N, maps=[omp.map(**{way: a}), omp.map(from_=own)])
        else:
            async with t.target_data(omp.map(to=a)):
                await t.compute(3e-3)
        if order == "barrier":
            await t.barrier()
        if t.number == 0:
            if use == "read":
                assert a[0] == 1.0
            else:
                a[0] = 3.0
        await t.barrier()
        if order == "outer map" and t.number == 0:
            await t.target_exit_data(omp.map(release=a))

    races = order == "none" and (use, way) != ("read", "to")
    assert found(body, 2) == ([("race", "a on the host")] if races else [])


def test_without_events_on_mappings_nothing_is_recorded_nor_awaited() -> None:
    """The thread that finds a mapping whose copy is under way does not wait for it, and nobody pays for an event."""

    def body(events: list[object]) -> Body:
        async def member(t: omp.HostThread) -> None:
            a = t.array("a", N, fill=1.0)
            async with t.target_data(omp.map(tofrom=a)):
                events.extend(entry.event is not None for entry in t.program.devices[0].table)
                await t.target(double, a, N)
            assert a[0] == 2.0

        return member

    kept: list[object] = []
    none: list[object] = []
    with_events = run_checked(body(kept))[1].sim.now
    without = run_checked(body(none), environment={"LIBOMPTARGET_MAP_FORCE_ATOMIC": "false"})[1].sim.now
    assert (kept, none) == ([True], [False])
    assert without < with_events


def test_an_update_is_no_map_and_races_with_one() -> None:
    shared: dict[str, omp.HostArray] = {}

    async def body(t: omp.HostThread) -> None:
        if t.number == 0:
            shared["a"] = t.array("a", N, fill=1.0)
        await t.barrier()
        async with t.target_data(omp.map(to=shared["a"])):
            if t.number:
                await t.target_update(omp.from_(shared["a"]))
            else:
                await t.target_enter_data(omp.map(to=shared["a"]))
                await t.target_exit_data(omp.map(from_=shared["a"], always=True))

    assert "race" in kinds(body, 2)


@pytest.mark.parametrize("nowait", [False, True])
def test_a_taskwait_with_nowait_orders_tasks_and_not_the_thread(nowait: bool) -> None:
    async def body(t: omp.HostThread) -> None:
        a, b = t.array("a", N, fill=1.0), t.array("b", N, fill=1.0)
        for array in (a, b):
            await t.target(double, array, N, nowait=True, depend=omp.depend(out=array), maps=omp.map(tofrom=array))
        await t.taskwait(omp.depend(in_=[a, b], out="both"), nowait=nowait)
        if not nowait:
            a[0] = a[0] + 1.0
        await t.target(
            add, a, b, N, nowait=True, depend=omp.depend(in_="both"), maps=[omp.map(tofrom=a), omp.map(to=b)]
        )
        if nowait:
            assert b[0] == 2.0  # what LLVM 22 does, and no program may rely on
        await t.taskwait()

    assert kinds(body) == (["race"] if nowait else [])


def test_a_taskwait_with_nowait_needs_something_to_wait_for() -> None:
    async def body(t: omp.HostThread) -> None:
        with pytest.raises(ValueError, match="nowait needs depend"):
            await t.taskwait(nowait=True)

    assert kinds(body) == []


@pytest.mark.parametrize("delay_us", [0, 10_000])
def test_kernels_of_two_maps_race_also_where_this_run_has_given_them_two_blocks(delay_us: int) -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", N, fill=1.0)
        await t.target(double, a, N, nowait=True, maps=omp.map(tofrom=a))
        await t.compute(delay_us * 1e-6)
        await t.target(double, a, N, nowait=True, maps=omp.map(tofrom=a))
        await t.taskwait()

    assert set(found(body)) == {("race", "a on device 0")}


@pytest.mark.parametrize("order", ["", "wait", "own map", "ended map"])
def test_a_region_that_needs_a_map_has_to_come_behind_it(order: str) -> None:
    """A map of its own thread that has ended by then is no such map."""

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", N, fill=1.0, kind="heap")
        await t.target_enter_data(omp.map(to=a), nowait=True)
        await t.compute(1e-3)
        if order == "wait":
            await t.taskwait()
        if order == "ended map":
            await t.target(double, a, N, maps=[omp.map(tofrom=a)])
        await t.target(double, a, N, maps=[omp.map(tofrom=a)] if order == "own map" else [])
        await t.taskwait()
        await t.target_exit_data(omp.map(from_=a))

    assert kinds(body) == ([] if order in ("wait", "own map") else ["race"])


@pytest.mark.parametrize("order", ["", "wait", "own map", "overwritten", "writes only"])
def test_a_region_comes_behind_the_map_that_brings_its_data(order: str) -> None:
    """In this run a second map, which brings nothing, comes behind it; in another one it makes the mapping."""

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", N, fill=1.0, kind="heap")
        await t.target_enter_data(omp.map(to=a), nowait=True)
        await t.compute(1e-3)
        if order == "wait":
            await t.taskwait()
        await t.target_enter_data(omp.map(alloc=a))
        if order == "overwritten":
            await t.target(fill, a, N)
        kernel = fill if order == "writes only" else double
        await t.target(kernel, a, N, maps=[omp.map(tofrom=a)] if order == "own map" else [])
        await t.taskwait()
        await t.target_exit_data(omp.map(release=a))
        await t.target_exit_data(omp.map(from_=a))

    assert found(body) == ([] if order else [("race", "a on device 0")])


def test_kernels_race_in_device_memory_that_is_viewed_flat() -> None:
    async def body(t: omp.HostThread) -> None:
        block = await t.omp_target_alloc(8 * N)
        assert block is not None
        await t.target(fill, block.viewed("f8"), N)
        await t.target(double, block.viewed("f8"), N // 2, nowait=True)
        await t.target(fill_part, block.viewed("f8"), N // 4, N // 4)
        await t.taskwait()
        await t.omp_target_free(block)

    assert kinds(body) == ["race"]


def test_the_host_uses_an_array_that_it_has_freed() -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", N, fill=1.0, kind="heap")
        t.free(a)
        assert a[0] == 1.0

    assert kinds(body) == ["use after free"]


@pytest.mark.parametrize("kind", ["alloc", "to"])
@pytest.mark.parametrize("order", ["none", "depend", "taskwait", "own map"])
def test_an_update_comes_after_a_map_that_it_needs(kind: str, order: str) -> None:
    """Before an `alloc` it does nothing, so nothing that is copied shows the race."""

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", N, fill=1.0)
        depends = [omp.depend(inout=a)] if order == "depend" else []
        if order == "own map":
            await t.target_enter_data(omp.map(alloc=a))
        await t.target_enter_data(omp.map(**{kind: a}), *depends, nowait=True)
        if order == "taskwait":
            await t.taskwait()
        else:
            await t.compute(1e-3)  # in this run the map comes first
        await t.target_update(omp.to(a), *depends, nowait=True)
        await t.taskwait()
        await t.target(double, a, N)
        await t.target_update(omp.from_(a))
        await t.target_exit_data(omp.map(release=a))
        if order == "own map":
            await t.target_exit_data(omp.map(release=a))

    expected = [("race", "a on device 0")] if order == "none" else []
    assert found(body) == expected
