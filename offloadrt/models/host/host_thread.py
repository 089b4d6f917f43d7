"""A host thread of an offloading program, whatever model it is written in: its arrays, its own work, its team."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from offloadrt.models.host.barrier import Barrier
from offloadrt.models.host.host_places import Arena
from offloadrt.models.host.program import OffloadProgram
from offloadrt.models.host.section import Place, array_of, extent
from offloadrt.runtime.events import Awaited, HostUsed, Signalled
from offloadrt.runtime.host_array import HostArray, Kind
from offloadrt.trace import doing


class ProgramThread(ABC):
    """Given to the body of a host thread as ``t``."""

    def __init__(
        self, program: OffloadProgram[Any], number: int, num_threads: int, barrier: Barrier, heap: Arena, stack: Arena
    ) -> None:
        self.program = program
        self.sim = program.sim
        self.number = number
        self.num_threads = num_threads
        self._barrier = barrier
        self._heap = heap
        self._stack = stack

    def __repr__(self) -> str:
        return f"<host thread {self.number}>"

    @property
    def name(self) -> str:
        return self.sim.current.name

    # data of the program

    def array(
        self,
        name: str,
        shape: int | tuple[int, ...],
        dtype: DTypeLike = np.float64,
        fill: Any = None,
        phantom: bool | None = None,
        kind: Kind = "static",
        align: int = 16,
    ) -> HostArray:
        """Make an array in host memory: a C array of this thread, or a pointer to allocated memory (``kind="heap"``).

        The difference is OpenMP's: an array that no clause names is mapped tofrom as a whole, of a pointer only what is
        mapped already is found; and a section of a pointer is attached, which costs two more searches of the table.

        fill: a number, or values to copy; zeros without, in pages that nobody has touched yet. phantom: a size without
        values; by default what the program says.
        """
        return self.program.arrays.make(name, shape, dtype, fill, phantom, kind, align, self._heap, self._stack)

    def pointer(self, array: HostArray) -> HostArray:
        """Return the pointer variable of a heap array, itself as an array of one address.

        Raises ValueError for a C array, which has none.

        Mapped together with a section of the array, the device's pointer is attached to the device's section.
        """
        if not array.pointer_address:
            raise ValueError(f"array {array.name!r} is no pointer: make it with kind='heap'")
        return array.pointer_variable

    def free(self, array: HostArray) -> Awaitable[object] | None:
        """Give the memory of a heap array back to the heap of the thread that allocated it.

        Raises InvalidFree for another array, or the second time.
        """
        self.program.arrays.free(array)
        return None

    def mbind(self, array: HostArray, socket: int) -> None:
        """Let an array lie in the memory of a socket (Linux's mbind, or numactl --membind), from now on.

        Without it memory lies at the socket of each device. Devices at another socket, and what stages memory for
        them, reach it over the link between the sockets (``numa.socket_bw``); kernels that use it in place do not pass
        that link here. It takes no time. Raises FreedHostMemory, ValueError for a socket that there is not, and
        ProfileError on a machine whose sockets are not described (``pcie.sockets``).
        """
        self.program.devices[0].check_alive(array, "mbind")
        self.program.machine.sockets.bind(array.address, array.nbytes, socket)

    def first_touch(self, array: HostArray) -> Awaitable[object]:
        """Write to all pages of an array that was made without `fill`.

        On an APU, the pages that nobody has touched are populated now, which takes its time, instead of when a kernel
        or a copy comes to them. Raises FreedHostMemory.
        """
        self.program.devices[0].check_alive(array, "first_touch")
        if (observer := self.program.observer) is not None:
            observer.handle(HostUsed(array, array.address, array.nbytes, True))
        return self.program.devices[0].plugin.host_touch(array.address, array.nbytes)

    def host_access(self, place: Place, writes: bool | None = None) -> Awaitable[object]:
        """Read or write all of an array, or of a section, on the host; `writes` says which, for `offloadrt check`.

        For managed memory with the advice `read_mostly` a read (`writes=False`) leaves the devices their copies.

        Managed memory that the device owns comes back by page faults; other memory takes no time here. What the thread
        computes with it is not included. Raises FreedHostMemory.
        """
        begin, nbytes = extent(place, "host_access")
        array = array_of(place)
        self.program.devices[0].check_alive(array, "host_access")
        if (observer := self.program.observer) is not None and (array.phantom or writes is not None):
            observer.handle(HostUsed(array, begin, nbytes, writes))
        return self.program.devices[0].plugin.host_touch(begin, nbytes, writes is not False)

    # what a thread does besides

    async def compute(self, seconds: float) -> None:
        """Occupy a core for so long."""
        with self.doing("compute"):
            await self.program.machine.cores.compute(seconds)

    def doing(self, activity: str) -> AbstractContextManager[None]:
        """Name, for a picture of the run, what the thread does in the body of ``with``."""
        return doing(self.program.trace, self.sim.current, activity)

    async def sleep(self, seconds: float) -> None:
        await self.sim.sleep(seconds)

    async def barrier(self) -> None:
        """Wait for all threads of the team."""
        since, observer, gate = self.sim.now, self.program.observer, self._barrier.gate
        if observer is not None:
            observer.handle(Signalled(gate))
        with self.doing("barrier"):
            await self._barrier.wait(self.number)
        if observer is not None:
            observer.handle(Awaited(gate))
        self.program.machine.host_time.add("threads", self.sim.now - since)

    @abstractmethod
    async def leave_team(self) -> None:
        """End the thread's part of the team's region: wait for what it left running, where the model says so."""
