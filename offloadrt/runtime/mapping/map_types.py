"""The bits of a map type, as LLVM's `tgt_map_type` numbers them. Files of recordings need only this of the runtime."""

from __future__ import annotations

import functools
from typing import Final

import attrs

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
_NAMES: Final = {bits: name.lower() for name, bits in [*globals().items()] if name.isupper() and bits}
"""The names of the map-type bits above, by bit."""
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
    """The bits of a map type as bools: `parameter` is TARGET_PARAM, `returned` RETURN_PARAM, `skipped` SKIPPED."""

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
    """Whether mapping increments the entry's reference count; a struct's members and a mapper's first item do not."""
    counted_down: bool
    """Whether unmapping decrements the entry's reference count; unlike `counted`, PTR_AND_OBJ members do, too."""


@functools.lru_cache(4096)
def flags_of(bits: int) -> MapFlags:
    """Convert the bits of a map type to named flags."""
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


def words(bits: int) -> str:
    """Return the names of the bits of a map type, for people.

    >>> words(TO | FROM | ALWAYS)
    'to from always'
    >>> words(TO | 3 << 48)
    'to member_of'
    >>> words(ALLOC)
    'alloc'
    """
    return " ".join(name for bit, name in _NAMES.items() if bits & bit) or "alloc"
