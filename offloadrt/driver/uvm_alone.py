"""Blocks with faults that nobody can disturb are served in one step of the caller: seconds are added, not slept.

What is done to blocks, and what it costs, ``Uvm.serve`` and ``UvmBlocks`` say; here is nobody to wait for, or to tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from offloadrt.driver.uvm import Uvm

STEPS: Final = 8
"""Of time, at most, that the service of a block takes, or what a batch takes besides."""
_SLACK: Final = 1.001
"""For the rounding of a sum of seconds."""


class UvmAlone:
    """Serves blocks of one device, of which each unit cost is the same each time and no queue has to stop."""

    def __init__(self, uvm: Uvm) -> None:
        costs, slowness, nbytes = uvm.costs, uvm.machine.slowness, uvm.pages.block_size
        self._uvm = uvm
        self._sim = uvm.sim
        self.batch_s = costs.batch * slowness
        """Seconds of a batch besides its blocks."""
        link_s = uvm.h2d.alone_s(nbytes) + uvm.d2h.alone_s(nbytes)
        self._longest_s = _SLACK * (slowness * (costs.block + costs.first_touch + costs.evict) + link_s)

    def may_serve(self, faults: Mapping[int, int]) -> bool:
        """Whether nobody can act, or see anything, before a batch of faults is served, and none needs more than bytes.

        Each block may evict another.  No kernel runs, no page thrashes, and none has to stay on the host.
        """
        uvm, sim = self._uvm, self._sim
        if uvm.busy or uvm.kernels.running or uvm.without_room or sim.observer is not None:
            return False
        if not (uvm.h2d.is_free and uvm.d2h.is_free):
            return False
        if not uvm.pages.lru and not uvm.device.memory.has_room(uvm.pages.block_size):
            return False
        blocks, thrashing = uvm.pages.blocks, uvm.thrashing.thrashing
        for index in faults:
            block = blocks.get(index)
            if block is None or block.prefers_host or thrashing(index):
                return False
        due = sim.now + _SLACK * self.batch_s + len(faults) * self._longest_s
        return sim.is_alone_until(due, STEPS * (len(faults) + 1))

    def serve(self, faults: Mapping[int, int], after_s: float = 0.0) -> list[float]:
        """Serve faults on blocks, ascending, after some seconds, and let that time pass: the seconds that each took."""
        uvm, now = self._uvm, self._sim.now + after_s
        pages, h2d, d2h, costs, slowness = uvm.pages, uvm.h2d, uvm.d2h, uvm.costs, uvm.machine.slowness
        blocks, lru, take, size = pages.blocks, pages.lru, uvm.device.memory.take_managed, pages.block_size
        took, steps = list[float](), 1 if after_s else 0
        for index in sorted(faults):
            faulted, block, begin = faults[index], blocks[index], now
            wanted = faulted & ~(block.resident | block.remote)
            uvm.count_faults(block, faulted, wanted)
            if wanted:
                brought = uvm.brought_by(block, wanted)
                if index not in lru:
                    if not take(size):
                        victim = next(iter(lru.values()))
                        gone = uvm.begin_eviction(victim)
                        now += costs.evict * slowness
                        steps += 1
                        if gone:
                            now = d2h.transfer_alone(now, uvm.count_move("d2h", victim, gone))
                            steps += 2
                        uvm.map_remote_again(victim)
                        uvm.release(victim)
                        taken = take(size)
                        assert taken, "a block was evicted, and there is no room"
                    lru[index] = block
                now += uvm.cost_of(block, brought) * slowness
                steps += 1
                if moved := brought & block.populated:
                    now = h2d.transfer_alone(now, uvm.count_move("h2d", block, moved))
                    steps += 2
                uvm.arrive(block, brought, moved)
                uvm.has_served(block, moved, now)
            took.append(now - begin)
        passed = self._sim.pass_to(now, steps)
        assert passed, "somebody has disturbed a batch of faults"
        return took
