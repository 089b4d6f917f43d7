"""`DividedKernel`: a kernel of which each of several devices does a part, and what each owns and needs.

Every device runs the changed kernel on full arrays of its own. Afterwards the parts of the written arrays that a device
owns are right on that device; the others get them from there (`segments`), all of them or those that they will read
(`reads_of`). Put together, they are what one device computes, bit by bit; what is reduced is made of the devices'
partial values (`partial_values.py`).
"""

from __future__ import annotations

import abc
import functools
import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import accumulate
from typing import Any

import attrs
import numpy as np

from offloadrt.extensions.openacc.multi_device.dependence import WrittenRegion
from offloadrt.extensions.openacc.multi_device.partial_values import Combination
from offloadrt.kernels.accesses import ArrayAccess, Loop
from offloadrt.kernels.array_use import KernelError
from offloadrt.kernels.costs import launch_key
from offloadrt.kernels.counting import Counting
from offloadrt.kernels.execution import NestBody
from offloadrt.kernels.kernel import Kernel
from offloadrt.kernels.memo import Memo
from offloadrt.kernels.ranges import Box, Ranges, boxes

_memo = functools.partial(Memo, 256)


@attrs.frozen
class Share:
    """What one device does: first and last value (inclusive) for each pair of bounds that the kernel takes."""

    device: int
    bounds: tuple[tuple[int, int], ...]

    @property
    def arguments(self) -> tuple[int, ...]:
        """Return the bounds in the order of the kernel's parameters."""
        return tuple(bound for pair in self.bounds for bound in pair)


@attrs.frozen
class _OfSize:
    """A phantom array of partial values."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


@attrs.frozen
class Part:
    """A device's share of a launch, the pieces that it owns after it and those that it needs before it."""

    share: Share
    segments: dict[str, Ranges]
    _find_reads: Callable[[], dict[str, Ranges | None]] = attrs.field(repr=False, eq=False)

    @functools.cached_property
    def reads(self) -> dict[str, Ranges | None]:
        """See `DividedKernel.reads_of`. Found when it is asked for: nobody does where everything is sent to all."""
        return self._find_reads()


@attrs.frozen(eq=False)
class DividedKernel(abc.ABC):
    """A kernel that was changed to do a part of its work. Arrays are in C order; all offsets are in bytes."""

    original: Kernel = attrs.field(repr=False)
    kernel: Kernel
    """The changed kernel: the same arguments, then the bounds, and for reductions the arrays of partial values and the
    device's number (`arguments`); its counts are those of a share.
    """
    source: str = attrs.field(repr=False)
    """The changed kernel as Python."""
    written: tuple[WrittenRegion, ...]
    combination: Combination | None = attrs.field(repr=False)
    """The kernel that every device runs after it, with the partial values of all; None when nothing is reduced."""
    _kept: Memo[Any, tuple[Part, ...]] = attrs.field(factory=_memo, init=False, repr=False)
    _countings: Memo[Any, Counting] = attrs.field(factory=_memo, init=False, repr=False)
    _wholes: Memo[Any, Share] = attrs.field(factory=_memo, init=False, repr=False)

    def parts(self, devices: int, arguments: Sequence[Any]) -> tuple[Part, ...]:
        """Return the part of each of some devices: `split`, `segments` and `reads_of` together.

        Parts are kept, because programs launch a kernel with equal sizes many times.
        """
        self._check(devices, arguments)
        key = devices, launch_key(arguments)
        if key not in self._kept:
            self._kept[key] = tuple(
                Part(share, self.segments(share, arguments), functools.partial(self.reads_of, share, arguments))
                for share in self.split(devices, arguments)
            )
        return self._kept[key]

    @abc.abstractmethod
    def split(self, devices: int, arguments: Sequence[Any]) -> tuple[Share, ...]:
        """Share a launch among some devices as evenly as possible; arrays may be phantoms.

        KernelError when arrays overlap of which one is written, or a bound is not known.
        """

    @abc.abstractmethod
    def owned(self, region: WrittenRegion, share: Share, arguments: Sequence[Any]) -> list[Box]:
        """Return the elements of a divided region that are right on the device that did a share."""

    def accessing(self, share: Share, arguments: Sequence[Any]) -> float:
        """Return the part of the changed kernel's iterations that access memory in a share.

        The other iterations find nothing to do.
        """
        return 1.0

    def arguments(
        self, share: Share, arguments: Sequence[Any], partial_values: Sequence[Any] | None = None
    ) -> tuple[Any, ...]:
        """Return what the changed kernel is called with.

        These are the arguments that it still uses, its bounds, and what it needs for partial values: their arrays
        (phantoms without), and which element is the device's.
        """
        kept = set(self._parameters(self.kernel))
        given = zip(self._parameters(self.original), arguments, strict=True)
        called = (*(argument for name, argument in given if name in kept), *share.arguments)
        if self.combination is None:
            return called
        if partial_values is None:
            partial_values = [_OfSize((share.device + 1,), kind) for kind in self.combination.types(arguments)]
        return (*called, *partial_values, share.device)

    def segments(self, share: Share, arguments: Sequence[Any]) -> dict[str, Ranges]:
        """Return the contiguous pieces of each divided region that a device owns.

        It is one piece where the dimension is the leftmost, one for each index on its left otherwise (for each that is
        stored to, where a loop is split).
        """
        return {
            region.name: self._bytes(self.owned(region, share, arguments), region.name, arguments)
            for region in self.written
            if region.dimension is not None
        }

    def reads_of(self, share: Share, arguments: Sequence[Any]) -> dict[str, Ranges | None]:
        """Return the pieces of each array that must be right on a device before it does its share.

        None where that cannot be proven, as data decide what is read, or what combines partial values reads it: it
        needs all of the array. What it owns is among them, because a store need not reach all of it. A dimension along
        which shares do not differ is taken whole.
        """
        reads: dict[str, Ranges | None] = {}
        if self.combination is not None:
            reads.update(dict.fromkeys(self.combination.used("read")))
        for use in self.original.arrays:
            if use.name in reads or all(access.array != use.name for access in self._accesses):
                continue
            loads = [access for access in self._accesses if access.array == use.name and access.kind == "read"]
            reached = self.reach(loads, share, arguments)
            own_regions = [
                region for region in self.written if region.name == use.name and region.dimension is not None
            ]
            if reached is not None:
                reached += [box for region in own_regions for box in self.owned(region, share, arguments)]
            reads[use.name] = None if reached is None else self._bytes(reached, use.name, arguments)
        return reads

    def reach(
        self, accesses: Sequence[ArrayAccess], share: Share, arguments: Sequence[Any], divided: int | None = None
    ) -> list[Box] | None:
        """Return boxes of what accesses of the changed kernel to one array touch in a share; None when data decide it.

        A dimension of which the share reaches as much as the launch does is taken whole, which joins pieces; but not
        the `divided` one (without it the leftmost in which shares differ), nor those on its left: each index there is a
        piece of its own.
        """
        now, all_ = self._countings_of(share, arguments)
        reached: list[Box] = []
        for access in accesses:
            shape = self._argument(access.array, arguments).shape
            some, most = boxes(access, now, shape), boxes(access, all_, shape)
            if some is None or most is None:
                return None
            for box in some:
                alike = _reaching_as_much(box, most)
                last = divided if divided is not None else alike.index(False) if False in alike else -1
                sides = zip(box, shape, alike, strict=True)
                reached.append(
                    tuple(
                        (0, length - 1) if same and at > last else side for at, (side, length, same) in enumerate(sides)
                    )
                )
        return reached

    def _countings_of(self, share: Share, arguments: Sequence[Any]) -> tuple[Counting, Counting]:
        """Return the numbers of the changed kernel in a share, and in one that is everything."""
        known = launch_key(arguments)
        if known not in self._wholes:
            self._wholes[known] = self.split(1, arguments)[0]
        now, undivided = (
            self._counting(self.kernel, self.arguments(each_share, arguments))
            for each_share in (share, self._wholes[known])
        )
        return now, undivided

    def _counting(self, kernel: Kernel, arguments: Sequence[Any]) -> Counting:
        """Return the numbers of a launch of the original or the changed kernel, kept."""
        analysis = kernel.analysis
        assert analysis is not None
        key = kernel is self.original, launch_key(arguments)
        if key not in self._countings:
            self._countings[key] = analysis.counting(arguments)
        return self._countings[key]

    @property
    def _accesses(self) -> Sequence[ArrayAccess]:
        assert self.kernel.analysis is not None
        return self.kernel.analysis.accesses

    @staticmethod
    def _parameters(kernel: Kernel) -> tuple[str, ...]:
        assert kernel.analysis is not None
        return kernel.analysis.parameters

    def _argument(self, name: str, arguments: Sequence[Any]) -> Any:
        return arguments[self._parameters(self.original).index(name)]

    def _bytes(self, touched: list[Box], name: str, arguments: Sequence[Any]) -> Ranges:
        argument = self._argument(name, arguments)
        assert self.original.analysis is not None
        declared = self.original.analysis.use(name).element_size
        return _byte_ranges(
            touched, argument.shape, int(getattr(getattr(argument, "dtype", None), "itemsize", declared))
        )

    def _check(self, devices: int, arguments: Sequence[Any]) -> None:
        """Raise KernelError for arguments that cannot be divided."""
        analysis = self.original.analysis
        assert analysis is not None
        who = f"{analysis.file}:{analysis.line}: kernel {self.original.name!r}"
        if devices < 1:
            raise KernelError(f"{who}: it is divided among {devices} devices, but there must be one at least")
        analysis.counting(arguments)
        if self.combination is not None:
            self.combination.types(arguments)
        for use in analysis.arrays:
            if getattr(arguments[use.position], "shape", None) is None:
                raise KernelError(
                    f"{who}: the shape of {use.name} is not known; pass an array or a phantom with a shape"
                )
        for region in self.written:
            for use in analysis.arrays:
                written, other = arguments[region.position], arguments[use.position]
                if use.position != region.position and _overlap(written, other):
                    raise KernelError(
                        f"{who}: {region.name}, which it writes, overlaps {use.name}; give each argument memory of its "
                        "own, or do not divide the kernel"
                    )


def counts_from_the_front(kernel: Kernel, access: ArrayAccess, dimension: int, counting: Counting) -> None:
    """Raise KernelError when an index of a launch may be below zero, or nothing is known of it."""
    index = access.index[dimension]
    if index is None or not counting.runs(access.path):
        return
    ends = counting.extent(index, access.path)
    if ends is None or ends[0] < 0:
        assert kernel.analysis is not None
        what = "is not known to be 0 at least" if ends is None else f"may be {ends[0]}, which counts from the end"
        raise KernelError(
            f"{kernel.analysis.file}:{access.line}: kernel {kernel.name!r}: index {dimension} of {access.text}, an "
            f"array that it writes, {what}: it cannot be told whose element that is; begin the loop where the "
            f"index is 0, or write it % {access.array}.shape[{dimension}]"
        )


def _overlap(first: Any, other: Any) -> bool:
    arrays = isinstance(first, np.ndarray) and isinstance(other, np.ndarray)
    return first is other or (arrays and np.may_share_memory(first, other))


def nest_body(kernel: Kernel) -> NestBody:
    """Return the body of a loop nest. KernelError for a kernel that is declared by its costs."""
    if not isinstance(kernel.body, NestBody):
        raise KernelError(
            f"kernel {kernel.name!r} is declared by its costs and has no source to divide among devices; write it as a "
            "loop nest"
        )
    return kernel.body


def evenly(count: int, devices: int) -> list[tuple[int, int]]:
    """Divide so many evenly: the first place and the place after the last one of each device's part."""
    each, rest = divmod(count, devices)
    starts = [device * each + min(device, rest) for device in range(devices + 1)]
    return list(itertools.pairwise(starts))


def split_values(kernel: Kernel, loop: Loop, counting: Counting, devices: int) -> list[tuple[int, int]]:
    """Divide a loop's values among devices: first and last value (inclusive). KernelError when they are not known."""
    assert kernel.analysis is not None
    if not counting.counted(loop) or (values := counting.range_of(loop, counting.numbers)) is None:
        raise KernelError(f"{kernel.analysis.file}:{loop.line}: the bounds of the loop over {loop.name} are not known")
    values_of_devices = []
    for first, after in evenly(len(values), devices):
        low, high = sorted((values[first], values[after - 1])) if after > first else (0, -1)
        values_of_devices.append((low, high))
    return values_of_devices


@attrs.frozen
class Transfer:
    """Bytes of an array that one device sends to another one; offset and length count from the array's start."""

    source: int
    target: int
    offset: int
    nbytes: int


@attrs.frozen
class _Piece:
    start: int
    end: int
    owner: int
    """The device that has stored them, from which others get them."""
    holders: frozenset[int]
    """The devices on which these bytes are right."""


@attrs.define
class Holders:
    """Which device has which bytes of each array right, when pieces are sent only to those who read them.

    What was never written by a divided kernel is right everywhere. Arrays go by any key that says which memory it is.
    """

    _pieces: dict[Hashable, list[_Piece]] = attrs.field(factory=dict, init=False)

    def wrote(self, array: Hashable, segments: Sequence[Ranges]) -> None:
        """Note that each device has stored to its own pieces: from now on only it has them right."""
        owned = [
            _Piece(offset, offset + nbytes, device, frozenset({device}))
            for device, pieces in enumerate(segments)
            for offset, nbytes in pieces
        ]
        owned.sort(key=lambda piece: piece.start)
        reached = [*accumulate((stored.end for stored in owned), max)]
        kept: list[_Piece] = []
        for piece in self._pieces.get(array, []):
            start = piece.start
            for place in range(bisect_right(reached, start), len(owned)):
                stored = owned[place]
                if stored.start >= piece.end:
                    break
                if stored.end > start:
                    if start < stored.start:
                        kept.append(attrs.evolve(piece, start=start, end=stored.start))
                    start = stored.end
            if start < piece.end:
                kept.append(attrs.evolve(piece, start=start))
        self._pieces[array] = sorted([*kept, *owned], key=lambda piece: piece.start)

    def fetch(self, array: Hashable, device: int, needed: Ranges | None) -> list[Transfer]:
        """Return what a device must get before it reads some bytes (None: all), and note that it then has it."""
        if not (held := self._pieces.get(array)):
            return []
        pieces: list[_Piece] = []
        transfers: list[Transfer] = []
        starts = None if needed is None else [offset for offset, _ in needed]
        ends = [] if needed is None else [offset + nbytes for offset, nbytes in needed]
        for piece in held:
            if device in piece.holders:
                pieces.append(piece)
                continue
            start = piece.start
            if starts is None:
                wanted = [(start, piece.end)]
            else:
                here = slice(bisect_right(ends, start), bisect_left(starts, piece.end))
                wanted = [*zip(starts[here], ends[here], strict=True)]
            for first, end in wanted:
                first, end = max(first, start), min(end, piece.end)
                if start < first:
                    pieces.append(attrs.evolve(piece, start=start, end=first))
                pieces.append(attrs.evolve(piece, start=first, end=end, holders=piece.holders | {device}))
                transfers.append(Transfer(piece.owner, device, first, end - first))
                start = end
            if start < piece.end:
                pieces.append(attrs.evolve(piece, start=start))
        self._pieces[array] = pieces
        return transfers

    def is_tracked(self, array: Hashable) -> bool:
        """Tell whether a divided kernel has written the array since it was right everywhere."""
        return bool(self._pieces.get(array))

    def is_divided(self, array: Hashable, devices: int) -> bool:
        """Tell whether one of so many devices does not have all of an array right."""
        return any(len(piece.holders) < devices for piece in self._pieces.get(array, ()))

    def everywhere(self, array: Hashable) -> None:
        """Note that all of an array is right on all devices, after a copy to all of them."""
        self._pieces.pop(array, None)


def _reaching_as_much(box: Box, others: Sequence[Box]) -> list[bool]:
    """Say by dimension whether a box reaches from the first to the last index of all the others.

    It does not when there are no others: a share comes to the second part of an `or` also where the launch never does.
    """
    if not others:
        return [False] * len(box)
    return [
        side == (min(low for low, _ in sides), max(high for _, high in sides))
        for side, sides in zip(box, zip(*others, strict=True), strict=True)
    ]


def _byte_ranges(touched: Iterable[Box], shape: Sequence[int], element_size: int) -> Ranges:
    """Return the bytes of some boxes of an array in C order; pieces that meet are one."""
    starts: list[int] = []
    ends: list[int] = []
    for box in touched:
        if any(low > high for low, high in box):
            continue
        last = len(box) - 1
        while last > 0 and box[last] == (0, shape[last] - 1):
            last -= 1
        inner = element_size
        for length in shape[last + 1 :]:
            inner *= length
        outer = np.zeros(1, np.int64)
        for (low, high), length in zip(box[:last], shape[:last], strict=True):
            outer = (outer[:, np.newaxis] * length + np.arange(low, high + 1)).ravel()
        low, high = box[last]
        begins = (outer * shape[last] + low) * inner
        starts += begins.tolist()
        ends += (begins + (high - low + 1) * inner).tolist()
    pieces: list[tuple[int, int]] = []
    for start, end in sorted(zip(starts, ends, strict=True)):
        if pieces and start <= pieces[-1][1]:
            pieces[-1] = pieces[-1][0], max(end, pieces[-1][1])
        else:
            pieces.append((start, end))
    return tuple((start, end - start) for start, end in pieces)
