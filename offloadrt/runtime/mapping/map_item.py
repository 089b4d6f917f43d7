"""The map items into which a directive's clauses are lowered, and the queue of one directive.

A `MapItem` is what clang passes to `__tgt_target_data_begin_mapper` and its sisters. The `DirectiveQueue` is LLVM's
`AsyncInfoTy`: a stream, which is taken at first use, and what is left to do after it has drained.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import attrs

from offloadrt.driver import KernelAccesses
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
    """One map item of a directive: what clang passes to LLVM's runtime for one piece of host memory or one value.

    base, begin: host addresses (an ATTACH or PTR_AND_OBJ item's base is that of the pointer). size: bytes from `begin`.
    type: LLVM's map-type bits, decoded in `flags`. section: (begin, size). value: the argument of a LITERAL item.
    dimensions: the dimensions of a strided update (NON_CONTIG), outermost first; `size` is then their number.
    owner: the array in which the pointer of an ATTACH or PTR_AND_OBJ item is stored, if any. pointee: the pointer's
    value if the owner has no values; None stands for the address of `array`.
    components: the items of the item's ``declare mapper`` function, which are mapped instead of this one. listed:
    whether this item is such a component.
    padding: bytes of a new device block before `begin`, which keep the members of a mapped part of a struct aligned.
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
        """Return the host address stored in the pointer of an item of type ATTACH or PTR_AND_OBJ."""
        if self.owner is not None and (held := self.owner.span(self.base, POINTER_BYTES).bytes) is not None:
            return int.from_bytes(held.tobytes(), "little")
        if self.pointee is not None:
            return self.pointee
        return self.begin if self.array is None else self.array.address

    @property
    def descriptor(self) -> bytes:
        """Return the bytes after the address in an attached Fortran descriptor: zeros if unknown, b"" without one."""
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
    """Make the runtime's item for `span` (an array or a section), with these bits of `map_types`.

    Globals with a reference pointer (``link``; under unified shared memory ``enter``, too) become PTR_AND_OBJ items.
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
    """Says that a kernel reads (or `writes`) `nbytes` bytes which it reaches through a pointer.

    address: a device address of memory that no item maps; with of_host, a host address of memory that is mapped when
    the kernel runs. exact: the kernel accesses every byte; otherwise it may read and write some. atomic: it accesses
    the bytes by atomic operations only.
    """

    address: int
    nbytes: int
    writes: bool
    exact: bool
    atomic: bool = False
    of_host: bool = False


class MapItems(list[MapItem]):
    """The map items of one construct, in order.

    mapped: the items to map; each item with a ``declare mapper`` function is replaced by the function's items.
    """

    __slots__ = ("mapped",)

    def __init__(self, items: Iterable[MapItem] = ()) -> None:
        super().__init__(items)
        self.mapped: list[MapItem] = [item for given in self for item in given.components or (given,)]


PostProcessing = Callable[[], Awaitable[None]]


@attrs.frozen(eq=False)
class PreparedKernel:
    """A launch that becomes a node of a graph instead of running now. touching: host memory that it uses."""

    launch: Launch
    touching: KernelAccesses


@attrs.define(eq=False)
class DirectiveQueue:
    """The queue of one directive (LLVM's `AsyncInfoTy`); `cause` is the directive's number.

    post_processing: run when the queue has drained; ending: entries to remove then. kernel_error: the error of a
    kernel, raised at synchronization. lasts: the directive does not wait for its queue, whose stream belongs to an
    `AsyncQueue`. Three fields serve a directive that is left early (`abandon`): of `items`, the first `mapped` are
    still to be unmapped; `copy` is the signal of a copy outside of the stream; `private` frees the private arguments.
    kept: what the memory configuration stores for the directive (`MapHooks`).
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
    """The queue of target regions whose kernels are not launched, but become nodes of a graph."""

    kernels: list[PreparedKernel] = attrs.field(factory=list)
