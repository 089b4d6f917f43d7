"""What a kernel sees of its arguments: views of device memory, made when the kernel runs.

An array that is wholly mapped is a NumPy array over device memory. Of a partly mapped one only the mapped part can be
used (`MappedSection`), of one that is not mapped nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from offloadrt.kernels.execution import MappedSection
from offloadrt.runtime.device_pointer import UNTYPED, DevicePointer
from offloadrt.runtime.host_array import HostArray

Resolve = Callable[[], Any]


@attrs.frozen
class Pointees:
    """A kernel argument: the kernel follows the pointers in ``pointers`` and sees an array behind each."""

    pointers: HostArray
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    member: str = ""
    """Of an array of structs: the member that holds the pointer."""
    lower: int = 0
    """The first element behind each pointer that the kernel sees."""

    def addresses(self, view: Any) -> list[int]:
        """Return where what the kernel sees begins, behind each pointer in a view of the array."""
        held = np.asarray(view)
        for part in self.member.split(".") if self.member else ():
            held = held[part]
        return [int(address) + self.lower * self.dtype.itemsize for address in held.ravel()]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def section_view(array: HostArray, host_begin: int, host_end: int, view: Callable[[int], NDArray[np.uint8]]) -> Any:
    """Show a kernel an array of which the device has [host_begin, host_end); `view(host_address)` starts there.

    ``view(address)`` returns the bytes from that host address' counterpart to the end of the mapped part of the array.
    """
    if array.dtype.names and array.shape == (1,) and host_end - host_begin < array.nbytes:
        return _part_of_struct(array, host_begin, host_end, view)
    row = array.itemsize
    for length in array.shape[1:]:
        row *= length
    first = max(host_begin, array.address)
    last = min(host_end, array.address + array.nbytes)
    lower = -(-(first - array.address) // row) if row else 0
    upper = (last - array.address) // row if row else 0
    start = array.address + lower * row
    nbytes = max(0, upper - lower) * row
    raw = view(start)[:nbytes]
    values = raw.view(array.dtype).reshape((max(0, upper - lower), *array.shape[1:]))
    if lower == 0 and upper == array.shape[0]:
        return values
    return MappedSection(array.name, array.shape, lower, values)


def _part_of_struct(array: HostArray, host_begin: int, host_end: int, view: Callable[[int], NDArray[np.uint8]]) -> Any:
    """Show a kernel the members of a struct that are mapped."""
    first, last = host_begin - array.address, host_end - array.address
    inside = {
        name: (dtype, offset - first)
        for name, (dtype, offset, *_) in (array.dtype.fields or {}).items()
        if first <= offset and offset + dtype.itemsize <= last
    }
    part = np.dtype(
        {
            "names": list(inside),
            "formats": [dtype for dtype, _ in inside.values()],
            "offsets": [offset for _, offset in inside.values()],
            "itemsize": last - first,
        }
    )
    return view(host_begin)[: last - first].view(part)


def no_view(array: HostArray) -> MappedSection:
    """Show a kernel a pointer that kept its host value, which the device cannot use."""
    return MappedSection(array.name, array.shape, 0, np.empty((0, *array.shape[1:]), array.dtype), array.address)


def pointer_view(memory: Any, pointer: DevicePointer, nbytes: int) -> NDArray[Any]:
    """Show a kernel what is behind a device pointer: `nbytes` of memory with the pointer's type and shape."""
    shape = pointer.shape
    count = nbytes // pointer.dtype.itemsize if shape is None else math.prod(shape)
    raw = memory.view(pointer.address, count * pointer.dtype.itemsize)
    values: NDArray[Any] = raw if pointer.dtype == UNTYPED else raw.view(pointer.dtype)
    return values if shape is None else values.reshape(shape)


def call_body(body: Callable[..., None], resolvers: Sequence[Resolve]) -> None:
    body(*[resolve() for resolve in resolvers])
