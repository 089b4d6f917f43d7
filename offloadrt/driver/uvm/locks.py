"""The locks of a device's managed memory: one for the whole address space, one for each block."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from offloadrt.machine.managed.block import ManagedBlock
from offloadrt.sim import PASSED, RWLock, Signal, Simulation


class UvmLocks:
    """The space lock and the block locks, in the order in which they are taken.

    Whoever works on a block holds the space lock for reading; advice, which changes the rules, holds it for writing
    (``va_space->lock`` of nvidia-uvm).  A block is worked on by one at a time (``va_block->lock``).  Without
    ``contends`` the space lock excludes nobody (an ablation).
    """

    def __init__(self, sim: Simulation, name: str, *, contends: bool) -> None:
        self.space = RWLock(sim, name)
        self.read: Callable[[], Awaitable[None]] = self.space.acquire_read if contends else _pass
        """Take the space lock for reading; ``release`` gives it back.  Await it at once."""
        self.write: Callable[[], Awaitable[None]] = self.space.acquire_write if contends else _pass
        """Take the space lock for writing; ``release`` gives it back.  Await it at once."""
        self.release: Callable[[], object] = self.space.release if contends else _pass
        """Give the space lock back."""
        self._sim = sim
        self._taken: dict[int, Signal | None] = {}
        """Blocks that somebody works on, and what tells those who wait; None while nobody does."""

    def take(self, block: ManagedBlock) -> Awaitable[None]:
        """Become the one who works on a block; ``give`` ends it.  Await it at once."""
        if block.index in self._taken:
            return self._wait_for(block)
        self._taken[block.index] = None
        return PASSED

    async def _wait_for(self, block: ManagedBlock) -> None:
        while block.index in self._taken:
            signal = self._taken[block.index]
            if signal is None:
                signal = self._taken[block.index] = Signal(self._sim, f"block {block.index:#x}")
            await signal.wait()
        self._taken[block.index] = None

    def give(self, block: ManagedBlock) -> None:
        """Let somebody else work on a block."""
        if (signal := self._taken.pop(block.index)) is not None:
            signal.set()

    def is_taken(self, block: ManagedBlock) -> bool:
        """Tell whether somebody works on a block."""
        return block.index in self._taken


def _pass() -> Awaitable[None]:
    return PASSED
