"""From clauses to the items that the runtime gets: what clang does, reordering included.

Follows `MappableExprsHandler` of clang 22 (CGOpenMPRuntime.cpp). The items of one variable stand together, where the
variable first occurs; among them those with `present` come first, then `alloc`, then the rest. `target update` takes
all `to` clauses before all `from`. A target region takes the variables that its body uses in the order of their use,
then the rest; globals of declare target are never captured. A section of a pointer is followed by an ATTACH item for
the pointer; a `declare target link` variable is reached through its reference pointer (PTR_AND_OBJ).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import attrs

from offloadrt.models.host.section import Section, begin_of, literal_item, map_item
from offloadrt.models.openmp.clauses import Clause, Depend, Map, Motion, UseDevice, flatten
from offloadrt.models.openmp.mapper import Mapper, expand
from offloadrt.models.openmp.structs import Member, StructPointee
from offloadrt.runtime.host_array import POINTER_BYTES, HostArray
from offloadrt.runtime.launch.kernel_arguments import Pointees, required_alignment
from offloadrt.runtime.mapping.map_item import (
    ALLOC,
    ATTACH,
    FROM,
    IMPLICIT,
    LITERAL,
    OMPX_HOLD,
    PRESENT,
    PRIVATE,
    RETURN_PARAM,
    TARGET_PARAM,
    TO,
    MapItem,
)

ConstructName = Literal["target", "target data", "target enter data", "target exit data", "target update"]


@attrs.define(eq=False)
class _Variable:
    """All list items of one array in one construct, each with its bits and its rank: 0 present, 1 alloc, 2 other.

    members: those that are members of it as a struct; pointees: what its pointers lead to.
    """

    array: HostArray
    components: list[tuple[int, HostArray | Section, int]] = attrs.field(factory=list)
    members: list[tuple[int, Member, int]] = attrs.field(factory=list)
    pointees: list[tuple[int, StructPointee, int]] = attrs.field(factory=list)

    def add(self, rank: int, listed: HostArray | Section | Member | StructPointee, bits: int) -> None:
        if isinstance(listed, Member):
            self.members.append((rank, listed, bits))
        elif isinstance(listed, StructPointee):
            self.pointees.append((rank, listed, bits))
        else:
            self.components.append((rank, listed, bits))

    def lower(self, attach: bool, first: int = 0, position: int = 0) -> list[MapItem]:
        """Return the items of the variable.

        attach: whether its pointer is attached. first: bits for the first item. position: how many items of the
        construct come before. Raises ValueError for a struct that is listed together with members of it.
        """
        array, components = self.array, self.components
        if len(components) > 1:
            components.sort(key=_rank)
        items: list[MapItem] = []
        for _, place, bits in components:
            items.append(map_item(place, bits | first))
            first = 0
        if attach and array.kind == "heap" and components:
            begin = begin_of(components[-1][1])
            items.append(MapItem(array, array.pointer_address, begin, POINTER_BYTES, ATTACH))
        if self.members:
            if components:
                raise ValueError(f"struct {array.name!r} and members of it are listed in one construct")
            items.extend(self._lower_members(first, position))
        for _, pointed, bits in self.pointees:
            items.append(map_item(pointed.place, bits))
            if attach:
                pointer, begin = pointed.pointer, begin_of(pointed.place)
                items.append(MapItem(pointed.array, pointer.begin, begin, POINTER_BYTES, ATTACH, owner=array))
        return items

    def _lower_members(self, first: int, position: int) -> list[MapItem]:
        """Return one item for a single member; of several, one for the part of the struct that spans them as well."""
        array, members = self.array, sorted(self.members, key=_rank)
        if len(members) == 1:
            ((_, only, bits),) = members
            return [MapItem(array, array.address, only.begin, only.nbytes, bits | first)]
        begin = min(member.begin for _, member, _ in members)
        end = max(member.begin + member.nbytes for _, member, _ in members)
        for _, _, bits in members:
            first |= bits & (PRESENT | OMPX_HOLD)
        padding = begin % required_alignment(array.address)
        span = MapItem(array, array.address, begin, end - begin, first, padding=padding)
        belongs = (position + 1) << 48
        parts = [
            MapItem(array, array.address, member.begin, member.nbytes, bits | belongs) for _, member, bits in members
        ]
        return [span, *parts]


def _rank(component: tuple[int, Any, int]) -> int:
    return component[0]


def _variables(clauses: Iterable[Map | Motion], mappers: dict[type, Mapper]) -> dict[HostArray, _Variable]:
    """Arrange the list items by variable, variables in order of first occurrence."""
    variables: dict[HostArray, _Variable] = {}
    for clause in clauses:
        for listed in clause.items:
            for place, bits, kind in expand(listed, clause.bits, clause.kind, clause.mapper, mappers):
                rank = 0 if bits & PRESENT else 1 if kind == "alloc" else 2
                array = _variable_of(place)
                variable = variables.get(array)
                if variable is None:
                    variable = variables[array] = _Variable(array)
                variable.add(rank, place, bits)
    return variables


def _variable_of(place: HostArray | Section | Member | StructPointee) -> HostArray:
    if isinstance(place, HostArray):
        return place
    return place.pointer.array if isinstance(place, StructPointee) else place.array


def lower_data(clauses: Sequence[Clause], construct: ConstructName, mappers: dict[type, Mapper]) -> list[MapItem]:
    """Lower target data, target enter data and target exit data to their items.

    ValueError for a clause that the construct does not take.
    """
    flat = flatten(clauses)
    _check_clauses(flat, construct)
    variables = _variables([clause for clause in flat if isinstance(clause, Map)], mappers)
    returned = [array for clause in flat if isinstance(clause, UseDevice) for array in clause.arrays]
    attach = construct in ("target data", "target enter data")
    items: list[MapItem] = []
    for variable in variables.values():
        items.extend(variable.lower(attach, RETURN_PARAM if variable.array in returned else 0, len(items)))
    items.extend(
        MapItem(array, array.address, array.address, 0, RETURN_PARAM) for array in returned if array not in variables
    )
    return items


def at_data_end(items: Sequence[MapItem]) -> list[MapItem]:
    """Return the items of a target data construct at its end: `present` counts at the begin only."""
    return [attrs.evolve(item, type=item.type & ~PRESENT) if item.type & PRESENT else item for item in items]


def lower_update(clauses: Sequence[Clause], mappers: dict[type, Mapper]) -> list[MapItem]:
    """Lower target update to its items: all of `to`, then all of `from`."""
    flat = flatten(clauses)
    _check_clauses(flat, "target update")
    motions = [clause for clause in flat if isinstance(clause, Motion)]
    ordered = [clause for clause in motions if clause.kind == "to"] + [
        clause for clause in motions if clause.kind == "from"
    ]
    items: list[MapItem] = []
    for variable in _variables(ordered, mappers).values():
        items.extend(variable.lower(attach=False, position=len(items)))
    return items


def lower_target(
    clauses: Sequence[Clause],
    arguments: Sequence[Any],
    mappers: dict[type, Mapper],
    *,
    firstprivate: Sequence[HostArray] = (),
    private: Sequence[HostArray] = (),
    on_device: Sequence[Any] = (),
    implicit: Callable[[HostArray], MapItem] | None = None,
) -> list[MapItem]:
    """Lower a target region whose kernel has these arguments to its items.

    on_device: arrays whose device address is passed as it is (has_device_addr). implicit: how an array is mapped that
    no clause names.
    """
    flat = flatten(clauses)
    _check_clauses(flat, "target")
    variables = _variables([clause for clause in flat if isinstance(clause, Map)], mappers)
    implicit = implicit or implicit_item
    items: list[MapItem] = []
    captured: dict[HostArray, None] = {}
    for argument in arguments:
        array = argument.pointers if isinstance(argument, Pointees) else argument
        if not isinstance(array, HostArray):
            items.append(literal_item(argument))
            continue
        if array in captured or array.kind in ("global", "link"):
            continue
        captured[array] = None
        if array in firstprivate:
            items.append(MapItem(array, array.address, array.address, array.nbytes, PRIVATE | TO | TARGET_PARAM))
        elif array in private:
            items.append(MapItem(array, array.address, array.address, array.nbytes, PRIVATE | TARGET_PARAM))
        elif array in on_device:
            items.append(MapItem(array, array.address, array.address, POINTER_BYTES, LITERAL | TARGET_PARAM))
        elif array in variables:
            items.extend(variables[array].lower(attach=True, first=TARGET_PARAM, position=len(items)))
        else:
            items.append(implicit(array))
    for array, variable in variables.items():
        if array not in captured:
            items.extend(variable.lower(attach=True, position=len(items)))
    linked = [argument for argument in arguments if isinstance(argument, HostArray) and argument.kind == "link"]
    items.extend(map_item(array, TO | FROM | IMPLICIT) for array in dict.fromkeys(linked) if array not in variables)
    return items


def implicit_item(array: HostArray) -> MapItem:
    """Map a C array tofrom as a whole, a pointer as a zero-length section."""
    if array.kind == "heap":
        return MapItem(array, array.address, array.address, 0, IMPLICIT | TARGET_PARAM)
    return MapItem(array, array.address, array.address, array.nbytes, TO | FROM | IMPLICIT | TARGET_PARAM)


_DEFAULTMAP = {
    "alloc": ALLOC,
    "to": TO,
    "from": FROM,
    "tofrom": TO | FROM,
    "present": PRESENT,
    "firstprivate": PRIVATE | TO,
}
_CATEGORIES = ("aggregate", "pointer", "all")


def defaultmap_item(behaviour: str | Mapping[str, str]) -> Callable[[HostArray], MapItem]:
    """Return what ``defaultmap(behaviour)`` or ``defaultmap(behaviour: category)`` makes of an array or a pointer.

    behaviour: to, from, tofrom, alloc, present, firstprivate, default or none, or one for each category. A C array is
    an aggregate. A pointer is the variable of eight bytes: what it points to is not mapped. Numbers are firstprivate.
    """
    given = {"all": behaviour} if isinstance(behaviour, str) else dict(behaviour)
    for category, named in given.items():
        if category not in _CATEGORIES:
            raise ValueError(f"defaultmap({named}: {category}): the categories are {', '.join(_CATEGORIES)}")
        if named not in (*_DEFAULTMAP, "default", "none"):
            raise ValueError(f"defaultmap({named}): there are {', '.join(_DEFAULTMAP)}, default and none")

    def implicit(array: HostArray) -> MapItem:
        heap = array.kind == "heap"
        named = given.get("pointer" if heap else "aggregate", given.get("all", "default"))
        if named == "none":
            raise ValueError(
                f"array {array.name!r} is used in a target region with defaultmap(none), but no clause names it"
            )
        if named == "default" or (heap and named == "firstprivate"):
            return implicit_item(array)
        mapped = array.pointer_variable if heap else array
        bits = _DEFAULTMAP[named] | IMPLICIT | TARGET_PARAM
        return MapItem(mapped, mapped.address, mapped.address, mapped.nbytes, bits)

    return implicit


_MAP_TYPES: dict[ConstructName, tuple[str, ...]] = {
    "target": ("to", "from", "tofrom", "alloc"),
    "target data": ("to", "from", "tofrom", "alloc"),
    "target enter data": ("to", "tofrom", "alloc"),
    "target exit data": ("from", "tofrom", "release", "delete"),
    "target update": (),
}


def _check_clauses(clauses: Iterable[object], construct: ConstructName) -> None:
    """Raise ValueError for what a compiler refuses, and TypeError for what is no clause."""
    for clause in clauses:
        if isinstance(clause, Map):
            if clause.kind not in _MAP_TYPES[construct]:
                raise ValueError(f"map({clause.kind}: …) is not allowed on {construct}")
            for item in clause.items:
                if isinstance(item, Section) and not item.is_contiguous and item.inner:
                    raise ValueError(f"map({clause.kind}: {item}): the section is not contiguous storage")
                if isinstance(item, Section) and item.stride != 1:
                    raise ValueError(f"map({clause.kind}: {item}): a stride is allowed on target update only")
        elif isinstance(clause, Motion) and construct != "target update":
            raise ValueError(f"a {clause.kind} clause is not allowed on {construct}: only on target update")
        elif isinstance(clause, UseDevice) and construct != "target data":
            raise ValueError(f"use_device_ptr and use_device_addr are not allowed on {construct}: only on target data")
        elif not isinstance(clause, (Map, Motion, UseDevice)):
            raise _no_clause(clause, construct)


def _no_clause(given: object, construct: ConstructName) -> Exception:
    """Make the error for something that stands where a clause belongs."""
    if isinstance(given, Depend):
        return ValueError(f"{construct}: no depend clause is allowed here")
    if isinstance(given, (list, tuple)):
        return TypeError(f"{construct}: a {type(given).__name__} is no clause; give its clauses one by one")
    what = f"array {given.name!r}" if isinstance(given, HostArray) else str(given)
    wanted = "omp.to(…) or omp.from_(…)" if construct == "target update" else "omp.map(…)"
    return TypeError(f"{construct}: {what} is no clause; write {wanted} around it")
