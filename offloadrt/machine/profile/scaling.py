"""How an entry that was measured on another machine is scaled by the part of a machine that it depends on.

`PARTS` names that part for each entry (the core, the host's memory, the link, the GPU's clock), and the reference entry
in which each machine states the part's speed. The rule is proportionality: a time that a core needs grows by the
factor by which the core's single-thread points are fewer. `ScaledPart.rule` is the factor within which the proportion
is trusted; it widens the entry's range to both sides. Nothing here was fitted to a result.

Entries that belong to no part are not costs: sizes, counts, policies, and what the source of a driver says.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import attrs
import msgspec

from offloadrt.machine.profile.entry import ProfileEntry

SINGLE_THREAD = "cpu.single_thread"
"""The reference entry for the speed of one thread of a machine's host, in points of a public benchmark."""


class Host(msgspec.Struct, frozen=True):
    """A machine on which entries were measured, and which has no profile; only speeds of its parts are known."""

    what: str
    """The name of the machine, and the source of that information."""
    parts: Mapping[str, tuple[float, float]] = msgspec.field(default_factory=dict)
    """Ranges of the known or estimated reference entries, in SI units (points, seconds, bytes/s)."""


@attrs.frozen
class ScaledPart:
    """A part of a machine, and the profile entries that depend on it."""

    name: str
    reference: str
    """The entry that states the part's speed."""
    rule: float
    """The factor within which the proportion holds; an estimate."""
    keys: tuple[str, ...]
    """The entries' keys; a last `*` stands for any end."""
    is_proportional: bool = True
    """Whether the entries change with the reference; if not, another part only widens their ranges."""


PARTS = (
    # What one thread attains of the memory does not follow its points: 5 to 6 GB/s with 1900, 7 with 2700, 9 with 2000.
    ScaledPart(
        "one thread's copies", SINGLE_THREAD, 1.5,
        (
            "host.memcpy_1t", "host.clear_1t", "cpu.stream_1t", "staging.copy_per_gib", "mpi.copy_bw", "mpi.reduce_bw",
            "shm.copy_bw", "shm.single_copy_bw",
        ),
        is_proportional=False,
    ),
    ScaledPart("the host's memory", "cpu.mem_peak", 1.3, ("host.memcpy_max", "cpu.stream_max")),
    ScaledPart("the GPU's memory", "mem.bw_peak", 1.15, ("mem.bw",)),
    ScaledPart(
        "the link", "link.rate", 1.1, ("link.h2d_pinned", "link.d2h_pinned", "link.h2d_pageable", "remote.access_bw")
    ),
    ScaledPart("the sockets' link", "numa.link_rate", 1.5, ("numa.socket_bw", "pcie.socket_bw")),
    ScaledPart(
        "the GPU's clock", "gpu.cycle", 1.2,
        (
            "launch.*", "graph.gap", "gpu.team_dispatch", "atomic.*", "fault.arrival", "mem.latency", "sm.bandwidth",
            "process.context_switch", "usm.global_indirection",
        ),
    ),
    # What crosses the link takes as long on each generation of it, within what measurements of a few machines differ.
    # A replay is made of writes over it: the buffer's get pointer, an entry of a channel, and the channel's put pointer
    # (write_get, push_replay_on_parent_gpu and uvm_channel_end_push of nvidia-uvm).
    ScaledPart(
        "the way to the device", "link.rate", 1.3,
        (
            "sync.latency", "copy.latency", "link.latency", "fault.look", "fault.replay", "p2p.raw_latency",
            "p2p.staged_latency", "dma.latency", "dma.occupancy", "remote.latency", "remote.partial_write",
        ),
        is_proportional=False,
    ),
    # Kernel and driver code waits for memory and changes privilege more often than a benchmark's code does.
    ScaledPart(
        "the core", SINGLE_THREAD, 1.2,
        (
            "alloc.*", "free.*", "driver.*", "init.*", "module.*", "pin.*", "hip.*", "mempool.*", "graph.*",
            "stream.event_create", "stream.host_function", "stream.interrupt", "fault.*", "block.*", "evict.*",
            "prefault.*", "prefetch_async.*", "advise.*", "numa.peer_map", "numa.peer_unmap", "ats.*",
            "access_counter.*", "usm.malloc_host", "host.malloc", "host.page_fault", "cpu.fork_join",
            "cpu.first_touch_*",
            "cpu.fp64_core", "p2p.enable_access", "hsa.*", "signal.*", "dma.submit", "dma.ring_create", "table.*",
            "runtime.*", "memory_manager.*", "gpu_memory_manager.*", "otm.decision", "stdpar.*", "vendor.*",
            "sycl.*", "jit.*", "mpi.send", "mpi.receive", "mpi.test", "mpi.rendezvous", "mpi.block", "shm.*",
        ),
    ),
)  # fmt: skip
_COSTS = ("time", "time / data")
_RATES = ("data / time", "work / time")


@functools.cache
def part_of(key: str) -> ScaledPart | None:
    """Return the part of a machine that an entry depends on; None if it depends on none and is never scaled."""
    named = ((part, name.removesuffix("*"), name.endswith("*")) for part in PARTS for name in part.keys)
    return next((part for part, name, begins in named if (key.startswith(name) if begins else key == name)), None)


def is_scalable(entry: ProfileEntry) -> bool:
    """Tell whether the entry is a time or a rate other than 0 that depends on a part of the machine."""
    if part_of(entry.key) is None or entry.unit is None or not entry.value:
        return False
    return entry.unit.dimension in (*_COSTS, *_RATES)


def ends(entry: ProfileEntry) -> tuple[float, float]:
    """Return the ends of an entry's range; for an entry without a range, its value twice."""
    assert isinstance(entry.value, float)
    return (entry.value, entry.value) if entry.low is None or entry.high is None else (entry.low, entry.high)


def scaled(entry: ProfileEntry, origin: str, there: tuple[float, float], here: tuple[float, float]) -> ProfileEntry:
    """Return an entry of the machine ``origin`` as it is expected here.

    ``there`` and ``here`` are the ranges of the part's reference entry on the two machines; a larger value is faster,
    except for ``gpu.cycle``.
    """
    part = part_of(entry.key)
    assert part is not None and entry.unit is not None
    low, high = 1.0, 1.0
    if part.is_proportional:
        low, high = here[0] / there[1], here[1] / there[0]
        if (part.reference == "gpu.cycle") != (entry.unit.dimension in _COSTS):
            low, high = 1 / high, 1 / low
    reason = f"of {origin}, times {low / part.rule:.3g} to {high * part.rule:.3g} by {part.reference}"
    return entry.scaled((low / part.rule, high * part.rule), origin, reason)
