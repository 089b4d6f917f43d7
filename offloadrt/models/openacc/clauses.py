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
    """Copy the data in at the begin of the region and out at its end, unless it is present."""
    return DataClause("copy", items)


def copyin(*items: Place) -> DataClause:
    """Copy the data in at the begin, unless it is present."""
    return DataClause("copyin", items)


def copyout(*items: Place) -> DataClause:
    """Copy the data out when the last reference goes."""
    return DataClause("copyout", items)


def create(*items: Place) -> DataClause:
    """Take device memory, and copy nothing."""
    return DataClause("create", items)


def present(*items: Place) -> DataClause:
    """Require the data to be on the device already; the directive raises `NotPresent` if it is not."""
    return DataClause("present", items)


def delete(*items: Place) -> DataClause:
    """Drop one dynamic reference, and copy nothing."""
    return DataClause("delete", items)


def host(*items: Place) -> UpdateClause:
    """Copy from the device to the host: ``update host``."""
    return UpdateClause("host", items)


def device(*items: Place) -> UpdateClause:
    """Copy from the host to the device: ``update device``."""
    return UpdateClause("device", items)
