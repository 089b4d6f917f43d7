"""Eager Maps: zero-copy that needs no page faults, because each map fills the device's page table.

The prefault call follows the item's look-up, when the table is free again. Every item with bytes that the device uses
in place causes one call, at the begin of every construct, even for pages that have long been mapped.
"""

from __future__ import annotations

from typing import ClassVar

from offloadrt.machine import Machine
from offloadrt.runtime.configurations.implicit_zero_copy import ImplicitZeroCopy
from offloadrt.runtime.configurations.managed import prefaults
from offloadrt.runtime.configurations.usm import translates
from offloadrt.runtime.device import MapHooks, OffloadDevice


class EagerMaps(ImplicitZeroCopy):
    """Lets kernels use host memory in place, and prefaults (enters into the GPU's page table) what is mapped."""

    name: ClassVar[str] = "eager_maps"

    def supports(self, machine: Machine) -> None:
        spec = machine.spec
        if translates(spec) and spec.flag("gpu.unified_memory") and not spec.flag("machine.apu"):
            why = "its GPU uses the host's page table (ats.enabled), into which nothing is filled ahead; take 'usm'"
            raise self.unavailable(machine, why)
        super().supports(machine)

    def hooks(self, device: OffloadDevice) -> MapHooks:
        return prefaults(device)
