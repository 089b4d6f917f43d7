"""The bits of a map type, as clang passes them to the runtime (`OMP_TGT_MAPTYPE_*`).

Plain integers: they are tested several times for every item of every directive.
"""

from typing import Final

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
}


def words(bits: int) -> str:
    """Name the bits, for people.

    >>> words(TO | FROM | ALWAYS)
    'to from always'
    >>> words(ALLOC)
    'alloc'
    """
    return " ".join(name for bit, name in _NAMES.items() if bits & bit) or "alloc"
