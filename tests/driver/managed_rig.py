"""Kernels that sweep over managed memory, small devices, and what holds for all of it after any run."""

from __future__ import annotations

from offloadrt.kernels import Kernel
from offloadrt.machine.managed.pages import LOCAL, REMOTE, UNMAPPED

PAGE, BLOCK = 64 << 10, 2 << 20
SWEEP = Kernel("sweep", bytes_per_iteration=16.0)


def sweep(nbytes):
    """A launch with an iteration for every 8 bytes."""
    return SWEEP.launch(max(1, nbytes // 1024), 128, nbytes // 8)


def small(blocks):
    """Overrides for a device with so many blocks of free memory."""
    return {"mem.size": f"{blocks * BLOCK} B", "mem.reserved": 0}


def resident_pages(pages):
    """Count the pages that lie in the GPU's memory."""
    return sum(block.resident.bit_count() for block in pages.blocks.values())


def assert_sound(rig):
    """Masks and the byte table say the same; one owner a page; capacity; bytes both ways add up."""
    pages, memory, counters = rig.uvm.pages, rig.machine.devices[0].memory, rig.counters
    for block in pages.blocks.values():
        assert not block.resident & block.remote and not block.resident & ~block.populated
        assert not block.resident & block.on_host
        assert bool(block.resident) == (block.index in pages.chunks)
        for bit in range(pages.per_block):
            page = block.index * pages.per_block + bit
            state = LOCAL if block.resident >> bit & 1 else REMOTE if block.remote >> bit & 1 else UNMAPPED
            assert pages.translations.how_many(state, page, page + 1) == 1
    assert memory.managed == len(pages.chunks) * BLOCK <= memory.capacity - memory.used
    arrived = counters.bytes_htod + counters.first_on_gpu * PAGE
    assert arrived - counters.bytes_dtoh == resident_pages(pages) * PAGE
    moved = rig.machine.devices[0].bytes_moved()
    assert (moved["h2d"], moved["d2h"]) == (counters.bytes_htod, counters.bytes_dtoh)
