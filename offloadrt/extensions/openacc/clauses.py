"""Data clauses, written as calls: ``acc.copyin(a)``, ``acc.create(b, c)``, ``acc.host(d)``.

An item is a `HostArray` (all of it) or a section of one, ``acc.section(a, lower, length)``; a subarray of OpenACC has
no stride.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import attrs

from offloadrt.models.host.arrays import Section, Span, array_of, literal_item, map_item
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

DataKind = Literal["copy", "copyin", "copyout", "create", "present", "delete"]


@attrs.frozen(eq=False)
class DataClause:
    """One data clause and its list."""

    kind: DataKind
    items: tuple[Span, ...]


@attrs.frozen(eq=False)
class UpdateClause:
    """``host(…)`` (also called ``self``) or ``device(…)`` of ``update``."""

    kind: Literal["host", "device"]
    items: tuple[Span, ...]


def copy(*items: Span) -> DataClause:
    """Copy the data in at the begin of the region and out at its end, unless it is present."""
    return DataClause("copy", items)


def copyin(*items: Span) -> DataClause:
    """Copy the data in at the begin, unless it is present."""
    return DataClause("copyin", items)


def copyout(*items: Span) -> DataClause:
    """Copy the data out when the last reference goes."""
    return DataClause("copyout", items)


def create(*items: Span) -> DataClause:
    """Take device memory, and copy nothing."""
    return DataClause("create", items)


def present(*items: Span) -> DataClause:
    """Require the data to be on the device already; the directive raises `NotPresent` if it is not."""
    return DataClause("present", items)


def delete(*items: Span) -> DataClause:
    """Drop one dynamic reference, and copy nothing."""
    return DataClause("delete", items)


def host(*items: Span) -> UpdateClause:
    """Copy from the device to the host: ``update host``."""
    return UpdateClause("host", items)


def device(*items: Span) -> UpdateClause:
    """Copy from the host to the device: ``update device``."""
    return UpdateClause("device", items)


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
    seen: set[Span] = set()
    for clause in clauses:
        if not isinstance(clause, DataClause):
            raise ValueError(f"{construct} takes data clauses, not {clause!r}")
        if clause.kind not in _ALLOWED[construct]:
            raise ValueError(f"{clause.kind}(…) is not allowed on {construct}: only {', '.join(_ALLOWED[construct])}")
        for span in clause.items:
            _check(span, construct)
            if array_of(span) in seen:
                raise ValueError(f"array {array_of(span).name!r} stands in two data clauses of one {construct}")
            seen.add(array_of(span))
            items.append(map_item(span, _BITS[clause.kind] | bits))
    return items


def _check(span: Span, construct: str) -> None:
    if not isinstance(span, (HostArray, Section)):
        raise ValueError(f"{construct}: {span!r} is neither an array nor a section of one")
    if isinstance(span, Section) and span.stride != 1:
        raise ValueError(f"{construct}: {span} has a stride, which a subarray of OpenACC cannot have")


def lower_update(clauses: Sequence[UpdateClause], if_present: bool) -> list[MapItem]:
    """Lower `update` to its items. Without `if_present` the data has to be there."""
    items: list[MapItem] = []
    for clause in clauses:
        if not isinstance(clause, UpdateClause):
            raise ValueError(f"update takes host(…) and device(…), not {clause!r}")
        bits = (FROM if clause.kind == "host" else TO) | (0 if if_present else PRESENT)
        for span in clause.items:
            _check(span, "update")
            items.append(map_item(span, bits))
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
