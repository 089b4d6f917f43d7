"""Data clauses, written as calls: ``acc.copyin(a)``, ``acc.create(b, c)``, ``acc.host(d)``.

An item is a `HostArray` (all of it) or a section of one, ``acc.section(a, lower, length)``; a subarray of OpenACC has
no stride.
"""

from __future__ import annotations

from typing import Literal

import attrs

from offloadrt.models.host.section import Place

DataKind = Literal["copy", "copyin", "copyout", "create", "present", "delete"]


@attrs.frozen(eq=False)
class DataClause:
    """One data clause and its list."""

    kind: DataKind
    items: tuple[Place, ...]


@attrs.frozen(eq=False)
class UpdateClause:
    """``host(…)`` (also called ``self``) or ``device(…)`` of ``update``."""

    kind: Literal["host", "device"]
    items: tuple[Place, ...]


def copy(*items: Place) -> DataClause:
    """In at the begin of the region, out at its end, unless the data is present."""
    return DataClause("copy", items)


def copyin(*items: Place) -> DataClause:
    """In at the begin, unless the data is present."""
    return DataClause("copyin", items)


def copyout(*items: Place) -> DataClause:
    """Out when the last reference goes."""
    return DataClause("copyout", items)


def create(*items: Place) -> DataClause:
    """Device memory, and no copy."""
    return DataClause("create", items)


def present(*items: Place) -> DataClause:
    """The data is on the device already; `NotPresent` if it is not."""
    return DataClause("present", items)


def delete(*items: Place) -> DataClause:
    """One dynamic reference less, and no copy."""
    return DataClause("delete", items)


def host(*items: Place) -> UpdateClause:
    """``update host``: from the device to the host."""
    return UpdateClause("host", items)


def device(*items: Place) -> UpdateClause:
    """``update device``: from the host to the device."""
    return UpdateClause("device", items)
