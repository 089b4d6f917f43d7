"""Structs: arrays of a structured type, whose members and what their pointers lead to can be mapped apart.

    S = np.dtype([("n", "i4"), ("p", "u8")], align=True)   # struct S { int n; double *p; }
    s, a = t.array("s", 1, S), t.array("a", 100, kind="heap")
    s["p"] = a.address
    await t.target_enter_data(omp.map(to=[s, omp.pointee(s, "p", omp.section(a, 0, 10))]))    # s, s.p[0:10]

A pointer is a member of type ``u8``. The device's copy of it is attached to the device's copy of the section. A kernel
follows it with ``omp.pointees(s, 10, np.float64, member="p")``.
"""

from __future__ import annotations

import attrs
import numpy as np

from offloadrt.models.host.section import Place, array_of
from offloadrt.runtime.host_array import POINTER_BYTES, HostArray


@attrs.frozen(eq=False)
class Member:
    """A member of a struct, ``s.n`` or ``s[i].n``: bytes [begin, begin + nbytes) of the host."""

    array: HostArray
    name: str
    begin: int
    nbytes: int


@attrs.frozen(eq=False)
class StructPointee:
    """What a member leads to: a section of another array, ``s.p[0:4]``."""

    pointer: Member
    place: Place

    @property
    def array(self) -> HostArray:
        """Return the array that the section belongs to."""
        return array_of(self.place)


def member(struct: HostArray, name: str, index: int = 0) -> Member:
    """Return a member of a struct, or of element `index` of an array of structs. ``in.q`` is a member's member.

    Raises ValueError for one that does not exist.
    """
    begin, dtype = struct.address + index * struct.itemsize, struct.dtype
    if not 0 <= index < struct.nbytes // max(1, struct.itemsize):
        raise ValueError(f"{struct.name}[{index}]: there are {struct.nbytes // max(1, struct.itemsize)} structs")
    for part in name.split("."):
        if dtype.fields is None or part not in dtype.fields:
            raise ValueError(f"{struct.name} has no member {name!r}; its type is {struct.dtype}")
        field = dtype.fields[part]
        dtype, begin = np.dtype(field[0]), begin + int(field[1])
    return Member(struct, name, begin, dtype.itemsize)


def pointee(struct: HostArray, name: str, place: Place, index: int = 0) -> StructPointee:
    """Return what the pointer ``s.name`` leads to, to be mapped: an array, or a section of one.

    Raises ValueError for a member that is no pointer.
    """
    pointer = member(struct, name, index)
    if pointer.nbytes != POINTER_BYTES:
        raise ValueError(f"{struct.name}.{name} has {pointer.nbytes} bytes, but a pointer has {POINTER_BYTES}")
    return StructPointee(pointer, place)
