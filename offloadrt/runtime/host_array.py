"""An array of the program in host memory: an emulated address, and real bytes, which a phantom lacks.

`Section` is ``a[lower:length:stride]``, a part of an array.
"""

from __future__ import annotations

import functools
import math
import operator
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
    """A piece of host memory as source or destination of a copy; ``bytes`` is None for an array without values."""

    address: int
    nbytes: int
    bytes: Bytes | None = None


def _unchangeable(array: HostArray, attribute: attrs.Attribute[Any], value: object) -> object:
    raise AttributeError(f"array {array.name!r}: its {attribute.name} cannot change; make another array")


@attrs.define(eq=False)
class HostArray:
    """A named array of the program.

    kind: ``heap`` (a pointer to allocated memory: sections attach, an implicit use maps a zero-length section),
    ``static`` (a C array: an implicit use maps the whole array), ``global`` (declare target enter) or ``link`` (declare
    target link). shape is in elements, address and nbytes are of the emulated host memory. A phantom has an address and
    sizes, but no values; reading it raises TypeError. pointer_address: where the pointer variable of a heap array
    lives, or the reference pointer of a global; 0 if none.
    """

    name: str = attrs.field(on_setattr=_unchangeable)
    address: int = attrs.field(repr=False, on_setattr=_unchangeable)
    shape: tuple[int, ...] = attrs.field(on_setattr=_unchangeable)
    dtype: np.dtype[Any] = attrs.field(on_setattr=_unchangeable)
    kind: Kind = attrs.field(default="heap", on_setattr=_unchangeable)
    pointer_address: int = attrs.field(default=0, repr=False, on_setattr=_unchangeable)
    values: NDArray[Any] | None = attrs.field(default=None, repr=False, on_setattr=_unchangeable)
    freed: bool = attrs.field(default=False, repr=False)
    """Whether the program has freed the array's memory."""
    managed: bool = attrs.field(default=False, repr=False)
    """Whether the program allocated it as managed memory (cuMemAllocManaged)."""
    watch: Watch | None = attrs.field(default=None, repr=False)
    """Makes the view of the values that the program's Python code gets, for an observer of the program. The runtime's
    accesses to `values` and `bytes` bypass it: copies and kernels have events of their own."""
    itemsize: int = attrs.field(init=False, repr=False, on_setattr=_unchangeable)
    nbytes: int = attrs.field(init=False, repr=False, on_setattr=_unchangeable)

    def __attrs_post_init__(self) -> None:
        shape, nbytes = _size(self.shape, self.dtype.itemsize)
        for name, value in (("shape", shape), ("nbytes", nbytes), ("itemsize", self.dtype.itemsize)):
            object.__setattr__(self, name, value)

    @property
    def phantom(self) -> bool:
        return self.values is None

    @property
    def data(self) -> NDArray[Any]:
        """Return the host values. TypeError for a phantom, which has none."""
        if self.values is None:
            raise TypeError(f"array {self.name!r} is a phantom: it has a size but no values")
        return self.values if self.watch is None else self.watch(self, self.values)

    @property
    def bytes(self) -> Bytes | None:
        """Return all bytes as a flat view; None for a phantom, which has no values."""
        return None if self.values is None else self.values.reshape(-1).view(np.uint8)

    @property
    def pointer_variable(self) -> HostArray:
        """Return the pointer variable that holds the array's address, as an array of one address."""
        value = np.array([self.address], np.uint64)
        return HostArray(f"&{self.name}", self.pointer_address, (1,), value.dtype, "static", 0, value)

    def viewed(self, dtype: DTypeLike) -> HostArray:
        """Return a one-dimensional array with elements of this type over the same memory."""
        element = np.dtype(dtype)
        values = None if self.values is None else self.values.reshape(-1).view(element)
        return attrs.evolve(self, shape=(self.nbytes // element.itemsize,), dtype=element, values=values)

    def __getitem__(self, index: Any) -> Any:
        return self._indexed(operator.getitem, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._indexed(operator.setitem, index, value)

    def _indexed(self, operation: Callable[..., Any], *given: Any) -> Any:
        """Read or write elements as NumPy does, whose errors then name the array."""
        values = self.data
        try:
            return operation(values, *given)
        except (IndexError, TypeError, ValueError, OverflowError) as error:
            error.args = (f"array {self.name!r}: {error}",)
            raise

    def __len__(self) -> int:
        return self.shape[0]

    def holds(self, address: int, nbytes: int) -> bool:
        """Tell whether the array contains all of the bytes [address, address + nbytes)."""
        return self.address <= address and address + nbytes <= self.address + self.nbytes

    def span(self, address: int, nbytes: int) -> HostSpan:
        """Return the piece [address, address + nbytes) for a copy. Raises ValueError for bytes outside of the array."""
        offset = address - self.address
        if offset < 0 or offset + nbytes > self.nbytes:
            raise ValueError(f"array {self.name!r} has {self.nbytes} bytes, not {nbytes} from offset {offset}")
        flat = self.bytes
        return HostSpan(address, nbytes, None if flat is None else flat[offset : offset + nbytes])

    def locate(self, address: int) -> str:
        """Write an address for messages: ``<array+offset>`` in bytes, or ``<addr>`` outside of the array."""
        offset = address - self.address
        return f"<{self.name}+{offset}>" if 0 <= offset < max(1, self.nbytes) else "<addr>"


def give_address(array: HostArray, address: int) -> None:
    """Give an array its host address, once its memory is allocated."""
    object.__setattr__(array, "address", address)


@functools.lru_cache(maxsize=1024)
def _size(shape: tuple[int, ...], itemsize: int) -> tuple[tuple[int, ...], int]:
    """Return a shape and its bytes; cached so that arrays of one size share both objects, as there may be millions."""
    return tuple(map(int, shape)), int(math.prod(shape)) * itemsize


def make_values(name: str, shape: tuple[int, ...], dtype: np.dtype[Any], fill: Any) -> NDArray[Any]:
    """Make the values of a new array: zeros, a constant, or a copy of what is given.

    Raises ValueError if the shape differs, for a fill of another type, and if the emulator lacks memory for it.
    """
    try:
        if fill is None:
            return np.zeros(shape, dtype)
        given = np.asarray(fill)
        if given.ndim and given.shape != shape:
            raise ValueError(f"fill has shape {given.shape}, the array has {shape}")
        with np.errstate(invalid="raise"):  # NaN and numbers that are too large have no value as an integer
            return np.array(given, dtype=dtype, order="C") if given.ndim else np.full(shape, fill, dtype)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise ValueError(f"array {name!r}: {error}") from None
    except MemoryError as error:
        raise ValueError(f"array {name!r}: {error}; a phantom has a size without values") from None


def shape_of(name: str, shape: int | tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape as a tuple: ``8`` and ``(8,)`` both mean eight elements. ValueError for an invalid size."""
    lengths = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    if not lengths or not all(is_integer(length) and length >= 0 for length in lengths):
        raise ValueError(f"array {name!r}: its size is {shape!r}, but a size is a whole number from 0, or several")
    if math.prod(map(int, lengths)) >> 47:
        raise ValueError(f"array {name!r}: its size is {shape!r}, but a process has addresses for 2**47 bytes")
    return tuple(int(length) for length in lengths)


def element_of(name: str, dtype: DTypeLike) -> np.dtype[Any]:
    """Return the type of an array's elements. Raises ValueError for an unknown type, and for Python objects."""
    try:
        element = np.dtype(dtype)
    except TypeError as error:
        raise ValueError(f"array {name!r}: {error}") from None
    if element.hasobject:
        raise ValueError(f"array {name!r}: elements of type {element} are references, which mean nothing on a device")
    return element


Watch = Callable[[HostArray, NDArray[Any]], NDArray[Any]]
"""Makes, from an array and its values, the view that the program's Python code gets."""


@attrs.frozen
class Dimension:
    """One dimension of a strided section, as LLVM's descriptor has it: `count` pieces, `stride` bytes apart.

    `offset` is the dimension's lower bound in elements; LLVM 22 takes it for a number of strides.
    """

    offset: int
    count: int
    stride: int


@attrs.frozen
class SectionExtent:
    """``[lower : length : stride]`` of one dimension; for a subscript ``[lower]`` (`is_subscript`) the length is 1."""

    lower: int
    length: int
    stride: int = 1
    is_subscript: bool = False

    def __str__(self) -> str:
        if self.is_subscript:
            return f"[{self.lower}]"
        return f"[{self.lower}:{self.length}" + (f":{self.stride}]" if self.stride != 1 else "]")


@attrs.frozen(eq=False)
class Section:
    """``array[lower : length : stride]`` along the first dimension, with `inner` along those after it.

    Dimensions that are not named are whole. subscript: whether the first dimension is one index. Raises ValueError for
    a section outside of the array.
    """

    array: HostArray
    lower: int
    length: int
    stride: int = 1
    inner: tuple[SectionExtent, ...] = ()
    subscript: bool = False

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.array, HostArray):
            raise TypeError(f"section: array cannot be {self.array!r:.80}")
        ordinals = ("first", "second", "third")
        for position, extent in enumerate(self.extents):
            if not (is_integer(extent.lower) and is_integer(extent.length) and is_integer(extent.stride)):
                raise TypeError(f"{self} is no array section: its numbers are whole")
            if extent.lower < 0 or extent.length < 0 or extent.stride < 1 or position >= len(self.array.shape):
                raise ValueError(f"{self} is no array section")
            last = extent.lower + (extent.length - 1) * extent.stride + 1 if extent.length else extent.lower
            if last > self.array.shape[position]:
                named = ordinals[position] if position < len(ordinals) else f"{position + 1}th"
                raise ValueError(
                    f"{self} reaches beyond the {self.array.shape[position]} elements of the {named} dimension"
                )

    def __str__(self) -> str:
        return self.array.name + "".join(map(str, self.extents))

    @property
    def extents(self) -> tuple[SectionExtent, ...]:
        """Return the dimensions that the section names, the outermost one first."""
        return (SectionExtent(self.lower, self.length, self.stride, self.subscript), *self.inner)

    def bytes_of(self, dimension: int) -> int:
        """Return the distance in bytes between neighbouring indices of a dimension, numbered from 0, the outermost."""
        return self.array.itemsize * math.prod(self.array.shape[dimension + 1 :])

    @property
    def row_bytes(self) -> int:
        return self.bytes_of(0)

    @property
    def begin(self) -> int:
        begin = self.array.address + self.lower * self.row_bytes
        for dimension, extent in enumerate(self.inner, 1):
            begin += extent.lower * self.bytes_of(dimension)
        return begin

    @property
    def nbytes(self) -> int:
        """Return the number of bytes of the section's elements, without the gaps between them."""
        nbytes = self.length * self.row_bytes
        for dimension, extent in enumerate(self.inner, 1):
            nbytes = nbytes // self.array.shape[dimension] * extent.length
        return nbytes

    @property
    def is_contiguous(self) -> bool:
        """Tell whether the section's elements are contiguous."""
        if not self.inner:
            return self.stride == 1
        several = False
        for extent, length in zip(self.extents, self.array.shape, strict=False):
            if several and (extent.lower, extent.length, extent.stride) != (0, length, 1):
                return False
            several = several or extent.length != 1
        return all(extent.stride == 1 or extent.length == 1 for extent in self.extents)

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """Return the descriptor of a section with gaps, as clang 22 makes it: it leaves out leading subscripts."""
        extents = self.extents
        found = [
            Dimension(extent.lower, extent.length, extent.stride * self.bytes_of(position))
            for position, extent in enumerate(extents)
            if not all(outer.is_subscript for outer in extents[: position + 1])
        ]
        return (*found, Dimension(0, 1, self.bytes_of(len(extents) - 1)))


def section(array: HostArray, lower: int = 0, length: int | None = None, stride: int = 1) -> Section:
    """Make an array section ``[lower : length : stride]``; without a length it extends to the end of the array."""
    if length is None and isinstance(array, HostArray) and is_integer(lower) and is_integer(stride) and stride > 0:
        length = max(0, -(-(array.shape[0] - lower) // stride))
    return Section(array, lower, length or 0, stride)


def array_section(array: HostArray, *dimensions: int | tuple[int, ...]) -> Section:
    """Make an array section in several dimensions, each an index, ``(lower, length)`` or ``(lower, length, stride)``.

    ``b[1:2][0:4]`` is ``array_section(b, (1, 2), (0, 4))``. Raises ValueError for a section that lies outside.
    """
    if not dimensions:
        return section(array)
    extents = []
    for given in dimensions:
        if not isinstance(given, tuple):
            extents.append(SectionExtent(given, 1, 1, True))
        elif len(given) in (2, 3):
            extents.append(SectionExtent(given[0], given[1], (*given, 1)[2]))
        else:
            raise ValueError(
                f"a dimension of an array section is (lower, length) or (lower, length, stride), not {given}"
            )
    first, *inner = extents
    return Section(array, first.lower, first.length, first.stride, tuple(inner), first.is_subscript)


Span = HostArray | Section
"""What a list item of a data clause can be: a whole array, or a section of one."""


def extent(span: object, call: str) -> tuple[int, int]:
    """Return (host address, number of bytes) of `span`: an array, or a section from its first to its last byte.

    Raises TypeError for any other object, in the name of `call`.
    """
    if isinstance(span, HostArray):
        return span.address, span.nbytes
    if isinstance(span, Section):
        extents = span.extents
        nbytes = span.bytes_of(len(extents) - 1)
        for dimension, named in enumerate(extents):
            if not named.length:
                return span.begin, 0
            nbytes += (named.length - 1) * named.stride * span.bytes_of(dimension)
        return span.begin, nbytes
    what = "a NumPy array, which is none of the program's" if isinstance(span, np.ndarray) else repr(span)
    raise TypeError(f"{call} takes an array of the program or a section of one, not {what}")


def array_of(span: Span) -> HostArray:
    """Return `span` itself if it is an array, or the array of a section."""
    return span.array if isinstance(span, Section) else span


def begin_of(span: Span) -> int:
    """Return the host address of the first byte of `span`, an array or section."""
    return span.begin if isinstance(span, Section) else span.address
