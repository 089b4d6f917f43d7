"""Managed memory: every array of the program migrates, page by page, to whoever touches it.

As if the program allocated with cuMemAllocManaged and required unified shared memory: a map is no storage operation.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import ClassVar

from offloadrt.machine import Machine
from offloadrt.runtime.configurations.usm import UNREACHABLE
from offloadrt.runtime.device import (
    HostAccess,
    MapHooks,
    MapRequest,
    MemoryConfiguration,
    OffloadDevice,
    Placement,
)
from offloadrt.runtime.mapping.map_item import DirectiveQueue, MapItem


class Managed(MemoryConfiguration):
    """Maps do nothing; pages migrate by faults of the device and of the host."""

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
    """The same, and each map of host memory is a cuMemPrefetchAsync to the device, for which it waits."""

    name: ClassVar[str] = "managed+prefetch"

    def hooks(self, device: OffloadDevice) -> MapHooks:
        return prefaults(device)


def prefaults(device: OffloadDevice) -> MapHooks:
    """Have each map of memory in place fill the device's page table for it, or, where pages migrate, fetch them."""

    def prefault(item: MapItem, queue: DirectiveQueue) -> Awaitable[object]:
        return device.plugin.prefault(item.begin, item.size)

    return MapHooks(in_place=prefault)


def why_nothing_migrates(machine: Machine) -> str:
    """Say why a machine's devices cannot have managed memory; empty when they can."""
    spec = machine.spec
    if not spec.flag("gpu.unified_memory"):
        return "its GPU cannot use host memory (gpu.unified_memory is false)"
    if spec.flag("machine.apu"):
        return "CPU and GPU share one memory, in which nothing migrates (machine.apu is true)"
    return ""
