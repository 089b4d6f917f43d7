"""Costs of the kernel driver of an APU when it waits for nobody, read from the profile."""

from __future__ import annotations

import attrs

from offloadrt.machine import MachineSpec


@attrs.frozen
class KfdCosts:
    """Seconds; costs of pages are those of the page size in use."""

    allocate: float
    """A call of the kernel for memory of the pool."""
    allocate_per_byte: float
    """Added for each byte: clearing, and filling the GPU's page table."""
    allocate_fragment: float
    """An allocation from memory that the library holds already."""
    allocate_host: float
    """A call of the kernel for memory of the host's pool, which is mapped for all GPUs."""
    allocate_host_per_byte: float
    """Added for each byte: pages that are taken, cleared and mapped."""
    free: float
    """A call of the kernel that gives memory of the pool back."""
    free_per_byte: float
    """Added for each byte: unmapping and flushing translations."""
    free_fragment: float
    """A free of a block that goes back to memory which the library keeps."""
    prefault: float
    """The part of a prefault call that is outside of the process lock and the mmap lock."""
    prefault_locked: float
    """The part under the locks that does not depend on the range."""
    prefault_insert: float
    """Added for each page that is new to the GPU."""
    prefault_populate: float
    """Added for each page that the host has not touched yet."""
    fault_service: float
    """The service of one fault of a kernel, which maps a range of ``fault.range``."""
    fault_populate: float
    """Added for each page that the host has not touched yet."""
    host_fault: float
    """The first touch of a page by the host."""

    @classmethod
    def of(cls, spec: MachineSpec, page_size: int) -> KfdCosts:
        """Return the costs of a machine whose pages have ``page_size`` bytes.

        Raises ProfileError when the profile lacks an entry.
        """
        size = "2m" if page_size == int(spec.value("page.size_thp")) else "4k"
        return cls(
            allocate=spec.value("alloc.pool_base"),
            allocate_per_byte=spec.value("alloc.pool_per_gib"),
            allocate_fragment=spec.value("alloc.pool_fragment"),
            allocate_host=spec.value("alloc.host_pool"),
            allocate_host_per_byte=spec.value("alloc.host_pinned_per_gib"),
            free=spec.value("free.pool_base"),
            free_per_byte=spec.value("free.pool_per_gib"),
            free_fragment=spec.value("free.pool_fragment"),
            prefault=spec.value("prefault.call"),
            prefault_locked=spec.value("prefault.locked"),
            prefault_insert=spec.value(f"prefault.insert_{size}"),
            prefault_populate=spec.value(f"prefault.populate_{size}"),
            fault_service=spec.value("fault.service_2m"),
            fault_populate=spec.value(f"fault.populate_{size}"),
            host_fault=spec.value(f"fault.cpu_{size}"),
        )
