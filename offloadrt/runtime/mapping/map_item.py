"""One lowered item of a directive: what clang passes to `__tgt_target_data_begin_mapper` and its sisters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from offloadrt.runtime.host_array import POINTER_BYTES, HostArray
from offloadrt.runtime.mapping.map_type import ATTACH, MapFlags, flags_of


@attrs.frozen
class Dimension:
    """One dimension of a strided section: `count` pieces, `stride` bytes apart.

    `offset` is the lower bound in elements.
    """

    offset: int
    count: int
    stride: int


@attrs.define(eq=False)  # nobody changes one; a frozen object takes seven times as long to make
class MapItem:
    """base and begin are host addresses, size is bytes, type is bits of `map_type`.

    For an ATTACH or PTR_AND_OBJ item base is the address of the pointer; begin is always the pointee.
    dimensions: of a strided update (NON_CONTIG), outermost first; then size counts them.
    value: what a LITERAL item passes to the kernel.
    owner, pointee: of an ATTACH or PTR_AND_OBJ item the array that holds the pointer, if one does, and what the pointer
    holds if that array has no values; None: the address of `array`.
    components: what its mapper function lists, which is mapped in its place. listed: whether a mapper function lists
    this item.
    padding: bytes that a new block has before `begin`, so that the members of a part of a struct stay aligned.
    flags: the bits of its type; section: begin and size.

    Wide because it has clang's arguments of an item, what they lead to in the program, and what the runtime asks most.
    """

    array: HostArray | None
    base: int
    begin: int
    size: int
    type: int
    dimensions: tuple[Dimension, ...] = ()
    value: object = None
    owner: HostArray | None = None
    pointee: int | None = None
    padding: int = 0
    components: tuple[MapItem, ...] = ()
    listed: bool = False
    flags: MapFlags = attrs.field(init=False, repr=False)
    section: tuple[int, int] = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self.flags = flags_of(self.type)
        self.section = self.begin, self.size

    @property
    def pointee_base(self) -> int:
        """Return what the host's pointer holds, of an ATTACH or PTR_AND_OBJ item."""
        if self.owner is not None and (held := self.owner.span(self.base, POINTER_BYTES).bytes) is not None:
            return int.from_bytes(held.tobytes(), "little")
        if self.pointee is not None:
            return self.pointee
        return self.begin if self.array is None else self.array.address

    @property
    def descriptor(self) -> bytes:
        """Return what follows the address in a pointer that is a Fortran descriptor (ATTACH); zeros if unknown."""
        rest = self.size - POINTER_BYTES
        if rest <= 0 or not self.type & ATTACH:
            return b""
        values = None if self.owner is None else self.owner.span(self.base + POINTER_BYTES, rest).bytes
        return bytes(rest) if values is None else values.tobytes()

    @property
    def name(self) -> str:
        """Return the array's name; empty for an item without an array."""
        return "" if self.array is None else self.array.name

    def locate(self, address: int) -> str:
        return "<addr>" if self.array is None else self.array.locate(address)


@attrs.frozen
class BlockUse:
    """What a kernel does with bytes of the device's own memory, which no item maps; `address` is the device's.

    exact: it touches every byte; else it may read and write there. atomic: all that it does there are atomic
    operations.
    """

    address: int
    nbytes: int
    writes: bool
    exact: bool
    atomic: bool = False


class MapItems(list[MapItem]):
    """The items of one construct, in order.

    mapped: those that are mapped, components of mappers in place of the items that have some. follows: the kernel's
    arguments that are addresses, or hold some. blocks: what is known of its use of memory that is not mapped, reads
    before writes. Remembered by whoever found it: arrays, those
    among the kernel's arguments; touching, by device number what the kernel touches of the host's memory
    (`touching.py`).
    """

    __slots__ = ("arrays", "blocks", "follows", "mapped", "touching")

    def __init__(self, items: Iterable[MapItem] = ()) -> None:
        super().__init__(items)
        self.mapped: list[MapItem] = [item for given in self for item in given.components or (given,)]
        self.touching: dict[int, object] = {}
        self.arrays: list[HostArray] | None = None
        self.follows: list[object] = []
        self.blocks: Sequence[BlockUse] = ()
