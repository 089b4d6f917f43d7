"""Data regions, reference counts, update, host_data, compute constructs and devices, as OpenACC defines them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from acc_kernels import add, increment, scale
from openacc_rig import MakeRig

from offloadrt import openacc as acc

N = 64


def test_a_data_region_copies_in_and_out(acc_rig: MakeRig) -> None:
    rig = acc_rig()

    async def body(t: acc.HostThread) -> Any:
        x, y = t.array("x", N, fill=2.0), t.array("y", N)
        async with t.data(acc.copyin(x), acc.copyout(y)):
            await t.parallel(scale, x, y, 3.0)
            assert (y.data == 0.0).all()
        return y

    assert (rig.alone(body).data == 6.0).all()
    assert rig.machine.devices[0].bytes_moved() == {"h2d": 8 * N, "d2h": 8 * N, "d2d": 0, "p2p": 0}
    rig.assert_clean()


def test_create_moves_nothing(acc_rig: MakeRig) -> None:
    rig = acc_rig()

    async def body(t: acc.HostThread) -> None:
        async with t.data(acc.create(t.array("a", N))):
            assert len(rig.program.devices[0].blocks) == 1

    rig.alone(body)
    assert rig.machine.devices[0].bytes_moved()["h2d"] == 0
    rig.assert_clean()


def test_an_array_that_no_clause_names_is_copied(acc_rig: MakeRig) -> None:
    rig = acc_rig()

    async def body(t: acc.HostThread) -> Any:
        a = t.array("a", N, fill=1.0)
        await t.kernels(increment, a)
        return a

    assert (rig.alone(body).data == 2.0).all()
    rig.assert_clean()


def test_a_clause_of_the_compute_construct_says_what_is_copied(acc_rig: MakeRig) -> None:
    rig = acc_rig()

    async def body(t: acc.HostThread) -> Any:
        x, y, z = t.array("x", N, fill=1.0), t.array("y", N, fill=2.0), t.array("z", N)
        await t.parallel(add, x, y, z, data=[acc.copyin(x, y), acc.copyout(z)])
        return z

    assert (rig.alone(body).data == 3.0).all()
    assert rig.machine.devices[0].bytes_moved() == {"h2d": 16 * N, "d2h": 8 * N, "d2d": 0, "p2p": 0}


def test_data_stays_while_either_count_is_positive(acc_rig: MakeRig) -> None:
    """Structured and dynamic references are two counts (OpenACC 3.3, 2.6.7)."""
    rig = acc_rig()

    async def body(t: acc.HostThread) -> list[bool]:
        a = t.array("a", N, fill=1.0)
        seen = []
        async with t.data(acc.copyin(a)):
            await t.enter_data(acc.create(a))
            await t.exit_data(acc.delete(a))
            seen.append(await t.acc_is_present(a))
            await t.exit_data(acc.delete(a), finalize=True)
            seen.append(await t.acc_is_present(a))
            await t.enter_data(acc.create(a))
        seen.append(await t.acc_is_present(a))
        await t.exit_data(acc.delete(a))
        seen.append(await t.acc_is_present(a))
        return seen

    assert rig.alone(body) == [True, True, True, False]
    rig.assert_clean()


def test_exit_data_copies_out_with_the_last_reference_and_finalize_drops_all(acc_rig: MakeRig) -> None:
    rig = acc_rig()

    async def body(t: acc.HostThread) -> tuple[float, float, float]:
        a = t.array("a", N, fill=1.0)
        await t.enter_data(acc.copyin(a))
        await t.enter_data(acc.copyin(a))
        await t.parallel(increment, a, data=[acc.present(a)])
        await t.exit_data(acc.copyout(a))
        first = float(a[0])
        await t.exit_data(acc.copyout(a))
        second = float(a[0])
        for _ in range(3):
            await t.enter_data(acc.copyin(a))
        await t.parallel(increment, a, default="present")
        await t.exit_data(acc.copyout(a), finalize=True)
        return first, second, float(a[0])

    assert rig.alone(body) == (1.0, 2.0, 3.0)
    rig.assert_clean()


def test_exit_data_ignores_what_is_not_there(acc_rig: MakeRig) -> None:
    rig = acc_rig()

    async def body(t: acc.HostThread) -> None:
        await t.exit_data(acc.copyout(t.array("a", N)), acc.delete(t.array("b", N)))

    rig.alone(body)
    rig.assert_clean()


def test_update_moves_values_both_ways(acc_rig: MakeRig) -> None:
    rig = acc_rig()

    async def body(t: acc.HostThread) -> tuple[float, float]:
        a = t.array("a", N, fill=1.0)
        async with t.data(acc.copyin(a)):
            a.data[:] = 10.0
            await t.update(acc.device(a))
            await t.parallel(increment, a)
            await t.update(acc.host(acc.section(a, 0, N // 2)))
        return float(a[0]), float(a[-1])

    assert rig.alone(body) == (11.0, 10.0)


def test_update_with_if_present_ignores_what_is_not_there(acc_rig: MakeRig) -> None:
    rig = acc_rig()

    async def body(t: acc.HostThread) -> None:
        await t.update(acc.host(t.array("a", N)), if_present=True)

    rig.alone(body)
    assert rig.machine.devices[0].bytes_moved()["d2h"] == 0


def test_host_data_gives_device_pointers(acc_rig: MakeRig) -> None:
    rig = acc_rig()

    async def body(t: acc.HostThread) -> Any:
        a = t.array("a", N, fill=1.0)
        async with t.data(acc.copy(a)):
            async with t.host_data(a) as pointers:
                await t.parallel(increment, pointers[a])
        return a

    assert (rig.alone(body).data == 2.0).all()
    rig.assert_clean()


def test_num_gangs_and_vector_length_are_the_launch_configuration(acc_rig: MakeRig) -> None:
    from offloadrt.trace import events

    rig = acc_rig()

    async def body(t: acc.HostThread) -> None:
        await t.parallel(increment, t.array("a", N), num_gangs=7, vector_length=32)
        await t.kernels(increment, t.array("b", 300))

    rig.alone(body)
    assert [event.teams for event in rig.events(events.KernelStart)] == [7, 3]


def test_each_thread_has_its_own_current_device(acc_rig: MakeRig) -> None:
    rig = acc_rig(devices=2)

    async def body(t: acc.HostThread) -> tuple[int, int]:
        t.acc_set_device_num(t.number)
        await t.barrier()
        await t.enter_data(acc.copyin(t.array("a", N)))
        await t.barrier()
        return t.acc_get_device_num(), t.acc_get_num_devices()

    assert rig.run(body, num_threads=2) == [(0, 2), (1, 2)]
    assert [len(device.table) for device in rig.program.devices] == [1, 1]


def test_a_data_region_ends_on_the_device_on_which_it_began(acc_rig: MakeRig) -> None:
    rig = acc_rig(devices=2)

    async def body(t: acc.HostThread) -> Any:
        a = t.array("a", N, fill=1.0)
        async with t.data(acc.copy(a)):
            await t.parallel(increment, a)
            t.acc_set_device_num(1)
        return a

    assert (rig.alone(body).data == 2.0).all()
    rig.assert_clean()


def test_a_subarray_is_mapped_by_itself(acc_rig: MakeRig) -> None:
    rig = acc_rig()

    async def body(t: acc.HostThread) -> None:
        a = t.array("a", N, fill=np.arange(N))
        async with t.data(acc.copyin(acc.section(a, 8, 16))):
            assert not await t.acc_is_present(a)

    rig.alone(body)
    assert rig.machine.devices[0].bytes_moved()["h2d"] == 16 * 8


@pytest.mark.parametrize(
    ("clauses", "message"),
    [
        (lambda a: [acc.delete(a)], r"delete\(…\) is not allowed on data"),
        (lambda a: [acc.copyin(a), acc.copyout(a)], "array 'a' stands in two data clauses of one data"),
        (lambda a: [acc.host(a)], "data takes data clauses"),
        (lambda a: [acc.copyin(acc.section(a, 0, 4, 2))], "has a stride"),
        (lambda a: [acc.copyin(3)], "3 is neither an array nor a section"),
    ],
)
def test_what_a_compiler_refuses_on_data(acc_rig: MakeRig, clauses: Any, message: str) -> None:
    async def body(t: acc.HostThread) -> None:
        with pytest.raises(ValueError, match=message):
            t.data(*clauses(t.array("a", N)))

    acc_rig().alone(body)


def test_what_a_compiler_refuses_elsewhere(acc_rig: MakeRig) -> None:
    async def body(t: acc.HostThread) -> None:
        a = t.array("a", N)
        with pytest.raises(ValueError, match=r"copyout\(…\) is not allowed on enter data"):
            t.enter_data(acc.copyout(a))
        with pytest.raises(ValueError, match=r"copyin\(…\) is not allowed on exit data"):
            t.exit_data(acc.copyin(a))
        with pytest.raises(ValueError, match=r"'a' is used in parallel with default\(none\)"):
            t.parallel(increment, a, default="none")
        with pytest.raises(ValueError, match="update takes host"):
            t.update(acc.copyin(a))  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="async value -7"):
            t.parallel(increment, a, async_=-7)

    acc_rig().alone(body)
