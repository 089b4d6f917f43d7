"""An OpenACC directive that is left at a timeout leaves nothing behind, in an async queue or not; JACC refuses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest
from acc_kernels import add, increment, scale
from openacc_rig import MakeRig, Rig

from offloadrt import openacc as acc

MACHINES = [("alex-a100", {"compiler": "pgi"}), ("alex-a100", {"compiler": "gcc"}), ("mi300a", {})]
Body = Callable[[acc.HostThread, list[acc.HostArray], int | None], Awaitable[object]]


async def compute(t: acc.HostThread, arrays: list[acc.HostArray], async_: int | None) -> None:
    """One array that is mapped by the construct, two that are there; small and large."""
    await t.parallel(add, *arrays, data=[acc.copy(arrays[0])], async_=async_)


async def update(t: acc.HostThread, arrays: list[acc.HostArray], async_: int | None) -> None:
    await t.update(acc.device(arrays[1]), acc.host(arrays[2]), async_=async_)


async def enter(t: acc.HostThread, arrays: list[acc.HostArray], async_: int | None) -> None:
    await t.enter_data(acc.copyin(*arrays), async_=async_)


async def region(t: acc.HostThread, arrays: list[acc.HostArray], async_: int | None) -> None:
    async with t.data(acc.copy(*arrays), async_=async_):
        await t.parallel(scale, arrays[0], arrays[2], 2.0, async_=async_)


def idle_streams(device: Any) -> tuple[int, int]:
    """Streams that were made, and those in the pool."""
    plugin = device.plugin
    if hasattr(plugin, "streams"):
        return plugin.streams.made, len(plugin.streams.idle)
    resources = plugin._resources
    assert resources._free_signals == resources._signals
    return device.machine.devices[0].hsa_queues._streams - 1, len(resources._idle)  # one is the plugin's own


def assert_as_before(made: Rig, known: list[tuple[str, int]], blocks: int) -> None:
    device = made.program.devices[0]
    assert [(entry.name, entry.total) for entry in device.table] == known
    assert all(entry.data_end_users == 0 for entry in device.table)
    assert len(device.blocks) == blocks and not device.locked_entries
    assert all(queue.lock.owner is None for queue in made.program.library.queues._queues.values())
    for name, lock in device.locks().items():
        assert lock.owner is None and lock.tasks_waiting == 0, name


def left_at(made: Rig, body: Body, async_: int | None, patience: float | None) -> tuple[bool, float]:
    """Whether the body was left, and how long it took; everything is as before afterwards, and the program goes on."""

    async def main(t: acc.HostThread) -> tuple[bool, float]:
        a, b, c = arrays = [t.array(name, 1 << 17, fill=1.0) for name in "abc"]
        await t.enter_data(acc.copyin(b, c))
        await t.parallel(increment, b, async_=1)
        await t.wait(1)
        device = made.program.devices[0]
        known, blocks = [(entry.name, entry.total) for entry in device.table], len(device.blocks)
        begin, issued = t.sim.now, False
        with t.sim.move_on_after(1.0 if patience is None else patience) as scope:
            await body(t, arrays, async_)
            issued = True
            await t.wait()
        taken = t.sim.now - begin
        await t.sleep(1.0)
        await t.wait()
        if scope.timed_out:
            assert taken == pytest.approx(patience)
            more = int(issued and body is enter)  # the wait alone was left
            now = [(a.name, 1)] * more + [(name, total + more) for name, total in known]
            assert_as_before(made, now, blocks + more)
            await t.parallel(scale, b, c, 3.0, async_=1)
            await t.update(acc.host(b, c), async_=1)
            await t.wait(1)
            assert np.array_equal(c.data, 3.0 * b.data)
        return scope.timed_out, taken

    found: tuple[bool, float] = made.alone(main)
    created, idle = idle_streams(made.program.devices[0])
    assert created == idle > 0
    return found


@pytest.mark.parametrize("async_", [None, 1])
@pytest.mark.parametrize("body", [compute, update, enter, region])
@pytest.mark.parametrize(("machine", "options"), MACHINES)
def test_whenever_it_is_left(
    acc_rig: MakeRig, machine: str, options: dict[str, Any], body: Body, async_: int | None
) -> None:
    finished, whole = left_at(acc_rig(machine_name=machine, **options), body, async_, None)
    assert not finished
    for patience in [whole * k / 7 for k in range(7)]:
        left, _ = left_at(acc_rig(machine_name=machine, **options), body, async_, patience)
        assert left


@pytest.mark.parametrize("patience", [10e-6, 25e-6])
def test_both_gears_leave_at_the_same_point_of_history(acc_rig: MakeRig, patience: float) -> None:
    def history(gear: str) -> str:
        made = acc_rig(gear=gear, machine_name="mi300a")
        assert left_at(made, region, 1, patience)[0]
        return made.trace.hash()

    assert history("native") == history("turbo")


def test_a_wait_that_is_left_can_be_repeated(acc_rig: MakeRig) -> None:
    async def body(t: acc.HostThread) -> None:
        a = t.array("a", 1 << 17)
        await t.parallel(increment, a, data=[acc.create(a)], async_=1)
        with t.sim.move_on_after(1e-6) as scope:
            await t.wait(1)
        assert scope.timed_out and [entry.name for entry in made.program.devices[0].table] == ["a"]
        await t.wait(1)
        assert list(made.program.devices[0].table) == []

    made = acc_rig()
    made.alone(body)
    made.assert_clean()


def test_jacc_refuses_to_go_on_after_a_routine_that_was_left(acc_rig: MakeRig) -> None:
    async def body(t: acc.HostThread) -> None:
        jacc, a = acc.Jacc(t), t.array("a", 1 << 17, fill=1.0)
        with t.sim.move_on_after(1e-6) as scope:
            await jacc.jacc_copyin(a)
        assert scope.timed_out
        with pytest.raises(acc.LeftEarly, match="jacc_copyin of this JACC runtime was left early") as info:
            await jacc.jacc_kernel_push(increment, acc.jacc_args(increment, a))
        assert info.value.call == "jacc_kernel_push"
        again = acc.Jacc(t)
        await again.jacc_copyin(a)
        await again.jacc_kernel_push(increment, acc.jacc_args(increment, a))
        await again.jacc_copyout(a)
        assert np.all(a.data == 2.0)

    acc_rig().alone(body)


@pytest.mark.parametrize("async_", [None, 1])
def test_a_program_that_ends_right_after_a_timeout_waits_for_what_was_left(
    acc_rig: MakeRig, async_: int | None
) -> None:
    for patience in np.arange(300e-6, 480e-6, 12e-6).tolist():  # while the first array is copied
        made = acc_rig()

        async def main(t: acc.HostThread, patience: float = patience) -> None:
            arrays = [t.array(name, 1 << 16, fill=1.0) for name in "abc"]
            with t.sim.move_on_after(patience):
                await region(t, arrays, async_)

        made.alone(main)
        made.assert_clean()
