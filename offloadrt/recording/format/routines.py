"""What memory a routine works on: which of its arguments are addresses, of how many bytes, and on which device."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Final

import attrs

from offloadrt.recording.format.slots import CALLS

_RECT: Final = ("omp_target_memcpy_rect", "omp_target_memcpy_rect_async")
_RECT_ARGUMENTS: Final = 6
_EACH: Final = 5


@attrs.frozen
class RoutineMemory:
    """Memory that a routine reads or writes: the place of its pointer among the arguments, and where it begins."""

    argument: int
    address: int
    nbytes: int
    device: int


@attrs.frozen
class Box:
    """The boxes of omp_target_memcpy_rect: an entry for each dimension, the outermost first, lengths in elements."""

    element: int
    volume: tuple[int, ...]
    to_offsets: tuple[int, ...]
    from_offsets: tuple[int, ...]
    to_dimensions: tuple[int, ...]
    from_dimensions: tuple[int, ...]

    @classmethod
    def of(cls, arguments: Sequence[int]) -> Box | None:
        """Read the recorded arguments; None where it has no dimensions, or more than were recorded."""
        dimensions = arguments[3] if len(arguments) > 3 else 0
        if not 0 < dimensions <= (len(arguments) - _RECT_ARGUMENTS) // _EACH:
            return None
        words = arguments[_RECT_ARGUMENTS : _RECT_ARGUMENTS + _EACH * dimensions]
        return cls(arguments[2], *(tuple(words[place::_EACH]) for place in range(_EACH)))

    def span(self, offsets: Sequence[int], dimensions: Sequence[int]) -> tuple[int, int]:
        """Return the offset of the first byte in an array of these dimensions, and the bytes up to the last one."""
        strides = [math.prod(dimensions[axis + 1 :]) for axis in range(len(dimensions))]
        first = sum(offset * stride for offset, stride in zip(offsets, strides, strict=True))
        last = sum((count - 1) * stride for count, stride in zip(self.volume, strides, strict=True))
        return first * self.element, (last + 1) * self.element if all(self.volume) else 0


def memory_of(function: int, arguments: Sequence[int]) -> list[RoutineMemory]:
    """List the memory that a call of a routine reads, writes or associates."""
    name = CALLS.get(function, "")
    if name in ("omp_target_memcpy", "omp_target_memcpy_async"):
        to, out_of, length, to_offset, from_offset, to_device, from_device = arguments[:7]
        return [
            RoutineMemory(0, to + to_offset, length, to_device),
            RoutineMemory(1, out_of + from_offset, length, from_device),
        ]
    if name in _RECT and (box := Box.of(arguments)) is not None:
        spans = box.span(box.to_offsets, box.to_dimensions), box.span(box.from_offsets, box.from_dimensions)
        places = zip(itertools.count(), arguments[:2], spans, arguments[4:6], strict=False)
        return [RoutineMemory(place, base + first, nbytes, device) for place, base, (first, nbytes), device in places]
    if name in ("omp_target_memset", "omp_target_memset_async"):
        return [RoutineMemory(0, arguments[0], arguments[2], arguments[3])]
    return []
