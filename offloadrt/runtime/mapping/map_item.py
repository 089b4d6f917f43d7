"""One lowered item of a directive: what clang passes to `__tgt_target_data_begin_mapper` and its sisters."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from offloadrt.runtime.host_array import HostArray


@attrs.frozen
class Dimension:
    """One dimension of a strided section: `count` pieces, `stride` bytes apart.

    `offset` is the lower bound in elements.
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
        """Return the array's name; empty for an item without an array."""
        return "" if self.array is None else self.array.name

    def locate(self, address: int) -> str:
        return "<addr>" if self.array is None else self.array.locate(address)


class MapItems(list[MapItem]):
    """The items of one construct, in order.

    follows: the kernel's arguments that are addresses, or hold some. Remembered by whoever found it: arrays, those
    among the kernel's arguments; touching, by device number what the kernel touches of the host's memory
    (`touching.py`).
    """

    __slots__ = ("arrays", "follows", "touching")

    def __init__(self, items: Iterable[MapItem] = ()) -> None:
        super().__init__(items)
        self.touching: dict[int, object] = {}
        self.arrays: list[HostArray] | None = None
        self.follows: list[object] = []
