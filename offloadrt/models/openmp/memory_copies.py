"""Copies between places, as OpenMP's device memory routines make them (`omp_target_memcpy` and its sisters).

Each is a method of `HostThread`. Names and results are OpenMP's. A copy that
a call of the driver library fails in is no fatal error: the routine says so by its result, as LLVM's does.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import numpy as np

from offloadrt.driver import DriverError
from offloadrt.models.host.directive import Work
from offloadrt.models.openmp.clauses import Depend
from offloadrt.models.openmp.routine_caller import (
    OFFLOAD_FAIL,
    OFFLOAD_SUCCESS,
    Caller,
    Place,
    host_place,
    in_routine,
    initial_device,
    integer,
    on_device,
)
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.device_pointer import DevicePointer
from offloadrt.runtime.directive_queue import DirectiveQueue
from offloadrt.runtime.errors import CopyFailed, OutsideArray
from offloadrt.runtime.host_array import HostArray, HostSpan
from offloadrt.runtime.program_events import DataCopied, HostUsed

MAX_DIMENSIONS = 2**31 - 1
"""What omp_target_memcpy_rect answers to null pointers: how many dimensions it can take (INT_MAX)."""


async def omp_target_memcpy(
    t: Caller, dst: Place | None, src: Place | None, length: int, dst_offset: int = 0, src_offset: int = 0
) -> int:
    """Copy bytes between host and devices, offsets in bytes; returns 0, or -1 for a null pointer or a failed copy.

    Raises OutsideArray for bytes that an array of the host does not have.
    """
    if integer(length, "omp_target_memcpy", "its length") == 0:
        return OFFLOAD_SUCCESS
    if dst is None or src is None or length < 0:
        return OFFLOAD_FAIL
    call = "omp_target_memcpy"
    if on_device(dst):
        if on_device(src):
            return await _device_to_device(t, call, dst + dst_offset, src + src_offset, length)
        return await _host_to_device(t, call, dst + dst_offset, *_piece(t, call, src, src_offset, length))
    if on_device(src):
        return await _device_to_host(t, call, *_piece(t, call, dst, dst_offset, length), src + src_offset)
    into, destination = _piece(t, call, dst, dst_offset, length)
    out_of, source = _piece(t, call, src, src_offset, length)
    await _touch(t, out_of, source, False)
    await _touch(t, into, destination, True)
    await t.program.machine.host_memory.copy(length)
    if (observer := t.program.observer) is not None:
        observer.handle(HostUsed(out_of, source.address, length, False))
        observer.handle(HostUsed(into, destination.address, length, True))
    _move(destination, source)
    return OFFLOAD_SUCCESS


async def must_copy(t: Caller, dst: Place, src: Place, length: int, dst_offset: int = 0, src_offset: int = 0) -> None:
    """Copy as omp_target_memcpy does, for a caller that does not go on without the copy.

    Raises CopyFailed, with what the runtime has written, and OutsideArray.
    """
    code = await omp_target_memcpy(t, dst, src, length, dst_offset, src_offset)
    if code != OFFLOAD_SUCCESS:
        device = next(place.device for place in (dst, src) if on_device(place))
        where = t.program.device(device)
        raise where.error(CopyFailed, f"omp_target_memcpy returned {code}", "omp_target_memcpy", "")


async def omp_target_memcpy_async(
    t: Caller,
    dst: Place | None,
    src: Place | None,
    length: int,
    dst_offset: int = 0,
    src_offset: int = 0,
    depend: Depend | Sequence[Depend] = (),
) -> int:
    """Copy as omp_target_memcpy does, by a deferred task that `taskwait` waits for."""
    if length and (dst is None or src is None):
        return OFFLOAD_FAIL

    def run() -> Awaitable[object]:
        return omp_target_memcpy(t, dst, src, length, dst_offset, src_offset)

    await _defer(t, "omp_target_memcpy_async", run, depend)
    return OFFLOAD_SUCCESS


async def omp_target_memcpy_rect_async(
    t: Caller,
    dst: Place | None,
    src: Place | None,
    element_size: int,
    volume: Sequence[int],
    dst_offsets: Sequence[int],
    src_offsets: Sequence[int],
    dst_dimensions: Sequence[int],
    src_dimensions: Sequence[int],
    depend: Depend | Sequence[Depend] = (),
) -> int:
    """Copy as omp_target_memcpy_rect does, by a deferred task that `taskwait` waits for."""
    if dst is None or src is None or element_size < 1 or not volume:
        return _refused_box(dst, src)

    def run() -> Awaitable[object]:
        return omp_target_memcpy_rect(
            t, dst, src, element_size, volume, dst_offsets, src_offsets, dst_dimensions, src_dimensions
        )

    await _defer(t, "omp_target_memcpy_rect_async", run, depend)
    return OFFLOAD_SUCCESS


async def omp_target_memset_async(
    t: Caller,
    pointer: DevicePointer | HostArray | None,
    value: int,
    nbytes: int,
    depend: Depend | Sequence[Depend] = (),
) -> DevicePointer | HostArray | None:
    """Set bytes as omp_target_memset does, by a deferred task that `taskwait` waits for."""
    await _defer(t, "omp_target_memset_async", lambda: omp_target_memset(t, pointer, value, nbytes), depend)
    return pointer


async def _defer(t: Caller, name: str, run: Callable[[], Awaitable[object]], depend: Depend | Sequence[Depend]) -> None:
    """Make a deferred task of a copy."""
    depends = (depend,) if isinstance(depend, Depend) else tuple(depend)
    await t.program.devices[0].work(t.program.costs.task)
    t.helpers.submit(t.tasks, name, run, depends)


async def omp_target_memcpy_rect(
    t: Caller,
    dst: Place | None,
    src: Place | None,
    element_size: int,
    volume: Sequence[int],
    dst_offsets: Sequence[int],
    src_offsets: Sequence[int],
    dst_dimensions: Sequence[int],
    src_dimensions: Sequence[int],
) -> int:
    """Copy a box between two arrays, lengths in elements, innermost last.

    One copy for each contiguous row, as LLVM does.
    """
    if dst is None or src is None or element_size < 1 or not volume:
        return _refused_box(dst, src)
    given = {
        "dst_offsets": dst_offsets,
        "src_offsets": src_offsets,
        "dst_dimensions": dst_dimensions,
        "src_dimensions": src_dimensions,
    }
    for name, lengths in given.items():
        if len(lengths) != len(volume):
            raise ValueError(
                f"omp_target_memcpy_rect: volume has {len(volume)} dimensions, but {name} has {len(lengths)}"
            )
    rows: list[tuple[int, int]] = [(0, 0)]
    for axis, count in enumerate(volume):
        inner = axis == len(volume) - 1
        dst_stride = element_size * math.prod(dst_dimensions[axis + 1 :])
        src_stride = element_size * math.prod(src_dimensions[axis + 1 :])
        steps = range(1) if inner else range(count)
        rows = [
            (to + (dst_offsets[axis] + i) * dst_stride, start + (src_offsets[axis] + i) * src_stride)
            for to, start in rows
            for i in steps
        ]
    for to, start in rows:
        code = await omp_target_memcpy(t, dst, src, volume[-1] * element_size, to, start)
        if code != OFFLOAD_SUCCESS:
            return code
    return OFFLOAD_SUCCESS


def _refused_box(dst: Place | None, src: Place | None) -> int:
    """Return what the routine answers that copies nothing: with two null pointers it is asked for its limit."""
    return MAX_DIMENSIONS if dst is None and src is None else OFFLOAD_FAIL


async def omp_target_memset(
    t: Caller, pointer: DevicePointer | HostArray | None, value: int, nbytes: int
) -> DevicePointer | HostArray | None:
    """Set bytes; returns the pointer, which may be null. On a device LLVM fills a buffer on the host and copies it.

    Raises OutsideArray for bytes that an array of the host does not have.
    """
    call = "omp_target_memset"
    if pointer is not None and integer(nbytes, call, "its length") > 0:
        filled = np.full(nbytes, value & 0xFF, np.uint8)
        if not on_device(pointer):
            into, destination = _piece(t, call, pointer, 0, nbytes)
            await _touch(t, into, destination, True)
            await t.program.machine.host_memory.copy(nbytes)
            if (observer := t.program.observer) is not None:
                observer.handle(HostUsed(into, destination.address, nbytes, True))
            _move(destination, HostSpan(0, nbytes, filled))
        else:
            await t.program.machine.host_memory.copy(nbytes)
            buffer = HostSpan(0, nbytes, None if pointer.phantom else filled)
            await _host_to_device(t, call, pointer, None, buffer)
    return pointer


async def _touch(t: Caller, array: HostArray, span: HostSpan, writes: bool) -> None:
    """Read or write a piece of the host's memory: what the device owns of managed memory comes back."""
    if t.program.devices[0].manages(array):
        await t.program.devices[0].plugin.host_touch(span.address, span.nbytes, writes)


def _piece(t: Caller, call: str, place: Place, offset: int, length: int) -> tuple[HostArray, HostSpan]:
    """Return the bytes [offset, offset + length) of a place on the host. Raises OutsideArray."""
    array, begin = host_place(place)
    if not array.holds(begin + offset, length):
        raise OutsideArray.now(
            t.sim,
            f"{length} bytes from offset {begin + offset - array.address} reach outside array {array.name!r}, "
            f"which has {array.nbytes} bytes",
            call=call,
            array=array.name,
            device=initial_device(t),
        )
    return array, array.span(begin + offset, length)


async def _copied(t: Caller, call: str, device: int, copy: Work) -> int:
    """Copy in a routine, and return its result."""
    try:
        await in_routine(t, call, device, copy, mandatory=False)
    except DriverError:
        return OFFLOAD_FAIL
    return OFFLOAD_SUCCESS


def _host_to_device(
    t: Caller, call: str, dst: DevicePointer, array: HostArray | None, source: HostSpan
) -> Awaitable[int]:
    def copy(where: OffloadDevice, queue: DirectiveQueue) -> Awaitable[object]:
        return where.submit(queue, dst.address, source, array)

    return _copied(t, call, dst.device, copy)


def _device_to_host(
    t: Caller, call: str, array: HostArray | None, destination: HostSpan, src: DevicePointer
) -> Awaitable[int]:
    def copy(where: OffloadDevice, queue: DirectiveQueue) -> Awaitable[object]:
        return where.retrieve(queue, destination, src.address, array)

    return _copied(t, call, src.device, copy)


async def _device_to_device(t: Caller, call: str, dst: DevicePointer, src: DevicePointer, length: int) -> int:
    """Copy at once within a device and between devices with a link, otherwise through a buffer on the host."""
    plugin = t.program.device(src.device, call).plugin
    if dst.device != src.device and not plugin.exchanges_with(dst.device):
        ghost = dst.phantom or src.phantom
        buffer = HostSpan(0, length, None if ghost else np.zeros(length, np.uint8))
        code = await _device_to_host(t, call, None, buffer, src)
        return code if code != OFFLOAD_SUCCESS else await _host_to_device(t, call, dst, None, buffer)

    def copy(where: OffloadDevice, queue: DirectiveQueue) -> Awaitable[object]:
        if (observer := t.program.observer) is not None:
            observer.handle(
                DataCopied(queue.cause, dst.device, "d2d", src.address, dst.address, length, None, src.device)
            )
        return plugin.exchange_data(queue, dst.address, src.address, length, device=dst.device)

    return await _copied(t, call, src.device, copy)


def _move(dst: HostSpan, src: HostSpan) -> None:
    data: Any = src.bytes
    if dst.bytes is not None and data is not None:
        dst.bytes[:] = data
