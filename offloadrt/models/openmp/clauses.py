"""The clauses of a directive, written as calls: ``omp.map(to=a)``, ``omp.from_(b)``, ``omp.depend(out=c)``.

A list item is a `HostArray` (all of it), an array section or, with a mapper, any object. A list gives several.

A struct is an array of a structured type. Its members, and the sections that its pointers point to, can be mapped.

    S = np.dtype([("n", "i4"), ("p", "u8")], align=True)   # struct S { int n; double *p; }
    s, a = t.array("s", 1, S), t.array("a", 100, kind="heap")
    s["p"] = a.address
    await t.target_enter_data(omp.map(to=[s, omp.pointee(s, "p", omp.section(a, 0, 10))]))    # s, s.p[0:10]

A pointer is a member of type ``u8``. The device's copy of it is attached to the device's copy of the section. A kernel
follows it with ``omp.pointees(s, 10, np.float64, member="p")``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import attrs
import numpy as np

from offloadrt.models.host.directive import check_logical
from offloadrt.runtime.host_array import POINTER_BYTES, HostArray, Section, Span, array_of
from offloadrt.runtime.launch.kernel_arguments import Pointees
from offloadrt.runtime.mapping.map_types import ALLOC, ALWAYS, CLOSE, DELETE, FROM, OMPX_HOLD, PRESENT, TO
from offloadrt.runtime.mapping.present_table import DevicePointer

MapKind = Literal["to", "from", "tofrom", "alloc", "release", "delete"]

KIND_BITS: dict[MapKind, int] = {
    "to": TO,
    "from": FROM,
    "tofrom": TO | FROM,
    "alloc": ALLOC,
    "release": ALLOC,
    "delete": DELETE,
}


@attrs.frozen(eq=False)
class Map:
    """One map clause: `items`, map type (`kind`), type and modifiers as LLVM's flags (`bits`), and `mapper` or None."""

    items: tuple[Any, ...]
    kind: MapKind
    bits: int
    mapper: Any = None


@attrs.frozen(eq=False)
class Maps:
    """All map clauses that one call of `map` makes: one for each map type in the call."""

    clauses: tuple[Map, ...]


@attrs.frozen(eq=False)
class Motion:
    """A `to` or `from` clause (`kind`) of `target update`: items, LLVM's map-type flags (`bits`), mapper or None."""

    items: tuple[Any, ...]
    kind: Literal["to", "from"]
    bits: int
    mapper: Any = None


@attrs.frozen(eq=False)
class UseDevice:
    """A use_device_ptr or (`address`) use_device_addr clause of `target data`, with the arrays that it names."""

    arrays: tuple[HostArray, ...]
    address: bool


@attrs.frozen(eq=False)
class Depend:
    """The dependences of a task: what the task reads, writes or both.

    In a variable, this is OpenMP's depend object. exclusive: the items of mutexinoutset; together: those of inoutset.
    """

    reads: tuple[Any, ...]
    writes: tuple[Any, ...]
    exclusive: tuple[Any, ...] = ()
    together: tuple[Any, ...] = ()


Clause = Map | Maps | Motion | UseDevice | Depend
ListItem = Any


def items_of(items: Any) -> tuple[Any, ...]:
    """Return map items as a tuple, given a single item, a list or a tuple; return an empty tuple for None."""
    if items is None:
        return ()
    if isinstance(items, (list, tuple)):
        return tuple(items)
    return (items,)


def lists_of(*clauses: Any) -> list[tuple[Any, ...]]:
    """Return the items of each clause as a tuple; a result of `map` with several clauses gives all their items."""
    return [flatten(items_of(items)) for items in clauses]


def _each(items: Iterable[Any]) -> tuple[Any, ...]:
    """Return list items one by one; an element may also be a list of items."""
    return tuple(item for listed in items for item in items_of(listed))


def map(
    *untyped: ListItem,
    to: ListItem = None,
    from_: ListItem = None,
    tofrom: ListItem = None,
    alloc: ListItem = None,
    release: ListItem = None,
    delete: ListItem = None,
    always: bool = False,
    present: bool = False,
    close: bool = False,
    hold: bool = False,
    mapper: Any = None,
    **unknown: object,
) -> Map | Maps:
    """Make a map clause: ``map([always,] [present,] [close,] [ompx_hold,] TYPE: items)``.

    Each map type becomes a clause of its own, in the order to, from, tofrom, alloc, release, delete. mapper: used
    instead of that of the items' class. Raises ValueError without an item, TypeError for items without a map type
    (`untyped`) and for another type (`unknown`).
    """
    if untyped or unknown:
        said = "items without a map type" if untyped else f"no map type or modifier is called {', '.join(unknown)}"
        raise TypeError(
            f"omp.map: {said}; write omp.map(tofrom=a) (to, from_, tofrom, alloc, release, delete; always=True, "
            "present=True, close=True, hold=True)"
        )
    if not always is present is close is hold is False:
        check_logical("omp.map", always=always, present=present, close=close, hold=hold)
    bits = int(ALWAYS * always | PRESENT * present | CLOSE * close | OMPX_HOLD * hold)
    clauses: list[Map] = []
    for kind, items in zip(KIND_BITS, (to, from_, tofrom, alloc, release, delete), strict=True):
        if items is not None and (listed := items_of(items)):
            clauses.append(Map(listed, kind, KIND_BITS[kind] | bits, mapper))
    if not clauses:
        raise ValueError("a map clause without list items")
    return clauses[0] if len(clauses) == 1 else Maps(tuple(clauses))


def to(*items: ListItem, present: bool = False, mapper: Any = None) -> Motion:
    """Make the clause of target update ``to([present:] items)``. mapper: used instead of that of the items' class."""
    return _motion("to", TO, items, present, mapper)


def from_(*items: ListItem, present: bool = False, mapper: Any = None) -> Motion:
    """Make the clause of target update ``from([present:] items)``. mapper: used instead of that of the items' class."""
    return _motion("from", FROM, items, present, mapper)


def _motion(kind: Literal["to", "from"], bits: int, items: Iterable[Any], present: bool, mapper: Any) -> Motion:
    check_logical(f"target update {kind}", present=present)
    if not (listed := _each(items)):
        raise ValueError(f"target update: a {kind} clause without list items")
    return Motion(listed, kind, bits | PRESENT * present, mapper)


def use_device_ptr(*arrays: HostArray | Sequence[HostArray]) -> UseDevice:
    """Make a `target data` clause: ``use_device_ptr(arrays)``. Raises TypeError for an object that is no array."""
    return UseDevice(_arrays("use_device_ptr", arrays), address=False)


def use_device_addr(*arrays: HostArray | Sequence[HostArray]) -> UseDevice:
    """Make a `target data` clause: ``use_device_addr(arrays)``. Raises TypeError for an object that is no array."""
    return UseDevice(_arrays("use_device_addr", arrays), address=True)


def _arrays(clause: str, items: Iterable[Any]) -> tuple[HostArray, ...]:
    arrays = _each(items)
    for array in arrays:
        if not isinstance(array, HostArray):
            raise TypeError(f"{clause} takes arrays of the program, not {array!r}")
    return arrays


def depend(
    *,
    in_: ListItem = None,
    out: ListItem = None,
    inout: ListItem = None,
    mutexinoutset: ListItem = None,
    inoutset: ListItem = None,
) -> Depend:
    """Make the dependences of a task: ``depend(in: …)``, ``depend(out: …)``, ``depend(inout: …)``.

    Tasks of one `mutexinoutset` run one at a time, in any order; tasks of one `inoutset` run as readers do.

    Items are compared by address, as in LLVM's runtime: that of an array, of a section's first element, of a pointer or
    an integer. A text is a name that equals only itself. Raises TypeError for other items, and without any.
    """
    lists = {"in_": in_, "out": out, "inout": inout, "mutexinoutset": mutexinoutset, "inoutset": inoutset}
    if all(items is None for items in lists.values()):
        raise TypeError("depend: a clause without list items; write omp.depend(out=a) (in_, out, inout, …)")
    found = {name: tuple([_address(name, item) for item in items_of(items)]) for name, items in lists.items()}
    return Depend(found["in_"], found["out"] + found["inout"], found["mutexinoutset"], found["inoutset"])


def _address(name: str, item: Any) -> Any:
    if isinstance(item, (HostArray, DevicePointer)):
        return item.address
    if not isinstance(item, (Section, int, np.integer, str)) or isinstance(item, bool):
        raise TypeError(f"depend: {name} takes arrays, sections, pointers, addresses and names, not {item!r:.80}")
    return item.begin if isinstance(item, Section) else item


def pointees(pointers: HostArray, shape: int | Sequence[int], dtype: Any, member: str = "", lower: int = 0) -> Pointees:
    """Make a kernel argument that follows the pointers in the mapped array `pointers`, each to an array of this shape.

    The pointers are device pointers, or host addresses where the device uses host memory in place. member: the member
    that holds the pointer, in an array of structs. lower: the first visible element behind each pointer.
    """
    lengths = (shape,) if isinstance(shape, int) else tuple(shape)
    return Pointees(pointers, lengths, np.dtype(dtype), member, lower)


def flatten(clauses: Iterable[Any]) -> tuple[Any, ...]:
    """Return the clauses one by one; a `Maps` is replaced by its clauses."""
    return tuple(one for clause in clauses for one in (clause.clauses if isinstance(clause, Maps) else (clause,)))


@attrs.frozen(eq=False)
class Member:
    """A member of a struct, ``s.n`` or ``s[i].n``: the host's bytes [begin, begin + nbytes)."""

    array: HostArray
    name: str
    begin: int
    nbytes: int


@attrs.frozen(eq=False)
class StructPointee:
    """A struct's member that is a pointer, and what it points to, `place`: a section of another array, ``s.p[0:4]``."""

    pointer: Member
    place: Span

    @property
    def array(self) -> HostArray:
        """Return the array that the section belongs to."""
        return array_of(self.place)


def member(struct: HostArray, name: str, index: int = 0) -> Member:
    """Return a member of a struct, or of element `index` of an array of structs; ``in.q`` names a nested member.

    Raises ValueError for a member that does not exist.
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


def pointee(struct: HostArray, name: str, place: Span, index: int = 0) -> StructPointee:
    """Return, as an item to map, the pointer ``s.name`` with what it points to: `place`, an array or a section.

    s: `struct`, or its element `index`. Raises ValueError for a member that is no pointer.
    """
    pointer = member(struct, name, index)
    if pointer.nbytes != POINTER_BYTES:
        raise ValueError(f"{struct.name}.{name} has {pointer.nbytes} bytes, but a pointer has {POINTER_BYTES}")
    return StructPointee(pointer, place)
