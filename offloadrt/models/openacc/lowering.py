"""Lowers data clauses to the items that the runtime gets.

Structured references (those of a region) and dynamic ones (`enter data`, `exit data`) are two counts, and data stays
while either is positive (OpenACC 3.3, section 2.6.7). The runtime has both: the first is its hold count (`ompx_hold`,
which Clang's OpenACC translation uses so), the second its dynamic count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

from offloadrt.models.host.section import Place, Section, array_of, literal_item, map_item
from offloadrt.models.openacc.clauses import DataClause, UpdateClause
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.mapping.map_item import (
    ALLOC,
    DELETE,
    FROM,
    OMPX_HOLD,
    PRESENT,
    TARGET_PARAM,
    TO,
    MapItem,
    MapItems,
)

DataConstruct = Literal["data", "enter data", "exit data", "parallel", "kernels"]
Default = Literal["copy", "present", "none"]
"""What happens to an array that no clause names: as `copy`, or what the `default` clause says."""

_BITS: Final = {"copy": TO | FROM, "copyin": TO, "copyout": FROM, "create": ALLOC, "present": PRESENT, "delete": ALLOC}
_REGION: Final = ("copy", "copyin", "copyout", "create", "present")
_ALLOWED: Final[dict[DataConstruct, tuple[str, ...]]] = {
    "data": _REGION,
    "enter data": ("copyin", "create"),
    "exit data": ("copyout", "delete"),
    "parallel": _REGION,
    "kernels": _REGION,
}


def lower_data(clauses: Sequence[DataClause], construct: DataConstruct, finalize: bool = False) -> list[MapItem]:
    """Lower a data construct to its items, in the order of the clauses.

    finalize: `exit data` drops all dynamic references.

    ValueError for a clause that the construct does not take, an array that stands in two of them, or a stride.
    """
    bits = DELETE if finalize else OMPX_HOLD if construct in ("data", "parallel", "kernels") else 0
    items: list[MapItem] = []
    seen: set[Place] = set()
    for clause in clauses:
        if not isinstance(clause, DataClause):
            raise ValueError(f"{construct} takes data clauses, not {clause!r}")
        if clause.kind not in _ALLOWED[construct]:
            raise ValueError(f"{clause.kind}(…) is not allowed on {construct}: only {', '.join(_ALLOWED[construct])}")
        for place in clause.items:
            _check(place, construct)
            if array_of(place) in seen:
                raise ValueError(f"array {array_of(place).name!r} stands in two data clauses of one {construct}")
            seen.add(array_of(place))
            items.append(map_item(place, _BITS[clause.kind] | bits))
    return items


def _check(place: Place, construct: str) -> None:
    if not isinstance(place, (HostArray, Section)):
        raise ValueError(f"{construct}: {place!r} is neither an array nor a section of one")
    if isinstance(place, Section) and place.stride != 1:
        raise ValueError(f"{construct}: {place} has a stride, which a subarray of OpenACC cannot have")


def lower_update(clauses: Sequence[UpdateClause], if_present: bool) -> list[MapItem]:
    """Lower `update` to its items. Without `if_present` the data has to be there."""
    items: list[MapItem] = []
    for clause in clauses:
        if not isinstance(clause, UpdateClause):
            raise ValueError(f"update takes host(…) and device(…), not {clause!r}")
        bits = (FROM if clause.kind == "host" else TO) | (0 if if_present else PRESENT)
        for place in clause.items:
            _check(place, "update")
            items.append(map_item(place, bits))
    return items


def lower_compute(
    construct: DataConstruct, clauses: Sequence[DataClause], arguments: Sequence[Any], default: Default
) -> MapItems:
    """Lower a compute construct: the kernel's arguments in their order, then what only a clause names.

    ValueError as for `lower_data`, and for an array that `default(none)` leaves without a clause.
    """
    named = {item.array: item for item in lower_data(clauses, construct)}
    items: list[MapItem] = []
    captured: dict[HostArray, None] = {}
    for argument in arguments:
        if isinstance(argument, HostArray):
            if argument in captured:
                continue
            captured[argument] = None
            item = named.get(argument) or _implicit(argument, default, construct)
            items.append(MapItem(item.array, item.base, item.begin, item.size, item.type | TARGET_PARAM))
        else:
            items.append(literal_item(argument))
    items.extend(item for array, item in named.items() if array not in captured)
    return MapItems(items)


def _implicit(array: HostArray, default: Default, construct: str) -> MapItem:
    if default == "none":
        raise ValueError(f"array {array.name!r} is used in {construct} with default(none), but no clause names it")
    return map_item(array, OMPX_HOLD | (PRESENT if default == "present" else TO | FROM))
