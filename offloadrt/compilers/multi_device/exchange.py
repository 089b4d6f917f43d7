"""Which bytes devices send to one another after a divided kernel, where only what will be read is sent."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Sequence
from itertools import accumulate

import attrs

from offloadrt.kernels.ranges import Ranges


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
