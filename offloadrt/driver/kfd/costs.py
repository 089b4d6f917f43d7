"""Costs of the kernel driver of an APU when it waits for nobody, read from the profile."""

from __future__ import annotations

from typing import Annotated

import attrs

from offloadrt.machine import MachineSpec


@attrs.frozen
class KfdCosts:
    """Seconds; costs of pages are those of the page size in use."""

    allocate: Annotated[float, "alloc.pool_base"]
    """A call of the kernel for memory of the pool."""
    allocate_per_byte: Annotated[float, "alloc.pool_per_gib"]
    """Added for each byte: clearing, and filling the GPU's page table."""
    allocate_fragment: Annotated[float, "alloc.pool_fragment"]
    """An allocation from memory that the library holds already."""
    allocate_host: Annotated[float, "alloc.host_pool"]
    """A call of the kernel for memory of the host's pool, which is mapped for all GPUs."""
    allocate_host_per_byte: Annotated[float, "alloc.host_pinned_per_gib"]
    """Added for each byte: pages that are taken, cleared and mapped."""
    free: Annotated[float, "free.pool_base"]
    """A call of the kernel that gives memory of the pool back."""
    free_per_byte: Annotated[float, "free.pool_per_gib"]
    """Added for each byte: unmapping and flushing translations."""
    free_fragment: Annotated[float, "free.pool_fragment"]
    """A free of a block that goes back to memory which the library keeps."""
    prefault: Annotated[float, "prefault.call"]
    """The part of a prefault call that is outside of the process lock and the mmap lock."""
    prefault_locked: Annotated[float, "prefault.locked"]
    """The part under the locks that does not depend on the range."""
    prefault_insert: Annotated[float, "prefault.insert_{page}"]
    """Added for each page that is new to the GPU."""
    prefault_populate: Annotated[float, "prefault.populate_{page}"]
    """Added for each page that the host has not touched yet."""
    fault_service: Annotated[float, "fault.service_2m"]
    """The service of one fault of a kernel, which maps a range of ``fault.range``."""
    fault_populate: Annotated[float, "fault.populate_{page}"]
    """Added for each page that the host has not touched yet."""
    host_fault: Annotated[float, "fault.cpu_{page}"]
    """The first touch of a page by the host."""

    @classmethod
    def of(cls, spec: MachineSpec, page_size: int) -> KfdCosts:
        """Return the costs of a machine whose pages have ``page_size`` bytes.

        Raises ProfileError when the profile lacks an entry.
        """
        page = "2m" if page_size == int(spec.value("page.size_thp")) else "4k"
        return spec.read(cls, page=page)
