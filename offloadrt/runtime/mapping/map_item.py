"""One lowered item of a directive: what clang passes to `__tgt_target_data_begin_mapper` and its sisters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.mapping.map_type import ATTACH, LITERAL, PRIVATE, TARGET_PARAM


@attrs.frozen
class Dimension:
    """One dimension of a strided section: `count` pieces, `stride` bytes apart; `offset` is the lower bound in
    elements.
    """

    offset: int
    count: int
    stride: int


@attrs.frozen(eq=False)
class MapItem:
    """base and begin are host addresses, size is bytes, type is bits of `map_type`.

    For an ATTACH or PTR_AND_OBJ item base is the address of the pointer; begin is always the pointee.
    dimensions: of a strided update (NON_CONTIG), outermost first; then size counts them.
    value: what a LITERAL item passes to the kernel.
    """

    array: HostArray | None
    base: int
    begin: int
    size: int
    type: int
    dimensions: tuple[Dimension, ...] = ()
    value: object = None

    @property
    def name(self) -> str:
        """Of the array; empty for none."""
        return "" if self.array is None else self.array.name

    def locate(self, address: int) -> str:
        return "<addr>" if self.array is None else self.array.locate(address)


class MapItems(list[MapItem]):
    """The items of one construct, in order.

    arguments: positions of the items whose device address the kernel gets from the table. in_hand: the items that it
    gets in another way. follows: the kernel's arguments that are addresses, or hold some. Remembered by whoever found
    it: arrays, those among the kernel's arguments; by device number, places, where the sections lie
    (`resident_items.py`), and touching, what the kernel touches of the host's memory (`touching.py`).
    """

    __slots__ = ("arguments", "arrays", "attached", "follows", "in_hand", "places", "touching")

    def __init__(self, items: Iterable[MapItem] = ()) -> None:
        super().__init__(items)
        self.places: dict[int, Any] = {}
        self.touching: dict[int, object] = {}
        self.arguments = [
            position
            for position, item in enumerate(self)
            if item.type & TARGET_PARAM and item.array is not None and not item.type & (LITERAL | PRIVATE)
        ]
        self.in_hand = [item for item in self if item.type & TARGET_PARAM and item.type & (LITERAL | PRIVATE)]
        self.arrays: list[HostArray] | None = None
        self.follows: list[object] = []
        self.attached = [(position, item) for position, item in enumerate(self) if item.type & ATTACH]

    def attachments(self, start: int, stop: int) -> list[MapItem]:
        """The ATTACH items in [start, stop)."""
        return [item for position, item in self.attached if start <= position < stop]
