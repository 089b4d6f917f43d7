"""The lowered items of a directive, and its queue.

A `MapItem` is what clang passes to `__tgt_target_data_begin_mapper` and its sisters. The `DirectiveQueue` is LLVM's
`AsyncInfoTy`: a stream, which is taken at first use, and what is left to do after it has drained.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import attrs

from offloadrt.driver import Touching
from offloadrt.kernels import Launch
from offloadrt.runtime.host_array import POINTER_BYTES, Dimension, HostArray, Section, Span
from offloadrt.runtime.mapping.map_types import (
    ATTACH,
    IMPLICIT,
    LITERAL,
    NON_CONTIG,
    PTR_AND_OBJ,
    TARGET_PARAM,
    MapFlags,
    flags_of,
)
from offloadrt.runtime.mapping.present_table import DevicePointer
from offloadrt.sim import Signal


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
        """Return what follows the address in an attached Fortran descriptor; zeros if not known."""
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


def literal_item(value: Any) -> MapItem:
    """Make the item of a kernel argument that is passed unchanged: a number, or a device pointer."""
    if isinstance(value, DevicePointer):
        return MapItem(None, value.address, value.address, POINTER_BYTES, LITERAL | TARGET_PARAM, value=value)
    return MapItem(None, 0, 0, POINTER_BYTES, LITERAL | IMPLICIT | TARGET_PARAM, value=value)


def map_item(span: Span, bits: int) -> MapItem:
    """Make the runtime's item for a span, with these bits of `map_type`.

    A global with a reference pointer is reached through it: of `link`, and under unified shared memory of `enter`.
    """
    if isinstance(span, Section):
        array, begin, nbytes = span.array, span.begin, span.nbytes
    else:
        array, begin, nbytes = span, span.address, span.nbytes
    if array.kind != "heap" and array.pointer_address:
        return MapItem(array, array.pointer_address, begin, nbytes, bits | PTR_AND_OBJ)
    if not isinstance(span, Section) or span.is_contiguous:
        return MapItem(array, array.address, begin, nbytes, bits)
    dimensions = span.dimensions
    return MapItem(array, array.address, begin, len(dimensions), bits | NON_CONTIG, dimensions)


@attrs.frozen
class BlockUse:
    """A kernel's access to bytes that it reaches by a pointer.

    address: the device's, of memory that no item maps; of_host: the host's, of what is mapped when the kernel runs.
    exact: it touches every byte; else it may read and write there. atomic: all that it does there are atomic
    operations.
    """

    address: int
    nbytes: int
    writes: bool
    exact: bool
    atomic: bool = False
    of_host: bool = False


class MapItems(list[MapItem]):
    """The items of one construct, in order.

    mapped: those that are mapped, components of mappers in place of the items that have some.
    """

    __slots__ = ("mapped",)

    def __init__(self, items: Iterable[MapItem] = ()) -> None:
        super().__init__(items)
        self.mapped: list[MapItem] = [item for given in self for item in given.components or (given,)]


PostProcessing = Callable[[], Awaitable[None]]


@attrs.frozen(eq=False)
class PreparedKernel:
    """A launch that becomes a node of a graph instead of running; its kernel's body computes the result."""

    launch: Launch
    touching: Touching


@attrs.define(eq=False)
class DirectiveQueue:
    """cause: the number of the directive.

    kernel_error: what a kernel of this queue did wrong, raised at synchronization. lasts: the directive ends before its
    queue has drained, and the stream belongs to a `AsyncQueue`, which keeps it. For a directive that is left early
    (`abandon`): items, of which the first `mapped` are left to unmap; copy, the completion of one outside of the
    stream; private, which frees its private arguments. kept: what the memory configuration's hooks keep of it.
    """

    cause: int
    stream: Any = None
    post_processing: list[PostProcessing] = attrs.field(factory=list)
    ending: list[Any] = attrs.field(factory=list)
    kernel_error: Exception | None = None
    lasts: bool = False
    items: Sequence[MapItem] = ()
    mapped: int = 0
    copy: Signal | None = None
    private: PostProcessing | None = None
    kept: object = None


@attrs.define(eq=False)
class PreparedDirective(DirectiveQueue):
    """The queue of target regions that do not launch their kernels, but leave them to become nodes of a graph."""

    kernels: list[PreparedKernel] = attrs.field(factory=list)
