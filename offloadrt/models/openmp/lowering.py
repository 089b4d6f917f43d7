"""From clauses to constructs: directives as the compiler leaves them, lowered once and run many times.

    step = t.construct_target(update, psi, maps=omp.map(tofrom=psi), teams=108)
    for _ in range(1000):
        await t.run(step)

``t.target(…)`` lowers and runs a directive at once. Lowering takes no virtual time either way. A program that runs one
directive many times saves real time, the emulator's, by preparing it.

Lowering does what clang does, reordering included. It follows `MappableExprsHandler` of clang 22 (CGOpenMPRuntime.cpp).
The items of one variable stand together, where the variable first occurs; among them those with `present` come first,
then `alloc`, then the rest. `target update` takes all `to` clauses before all `from`. A target region takes the
variables that its body uses in the order of their use, then the rest; globals of declare target are never captured. A
section of a pointer is followed by an ATTACH item for the pointer; a `declare target link` variable is reached through
its reference pointer (PTR_AND_OBJ).

``declare mapper`` says how to map an object that consists of several arrays.

``program.declare_mapper(Patch, lambda p: [omp.map(tofrom=p.values), omp.map(to=p.neighbours)])``. An item of that type
in a map or motion clause stands for the arrays that its mapper lists; the map type of each is what both allow, as
OpenMP 5.2, 5.8.8 says.

On the initial device, which is the host, target regions run in place and maps do nothing (`HostRegion`).
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, Literal, TypedDict

import attrs
import numpy as np

from offloadrt.kernels import Kernel, Launch
from offloadrt.machine import Machine
from offloadrt.models.host.arrays import DeviceGlobals
from offloadrt.models.host.directive import Work, beginning, check_logical, construct_launch, ending, updating
from offloadrt.models.host.program import ProgramThread
from offloadrt.models.openmp.clauses import (
    Clause,
    Depend,
    Map,
    Maps,
    Member,
    Motion,
    StructPointee,
    UseDevice,
    flatten,
    lists_of,
)
from offloadrt.runtime.host_array import POINTER_BYTES, HostArray, Section, begin_of
from offloadrt.runtime.launch.kernel_arguments import Pointees, required_alignment
from offloadrt.runtime.launch.target import OffloadedRegion, target
from offloadrt.runtime.mapping.map_item import MapItem, MapItems, literal_item, map_item
from offloadrt.runtime.mapping.map_types import (
    ALLOC,
    ATTACH,
    DELETE,
    FROM,
    IMPLICIT,
    LITERAL,
    OMPX_HOLD,
    PRESENT,
    PRIVATE,
    RETURN_PARAM,
    TARGET_PARAM,
    TO,
)
from offloadrt.runtime.mapping.present_table import DevicePointer
from offloadrt.runtime.plugins.plugin import GridDefaults

Mapper = Callable[[Any], Iterable[Any]]


def expand(
    item: Any, bits: int, kind: str, mapper: Mapper | None, declared: dict[type, Mapper]
) -> Iterable[tuple[HostArray | Section | Member | StructPointee, int, str]]:
    """Return (what is mapped, bits of the map type, its name) for all that an item of a map clause stands for.

    bits, kind: the map type's bits and name. mapper: the clause's mapper, if it has one. declared: the mappers by
    class. Raises TypeError for an object without a mapper.
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
    """Return what the map type of a mapper's `clause` and that of the clause that uses the mapper both allow.

    As in clang 22, the modifiers are those of the mapper's clause, and members are released where `kind` is delete.
    """
    modifiers = clause.bits & ~(TO | FROM | DELETE)
    if kind in ("release", "delete"):
        return modifiers, "release"
    motion = clause.bits & bits & (TO | FROM)
    return modifiers | motion, {TO: "to", FROM: "from", TO | FROM: "tofrom"}.get(motion, "alloc")


ConstructName = Literal["target", "target data", "target enter data", "target exit data", "target update"]


@attrs.define(eq=False)
class _Variable:
    """All list items of one array in a construct, each with its map-type bits and rank (0 present, 1 alloc, 2 other).

    components: arrays and sections; members: members of a struct; pointees: what the struct's pointers point to.
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
        """Return the map items of the variable.

        attach: whether the variable's pointer is attached. first: bits for the first item. position: number of
        preceding items in the construct. Raises ValueError for a struct that is listed together with its members.
        """
        array, components = self.array, self.components
        if len(components) > 1:
            components.sort(key=itemgetter(0))
        items: list[MapItem] = []
        for _, listed, bits in components:
            items.append(map_item(listed, bits | first))
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
        """Return the items of the mapped members; several are preceded by an item for the part of the struct around."""
        array, members = self.array, sorted(self.members, key=itemgetter(0))
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


def _variables(clauses: Iterable[Map | Motion], mappers: dict[type, Mapper]) -> dict[HostArray, _Variable]:
    """Group the list items by variable, in order of first occurrence."""
    variables: dict[HostArray, _Variable] = {}
    for clause in clauses:
        for listed in clause.items:
            for part, bits, kind in expand(listed, clause.bits, clause.kind, clause.mapper, mappers):
                rank = 0 if bits & PRESENT else 1 if kind == "alloc" else 2
                array = _variable_of(part)
                variable = variables.get(array)
                if variable is None:
                    variable = variables[array] = _Variable(array)
                variable.add(rank, part, bits)
    return variables


def _variable_of(part: HostArray | Section | Member | StructPointee) -> HostArray:
    if isinstance(part, HostArray):
        return part
    return part.pointer.array if isinstance(part, StructPointee) else part.array


def lower_data(clauses: Sequence[Clause], construct: ConstructName, mappers: dict[type, Mapper]) -> list[MapItem]:
    """Lower target data, target enter data, target exit data and target update to their map items.

    mappers: the declared mappers, by class. Raises ValueError for a clause that the construct does not accept.
    """
    flat = flatten(clauses)
    _check_clauses(flat, construct)
    listed = [clause for clause in flat if isinstance(clause, (Map, Motion))]
    if construct == "target update":
        listed.sort(key=lambda clause: clause.kind != "to")  # all `to` clauses come first
    variables = _variables(listed, mappers)
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
    """Return the map items for the end of a target data construct: those of its begin without `present`."""
    return [attrs.evolve(item, type=item.type & ~PRESENT) if item.type & PRESENT else item for item in items]


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
    """Lower a target region with these kernel arguments to map items; `clauses` has no nested lists.

    mappers: the declared mappers, by class. firstprivate, private: arrays that the region copies. on_device: arrays
    whose device address is passed unchanged (has_device_addr). implicit: makes the item of an array without a clause.
    """
    _check_clauses(clauses, "target")
    variables = _variables([clause for clause in clauses if isinstance(clause, Map)], mappers)
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
    """Return the map item of an array without a map clause: a C array is tofrom, a pointer a zero-length section."""
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
    """Return the function that makes implicit map items by ``defaultmap(behaviour)`` or ``(behaviour: category)``.

    behaviour: to, from, tofrom, alloc, present, firstprivate, default or none, or one for each category. A C array is
    an aggregate. A pointer is its variable of eight bytes: its target is not mapped. Numbers are firstprivate.
    """
    given = behaviour if isinstance(behaviour, Mapping) else {"all": behaviour}
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
_WANTED = dict.fromkeys(_MAP_TYPES, "omp.map(…)") | {"target update": "omp.to(…) or omp.from_(…)"}


def _check_clauses(clauses: Sequence[object], construct: ConstructName) -> None:
    """Raise ValueError for clauses that a compiler rejects, and TypeError for objects that are no clauses."""
    if not clauses and construct != "target":
        raise ValueError(f"{construct}: at least one clause says of which data; write {_WANTED[construct]}")
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
    """Make the error for an object that is no clause."""
    if isinstance(given, Depend):
        return ValueError(f"{construct}: no depend clause is allowed here")
    if isinstance(given, (list, tuple)):
        return TypeError(f"{construct}: a {type(given).__name__} is no clause; give its clauses one by one")
    what = f"array {given.name!r}" if isinstance(given, HostArray) else str(given)
    return TypeError(f"{construct}: {what} is no clause; write {_WANTED[construct]} around it")


@attrs.define(eq=False)
class Declarations:
    """The declared globals and mappers of a program: all that lowering a construct has to know of the program."""

    globals: DeviceGlobals
    """The variables of ``declare target``."""
    strided_update: str
    """The bytes that an update of a strided section moves: those of `llvm`, or those of the `specification`."""
    grid: GridDefaults
    """The grid of a target region that leaves its teams or its threads open."""
    mappers: dict[type, Mapper] = attrs.field(factory=dict)
    """The mappers of ``declare mapper``, by the type of the mapped objects."""


INITIAL_DEVICE: Final = -1
"""The number omp_initial_device, which stands for the host as the number of devices does."""


@attrs.frozen(eq=False)
class HostRegion:
    """A target region that runs on the host. `own`: its firstprivate and private arrays, of which it uses copies."""

    launch: Launch
    arguments: tuple[Any, ...]
    own: tuple[HostArray, ...]

    async def run(self, t: ProgramThread, machine: Machine) -> None:
        """Run the region for `t` on all cores of the host; inside a parallel region of several threads, on one core.

        Raises TypeError for an argument that is another device's memory.
        """
        arrays = [
            argument.pointers if isinstance(argument, Pointees) else argument
            for argument in self.arguments
            if isinstance(argument, HostArray | Pointees)
        ]
        values = [self._value(argument) for argument in self.arguments]
        for array in arrays:
            await t.host_access(array)
        await machine.host_workers.execute(self.launch, t.num_threads == 1)
        body = self.launch.kernel.body
        if body is not None and not any(array.phantom for array in arrays):
            body(*values)

    def _value(self, argument: Any) -> Any:
        if isinstance(argument, HostArray):
            if argument.phantom:
                return None
            return argument.data.copy() if argument in self.own else argument.data
        if isinstance(argument, DevicePointer):
            if argument.host is None:
                raise TypeError(f"a target region on the initial device cannot use memory of device {argument.device}")
            seen = argument.host.viewed(argument.dtype).data
            return seen if argument.shape is None else seen.reshape(argument.shape)
        if isinstance(argument, Pointees):
            if argument.pointers.phantom:
                return None
            raise TypeError("a target region on the initial device follows no stored device pointers")
        return argument


@attrs.frozen(eq=False)
class Construct:
    """A directive lowered to runtime calls (`work`), which any thread of the program may run any number of times."""

    name: str
    work: Work
    device: int | None = None
    nowait: bool = False
    depends: tuple[Depend, ...] = ()
    on_host: HostRegion | None = None
    """The construct's work on the initial device; None if it has none."""


class TargetClauses(TypedDict, total=False):
    """The clauses of ``target teams distribute parallel for``.

    maps: `map` clauses; an array argument that none names is mapped implicitly (a C array tofrom, a pointer as a
    zero-length section). teams, threads, iterations: the launch configuration. A loop nest's iterations follow from its
    source; by default, the runtime chooses its teams. Any other kernel is by default one team with one iteration a
    thread. is_device_ptr, has_device_addr: arguments that are device addresses already, as a managed array is.
    firstprivate, private: arrays of which the region gets its own copy. defaultmap: what implicit maps do (for
    ``defaultmap(to: aggregate)`` write ``{"aggregate": "to"}``). device: the device's number. nowait, depend: make the
    region a deferred task. `if_`: False runs the region on the initial device.
    """

    maps: Map | Maps | Sequence[Map | Maps]
    teams: int | None
    threads: int | None
    iterations: int | None
    nowait: bool
    depend: Depend | Sequence[Depend]
    is_device_ptr: Any
    has_device_addr: Any
    firstprivate: Any
    private: Any
    defaultmap: str | Mapping[str, str]
    device: int | None
    if_: bool


def _no_target_clause(name: str) -> TypeError:
    """Make the error for a keyword that is no clause of a target region."""
    clauses = tuple(TargetClauses.__annotations__)
    near = difflib.get_close_matches(name, clauses, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(clauses)}"
    return TypeError(f"target: no clause {name!r}; {hint}")


def target_construct(
    declarations: Declarations,
    kernel: Kernel,
    arguments: Sequence[Any],
    *,
    maps: Map | Maps | Sequence[Map | Maps] = (),
    teams: int | None = None,
    threads: int | None = None,
    iterations: int | None = None,
    nowait: bool = False,
    depend: Depend | Sequence[Depend] = (),
    is_device_ptr: Any = (),
    has_device_addr: Any = (),
    firstprivate: Any = (),
    private: Any = (),
    defaultmap: str | Mapping[str, str] = "default",
    device: int | None = None,
    if_: bool = True,
    **unknown: object,
) -> Construct:
    """Make the construct of a target region; the clauses are those of `TargetClauses`. unknown: any others.

    Raises TypeError and ValueError for clauses and arguments that a compiler rejects.
    """
    for name in unknown:
        raise _no_target_clause(name)
    launch = construct_launch(
        "target", kernel, arguments, teams, threads, iterations, declarations.grid, nowait=nowait, if_=if_
    )
    mapped, pointers, on_device, copied, uninitialised, depends = lists_of(
        maps, is_device_ptr, has_device_addr, firstprivate, private, depend
    )
    own = (*copied, *uninitialised)
    check_dependences("target", depends)
    _check_pointers(pointers)
    if own or on_device:
        _check_arrays(arguments, has_device_addr=on_device, firstprivate=copied, private=uninitialised)
        _check_not_private(mapped, own)
    managed = [pointer for pointer in pointers if isinstance(pointer, HostArray)]
    extra = [pointer for pointer in pointers if pointer not in arguments]
    items = MapItems(
        lower_target(
            mapped,
            [*arguments, *extra],
            declarations.mappers,
            firstprivate=copied,
            private=uninitialised,
            on_device=(*on_device, *managed),
            implicit=defaultmap_item(defaultmap),
        )
    )
    follows = [argument for argument in arguments if isinstance(argument, (DevicePointer, Pointees))]
    offloaded = OffloadedRegion(launch, items, arguments, follows)
    region = functools.partial(target, region=offloaded, call="target", globals_of=declarations.globals.binding)
    where = device if if_ else INITIAL_DEVICE
    return Construct("target", region, where, nowait, depends, HostRegion(launch, tuple(arguments), own))


def data_construct(
    declarations: Declarations, name: ConstructName, clauses: Sequence[Clause], device: int | None = None,
    nowait: bool = False, if_: bool = True,
) -> Construct:  # fmt: skip
    """Make a ``target enter data``, ``target exit data`` or ``target update`` construct.

    if_: False runs it on the host. Raises ValueError for a clause that it does not accept, and without any data.
    """
    check_logical(name, nowait=nowait, if_=if_)
    others = [clause for clause in clauses if not isinstance(clause, Depend)]
    items = lower_data(others, name, declarations.mappers)
    if name == "target update":
        work = updating(items, name, declarations.strided_update == "specification")
    else:
        work = (beginning if name == "target enter data" else ending)(items, name)
    depends = tuple(clause for clause in clauses if isinstance(clause, Depend))
    return Construct(name, work, device if if_ else INITIAL_DEVICE, nowait, depends)


def check_dependences(call: str, depends: Sequence[object]) -> None:
    """Raise TypeError for an object that is no depend clause; `call` is the construct's name in the message."""
    for clause in depends:
        if not isinstance(clause, Depend):
            raise TypeError(f"{call}: depend takes omp.depend(in_=…, out=…, inout=…), not {clause!r}")


def _check_pointers(pointers: Sequence[Any]) -> None:
    """Raise TypeError for an object that is_device_ptr does not accept."""
    for pointer in pointers:
        if not isinstance(pointer, DevicePointer) and not (isinstance(pointer, HostArray) and pointer.managed):
            raise TypeError(f"is_device_ptr takes device pointers and managed arrays, not {pointer!r}")


def _check_arrays(arguments: Sequence[Any], **clauses: Sequence[Any]) -> None:
    """Check the arrays of clauses. Raises TypeError for other objects, ValueError for an array that is no argument."""
    named = {
        argument.pointers if isinstance(argument, Pointees) else argument
        for argument in arguments
        if isinstance(argument, (HostArray, Pointees))
    }
    for clause, arrays in clauses.items():
        for array in arrays:
            if not isinstance(array, HostArray):
                raise TypeError(f"target: {clause} takes arrays of the program, not {array!r}")
            if array not in named:
                raise ValueError(f"target: {clause}({array.name}): the kernel has no such argument")


def _check_not_private(maps: Sequence[Any], own: Sequence[HostArray]) -> None:
    """Raise ValueError for an array that is both mapped and private."""
    for listed in maps:
        for item in listed.items if isinstance(listed, Map) else ():
            array = item.array if isinstance(item, Section) else item
            if array in own:
                raise ValueError(f"target: array {array.name!r} is in a map clause, so it cannot be private")
