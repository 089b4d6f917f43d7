"""Blocks with faults that nobody can disturb are served in one step of the caller: seconds are added, not slept.

It comes to the same as ``Uvm.serve`` and ``UvmBlocks.fetch`` with nobody to wait for and nobody to tell.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from offloadrt.machine.managed_pages import LOCAL, UNMAPPED
from offloadrt.machine.tree_prefetch import with_prefetched

if TYPE_CHECKING:
    from offloadrt.driver.uvm import Uvm


def is_undisturbed(uvm: Uvm, blocks: int, steps: int) -> bool:
    """Whether nobody else can act before faults on so many blocks are served, in so many steps of time.

    Each may evict another.  No kernel runs, no queue has to stop, and nobody draws or observes.
    """
    sim, costs, nbytes, slowness = uvm.sim, uvm.costs, uvm.pages.block_size, uvm.machine.slowness
    if uvm.busy or uvm.kernels.running or uvm.draws or costs.restore or uvm.without_room or sim.observer is not None:
        return False
    longest = slowness * (costs.block + costs.first_touch + costs.evict)
    longest += uvm.h2d.due_alone(0.0, nbytes) + uvm.d2h.due_alone(0.0, nbytes)
    due = sim.now + 1.001 * (slowness * costs.batch + blocks * longest)
    return due < math.inf and sim.is_alone_until(due, steps)


def serve_alone(uvm: Uvm, faults: Mapping[int, int]) -> dict[int, float]:
    """Serve faults on blocks, ascending, when it ``is_undisturbed``; returns the seconds that each block took.

    Ends before the first block with advice or pages that thrash, and the first for which no room can be made at once.
    """
    pages, costs, counters, h2d, d2h, thrashing = uvm.pages, uvm.costs, uvm.counters, uvm.h2d, uvm.d2h, uvm.thrashing
    blocks, lru, per_block, slowness = pages.blocks, pages.lru, pages.per_block, uvm.machine.slowness
    memory, took, now, steps = uvm.device.memory, dict[int, float](), uvm.sim.now, 0
    for index in sorted(faults):
        faulted, block, begin = faults[index], blocks.get(index), now
        if block is None or block.prefers_host or thrashing.thrashing(index):
            break
        resident = block.resident
        there = resident | block.remote
        if wanted := faulted & ~there:
            block.valid |= wanted
            brought, cost = wanted, costs.block
            if costs.prefetch_tree:
                brought = with_prefetched(resident, wanted, block.valid, per_block, costs.threshold) & ~there
            if host_mapped := block.host_mapped & brought:
                cost += costs.first_touch * (host_mapped.bit_count() / per_block)
            if not resident and not memory.take_managed(pages.block_size):
                victim = next(iter(lru.values()), None)
                if victim is None or victim.accessed_by:
                    break
                gone = victim.resident
                del lru[victim.index]  # its device memory is the block's
                pages.set_state(victim, gone, UNMAPPED)
                counters.evictions += 1
                now = d2h.transfer_alone(now + costs.evict * slowness, uvm.count_move("d2h", victim, gone))
                steps += 3
            now += cost * slowness
            steps += 1
            if moved := brought & block.populated:
                now = h2d.transfer_alone(now, uvm.count_move("h2d", block, moved))
                steps += 2
                block.host_mapped &= ~moved
                thrashing.migrated(index, moved, "device", now)
            if moved != brought:
                counters.first_on_gpu += (brought ^ moved).bit_count()
            pages.set_state(block, brought, LOCAL)
            lru[index] = block
            lru.move_to_end(index)  # its last fault is now
        uvm.count_faults(block, faulted, wanted)
        took[index] = now - begin
    if steps:
        passed = uvm.sim.pass_to(now, steps)
        assert passed, "somebody has disturbed a batch of faults"
    return took
