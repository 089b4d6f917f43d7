"""What the calls of the driver library cost when they wait for nobody, from the profile."""

from __future__ import annotations

from typing import Annotated

import attrs


@attrs.frozen
class DriverCosts:
    """Seconds of host time of each call, alone; sizes in bytes."""

    allocate: Annotated[float, "alloc.cudaMalloc_small"]
    """From memory that the driver holds already."""
    allocate_segment: Annotated[float, "alloc.cudaMalloc_large"]
    """When a segment has to come from the kernel driver."""
    further_segment: Annotated[float, "alloc.cudaMalloc_segment"]
    """On top, for each further segment that comes with it."""
    free: Annotated[float, "alloc.cudaFree"]
    free_segment: Annotated[float, "alloc.cudaFree_large"]
    """On top, for each segment that goes back."""
    allocate_managed: Annotated[float, "alloc.cuMemAllocManaged"]
    """Of managed memory, which is addresses only: no pages."""
    managed_alignment: Annotated[int, "alloc.managed_alignment"]
    """Addresses of managed allocations are multiples of this."""
    visit: Annotated[float, "driver.free_visits_streams"]
    """For a free to look at one stream of the context."""
    copy_submit: Annotated[float, "driver.copy_submit"]
    launch: Annotated[float, "driver.launch"]
    handover: Annotated[float, "driver.handover"]
    """For a thread that has been woken with the context lock, while it owns it."""
    stream_create: Annotated[float, "driver.stream_create"]
    stream_destroy: Annotated[float, "driver.stream_destroy"]
    stream_depth: Annotated[int, "driver.stream_depth"]
    """Commands that a stream holds until they have completed."""
    event_record: Annotated[float, "driver.event_record"]
    event_wait: Annotated[float, "driver.event_wait"]
    wake: Annotated[float, "sync.latency"]
    """From a completion to the return of the call that waited for it."""
    synchronize_idle: Annotated[float, "driver.sync_idle"]
    register: Annotated[float, "pin.register"]
    register_per_byte: Annotated[float, "pin.register_per_gib"]
    unregister: Annotated[float, "pin.unregister"]
    staging_chunk: Annotated[int, "staging.chunk"]
    staging_buffers: Annotated[int, "staging.buffers"]
    """Pinned pieces of staging memory that each stream has for each direction."""
    enable_peer_access: Annotated[float, "p2p.enable_access"]
