"""Whether a program can have managed memory of its own (`cuMemAllocManaged`)."""

from __future__ import annotations

from offloadrt.machine import Machine
from offloadrt.runtime.device import why_nothing_migrates
from offloadrt.runtime.errors import UnifiedMemoryUnavailable


def check_managed_memory(machine: Machine, what: str) -> None:
    """Raise UnifiedMemoryUnavailable, naming `what` asks for managed memory, where the machine has none."""
    if why := why_nothing_migrates(machine):
        raise UnifiedMemoryUnavailable(f"managed memory for {what} on {machine.spec.name}: {why}")
