"""When the GPU is told to replay the accesses that faulted: the replay policies of nvidia-uvm, and how replays travel.

The policies are those of ``uvm_perf_fault_replay_policy`` (``uvm_gpu_replayable_faults.h`` and ``.c``).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

import attrs

from offloadrt.machine.messages import ReplayFaults
from offloadrt.sim import Mailbox, Signal, Simulation


@attrs.frozen
class ReplayPolicy:
    """When the page-fault handler sends a replay, and whether it flushes the fault buffer before."""

    after: Literal["block", "batch", "buffer"]
    """What has been served when a replay follows: a block's faults in a batch, a batch, or all that the buffer held."""
    flushes: bool = False
    """Whether entries that the batch left out are dropped; the handler then waits for the replay.

    Otherwise it goes on with these entries, which a replay has the GPU report a second time.
    """


REPLAY_POLICIES: Final[Mapping[str, ReplayPolicy]] = MappingProxyType(
    {
        "block": ReplayPolicy("block"),
        "batch": ReplayPolicy("batch"),
        "batch_flush": ReplayPolicy("batch", flushes=True),
        "once": ReplayPolicy("buffer"),
    }
)
"""By the names of ``UVM_PERF_FAULT_REPLAY_POLICY_*``; ``fault.replay_policy`` of the profile chooses one."""


class ReplayChannel:
    """The channel in which a replay follows the copies that were submitted for it, and the replay before it.

    The driver pushes a replay and goes on (``push_replay_on_gpu``, which acquires the tracker of the batch).
    """

    def __init__(self, sim: Simulation, compute: Mailbox) -> None:
        self._sim = sim
        self._compute = compute
        self._last: Signal | None = None

    def push(self, copies: list[Signal], replay: ReplayFaults) -> None:
        """Send ``replay`` when its copies and the replay before it have ended; a copy is given to one replay only."""
        waited_for = [signal for signal in copies if not signal.is_set]
        if (last := self._last) is not None and not last.is_set:
            waited_for.insert(0, last)
        if not waited_for:
            self._compute.put(replay)
            return
        self._last = done = Signal(self._sim, "a replay of faults")
        left = len(waited_for)

        def ended() -> None:
            nonlocal left
            left -= 1
            if not left:
                self._compute.put(replay)
                done.set()

        for signal in waited_for:
            signal.set_callback(ended)
