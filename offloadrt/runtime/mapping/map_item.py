"""The lowered items of a directive, and its queue.

A `MapItem` is what clang passes to `__tgt_target_data_begin_mapper` and its sisters. The `DirectiveQueue` is LLVM's
`AsyncInfoTy`: a stream, which is taken at first use, and what is left to do after it has drained.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final

import attrs

from offloadrt.driver import Touching
from offloadrt.kernels import Launch
from offloadrt.runtime.host_array import POINTER_BYTES, Dimension, HostArray, Section, Span
from offloadrt.runtime.mapping.present_table import DevicePointer
from offloadrt.sim import Signal

ALLOC: Final = 0x000
TO: Final = 0x001
FROM: Final = 0x002
ALWAYS: Final = 0x004
DELETE: Final = 0x008
PTR_AND_OBJ: Final = 0x010
TARGET_PARAM: Final = 0x020
RETURN_PARAM: Final = 0x040
PRIVATE: Final = 0x080
LITERAL: Final = 0x100
IMPLICIT: Final = 0x200
CLOSE: Final = 0x400
PRESENT: Final = 0x1000
OMPX_HOLD: Final = 0x2000
ATTACH: Final = 0x4000
NON_CONTIG: Final = 0x100000000000
MEMBER_OF: Final = 0xFFFF000000000000
"""Mask of the number of the item to which this member belongs, counted from 1; 0 for items that are no members."""
FIRST_MEMBER: Final = 1 << 48
"""Smallest map type of a member."""
FROM_MAPPER: Final = 1 << 47
"""Marks a mapper function's first component, which like a member is not counted. clang passes no such bit."""
NOT_MAPPED: Final = LITERAL | PRIVATE
"""Either bit: the item passes a value or gets its own storage, without the present table."""
LAMBDA: Final = PTR_AND_OBJ | LITERAL | IMPLICIT
"""All three bits: a variable that a lambda captured by reference; its address is written into the device's lambda."""

SKIPPED: Final = NOT_MAPPED | ATTACH
"""Any of these bits: the item is skipped when a directive maps or unmaps its items one by one."""


@attrs.frozen
class MapFlags:
    """The bits of a map type, each under its name as a truth value; bits with a meaning together have one field."""

    to: bool
    from_: bool
    always: bool
    delete: bool
    pointer_and_object: bool
    parameter: bool
    returned: bool
    implicit: bool
    close: bool
    present: bool
    hold: bool
    not_mapped: bool
    skipped: bool
    counted: bool
    """Whether the item's reference is counted up; not so for members and a mapper function's first component."""
    counted_down: bool
    """Whether the reference is counted down; this is so for pointers with their objects, too."""


@functools.lru_cache(4096)
def flags_of(bits: int) -> MapFlags:
    """Decode a map type."""
    counted = bits < FROM_MAPPER
    return MapFlags(
        to=bits & TO != 0,
        from_=bits & FROM != 0,
        always=bits & ALWAYS != 0,
        delete=bits & DELETE != 0,
        pointer_and_object=bits & PTR_AND_OBJ != 0,
        parameter=bits & TARGET_PARAM != 0,
        returned=bits & RETURN_PARAM != 0,
        implicit=bits & IMPLICIT != 0,
        close=bits & CLOSE != 0,
        present=bits & PRESENT != 0,
        hold=bits & OMPX_HOLD != 0,
        not_mapped=bits & NOT_MAPPED != 0,
        skipped=bits & SKIPPED != 0,
        counted=counted,
        counted_down=counted or (bits & PTR_AND_OBJ != 0 and not bits & FROM_MAPPER),
    )


_NAMES: Final = {
    TO: "to",
    FROM: "from",
    ALWAYS: "always",
    DELETE: "delete",
    PTR_AND_OBJ: "ptr_and_obj",
    TARGET_PARAM: "target_param",
    RETURN_PARAM: "return_param",
    PRIVATE: "private",
    LITERAL: "literal",
    IMPLICIT: "implicit",
    CLOSE: "close",
    PRESENT: "present",
    OMPX_HOLD: "ompx_hold",
    ATTACH: "attach",
    NON_CONTIG: "non_contig",
    MEMBER_OF: "member_of",
}


def words(bits: int) -> str:
    """Return the names of the bits, for people.

    >>> words(TO | FROM | ALWAYS)
    'to from always'
    >>> words(TO | 3 << 48)
    'to member_of'
    >>> words(ALLOC)
    'alloc'
    """
    return " ".join(name for bit, name in _NAMES.items() if bits & bit) or "alloc"


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
