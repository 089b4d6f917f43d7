"""The fault buffer of a device: the ring in which the GPU reports missing pages, and which the driver empties.

All kernels share it.  A message stands for the entries that one kernel left at one time.
"""

from __future__ import annotations

from offloadrt.machine.injection import Injector
from offloadrt.machine.messages import ManagedFault
from offloadrt.sim import Mailbox, Simulation


class FaultBuffer:
    """Holds at most ``size`` entries; ``mailbox`` is that of the page-fault handler, which gets the first from it."""

    def __init__(self, sim: Simulation, name: str, size: int) -> None:
        self.mailbox = Mailbox(sim, name)
        self._size = size
        self._entries = 0
        self.injector: Injector | None = None

    def put(self, fault: ManagedFault) -> None:
        """Leave a kernel's entries, as many as there is room for; the next replay makes it report the rest again."""
        room = self._size - self._entries
        if fault.entries > room:
            fault = fault.head(room)
        if fault.entries:
            self._entries += fault.entries
            name = self.mailbox.name
            if self.injector is not None and self.injector.strike("interrupt", name, f"an interrupt of {name} is lost"):
                self.mailbox.leave(fault)
            else:
                self.mailbox.put(fault)

    def took(self, message: object) -> ManagedFault:
        """Note that the handler has got a message.  Raises TypeError for one that is not of faults."""
        if not isinstance(message, ManagedFault):
            raise TypeError(f"the page-fault handler does not understand {message!r}")
        self._entries -= message.entries
        return message

    def take_all(self) -> list[ManagedFault]:
        """Take what is in the buffer at this moment, in the order in which it came."""
        items = self.mailbox.items
        return [self.took(items.popleft()) for _ in range(len(items))] if items else []
