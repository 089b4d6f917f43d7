"""What a kernel sees of its arguments: views of device memory, made when the kernel runs.

An array that is wholly mapped is a NumPy array over device memory. Of a partly mapped one only the mapped part can be
used; anything else raises `IllegalAddress`, as the device would stop with CUDA_ERROR_ILLEGAL_ADDRESS.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from offloadrt.runtime.device_pointer import DevicePointer
from offloadrt.runtime.host_array import HostArray

Resolve = Callable[[], Any]


class BadAccess(Exception):
    """Raised inside a kernel; the host thread gets an `IllegalAddress` with the whole story when it synchronizes."""

    def __init__(self, array: str, what: str) -> None:
        self.array = array
        super().__init__(what)


@attrs.frozen(eq=False)
class MappedSection:
    """A partly mapped array: indices are those of the whole array, `lower` is the first mapped one along the first
    dimension.
    """

    array: HostArray
    lower: int
    values: NDArray[Any]

    def _shift(self, index: Any) -> Any:
        first, rest = (index[0], index[1:]) if isinstance(index, tuple) else (index, ())
        mapped = len(self.values)
        if isinstance(first, slice):
            start, stop, step = first.indices(self.array.shape[0])
            touched = range(start, stop, step)
            if touched and not (self._holds(touched[0]) and self._holds(touched[-1])):
                raise self._outside(f"[{start}:{stop}:{step}]")
            if not touched:
                return (slice(0, 0), *rest)
            last = touched[-1] - self.lower
            stop_at: int | None = last + (1 if step > 0 else -1)
            return (slice(touched[0] - self.lower, None if stop_at == -1 else stop_at, step), *rest)
        indices = np.asarray(first)
        indices = np.where(indices < 0, indices + self.array.shape[0], indices)
        if indices.size and not (indices.min() >= self.lower and indices.max() < self.lower + mapped):
            raise self._outside(f"[{first}]")
        shifted = indices - self.lower
        return (shifted if shifted.ndim else int(shifted), *rest)

    def _holds(self, index: int) -> bool:
        return self.lower <= index < self.lower + len(self.values)

    def _outside(self, index: str) -> BadAccess:
        upper = self.lower + len(self.values)
        return BadAccess(
            self.array.name, f"{self.array.name}{index} is not mapped: the device has [{self.lower}:{upper}] of it"
        )

    def __getitem__(self, index: Any) -> Any:
        return self.values[self._shift(index)]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.values[self._shift(index)] = value

    def __len__(self) -> int:
        return self.array.shape[0]


@attrs.frozen(eq=False)
class NotMapped:
    """A pointer that kept its host value; the device cannot use it."""

    array: HostArray

    def _refuse(self) -> BadAccess:
        return BadAccess(
            self.array.name, f"{self.array.name} is not mapped: the device got its host address {self.array.address:#x}"
        )

    def __getitem__(self, index: Any) -> Any:
        raise self._refuse()

    def __setitem__(self, index: Any, value: Any) -> None:
        raise self._refuse()


@attrs.frozen
class Pointees:
    """A kernel argument: the kernel follows the pointers in ``pointers`` and sees an array behind each."""

    pointers: HostArray
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def section_view(array: HostArray, host_begin: int, host_end: int, view: Callable[[int], NDArray[np.uint8]]) -> Any:
    """What a kernel sees of an array of which the device has [host_begin, host_end); `view(host_address)` starts there.

    ``view(address)`` returns the bytes from that host address' counterpart to the end of the mapped part of the array.
    """
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
    return MappedSection(array, lower, values)


def pointer_view(memory: Any, pointer: DevicePointer, nbytes: int) -> NDArray[Any]:
    """What a kernel sees behind a device pointer: `nbytes` of memory with the pointer's type and shape."""
    shape = pointer.shape
    count = nbytes // pointer.dtype.itemsize if shape is None else math.prod(shape)
    raw = memory.view(pointer.address, count * pointer.dtype.itemsize)
    values: NDArray[Any] = raw.view(pointer.dtype)
    return values if shape is None else values.reshape(shape)


def call_body(body: Callable[..., None], resolvers: Sequence[Resolve]) -> None:
    body(*[resolve() for resolve in resolvers])
