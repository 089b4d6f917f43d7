"""Directives whose `if` is false, or whose device is the host: nothing is mapped, regions run in host memory."""

from __future__ import annotations

from typing import Any

import pytest
from openmp_rig import MakeRig, scale

from offloadrt import kernel
from offloadrt import openmp as omp

ON_HOST: list[dict[str, Any]] = [{"if_": False}, {"device": omp.INITIAL_DEVICE}, {"device": 1}]


@pytest.mark.parametrize("clause", ON_HOST, ids=str)
def test_a_region_uses_the_hosts_memory(rig: MakeRig, clause: Any) -> None:
    made = rig()

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 4, fill=1.0)
        await t.target_enter_data(omp.map(to=a))
        a[:] = 3.0
        before = t.sim.now
        await t.target(scale, a, 2.0, maps=omp.map(tofrom=a), **clause)
        assert a[0] == 6.0
        assert t.sim.now > before, "the host's cores take their time"
        await t.target_update(omp.from_(a))
        assert a[0] == 1.0, "the device's copy is as it was"
        await t.target_exit_data(omp.map(delete=a))

    made.alone(body)
    made.assert_clean()


@pytest.mark.parametrize("clause", ON_HOST, ids=str)
def test_data_directives_do_nothing(rig: MakeRig, clause: Any) -> None:
    made = rig()

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 4, fill=1.0)
        await t.target_enter_data(omp.map(to=a), **clause)
        await t.target_update(omp.to(a, present=True), **clause)
        async with t.target_data(omp.map(to=a), omp.use_device_ptr(a), **clause) as pointers:
            pointer = pointers[a]
            assert pointer is not None and int(pointer) == a.address
            await t.target(scale, pointer, 5.0, is_device_ptr=pointer, **clause)
        await t.target_exit_data(omp.map(delete=a), **clause)
        assert a[0] == 5.0
        assert len(made.device.table) == 0

    made.alone(body)
    assert len(made.device.blocks) == 0


def test_private_arrays_are_the_regions_own(rig: MakeRig) -> None:
    made = rig()

    async def body(t: omp.HostThread) -> None:
        a, out = t.array("a", 4, fill=1.0), t.array("out", 4)

        @kernel
        def double(a: Any, out: Any) -> None:
            a *= 2.0
            out[:] = a

        await t.target(double, a, out, firstprivate=a, if_=False)
        assert (a[0], out[0]) == (1.0, 2.0)

    made.alone(body)


def test_memory_of_a_device_is_not_the_hosts(rig: MakeRig) -> None:
    made = rig()

    async def body(t: omp.HostThread) -> None:
        pointer = await t.omp_target_alloc(32)
        assert pointer is not None
        with pytest.raises(TypeError, match="cannot use memory of device 0"):
            await t.target(scale, pointer, 2.0, is_device_ptr=pointer, if_=False)
        await t.omp_target_free(pointer)

    made.alone(body)


def test_a_deferred_region_waits_for_its_predecessors(rig: MakeRig) -> None:
    made = rig()
    order: list[str] = []

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 4)

        def noting(name: str) -> Any:
            @kernel(name=name, flops_per_iteration=1e9)
            def note(a: Any) -> None:
                order.append(name)

            return note

        await t.target(noting("device"), a, nowait=True, depend=omp.depend(out=a))
        await t.target(noting("host"), a, nowait=True, depend=omp.depend(in_=a), if_=False)
        await t.taskwait()

    made.alone(body)
    assert order == ["device", "host"]
