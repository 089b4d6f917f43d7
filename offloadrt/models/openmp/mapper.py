"""declare mapper: how to map an object that consists of several arrays.

``program.declare_mapper(Patch, lambda p: [omp.map(tofrom=p.values), omp.map(to=p.neighbours)])``. An item of that type
in a map or motion clause stands for the arrays that its mapper lists; the map type of each is what both allow, as
OpenMP 5.2, 5.8.8 says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from offloadrt.models.host.section import Section
from offloadrt.models.openmp.clauses import Map, Maps, flatten
from offloadrt.models.openmp.structs import Member, StructPointee
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.mapping.map_item import DELETE, FROM, TO

Mapper = Callable[[Any], Iterable[Any]]


def expand(
    item: Any, bits: int, kind: str, mapper: Mapper | None, declared: dict[type, Mapper]
) -> Iterable[tuple[HostArray | Section | Member | StructPointee, int, str]]:
    """Return the arrays or sections that an item stands for, each with its map-type bits and kind.

    Raises TypeError for an object that has no mapper.
    """
    if mapper is None and isinstance(item, (HostArray, Section, Member, StructPointee)):
        return ((item, bits, kind),)
    return _expand(item, bits, kind, mapper, declared)


def _expand(
    item: Any, bits: int, kind: str, mapper: Mapper | None, declared: dict[type, Mapper]
) -> Iterable[tuple[HostArray | Section | Member | StructPointee, int, str]]:
    chosen = mapper or declared.get(type(item))
    if chosen is None:
        raise TypeError(_why_not(item))
    for member in chosen(item):
        if isinstance(member, (Map, Maps)):
            for clause in flatten([member]):
                assert isinstance(clause, Map)
                member_bits, member_kind = _decayed(clause, bits, kind)
                for part in clause.items:
                    yield from expand(part, member_bits, member_kind, clause.mapper, declared)
        else:
            passed, weaker = (bits & (TO | FROM), kind) if kind != "delete" else (0, "release")
            yield from expand(member, passed, weaker, None, declared)


def _why_not(item: Any) -> str:
    if isinstance(item, np.ndarray):
        what = f"a NumPy array of shape {item.shape} and type {item.dtype} is none of the program's arrays"
        return f"{what}; an array section a[lower:length] is written omp.section(a, lower, length)"
    return f"{item!r} can be mapped only with a mapper: declare one for {type(item).__name__}"


def _decayed(clause: Map, bits: int, kind: str) -> tuple[int, str]:
    """Weaken the mapper's own type by that of the clause that uses it.

    As clang 22 does, the modifiers are the mapper's own, and its members are released where the clause says delete.
    """
    modifiers = clause.bits & ~(TO | FROM | DELETE)
    if kind in ("release", "delete"):
        return modifiers, "release"
    motion = clause.bits & bits & (TO | FROM)
    return modifiers | motion, {TO: "to", FROM: "from", TO | FROM: "tofrom"}.get(motion, "alloc")
