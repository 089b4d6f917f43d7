"""An array of the program in host memory: an emulated address, and real bytes unless it is a phantom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import attrs
import msgspec
import numpy as np
from numpy.typing import DTypeLike, NDArray

from offloadrt.kernels.integers import is_integer

Bytes = NDArray[np.uint8]
Kind = Literal["heap", "static", "global", "link"]

POINTER_BYTES = 8


class HostSpan(msgspec.Struct, eq=False):
    """A piece of host memory that a copy reads or writes, the host's end of it. ``bytes`` is None for a phantom."""

    address: int
    nbytes: int
    bytes: Bytes | None = None


@attrs.define(eq=False)
class HostArray:
    """A named array of the program.

    kind: ``heap`` (a pointer to allocated memory: sections attach, an implicit use maps a zero-length section),
    ``static`` (a C array: an implicit use maps the whole array), ``global`` (declare target enter) or ``link`` (declare
    target link). shape is in elements, address and nbytes are of the emulated host memory. A phantom has sizes only;
    reading it raises TypeError.
    pointer_address: where the pointer variable of a heap array lives, or the reference pointer of a global, 0 if there
    is none.
    """

    name: str
    address: int = attrs.field(repr=False)
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    kind: Kind = "heap"
    pointer_address: int = attrs.field(default=0, repr=False)
    values: NDArray[Any] | None = attrs.field(default=None, repr=False)
    freed: bool = attrs.field(default=False, repr=False)
    """Whether the program has given its memory back."""
    managed: bool = attrs.field(default=False, repr=False)
    """Whether the program allocated it as managed memory (cuMemAllocManaged)."""
    watch: Watch | None = attrs.field(default=None, repr=False)
    """Makes of the values what Python sees, for an observer of the program. The runtime's own work on `values` and
    `bytes` goes past it: copies and kernels have events of their own.
    """
    itemsize: int = attrs.field(init=False, repr=False)
    nbytes: int = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self.itemsize = self.dtype.itemsize
        elements = 1
        for length in self.shape:
            elements *= length
        self.nbytes = elements * self.itemsize

    @property
    def phantom(self) -> bool:
        return self.values is None

    @property
    def data(self) -> NDArray[Any]:
        """Return the host values. TypeError for a phantom array."""
        if self.values is None:
            raise TypeError(f"array {self.name!r} is a phantom: it has a size but no values")
        return self.values if self.watch is None else self.watch(self, self.values)

    @property
    def bytes(self) -> Bytes | None:
        """Return all bytes as a flat view, None for a phantom."""
        return None if self.values is None else self.values.reshape(-1).view(np.uint8)

    @property
    def pointer_variable(self) -> HostArray:
        """Return the variable that holds the address, as an array of its own."""
        value = np.array([self.address], np.uint64)
        return HostArray(f"&{self.name}", self.pointer_address, (1,), value.dtype, "static", 0, value)

    def viewed(self, dtype: DTypeLike) -> HostArray:
        """See the same memory as a flat array of this type."""
        element = np.dtype(dtype)
        values = None if self.values is None else self.values.reshape(-1).view(element)
        return attrs.evolve(self, shape=(self.nbytes // element.itemsize,), dtype=element, values=values)

    def __getitem__(self, index: Any) -> Any:
        return self.data[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.data[index] = value

    def __len__(self) -> int:
        return self.shape[0]

    def holds(self, address: int, nbytes: int) -> bool:
        """Tell whether all of the bytes [address, address + nbytes) belong to the array."""
        return self.address <= address and address + nbytes <= self.address + self.nbytes

    def span(self, address: int, nbytes: int) -> HostSpan:
        """Return the piece [address, address + nbytes) for a copy. Raises ValueError if it is not all inside."""
        offset = address - self.address
        if offset < 0 or offset + nbytes > self.nbytes:
            raise ValueError(f"array {self.name!r} has {self.nbytes} bytes, not {nbytes} from offset {offset}")
        if self.values is None:
            return HostSpan(address, nbytes, None)
        flat: Bytes = self.values.reshape(-1).view(np.uint8)
        return HostSpan(address, nbytes, flat[offset : offset + nbytes])

    def locate(self, address: int) -> str:
        """Name an address in messages: ``<array+offset>``, ``<addr>`` outside the array."""
        offset = address - self.address
        return f"<{self.name}+{offset}>" if 0 <= offset < max(1, self.nbytes) else "<addr>"


def make_values(name: str, shape: tuple[int, ...], dtype: np.dtype[Any], fill: Any) -> NDArray[Any]:
    """Make the values of a new array: zeros, a constant, or a copy of what is given.

    Raises ValueError if the shape differs, for a fill that is none of its elements, and where the emulator has no
    memory for it.
    """
    try:
        if fill is None:
            return np.zeros(shape, dtype)
        given = np.asarray(fill)
        if given.ndim and given.shape != shape:
            raise ValueError(f"fill has shape {given.shape}, the array has {shape}")
        return np.array(given, dtype=dtype, order="C") if given.ndim else np.full(shape, fill, dtype)
    except (ValueError, TypeError) as error:
        raise ValueError(f"array {name!r}: {error}") from None
    except MemoryError as error:
        raise ValueError(f"array {name!r}: {error}; a phantom has a size without values") from None


def shape_of(name: str, shape: int | tuple[int, ...]) -> tuple[int, ...]:
    """``8`` and ``(8,)`` both mean eight elements. ValueError for what is no size."""
    lengths = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    if not lengths or not all(is_integer(length) and length >= 0 for length in lengths):
        raise ValueError(f"array {name!r}: its size is {shape!r}, but a size is a whole number from 0, or several")
    return tuple(int(length) for length in lengths)


def element_of(name: str, dtype: DTypeLike) -> np.dtype[Any]:
    """Return the type of an array's elements. Raises ValueError for what is none, and for Python objects."""
    try:
        element = np.dtype(dtype)
    except TypeError as error:
        raise ValueError(f"array {name!r}: {error}") from None
    if element.hasobject:
        raise ValueError(f"array {name!r}: elements of type {element} are references, which mean nothing on a device")
    return element


Watch = Callable[[HostArray, NDArray[Any]], NDArray[Any]]
"""Makes of an array's values what Python sees of them."""
