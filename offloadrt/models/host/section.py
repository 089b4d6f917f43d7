"""Array sections, ``a[lower:length:stride]``, and what the runtime is told of one."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from offloadrt.kernels.integers import is_integer
from offloadrt.runtime.device_pointer import DevicePointer
from offloadrt.runtime.host_array import POINTER_BYTES, HostArray
from offloadrt.runtime.mapping.map_item import (
    IMPLICIT,
    LITERAL,
    NON_CONTIG,
    PTR_AND_OBJ,
    TARGET_PARAM,
    Dimension,
    MapItem,
)


@attrs.frozen
class SectionExtent:
    """``[lower : length : stride]`` of one dimension; a subscript ``[lower]`` has the length 1."""

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

    The dimensions that are not named are whole. subscript: the first dimension is one index. Raises ValueError if the
    section lies outside.
    """

    array: HostArray
    lower: int
    length: int
    stride: int = 1
    inner: tuple[SectionExtent, ...] = ()
    subscript: bool = False

    def __attrs_post_init__(self) -> None:
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
        """Return the dimensions that are named, outermost first."""
        return (SectionExtent(self.lower, self.length, self.stride, self.subscript), *self.inner)

    def bytes_of(self, dimension: int) -> int:
        """Return the bytes from one index of a dimension to the next."""
        size = self.array.itemsize
        for length in self.array.shape[dimension + 1 :]:
            size *= length
        return size

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
        """Return the bytes of a section that is contiguous."""
        nbytes = self.length * self.row_bytes
        for dimension, extent in enumerate(self.inner, 1):
            nbytes = nbytes // self.array.shape[dimension] * extent.length
        return nbytes

    @property
    def is_contiguous(self) -> bool:
        """Tell whether its elements lie one after the other."""
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
    """Make an array section; without a length it goes up to the end of the array."""
    if length is None:
        length = max(0, -(-(array.shape[0] - lower) // stride))
    return Section(array, lower, length, stride)


def array_section(array: HostArray, *dimensions: int | tuple[int, ...]) -> Section:
    """Make an array section in several dimensions, each an index, ``(lower, length)`` or ``(lower, length, stride)``.

    ``b[1:2][0:4]`` is ``array_section(b, (1, 2), (0, 4))``. Raises ValueError for a section that lies outside.
    """
    if not dimensions:
        return section(array)
    extents = []
    for given in dimensions:
        if isinstance(given, tuple) and len(given) not in (2, 3):
            raise ValueError(
                f"a dimension of an array section is (lower, length) or (lower, length, stride), not {given}"
            )
        extents.append(
            SectionExtent(given[0], given[1], given[2] if len(given) > 2 else 1)
            if isinstance(given, tuple)
            else SectionExtent(given, 1, 1, True)
        )
    first, *inner = extents
    return Section(array, first.lower, first.length, first.stride, tuple(inner), first.is_subscript)


Place = HostArray | Section
"""What a list item of a data clause names."""


def extent(place: object, call: str) -> tuple[int, int]:
    """Return the first address and the bytes of an array, or of what lies between the ends of a section.

    Raises TypeError for what is neither.
    """
    if isinstance(place, HostArray):
        return place.address, place.nbytes
    if isinstance(place, Section):
        extents = place.extents
        nbytes = place.bytes_of(len(extents) - 1)
        for dimension, named in enumerate(extents):
            if not named.length:
                return place.begin, 0
            nbytes += (named.length - 1) * named.stride * place.bytes_of(dimension)
        return place.begin, nbytes
    what = "a NumPy array, which is none of the program's" if isinstance(place, np.ndarray) else repr(place)
    raise TypeError(f"{call} takes an array of the program or a section of one, not {what}")


def array_of(place: Place) -> HostArray:
    """Return the array that a place belongs to."""
    return place.array if isinstance(place, Section) else place


def begin_of(place: Place) -> int:
    """Return the host address of its first byte."""
    return place.begin if isinstance(place, Section) else place.address


def literal_item(value: Any) -> MapItem:
    """Make the item of a kernel's argument that is passed as it is: a number, or a device pointer."""
    if isinstance(value, DevicePointer):
        return MapItem(None, value.address, value.address, POINTER_BYTES, LITERAL | TARGET_PARAM, value=value)
    return MapItem(None, 0, 0, POINTER_BYTES, LITERAL | IMPLICIT | TARGET_PARAM, value=value)


def map_item(place: Place, bits: int) -> MapItem:
    """Make the runtime's item for a place, with these bits of `map_type`.

    A global with a reference pointer is reached through it: of `link`, and under unified shared memory of `enter`.
    """
    if isinstance(place, Section):
        array, begin, nbytes = place.array, place.begin, place.nbytes
    else:
        array, begin, nbytes = place, place.address, place.nbytes
    if array.kind != "heap" and array.pointer_address:
        return MapItem(array, array.pointer_address, begin, nbytes, bits | PTR_AND_OBJ)
    if not isinstance(place, Section) or place.is_contiguous:
        return MapItem(array, array.address, begin, nbytes, bits)
    dimensions = place.dimensions
    return MapItem(array, array.address, begin, len(dimensions), bits | NON_CONTIG, dimensions)
