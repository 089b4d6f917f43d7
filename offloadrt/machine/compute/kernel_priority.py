"""Which of the kernels that wait for places on the SMs comes first: that of the stream with the greatest priority.

As in CUDA, priorities matter to teams that wait.  Nothing that runs is stopped, and a kernel that has begun and lacks
places gets those that become free before any other kernel.
"""

from __future__ import annotations

from collections import deque

from offloadrt.machine.messages import KernelPacket


def goes_before(packet: KernelPacket, other: KernelPacket) -> bool:
    """Tell whether a kernel that has come later gets places before another."""
    return packet.stream.priority < other.stream.priority


def put_by_priority(waiting: deque[KernelPacket], packet: KernelPacket) -> None:
    """Queue a kernel behind those of its priority and before those of lesser ones."""
    place = len(waiting)
    while place and goes_before(packet, waiting[place - 1]):
        place -= 1
    waiting.insert(place, packet)
