"""What the calls of the driver library cost when they wait for nobody, from the profile."""

from __future__ import annotations

import attrs

from offloadrt.machine import MachineSpec


@attrs.frozen
class DriverCosts:
    """Seconds of host time of each call, alone; sizes in bytes."""

    allocate: float
    """From memory that the driver holds already."""
    allocate_segment: float
    """For each segment that has to come from the kernel driver."""
    free: float
    free_segment: float
    """On top, for each segment that goes back."""
    visit: float
    """For a free to look at one stream of the context."""
    copy_submit: float
    launch: float
    handover: float
    """For a thread that has been woken with the context lock, while it owns it."""
    stream_create: float
    stream_destroy: float
    event_record: float
    event_wait: float
    wake: float
    """From a completion to the return of the call that waited for it."""
    synchronize_idle: float
    register: float
    register_per_byte: float
    unregister: float
    segment: int
    staging_chunk: int
    staging_bytes: int
    """Of pinned staging memory that each stream has for each direction."""

    @classmethod
    def of(cls, spec: MachineSpec) -> DriverCosts:
        """The costs that a profile states.  Raises ProfileError."""
        return cls(
            allocate=spec.value("alloc.cudaMalloc_small"),
            allocate_segment=spec.value("alloc.cudaMalloc_large"),
            free=spec.value("alloc.cudaFree"),
            free_segment=spec.value("alloc.cudaFree_large"),
            visit=spec.value("driver.free_visits_streams"),
            copy_submit=spec.value("driver.copy_submit"),
            launch=spec.value("driver.launch"),
            handover=spec.value("driver.handover"),
            stream_create=spec.value("driver.stream_create"),
            stream_destroy=spec.value("driver.stream_destroy"),
            event_record=spec.value("driver.event_record"),
            event_wait=spec.value("driver.event_wait"),
            wake=spec.value("sync.latency"),
            synchronize_idle=spec.value("driver.sync_idle"),
            register=spec.value("pin.register"),
            register_per_byte=spec.value("pin.register_per_gib"),
            unregister=spec.value("pin.unregister"),
            segment=int(spec.value("alloc.segment")),
            staging_chunk=int(spec.value("staging.chunk")),
            staging_bytes=int(spec.value("staging.chunk")) * spec.count("staging.buffers"),
        )
