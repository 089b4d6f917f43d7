"""What the kernel driver of an APU costs when it waits for nobody, from the profile."""

from __future__ import annotations

import attrs

from offloadrt.machine import MachineSpec


@attrs.frozen
class KfdCosts:
    """Seconds; per page where pages have a size."""

    allocate: float
    """A call of the kernel for memory of the pool."""
    allocate_per_byte: float
    allocate_fragment: float
    """From memory that the library holds already."""
    free: float
    free_per_byte: float
    free_fragment: float
    prefault: float
    """A prefault call, outside the mmap lock."""
    prefault_locked: float
    """Under it, however large the range."""
    prefault_insert: float
    """For a page that is new to the GPU."""
    prefault_populate: float
    """For a page that the host has not touched yet."""
    fault_service: float
    """One fault of a kernel: a range of ``fault.range``."""
    fault_populate: float
    """On top, for a page that the host has not touched yet."""
    host_fault: float
    """First touch of a page by the host."""

    @classmethod
    def of(cls, spec: MachineSpec, page_size: int) -> KfdCosts:
        """The costs of a machine whose pages have that size.  Raises ProfileError."""
        size = "2m" if page_size == int(spec.value("page.size_thp")) else "4k"
        return cls(
            allocate=spec.value("alloc.pool_base"),
            allocate_per_byte=spec.value("alloc.pool_per_gib"),
            allocate_fragment=spec.value("alloc.pool_fragment"),
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
