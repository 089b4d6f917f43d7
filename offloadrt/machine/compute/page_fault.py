"""Statistics of kernels' page faults on an APU, and the error when a kernel may not fault."""

from __future__ import annotations

import attrs


@attrs.frozen
class AccessFault:
    """A kernel reached a page that the GPU cannot translate and may not fault in (XNACK is off)."""

    address: int
    """The first byte of host memory without translation that the kernel met."""
    kernel: int
    """Number of its launch in the run."""
    name: str
    device: int
    cause: int
    """The directive that launched it."""
    time: float
    """When it happened, in virtual seconds."""

    def __str__(self) -> str:
        return (
            f"Memory access fault by GPU node-{self.device + 1} on address {self.address:#x}. "
            "Reason: Page not present or supervisor privilege."
        )


class MemoryAccessFault(Exception):
    """The end of a program by an ``AccessFault``; the message names ``array`` and ``thread`` where they are known."""

    def __init__(self, fault: AccessFault, array: str = "", thread: str = "") -> None:
        super().__init__(fault, array, thread)
        self.fault, self.array, self.thread = fault, array, thread

    def __str__(self) -> str:
        of = f" of array {self.array!r}" if self.array else ""
        by = f", launched by {self.thread}," if self.thread else ""
        fault = self.fault
        return f"{fault} (kernel {fault.name!r}{by} touched it{of} at {fault.time:.9f} s; XNACK is off)"


@attrs.frozen
class FaultStatistics:
    """Page faults of the kernels of one device; virtual seconds.  busy_s + idle_s is the time elapsed."""

    faults: int
    """Served: each mapped at least one page."""
    duplicates: int
    """Raised for pages that somebody else had mapped when the handler came to it."""
    pages: int
    """Pages that they mapped."""
    service_s: float
    """Time that their services took up to now."""
    wait_s: float
    """Time that kernels were stalled besides, until it was their turn."""
    violations: int
    """Kernels that died because XNACK is off."""
    idle_s: float

    @property
    def busy_s(self) -> float:
        """Return ``service_s`` under the name that all statistics of a machine have."""
        return self.service_s
