"""The works of directives that do nothing but map, unmap or update data, whatever model they are written in."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from offloadrt.models.host.directive import Work
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.directive_queue import DirectiveQueue
from offloadrt.runtime.mapping.data_environment import target_data_begin, target_data_end, target_data_update
from offloadrt.runtime.mapping.map_item import MapItem


def beginning(items: Sequence[MapItem], call: str) -> Work:
    """Return the work of a directive that begins the mapping of these items."""

    def begin(where: OffloadDevice, queue: DirectiveQueue) -> Awaitable[object]:
        return target_data_begin(where, items, queue, call)

    return begin


def ending(items: Sequence[MapItem], call: str) -> Work:
    """Return the work of a directive that ends the mapping of these items."""

    def end(where: OffloadDevice, queue: DirectiveQueue) -> Awaitable[object]:
        return target_data_end(where, items, queue, call)

    return end


def updating(items: Sequence[MapItem], call: str, specification: bool = False) -> Work:
    """Return the work of a directive that moves the data of these items; specification: as `target_data_update`."""

    def update(where: OffloadDevice, queue: DirectiveQueue) -> Awaitable[object]:
        return target_data_update(where, items, queue, call, specification)

    return update
