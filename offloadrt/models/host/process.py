"""The processes that run one program, as `mpiexec -n 4 ./program` starts them: `Process` is given to the main function.

Each has a runtime of its own: an `OffloadProgram` with its device tables, on its own view of the machine, with a driver
library, contexts and an address space of its own. They meet at the machine's cores and memories, on the devices, in the
kernel driver, and in messages (`communicator.py`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from offloadrt.models.host.communicator import Communicator, MessageCosts
from offloadrt.models.host.program import OffloadProgram
from offloadrt.models.host.section import Place

R = TypeVar("R")


class Process:
    """One process of a program, with its rank among all of them.

    Its calls are those of MPI's communicator of all processes, without requests: any thread of the process may make
    them. They need no device.
    """

    def __init__(self, program: OffloadProgram[Any], communicator: Communicator) -> None:
        self.program = program
        self.rank = program.machine.process
        self.size = communicator.size
        self._communicator = communicator
        self.most_threads = 1
        """Host threads of the largest team so far."""
        self._in_teams = 0.0

    def __repr__(self) -> str:
        return f"<process {self.rank} of {self.size}>"

    async def parallel(self, body: Callable[[Any], Awaitable[R]], num_threads: int = 1) -> list[R]:
        """Run a team of this process's host threads, each `await body(t)`; return their results by thread number."""
        since = self.program.sim.now
        self.most_threads = max(self.most_threads, num_threads)
        results = await self.program.parallel(body, num_threads=num_threads)
        self._in_teams += self.program.sim.now - since
        return results

    def barrier(self) -> Awaitable[None]:
        """Wait until all processes have called it (MPI_Barrier)."""
        return self._communicator.barrier(self.rank)

    def send(self, place: Place, destination: int, tag: int = 0) -> Awaitable[None]:
        """Send an array, or a section of one, to another rank (MPI_Send).

        It returns when the array may be written again: at once for a short message, else when it has been received.
        Raises MessageError for a rank that there is not.
        """
        return self._communicator.send(place, self.rank, destination, tag)

    def recv(self, place: Place, source: int, tag: int = 0) -> Awaitable[None]:
        """Receive an array, or a section of one, from another rank (MPI_Recv), in the order in which it sends.

        Raises MessageError for a rank that there is not, and for a message that is longer than the place.
        """
        return self._communicator.receive(place, source, self.rank, tag)

    async def sendrecv(self, sent: Place, destination: int, received: Place, source: int, tag: int = 0) -> None:
        """Send and receive at one time (MPI_Sendrecv). Raises MessageError as both do."""
        async with self.program.sim.open_nursery() as nursery:
            nursery.spawn(self.send, sent, destination, tag, name=f"rank {self.rank} sends to rank {destination}")
            await self.recv(received, source, tag)

    async def run(self, main: Callable[[Process], Awaitable[R]]) -> R:
        """Run the process's main function, then end what its threads left running."""
        sim, host_time = self.program.sim, self.program.machine.host_time
        since = sim.now
        result = await main(self)
        await self.program.end_tasks()
        host_time.lived(sim.now - since - self._in_teams)
        return result


def processes_of(programs: Sequence[OffloadProgram[Any]]) -> list[Process]:
    """Return the processes that run a program, whose runtimes these are, by rank.

    Raises ProfileError when there are several and the machine's profile lacks what their messages cost.
    """
    machine = programs[0].machine
    costs = machine.spec.read(MessageCosts) if len(programs) > 1 else None
    communicator = Communicator(machine, len(programs), costs)
    return [Process(program, communicator) for program in programs]


async def mpiexec(processes: Sequence[Process], main: Callable[[Process], Awaitable[R]]) -> list[R]:
    """Run `await main(process)` in all processes at one time; return what they return, by rank."""
    results: dict[int, R] = {}

    async def one(process: Process) -> None:
        results[process.rank] = await process.run(main)

    async with processes[0].program.sim.open_nursery() as nursery:
        for process in processes:
            nursery.spawn(one, process, name=f"rank {process.rank}")
    return [results[process.rank] for process in processes]
