"""The device memory routines (`omp_target_*`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from openmp_rig import MakeRig

from offloadrt import Run, cuda, execute, kernel, scenario
from offloadrt import openmp as omp
from offloadrt.driver import DriverError
from offloadrt.study.errors import ScriptFailed


@kernel
def add_one(p):  # type: ignore[no-untyped-def]  # a kernel's arguments are views of device memory
    p[:] = p[:] + 1.0


def test_alloc_copy_use_copy_free(rig: MakeRig) -> None:
    made = rig()

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 8, fill=np.arange(8.0))
        pointer = await t.omp_target_alloc(64)
        assert pointer is not None
        assert await t.omp_target_memcpy(pointer, a, 64) == 0
        view = pointer.viewed(np.float64)
        await t.target(add_one, view, is_device_ptr=view)
        assert await t.omp_target_memcpy(a, pointer, 32, dst_offset=32, src_offset=0) == 0
        assert a.data.tolist() == [0.0, 1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 4.0]
        await t.omp_target_free(pointer)
        await t.omp_target_free(None)

    made.alone(body)
    made.assert_clean()


@pytest.mark.parametrize("by_default", [False, True])
def test_on_the_initial_device_memory_is_the_hosts(rig: MakeRig, by_default: bool) -> None:
    made = rig(devices=2)

    async def body(t: omp.HostThread) -> None:
        host = t.omp_get_initial_device()
        device = None if by_default else host
        if by_default:
            t.omp_set_default_device(host)
            assert t.omp_get_default_device() == host == 2
        a = t.array("a", 4, fill=np.arange(4.0))
        pointer = await t.omp_target_alloc(32, device)
        assert pointer is not None and pointer.device == host
        far = await t.omp_target_alloc(16, device=1)
        assert await t.omp_target_memcpy(pointer, a, 32) == 0
        assert await t.omp_target_memcpy(far, pointer + 8, 16) == 0
        assert await t.omp_target_memset(pointer, 0, 32) == pointer
        assert await t.omp_target_memcpy(pointer + 16, far, 16) == 0
        assert await t.omp_target_memcpy(a, pointer, 32) == 0
        assert a.data.tolist() == [0.0, 0.0, 1.0, 2.0]
        mapped = await t.omp_get_mapped_ptr(omp.section(a, 2, 2), device)
        assert mapped is not None and (int(mapped), mapped.nbytes, mapped.device) == (a.address + 16, 16, host)
        assert await t.omp_target_memcpy(mapped, a, 16) == 0
        assert a.data.tolist() == [0.0, 0.0, 0.0, 0.0]
        assert await t.omp_target_is_present(a, device) and await t.omp_target_is_accessible(a, 32, device)
        assert await t.omp_target_associate_ptr(a, pointer, 32, device=device) == -1
        assert await t.omp_target_disassociate_ptr(a, device) == -1
        await t.omp_target_free(pointer)
        await t.omp_target_free(far)
        with pytest.raises(omp.InvalidFree, match="it was freed before"):
            await t.omp_target_free(pointer)
        a[:] = 1.0
        await t.target(add_one, a, device=host)
        assert a.data.tolist() == [2.0] * 4

    made.alone(body)
    made.assert_clean()


def test_null_pointers_and_nothing(rig: MakeRig) -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 8)
        assert await t.omp_target_alloc(0) is None
        assert await t.omp_target_memcpy(None, a, 8) == -1
        assert await t.omp_target_memcpy(None, a, 0) == 0
        assert await t.omp_target_memcpy_rect(None, None, 8, [1], [0], [0], [1], [1]) == 2**31 - 1

    rig().alone(body)


def test_device_to_device(rig: MakeRig) -> None:
    made = rig(devices=2)

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 4, fill=3.0)
        here, there = await t.omp_target_alloc(32), await t.omp_target_alloc(32)
        far = await t.omp_target_alloc(32, device=1)
        await t.omp_target_memcpy(here, a, 32)
        await t.omp_target_memcpy(there, here, 32)
        await t.omp_target_memcpy(far, there, 32)
        a[:] = 0.0
        await t.omp_target_memcpy(a, far, 32)
        assert (a.data == 3.0).all()
        for pointer in (here, there, far):
            await t.omp_target_free(pointer)

    made.alone(body)
    assert made.calls.count("cuMemcpyDtoDAsync") == 1
    made.assert_clean()


def test_within_the_host(rig: MakeRig) -> None:
    async def body(t: omp.HostThread) -> None:
        a, b = t.array("a", 4, fill=1.0), t.array("b", 4)
        await t.omp_target_memcpy(b, a, 16, dst_offset=8)
        assert b.data.tolist() == [0.0, 1.0, 1.0, 0.0]

    rig().alone(body)


def test_rectangle(rig: MakeRig) -> None:
    made = rig()

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", (4, 5), fill=np.arange(20.0).reshape(4, 5))
        pointer = await t.omp_target_alloc(2 * 3 * 8)
        code = await t.omp_target_memcpy_rect(pointer, a, 8, (2, 3), (0, 0), (1, 2), (2, 3), (4, 5))
        assert code == 0
        b = t.array("b", (2, 3))
        await t.omp_target_memcpy(b, pointer, 48)
        assert (b.data == a.data[1:3, 2:5]).all()

    made.alone(body)
    assert made.calls.count("cuMemcpyHtoDAsync") == 2, "one copy a row"


def test_memset(rig: MakeRig) -> None:
    async def body(t: omp.HostThread) -> None:
        pointer = await t.omp_target_alloc(8)
        assert pointer is not None
        assert await t.omp_target_memset(pointer, 0x101, 8) is pointer
        a = t.array("a", 8, np.uint8)
        await t.omp_target_memcpy(a, pointer, 8)
        assert (a.data == 1).all()
        await t.omp_target_memset(a, 2, 4)
        assert a.data.tolist() == [2, 2, 2, 2, 1, 1, 1, 1]

    rig().alone(body)


def test_memcpy_async_waits_for_its_dependences(rig: MakeRig) -> None:
    async def body(t: omp.HostThread) -> None:
        a, b = t.array("a", 4, fill=1.0), t.array("b", 4)
        pointer = await t.omp_target_alloc(32)
        await t.omp_target_memcpy_async(pointer, a, 32, depend=omp.depend(out="block"))
        await t.omp_target_memcpy_async(b, pointer, 32, depend=omp.depend(in_="block"))
        await t.taskwait()
        assert (b.data == 1.0).all()

    rig().alone(body)


def test_presence_and_mapped_pointers(rig: MakeRig) -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 8)
        assert not await t.omp_target_is_present(a)
        assert await t.omp_target_is_present(a, device=t.omp_get_initial_device())
        async with t.target_data(omp.map(to=omp.section(a, 2, 4))):
            assert not await t.omp_target_is_present(a)
            assert await t.omp_target_is_present(omp.section(a, 2, 1))
            assert await t.omp_get_mapped_ptr(a) is None
            inner, outer = (
                await t.omp_get_mapped_ptr(omp.section(a, 3, 1)),
                await t.omp_get_mapped_ptr(omp.section(a, 2, 4)),
            )
            assert inner is not None
            assert outer is not None
            assert int(inner) == int(outer) + 8
            assert (outer.nbytes, outer.shape) == (32, (4,))
        assert not await t.omp_target_is_accessible(a, 64)

    rig().alone(body)


def test_association(rig: MakeRig) -> None:
    made = rig()

    async def body(t: omp.HostThread) -> None:
        a, b = t.array("a", 4, fill=1.0), t.array("b", 4)
        pointer = await t.omp_target_alloc(64)
        assert pointer is not None
        assert await t.omp_target_associate_ptr(a, pointer, 32, 32) == 0
        assert await t.omp_target_associate_ptr(a, pointer, 32, 32) == 0, "the same once more is no error"
        assert await t.omp_target_associate_ptr(a, pointer, 32, 0) == -1
        async with t.target_data(omp.map(tofrom=a, always=True)):
            await t.target(add_one, a)
        assert a[0] == 2.0
        assert made.device.table.at(a.address) is not None, "its count is infinite"
        assert await t.omp_target_disassociate_ptr(a) == 0
        assert await t.omp_target_disassociate_ptr(a) == -1
        async with t.target_data(omp.map(to=b)):
            assert await t.omp_target_disassociate_ptr(b) == -1
        assert await t.omp_target_associate_ptr(a, pointer, 32, 32) == 0
        async with t.target_data(omp.map(to=a, hold=True)):
            assert await t.omp_target_disassociate_ptr(a) == -1, "a region holds it"
        assert await t.omp_target_disassociate_ptr(a) == 0
        await t.omp_target_free(pointer)

    made.alone(body)
    made.assert_clean()
    assert len(made.device.messages) == 4


def test_deferred_copies_and_settings(rig: MakeRig) -> None:
    made = rig()

    async def body(t: omp.HostThread) -> None:
        a, b = t.array("a", (4, 4), fill=np.arange(16.0).reshape(4, 4)), t.array("b", (4, 4))
        pointer = await t.omp_target_alloc(128)
        assert pointer is not None
        assert await t.omp_target_memset_async(pointer, 0, 128, depend=omp.depend(out=pointer)) == pointer
        box = ((2, 2), (1, 1), (1, 1), (4, 4), (4, 4))
        assert await t.omp_target_memcpy_rect_async(pointer, a, 8, *box, depend=omp.depend(inout=pointer)) == 0
        assert await t.omp_target_memcpy_async(b, pointer, 128, depend=omp.depend(in_=pointer)) == 0
        await t.taskwait()
        assert b.data.tolist() == [[0, 0, 0, 0], [0, 5, 6, 0], [0, 9, 10, 0], [0, 0, 0, 0]]
        await t.omp_target_free(pointer)

    made.alone(body)
    made.assert_clean()


def test_a_device_is_not_paused(rig: MakeRig) -> None:
    made = rig()

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 4)
        await t.target_enter_data(omp.map(to=a))
        assert [t.omp_pause_resource(kind) for kind in ("soft", "hard")] == [1, 1]
        assert t.omp_pause_resource("soft", t.omp_get_initial_device()) == 0
        assert await t.omp_target_is_present(a)
        with pytest.raises(TypeError, match="kind cannot be 'medium'"):
            t.omp_pause_resource("medium")

    made.alone(body)


@pytest.mark.parametrize("machine", ["alex-a100", "mi300a"])
@pytest.mark.parametrize("elements", [8, 1 << 18])  # the second is one that ROCr's plugin copies without a stream
def test_a_copy_within_a_device_moves_the_bytes(rig: MakeRig, machine: str, elements: int) -> None:
    made, values = rig(machine_name=machine), np.arange(float(elements))

    async def body(t: omp.HostThread) -> None:
        a, nbytes = t.array("a", elements, fill=values), 8 * elements
        first, second = await t.omp_target_alloc(nbytes), await t.omp_target_alloc(nbytes)
        assert await t.omp_target_memcpy(first, a, nbytes) == 0
        a.data[:] = 0.0
        assert await t.omp_target_memcpy(second, first, nbytes) == 0
        assert await t.omp_target_memcpy(a, second, nbytes) == 0
        assert np.array_equal(a.data, values)
        assert hex(first) == hex(int(first))
        await t.omp_target_free(first)
        await t.omp_target_free(second)

    made.alone(body)
    made.assert_clean()


def test_a_device_with_one_memory_refuses_what_needs_two(rig: MakeRig) -> None:
    made = rig(machine_name="mi300a")
    plugin = made.device.plugin

    async def refused(call: Callable[..., Any], *arguments: object) -> None:
        with pytest.raises(DriverError, match=r"nothing could migrate|nothing migrates|pin|no link"):
            await call(*arguments)

    async def body(t: omp.HostThread) -> None:
        managed, pinning = made.device.driver.managed, made.device.driver.pinning
        for call in (managed.free, managed.alloc, pinning.unregister, pinning.alloc, pinning.free, plugin.reach):
            await refused(call, 1)
        await refused(pinning.register, 0, 64)
        with pytest.raises(DriverError):
            managed.start()

    made.alone(body)


@pytest.mark.needs_extensions
def test_the_allocator_that_keeps_everything_gives_it_back_at_the_end(rig: MakeRig) -> None:
    made = rig(allocator="malloc")

    async def body(t: omp.HostThread) -> None:
        for _ in range(3):
            async with t.target_data(omp.map(to=t.array("a", 1 << 20))):
                pass
        assert made.calls.table()["cuMemAlloc"].count == 1
        assert made.device.allocator.locks() == {}
        await made.device.allocator.release_pooled()

    made.alone(body)
    made.assert_clean()


def test_a_piece_of_an_array_lies_inside_it(rig: MakeRig) -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 8)
        assert a.span(a.address + 8, 56).nbytes == 56
        with pytest.raises(ValueError, match="array 'a' has 64 bytes, not 64 from offset 8"):
            a.span(a.address + 8, 64)

    rig().alone(body)


def test_host_memory_cannot_be_prefetched_on_a_machine_of_two_memories(rig: MakeRig) -> None:
    made = rig()

    async def body(t: omp.HostThread) -> None:
        with pytest.raises(DriverError, match="the memory is not managed"):
            await made.device.plugin.prefault(t.array("a", 8).address, 64)

    made.alone(body)


def test_a_kernel_whose_body_makes_no_sense_raises_its_own_error(rig: MakeRig) -> None:
    @kernel
    def broken(a):  # type: ignore[no-untyped-def]
        a.nothing_of_the_kind()

    async def body(t: omp.HostThread) -> None:
        await t.target(broken, t.array("a", 8))

    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        rig().alone(body)


@pytest.mark.parametrize("offset", [0, 1 << 40])
def test_a_copy_that_leaves_its_block_fails_on_an_apu_and_moves_nothing(rig: MakeRig, offset: int) -> None:
    made = rig(machine_name="mi300a")

    async def body(t: omp.HostThread) -> None:
        first, second = await t.omp_target_alloc(64), await t.omp_target_alloc(64)
        assert first is not None and second is not None
        assert await t.omp_target_memcpy(second, first + offset, 1 << 13) == -1
        await t.omp_target_free(first)
        await t.omp_target_free(second)

    made.alone(body)
    made.assert_clean()
    assert "memory_async_copy: HSA_STATUS_ERROR_INVALID_ARGUMENT" in made.device.messages[0]


def test_devices_may_be_given_as_the_standard_does(rig: MakeRig) -> None:
    made = rig(devices=2)

    async def body(t: omp.HostThread) -> None:
        host, a = t.omp_get_initial_device(), t.array("a", (2, 2), fill=1.0)
        near, far = await t.omp_target_alloc(32, 0), await t.omp_target_alloc(32, 1)
        assert await t.omp_target_memcpy(near, a, 32, 0, 0, 0, host) == 0
        assert await t.omp_target_memcpy_rect(far, near, 8, (2, 1), (0, 0), (0, 1), (2, 1), (2, 2), 1, 0) == 0
        assert await t.omp_target_memset(near, 0, 16, 0) is near
        assert await t.omp_target_memcpy_async(a, near, 16, 0, 0, host, 0) == 0
        await t.taskwait()
        assert await t.omp_target_memset_async(a, 0, 8, host, omp.depend(out=a)) is a
        volume = ((1, 1), (0, 0), (0, 0), (2, 2), (2, 1))
        assert await t.omp_target_memcpy_rect_async(a, far, 8, *volume, host, 1, omp.depend(out=a)) == 0
        await t.taskwait()
        assert a.data.tolist() == [[1.0, 0.0], [1.0, 1.0]]
        await t.omp_target_free(near, 0)
        await t.omp_target_free(far, 1)

    made.alone(body)
    made.assert_clean()


def test_a_device_of_which_it_is_no_memory_is_refused(rig: MakeRig) -> None:
    async def body(t: omp.HostThread) -> None:
        a, host = t.array("a", 8), t.omp_get_initial_device()
        near = await t.omp_target_alloc(64, 0)
        box = (8, (1,), (0,), (0,), (1,), (1,))
        calls = {
            "dst is memory of device 0, not of device 1: give 0": [
                t.omp_target_memcpy(near, a, 8, dst_device=1),
                t.omp_target_memcpy_async(near, a, 8, dst_device=1),
                t.omp_target_memcpy_rect(near, a, *box, dst_device=1),
                t.omp_target_memcpy_rect_async(near, a, *box, dst_device=1),
            ],
            "src is memory of the host, not of device 0: .* omp_get_mapped_ptr": [
                t.omp_target_memcpy(near, a, 8, src_device=0)
            ],
            "pointer is memory of device 0, not of the host": [
                t.omp_target_free(near, host),
                t.omp_target_memset(near, 0, 8, host),
                t.omp_target_memset_async(near, 0, 8, host),
            ],
        }
        for said, refused in calls.items():
            for call in refused:
                with pytest.raises(ValueError, match=said):
                    await call
        await t.omp_target_free(near)

    rig(devices=2).alone(body)


def test_bytes_that_a_kernel_takes_for_numbers_are_named() -> None:
    @kernel(flops_per_iteration=1, bytes_per_iteration=16)
    def scale(a: Any, factor: float) -> None:
        a *= factor

    @scenario
    async def raw(run: Run) -> None:
        async def body(t: omp.HostThread) -> None:
            pointer = await t.omp_target_alloc(64)
            await t.target(scale, pointer, 2.5, is_device_ptr=pointer, iterations=8)

        await run.parallel(body)

    @scenario(machine="h100")
    async def raw_cuda(run: Run) -> None:
        run.options = cuda.CUDAOptions()

        async def body(t: cuda.HostThread) -> None:
            await t.launch(scale, await t.malloc(64), 2.5, grid=1, block=8)
            await t.device_synchronize()

        await run.parallel(body)

    for program in (raw, raw_cuda):
        with pytest.raises(ScriptFailed, match=r"argument 0 of the kernel: bytes .* view it as these first"):
            execute(program)
