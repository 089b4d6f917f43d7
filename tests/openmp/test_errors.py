"""Bad programs fail as they would for real, and the error says who, what and when."""

from __future__ import annotations

import gc
import pickle
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from openmp_rig import MakeRig, Rig

from offloadrt import kernel
from offloadrt import openmp as omp
from offloadrt.driver import OutOfDeviceMemory
from offloadrt.kernels import Kernel, KernelError
from offloadrt.machine import ProfileError


@kernel
def first(a):  # type: ignore[no-untyped-def]  # a kernel's arguments are views of device memory
    a[0] = 1.0


def error_of(rig: Rig, body: Callable[[omp.HostThread], Awaitable[Any]]) -> BaseException:
    """The one error that ended the run."""
    with pytest.raises((omp.OffloadError, OutOfDeviceMemory)) as caught:
        rig.alone(body)
    return caught.value


def test_explicit_extension(rig: MakeRig) -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 64, "i4")
        await t.target_enter_data(omp.map(to=omp.section(a, 8, 16)))
        await t.target_enter_data(omp.map(to=omp.section(a, 0, 16)))

    error = error_of(rig(), body)
    assert isinstance(error, omp.MappingError)
    assert error.messages == (
        (
            "omptarget message: explicit extension not allowed: host address specified is <a+0> (64 bytes), "
            "but device allocation maps to host at <a+32> (64 bytes)"
        ),
        "omptarget error: Call to getTargetPointer returned null pointer (device failure or illegal mapping).",
        "target enter data: omptarget fatal error 1: failure of target construct while offloading is mandatory",
    )
    assert (error.call, error.array, error.thread, error.device) == ("target enter data", "a", "host thread 0", 0)
    assert error.time_s > 0.0
    assert "in target enter data, array 'a', thread 'host thread 0', device 0, at 0." in str(error)


def test_present_where_nothing_is(rig: MakeRig) -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 4)
        await t.target(first, a, maps=[omp.map(tofrom=a, present=True)])

    error = error_of(rig(), body)
    assert isinstance(error, omp.MappingError)
    assert "'present' map type modifier does not exist for host address <a+0> (32 bytes)" in str(error)
    assert "Failed to process data before launching the kernel." in str(error)


def test_an_unmapped_pointer_in_a_kernel(rig: MakeRig) -> None:
    async def body(t: omp.HostThread) -> None:
        await t.target(first, t.array("p", 4, kind="heap"))

    error = error_of(rig(), body)
    assert isinstance(error, omp.IllegalAddress)
    assert "an illegal memory access was encountered: kernel 'first': p is not mapped" in str(error)
    assert (error.array, error.thread) == ("p", "host thread 0")


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        ("alex-a100", "CUDA error: an illegal memory access was encountered: kernel 'first': "),
        (
            "mi300a",
            "Memory access fault by GPU node-1. Reason: Page not present or supervisor privilege: kernel 'first': ",
        ),
    ],
)
def test_an_illegal_access_is_told_in_the_driver_s_words(rig: MakeRig, machine: str, words: str) -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 4)
        await t.target(first, a, maps=[omp.map(to=omp.section(a, 1, 2))])

    error = error_of(rig(machine_name=machine), body)
    assert isinstance(error, omp.IllegalAddress)
    assert str(error).startswith(words + "a[0] is not mapped: the device has [1:3] of it (in target, array 'a'")


def test_an_unmapped_part_in_a_kernel(rig: MakeRig) -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 4)
        await t.target(first, a, maps=[omp.map(to=omp.section(a, 1, 2))])

    error = error_of(rig(), body)
    assert isinstance(error, omp.IllegalAddress)
    assert "a[0] is not mapped: the device has [1:3] of it" in str(error)


def test_freed_memory_in_a_kernel(rig: MakeRig) -> None:
    async def body(t: omp.HostThread) -> None:
        pointer = await t.omp_target_alloc(64)
        assert pointer is not None
        await t.omp_target_free(pointer)
        await t.target(first, pointer, is_device_ptr=pointer)

    assert isinstance(error_of(rig(allocator="direct"), body), omp.IllegalAddress)


@pytest.mark.parametrize(
    "allocator", ["direct", "llvm", "pool", pytest.param("malloc", marks=pytest.mark.needs_extensions)]
)
def test_a_device_block_is_freed_once(rig: MakeRig, allocator: str) -> None:
    async def body(t: omp.HostThread) -> None:
        pointer = await t.omp_target_alloc(1000)
        assert pointer is not None
        with pytest.raises(omp.InvalidFree, match=r"no block of the device begins at 0x\w+, or it was freed before"):
            await t.omp_target_free(pointer + 8)
        await t.omp_target_free(pointer)
        with pytest.raises(omp.InvalidFree, match="or it was freed before"):
            await t.omp_target_free(pointer)
        blocks = [await t.omp_target_alloc(1000) for _ in range(2)]
        assert len({int(block) for block in blocks if block is not None}) == 2
        with pytest.raises(TypeError, match="omp_target_free: pointer cannot be 12345"):
            await t.omp_target_free(12345)  # type: ignore[arg-type]  # what is tested

    rig(allocator=allocator).alone(body)


ARRAYS_WITHOUT_CLAUSE: list[tuple[str, Callable[[omp.HostThread, omp.HostArray], object], str]] = [
    ("target data", lambda t, a: t.target_data(a), r"omp\.map\(…\)"),  # type: ignore[arg-type]
    ("target enter data", lambda t, a: t.target_enter_data(a), r"omp\.map\(…\)"),  # type: ignore[arg-type]
    ("target exit data", lambda t, a: t.target_exit_data(a), r"omp\.map\(…\)"),  # type: ignore[arg-type]
    ("target update", lambda t, a: t.target_update(a), r"omp\.to\(…\) or omp\.from_\(…\)"),  # type: ignore[arg-type]
    ("target", lambda t, a: t.target(first, a, maps=a), r"omp\.map\(…\)"),  # type: ignore[typeddict-item]
]


@pytest.mark.parametrize(("directive", "write", "instead"), ARRAYS_WITHOUT_CLAUSE, ids=lambda value: str(value)[:18])
def test_an_array_is_no_clause(rig: MakeRig, directive: str, write: Any, instead: str) -> None:
    async def body(t: omp.HostThread) -> None:
        with pytest.raises(TypeError, match=rf"^{directive}: array 'a' is no clause; write {instead} around it"):
            write(t, t.array("a", 8))
        with pytest.raises(TypeError, match="target data: a list is no clause; give its clauses one by one"):
            t.target_data([omp.map(to=t.array("b", 8))])  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=r"map\(to: c\[0:4:2\]\): a stride is allowed on target update only"):
            t.target_data(omp.map(to=omp.section(t.array("c", 8), 0, 4, 2)))
        with pytest.raises(ValueError, match="target data: no depend clause is allowed here"):
            t.target_data(omp.depend(in_=1))
        with pytest.raises(TypeError, match=r"target: depend takes omp\.depend"):
            t.target(first, t.array("a", 8), depend=1)  # type: ignore[typeddict-item]

    rig().alone(body)


def test_any_thread_may_free_what_another_has_allocated(rig: MakeRig) -> None:
    arrays: list[omp.HostArray] = []

    async def body(t: omp.HostThread) -> None:
        if t.number == 0:
            arrays.append(t.array("a", 8, kind="heap"))
        await t.barrier()
        if t.number == 1:
            t.free(arrays[0])
            assert t.array("b", 8, kind="heap").address != arrays[0].address
        await t.barrier()
        if t.number == 0:
            assert t.array("c", 8, kind="heap").address == arrays[0].address, "the block went back to its own arena"

    rig().run(body, 2)


def test_what_the_heap_did_not_give_or_has_back_is_not_freed(rig: MakeRig) -> None:
    async def twice(t: omp.HostThread) -> None:
        a = t.array("a", 8, kind="heap")
        t.free(a)
        assert t.array("b", 8, kind="heap").address == a.address
        t.free(a)

    async def static(t: omp.HostThread) -> None:
        t.free(t.array("a", 8))

    for body, why in ((twice, "it was freed before"), (static, "no allocation begins at 0x")):
        error = error_of(rig(), body)
        assert isinstance(error, omp.InvalidFree)
        assert str(error).startswith(f"free of 'a': {why}") and "host thread 0" in str(error)


def test_a_fault_in_a_kernels_own_code_reaches_the_thread(rig: MakeRig) -> None:
    @kernel
    def wrong(a: Any) -> None:
        raise ZeroDivisionError("mine")

    async def body(t: omp.HostThread) -> None:
        with pytest.raises(ZeroDivisionError, match="mine"):
            await t.target(wrong, t.array("a", 4))

    rig().alone(body)


def test_out_of_device_memory(rig: MakeRig) -> None:
    async def body(t: omp.HostThread) -> None:
        capacity = t.program.machine.devices[0].memory.capacity
        await t.target_enter_data(omp.map(alloc=t.array("big", capacity // 16, phantom=True)))
        assert await t.omp_target_alloc(capacity, phantom=True) is None, "the routine returns NULL"
        await t.target_enter_data(omp.map(alloc=t.array("too much", capacity // 8, phantom=True)))

    error = error_of(rig(), body)
    assert isinstance(error, OutOfDeviceMemory)
    assert "cuMemAlloc failed with CUDA_ERROR_OUT_OF_MEMORY: array 'too much': " in str(error)
    assert "host thread 0" in str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


async def beyond_the_source(t: omp.HostThread, a: omp.HostArray, p: omp.DevicePointer) -> None:
    await t.omp_target_memcpy(p, a, 24, src_offset=16)


async def beyond_the_destination(t: omp.HostThread, a: omp.HostArray, p: omp.DevicePointer) -> None:
    await t.omp_target_memcpy(a, p, 24, dst_offset=16)


async def before_the_destination(t: omp.HostThread, a: omp.HostArray, p: omp.DevicePointer) -> None:
    await t.omp_target_memcpy(omp.section(a, 1, 1), p, 8, dst_offset=-16)


async def on_the_host(t: omp.HostThread, a: omp.HostArray, p: omp.DevicePointer) -> None:
    await t.omp_target_memcpy(t.array("b", 8), a, 24, src_offset=16)


async def filling(t: omp.HostThread, a: omp.HostArray, p: omp.DevicePointer) -> None:
    await t.omp_target_memset(a, 0, 40)


@pytest.mark.parametrize("phantom", [False, True])
@pytest.mark.parametrize(
    ("copy", "length", "offset"),
    [
        (beyond_the_source, 24, 16),
        (beyond_the_destination, 24, 16),
        (before_the_destination, 8, -8),
        (on_the_host, 24, 16),
        (filling, 40, 0),
    ],
)
def test_a_copy_outside_an_array(rig: MakeRig, copy: Any, length: int, offset: int, phantom: bool) -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 4)
        pointer = await t.omp_target_alloc(64)
        assert pointer is not None
        await copy(t, a, pointer)

    error = error_of(rig(phantom=phantom), body)
    assert isinstance(error, omp.OutsideArray)
    assert f"{length} bytes from offset {offset} reach outside array 'a', which has 32 bytes" in str(error)
    assert "thread 'host thread 0'" in str(error)
    assert f"at {error.time_s:.9f} s" in str(error) and error.time_s > 0.0


def test_a_strided_update_that_llvm_leads_out_of_the_array(rig: MakeRig) -> None:
    """LLVM multiplies the lower bound by the stride: elements 8 and 10 instead of 4 and 6, of which 10 is outside."""
    made = rig()

    async def body(t: omp.HostThread) -> None:
        room = t.array("room", 32, fill=1.0)
        inner = omp.HostArray("inner", room.address, (10,), room.dtype, "static", 0, room.data[:10])
        async with t.target_data(omp.map(to=room)):
            room[:] = 2.0
            await t.target_update(omp.from_(omp.section(inner, 4, 2, 2)))
        assert room.data.tolist() == [2.0] * 8 + [1.0] + [2.0] * 23

    made.alone(body)
    assert made.calls.count("cuMemcpyDtoHAsync") == 2


def test_an_update_of_a_partly_present_section_is_ignored(rig: MakeRig) -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 8, fill=1.0)
        async with t.target_data(omp.map(to=omp.section(a, 4, 4))):
            await t.target_update(omp.from_(a))

    made = rig()
    made.alone(body)
    assert made.calls.count("cuMemcpyDtoHAsync") == 0


def test_names_that_do_not_exist(rig: MakeRig) -> None:
    with pytest.raises(ValueError, match="no memory configuration 'copied'; there are: copy, eager_maps"):
        rig(configuration="copied")
    with pytest.raises(ValueError, match="no allocator 'lvm'; there are: direct, llvm, malloc"):
        rig(allocator="lvm")
    with pytest.raises(ProfileError, match=r"runtime\.strided_update"):
        rig({"runtime.strided_update": "openmp"})
    with pytest.raises(ProfileError, match="0 must be positive"):
        rig({"runtime.hidden_helper_threads": 0})


class Body:
    """Equal to its like, so without a hash; takes one array."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Body)

    def __call__(self, a: Any) -> None:
        a += 1.0


def test_any_callable_is_a_body_and_none_outlives_its_run(rig: MakeRig) -> None:
    def alive(made: Rig) -> weakref.ref[Body]:
        body = Body()
        add = Kernel(name="add", body=body, flops_per_iteration=1.0, bytes_per_iteration=8.0)

        async def program(t: omp.HostThread) -> None:
            a = t.array("a", 4, fill=1.0)
            await t.target(add, a)
            assert a.data.tolist() == [2.0] * 4
            with pytest.raises(KernelError, match=r"'add' takes 1 argument \(a\), not 2"):
                await t.target(add, a, a)

        made.alone(program)
        return weakref.ref(body)

    found = alive(rig())
    gc.collect()
    assert found() is None


def test_a_null_pointer_in_a_kernel_is_an_illegal_address(rig: MakeRig) -> None:
    def store(p: Any) -> None:
        p[0] = 1.0

    async def body(t: omp.HostThread) -> None:
        await t.target(Kernel("store", store), None)

    with pytest.raises(omp.IllegalAddress, match="kernel 'store' uses a null pointer"):
        rig().alone(body)


@pytest.mark.parametrize("how", ["update from", "update to", "exit"])
def test_nothing_is_copied_to_or_from_memory_that_the_host_has_freed(rig: MakeRig, how: str) -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 8, kind="heap")
        await t.target_enter_data(omp.map(to=a))
        t.free(a)
        if how == "exit":
            await t.target_exit_data(omp.map(from_=a))
        else:
            await t.target_update(omp.from_(a) if how == "update from" else omp.to(a))

    with pytest.raises(omp.FreedHostMemory, match=r"<a\+0> \(64 bytes\) was freed"):
        rig().alone(body)
