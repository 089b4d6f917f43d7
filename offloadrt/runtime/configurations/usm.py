"""Unified shared memory (`requires unified_shared_memory`, -fopenmp-force-usm): a map is no storage operation.

`close` nevertheless makes a device copy. This configuration works on an APU, and on a device that uses the host's page
table (`ats.enabled`, machine `gh200`). For other devices the cost of host memory in place is not emulated, so that such
a device refuses it (`OffloadDevice`).
"""

from __future__ import annotations

from typing import ClassVar, Final

from offloadrt.machine import Machine, MachineSpec
from offloadrt.runtime.device import HostAccess, MapRequest, MemoryConfiguration, Placement

UNREACHABLE: Final = "its GPU cannot use host memory (gpu.unified_memory is false), which the program requires"


class UnifiedSharedMemory(MemoryConfiguration):
    """Lets the device use host memory in place: maps make no table entry and no copy; the modifier `present` fails."""

    name: ClassVar[str] = "usm"
    host_access: ClassVar[HostAccess] = HostAccess.IN_PLACE

    def place(self, request: MapRequest) -> Placement:
        return Placement.DEVICE_COPY if request.close else Placement.HOST_POINTER

    def place_global(self) -> Placement:
        return Placement.HOST_POINTER

    def supports(self, machine: Machine) -> None:
        spec = machine.spec
        if not spec.flag("gpu.unified_memory"):
            raise self.unavailable(machine, UNREACHABLE)
        if spec.flag("machine.apu"):
            return
        if not translates(spec):
            why = (
                "only the kernels of an APU are emulated in memory of the host (machine.apu is false); take 'managed', "
            )
            raise self.unavailable(machine, why + "under which pages migrate, or 'copy'")
        if (devices := len(machine.devices)) > 1:
            why = f"memory of the host in place is emulated with one device, and the run has {devices}"
            raise self.unavailable(machine, why)


def translates(spec: MachineSpec) -> bool:
    """Tell whether a machine's devices translate addresses by the host's page table (ATS)."""
    return "ats.enabled" in spec.entries and spec.flag("ats.enabled")
