"""omp_target_memcpy between devices: over their link where the machine describes links, else as LLVM falls back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from openmp_rig import MakeRig

from offloadrt import Run, kernel, scenario
from offloadrt import openmp as omp
from offloadrt.driver import DriverError
from offloadrt.machine import load
from offloadrt.study import UserError, execute

SPEC = load("dgx1-v100")
N = 1 << 16


@kernel
def double(p):  # type: ignore[no-untyped-def]  # a kernel's arguments are views of device memory
    p[:] = 2.0 * p[:]


def passing(rig: MakeRig, devices: list[int], **options: Any) -> Any:
    """An array goes from device to device, each of which doubles it; the rig afterwards."""
    made = rig(devices=max(devices) + 1, machine_name="dgx1-v100", **options)

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", N, fill=np.arange(float(N)))
        pointers = [await t.omp_target_alloc(8 * N, device=device) for device in devices]
        assert await t.omp_target_memcpy(pointers[0], a, 8 * N) == 0
        for place, pointer in enumerate(pointers):
            assert pointer is not None
            if place:
                assert await t.omp_target_memcpy(pointer, pointers[place - 1], 8 * N) == 0
            view = pointer.viewed(np.float64)
            await t.target(double, view, is_device_ptr=view, device=devices[place])
        await t.omp_target_memcpy(a, pointers[-1], 8 * N)
        assert (a.data == np.arange(float(N)) * 2.0 ** len(devices)).all()
        for pointer in pointers:
            await t.omp_target_free(pointer)

    made.alone(body)
    made.assert_clean()
    return made


def moved(made: Any) -> dict[str, int]:
    return {
        direction: sum(device.bytes_moved()[direction] for device in made.machine.devices)
        for direction in ("h2d", "d2h", "p2p")
    }


@pytest.mark.parametrize("gear", ["native", "turbo"])
def test_linked_devices_copy_over_their_links(rig: MakeRig, gear: Any) -> None:
    made = passing(rig, [0, 1, 3, 2], gear=gear)
    assert moved(made) == {"h2d": 8 * N, "d2h": 8 * N, "p2p": 3 * 8 * N}
    assert made.calls.count("cuMemcpyPeerAsync") == made.calls.count("cuCtxEnablePeerAccess") == 3
    assert made.machine.statistics()["peer link 1-3"].bytes == 8 * N


def test_devices_without_a_link_copy_through_the_host_or_a_neighbour(rig: MakeRig) -> None:
    host = passing(rig, [0, 5])
    assert moved(host) == {"h2d": 2 * 8 * N, "d2h": 2 * 8 * N, "p2p": 0}
    assert host.calls.count("cuCtxEnablePeerAccess") == 0 and host.calls.count("cuMemcpyPeerAsync") == 1
    through = passing(rig, [0, 5], overrides={"p2p.without_link": "neighbour"})
    assert moved(through) == {"h2d": 8 * N, "d2h": 8 * N, "p2p": 2 * 8 * N}


def test_a_machine_without_links_copies_through_a_buffer_of_the_runtimes(rig: MakeRig) -> None:
    made = passing(rig, [0, 1], overrides={"nvlink.topology": "none"})
    assert moved(made) == {"h2d": 2 * 8 * N, "d2h": 2 * 8 * N, "p2p": 0}
    assert made.calls.count("cuMemcpyPeerAsync") == 0
    assert made.calls.count("cuMemcpyDtoHAsync") == made.calls.count("cuMemcpyHtoDAsync") == 2


def test_an_exchange_takes_the_directive_the_call_the_link_and_the_wait(rig: MakeRig) -> None:
    made = rig(devices=2, machine_name="dgx1-v100")

    async def body(t: omp.HostThread) -> float:
        here, there = await t.omp_target_alloc(8 * N), await t.omp_target_alloc(8 * N, device=1)
        await t.omp_target_memcpy(there, here, 8 * N)
        begin = made.sim.now
        await t.omp_target_memcpy(there, here, 8 * N)
        return float(made.sim.now - begin)

    parts = ["runtime.directive", "driver.copy_submit", "p2p.raw_latency", "sync.latency"]
    alone = sum(SPEC.value(part) for part in parts) + 8 * N / SPEC.value("nvlink.link_bw")
    assert made.alone(body) == pytest.approx(alone)


def test_of_threads_that_come_at_once_one_enables_access_and_the_others_wait(rig: MakeRig) -> None:
    made = rig({"p2p.enable_access": "5 ms"}, devices=2, machine_name="dgx1-v100")

    async def body(t: omp.HostThread) -> None:
        here, there = await t.omp_target_alloc(64), await t.omp_target_alloc(64, device=1)
        await t.barrier()
        await t.omp_target_memcpy(there, here, 64)

    made.run(body, 4)
    assert made.calls.count("cuDeviceCanAccessPeer") == made.calls.count("cuCtxEnablePeerAccess") == 1
    lock = made.program.locks()["peer accesses"]
    assert lock.contended == 3 and lock.hold_s == pytest.approx(5e-3)
    assert moved(made)["p2p"] == 4 * 64


def test_an_apu_exchanges_with_no_other(rig: MakeRig) -> None:
    made = rig(devices=2, machine_name="mi300a")

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 8, fill=1.0)
        here, there = await t.omp_target_alloc(64), await t.omp_target_alloc(64, device=1)
        assert here is not None and there is not None
        await t.omp_target_memcpy(here, a, 64)
        await t.omp_target_memcpy(there, here, 64)
        a[:] = 0.0
        await t.omp_target_memcpy(a, there, 64)
        assert (a.data == 1.0).all()
        with pytest.raises(DriverError, match="no link to device 1"):
            await made.device.plugin.exchange_data(None, there.address, here.address, 64, device=1)

    made.alone(body)
    assert moved(made)["p2p"] == 0


@scenario(machine="dgx1-v100")
async def ring(run: Run, devices: int = 4, n: int = 1000) -> None:
    """Each device sends a block to the next one."""

    async def body(t: omp.HostThread) -> None:
        pointers = [await t.omp_target_alloc(n, device=device) for device in range(devices)]
        for source, destination in zip(pointers, [*pointers[1:], pointers[0]], strict=True):
            await t.omp_target_memcpy(destination, source, n)

    await run.parallel(body)


def test_results_tell_what_went_over_links() -> None:
    result = execute(ring)
    assert (result.bytes.h2d, result.bytes.d2h, result.bytes.p2p) == (0, 0, 4 * 1000)
    assert result.devices["peer link 3-0"].busy_s == pytest.approx(1000 / SPEC.value("nvlink.link_bw"))
    eight = execute(ring, {"devices": 8})
    assert (eight.bytes.h2d, eight.bytes.p2p) == (2 * 1000, 6 * 1000), "3-4 and 7-0 have no link"


def test_more_devices_than_the_machine_has() -> None:
    with pytest.raises(UserError, match=r"gpu\.devices: is 8, but the run asks for 9"):
        execute(ring, {"devices": 9})
