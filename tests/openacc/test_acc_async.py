"""Async queues: what waits for what."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from acc_kernels import increment
from openacc_rig import MakeRig

from offloadrt import Kernel
from offloadrt import openacc as acc

LONG = Kernel("long", flops_per_iteration=1e6)
"""About 0.7 ms in one gang."""


def overlap(one: tuple[str, int, int], other: tuple[str, int, int]) -> bool:
    return one[1] < other[2] and other[1] < one[2]


async def two(t: acc.HostThread, first: int, second: int, **clauses: Any) -> None:
    await t.parallel(LONG, num_gangs=1, async_=first)
    await t.parallel(LONG, num_gangs=1, async_=second, **clauses)


def test_a_directive_with_async_does_not_wait(acc_rig: MakeRig) -> None:
    rig = acc_rig()

    async def body(t: acc.HostThread) -> tuple[float, float]:
        await t.parallel(LONG, num_gangs=1)
        done = t.sim.now
        await t.parallel(LONG, num_gangs=1, async_=1)
        submitted = t.sim.now - done
        await t.wait(1)
        return submitted, t.sim.now - done

    submitted, waited = rig.alone(body)
    assert submitted < 50e-6 < 500e-6 < waited


def test_acc_async_sync_is_as_no_async_clause_and_nothing_to_wait_for(acc_rig: MakeRig) -> None:
    def took(**clauses: Any) -> tuple[float, float, float]:
        async def body(t: acc.HostThread) -> tuple[float, float, float]:
            begin = t.sim.now
            await t.parallel(LONG, num_gangs=1, **clauses)
            ended = t.sim.now
            await t.parallel(LONG, num_gangs=1, async_=1)
            await t.wait(acc.ACC_ASYNC_SYNC)
            early = t.sim.now
            await t.wait(1, async_=clauses.get("async_"))
            return ended - begin, early - begin, t.sim.now - begin

        found: tuple[float, float, float] = acc_rig().alone(body)
        return found

    plain = took()
    assert plain[1] < plain[0] + 50e-6 < plain[0] + 500e-6 < plain[2]
    assert took(async_=acc.ACC_ASYNC_SYNC) == took(wait=acc.ACC_ASYNC_SYNC) == plain


def test_kernels_of_one_queue_run_in_order_those_of_two_together(acc_rig: MakeRig) -> None:
    for queues, together in (((1, 1), False), ((1, 2), True)):
        rig = acc_rig()
        rig.alone(lambda t, queues=queues: two(t, *queues))
        assert overlap(*rig.kernel_spans()) is together


def test_a_wait_clause_orders_queues_without_the_host(acc_rig: MakeRig) -> None:
    rig = acc_rig()

    async def body(t: acc.HostThread) -> float:
        await two(t, 1, 2, wait=1)
        return t.sim.now

    submitted = rig.alone(body)
    first, second = rig.kernel_spans()
    assert second[1] >= first[2] > submitted * 1e12


def test_wait_with_async_orders_queues_too(acc_rig: MakeRig) -> None:
    rig = acc_rig()

    async def body(t: acc.HostThread) -> None:
        await t.parallel(LONG, num_gangs=1, async_=1)
        await t.wait(1, async_=2)
        await t.parallel(LONG, num_gangs=1, async_=2)

    rig.alone(body)
    assert not overlap(*rig.kernel_spans())


def test_a_synchronous_directive_may_wait_for_a_queue(acc_rig: MakeRig) -> None:
    rig = acc_rig()

    async def body(t: acc.HostThread) -> Any:
        a = t.array("a", 64, fill=1.0)
        await t.enter_data(acc.copyin(a))
        await t.parallel(LONG, num_gangs=1, async_=3)
        await t.parallel(increment, a, async_=3)
        await t.exit_data(acc.copyout(a), wait=3)
        return a

    assert (rig.alone(body).data == 2.0).all()


def test_wait_without_a_value_waits_for_all_queues(acc_rig: MakeRig) -> None:
    rig = acc_rig()

    async def body(t: acc.HostThread) -> float:
        await two(t, 1, acc.ACC_ASYNC_NOVAL)
        await t.wait()
        return t.sim.now

    done = rig.alone(body)
    assert all(end <= done * 1e12 for _, _, end in rig.kernel_spans())


@pytest.mark.parametrize("machine", ["alex-a100", "mi300a"])
def test_threads_share_the_queue_of_a_value(acc_rig: MakeRig, machine: str) -> None:
    rig = acc_rig(machine_name=machine)

    async def body(t: acc.HostThread) -> None:
        for _ in range(3):
            await t.parallel(LONG, num_gangs=1, async_=1)

    rig.run(body, num_threads=4)
    spans = sorted(rig.kernel_spans(), key=lambda span: span[1])
    assert all(before[2] <= after[1] for before, after in itertools.pairwise(spans))
    assert len(spans) == 12
    assert machine == "mi300a" or rig.calls_of("cuStreamCreate") == 1


def test_an_asynchronous_data_region_orders_copies_and_kernel_in_its_queue(acc_rig: MakeRig) -> None:
    rig = acc_rig()

    async def body(t: acc.HostThread) -> Any:
        a = t.array("a", 64, fill=1.0)
        async with t.data(acc.copy(a), async_=1):
            await t.parallel(LONG, num_gangs=1, async_=1)
            await t.parallel(increment, a, async_=1)
        await t.wait(1)
        return a

    assert (rig.alone(body).data == 2.0).all()
    rig.assert_clean()


def test_the_end_of_the_program_waits_for_what_nobody_waited_for(acc_rig: MakeRig) -> None:
    rig = acc_rig()

    async def body(t: acc.HostThread) -> None:
        await t.parallel(increment, t.array("a", 64), async_=1)

    rig.alone(body)
    rig.assert_clean()


def test_what_a_kernel_did_wrong_is_raised_at_the_wait(acc_rig: MakeRig) -> None:
    rig = acc_rig()

    async def body(t: acc.HostThread) -> None:
        freed = acc.DevicePointer(0x1000, 512, 0).viewed(float, 64)
        await t.parallel(increment, freed, async_=1, iterations=64)
        with pytest.raises(acc.IllegalAddress, match="increment"):
            await t.wait(1)

    rig.alone(body)


def test_queues_belong_to_their_device(acc_rig: MakeRig) -> None:
    rig = acc_rig(devices=2)

    async def body(t: acc.HostThread) -> None:
        for device in (0, 1):
            t.acc_set_device_num(device)
            await t.parallel(LONG, num_gangs=1, async_=1)

    rig.alone(body)
    assert overlap(*rig.kernel_spans())


@pytest.mark.parametrize("machine", ["alex-a100", "mi300a"])
def test_both_drivers_have_async_queues(acc_rig: MakeRig, machine: str) -> None:
    rig = acc_rig(machine_name=machine)

    async def body(t: acc.HostThread) -> Any:
        a = t.array("a", 64, fill=0.0)
        await t.enter_data(acc.copyin(a), async_=1)
        for turn in range(6):
            await t.parallel(increment, a, data=[acc.present(a)], async_=turn % 2 + 1, wait=2 - turn % 2)
        await t.wait()
        await t.exit_data(acc.copyout(a))
        return a

    assert (rig.alone(body).data == 6.0).all()


@pytest.mark.parametrize("machine", ["alex-a100", "mi300a"])
def test_threads_that_meet_at_a_queue_have_one_history_in_both_gears(acc_rig: MakeRig, machine: str) -> None:
    async def body(t: acc.HostThread) -> None:
        x = t.array("x", 16, fill=1.0)
        await t.enter_data(acc.copyin(x), async_=1)
        await t.exit_data(acc.copyout(x), async_=1)
        await t.wait(1)

    def history(gear: str) -> str:
        rig = acc_rig(gear=gear, machine_name=machine)
        rig.run(body, num_threads=3)
        return rig.trace.hash()

    assert history("turbo") == history("native")


def test_what_threads_waited_for_locks_of_the_runtime_is_in_the_statistics_of_locks(acc_rig: MakeRig) -> None:
    rig = acc_rig({"jit.compile": "1 ms", "driver.stream_create": "1 ms"})

    async def body(t: acc.HostThread) -> None:
        jacc = acc.Jacc(t, execution="async")
        a = t.array("a", 64)
        await jacc.jacc_create(a)
        await jacc.jacc_kernel_push(increment, acc.jacc_args(increment, a))
        await jacc.jacc_wait()
        await t.parallel(LONG, async_=7)
        await t.wait(7)

    rig.run(body, 4)
    locks = rig.program.locks()
    assert min(locks[name].wait_s for name in ("async queue locks", "compilation locks")) > 0.0
    waited = math.fsum(lock.wait_s for name, lock in locks.items() if name not in ("device table", "entry locks"))
    assert waited == pytest.approx(rig.machine.host_time.seconds["runtime lock"])
