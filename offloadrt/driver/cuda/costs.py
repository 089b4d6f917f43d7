"""Host time of each call of CUDA's driver library when it waits for nobody, read from the profile."""

from __future__ import annotations

from typing import Annotated

import attrs


@attrs.frozen
class DriverCosts:
    """Seconds of host time of each call; sizes in bytes.

    Wide because it has one field for each entry of
    the profile that the library reads.
    """

    init: Annotated[float, "init.library"]
    init_device: Annotated[float, "init.device"]
    """Added for each device that the program sees."""
    create_context: Annotated[float, "init.context"]
    load_module: Annotated[float, "module.load"]
    load_kernel: Annotated[float, "module.kernel"]
    """The first use of a kernel of a module that is loaded lazily."""
    allocate: Annotated[float, "alloc.cudaMalloc_small"]
    """An allocation from memory that the driver holds already."""
    allocate_segment: Annotated[float, "alloc.cudaMalloc_large"]
    """An allocation for which the kernel driver has to hand out a segment."""
    further_segment: Annotated[float, "alloc.cudaMalloc_segment"]
    """Added for each further segment."""
    free: Annotated[float, "alloc.cudaFree"]
    free_segment: Annotated[float, "alloc.cudaFree_large"]
    """Added for a segment that goes back to the kernel driver."""
    free_further: Annotated[float, "alloc.cudaFree_segment"]
    """Added for each further segment that the same call gives back; 0: as much as for the first."""
    allocate_managed: Annotated[float, "alloc.cuMemAllocManaged"]
    """An allocation of managed memory, which gets addresses but no pages."""
    managed_alignment: Annotated[int, "alloc.managed_alignment"]
    """Addresses of managed allocations are multiples of this."""
    visit: Annotated[float, "driver.free_visits_streams"]
    """What a free pays to look at one stream of the context."""
    copy_submit: Annotated[float, "driver.copy_submit"]
    """The submission of a copy, under the context lock."""
    launch: Annotated[float, "driver.launch"]
    """The submission of a kernel, under the context lock; what the device adds is ``launch.latency``."""
    handover: Annotated[float, "driver.handover"]
    """What a thread that had to wait for the context lock pays when it has been woken, while it owns the lock."""
    stream_create: Annotated[float, "driver.stream_create"]
    stream_destroy: Annotated[float, "driver.stream_destroy"]
    stream_depth: Annotated[int, "driver.stream_depth"]
    """Commands that a stream can hold; a submission waits for one of them to complete."""
    event_record: Annotated[float, "driver.event_record"]
    event_wait: Annotated[float, "driver.event_wait"]
    wake: Annotated[float, "sync.latency"]
    """Time from a completion to the return of the call that waited for it."""
    synchronize_idle: Annotated[float, "driver.sync_idle"]
    """A call that waits for something which has completed already."""
    register: Annotated[float, "pin.register"]
    register_per_byte: Annotated[float, "pin.register_per_gib"]
    unregister: Annotated[float, "pin.unregister"]
    staging_chunk: Annotated[int, "staging.chunk"]
    """Bytes of one piece of a copy of pageable memory."""
    staging_buffers: Annotated[int, "staging.buffers"]
    """Pinned buffers of a chunk that each stream has for each direction."""
    staging_memory: Annotated[str, "staging.memory"]
    """Whose the pinned buffers are: each ``stream`` has some, or the ``context`` has some for all."""
    staging_inline: Annotated[int, "staging.inline"]
    """Bytes up to which a copy to the device travels with its command, and needs no buffer."""
    staging_copy_per_byte: Annotated[float, "staging.copy_per_gib"]
    """What a thread takes to copy to and from pinned buffers; 0: as long as it takes within the host."""
    copies_pageable: Annotated[bool, "ats.copies"]
    """Whether copy engines reach pageable memory themselves, through the page table of the host."""
    enable_peer_access: Annotated[float, "p2p.enable_access"]

    def give_back_s(self, segments: int) -> float:
        """Return the seconds that a call adds when it gives segments back to the kernel driver."""
        if segments > 1 and self.free_further:
            return self.free_segment + (segments - 1) * self.free_further
        return segments * self.free_segment
