"""Managed memory: every array of the program migrates, page by page, to the processor that accesses it.

A map is no storage operation, as with cuMemAllocManaged and `requires unified_shared_memory`.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import ClassVar

from offloadrt.machine import Machine
from offloadrt.runtime.configurations.usm import UNREACHABLE
from offloadrt.runtime.device import HostAccess, MapHooks, MapRequest, MemoryConfiguration, OffloadDevice, Placement
from offloadrt.runtime.mapping.map_item import DirectiveQueue, MapItem


class Managed(MemoryConfiguration):
    """Keeps arrays in managed memory: maps do nothing, and page faults of the device and the host migrate pages."""

    name: ClassVar[str] = "managed"
    host_access: ClassVar[HostAccess] = HostAccess.MIGRATES

    def place(self, request: MapRequest) -> Placement:
        return Placement.HOST_POINTER

    def place_global(self) -> Placement:
        return Placement.HOST_POINTER

    def supports(self, machine: Machine) -> None:
        if not machine.spec.flag("gpu.unified_memory"):
            raise self.unavailable(machine, UNREACHABLE)
        if why := why_nothing_migrates(machine):
            raise self.unavailable(machine, f"{why}; take 'usm' or 'copy'")


class ManagedPrefetch(Managed):
    """Keeps arrays in managed memory; each map prefetches to the device (cuMemPrefetchAsync), and the thread waits."""

    name: ClassVar[str] = "managed+prefetch"

    def hooks(self, device: OffloadDevice) -> MapHooks:
        return prefaults(device)


def prefaults(device: OffloadDevice) -> MapHooks:
    """Return hooks that let each map prefault memory that is used in place (enter it into the device's page table)."""

    def prefault(item: MapItem, queue: DirectiveQueue) -> Awaitable[object]:
        return device.plugin.prefault(item.begin, item.size)

    return MapHooks(in_place=prefault)


def why_nothing_migrates(machine: Machine) -> str:
    """Return the reason why a machine's devices cannot have managed memory; an empty text if they can."""
    spec = machine.spec
    if not spec.flag("gpu.unified_memory"):
        return "its GPU cannot use host memory (gpu.unified_memory is false)"
    if spec.flag("machine.apu"):
        return "CPU and GPU share one memory, in which nothing migrates (machine.apu is true)"
    return ""
