"""The processes that run one program, as `mpiexec -n 4 ./program` starts them: `Process` is given to the main function.

Each process has its own runtime: an `OffloadProgram` with its device tables, on its own view of the machine, with its
own driver library, contexts and address space. Processes contend for the machine's parts and the kernel driver, and
exchange messages, which a library of the group ``offloadrt.message_passing`` carries.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from offloadrt.models.host.arguments import started
from offloadrt.models.host.program import OffloadProgram
from offloadrt.registry import Registry

MESSAGE_PASSING: Final = Registry[Any]("message-passing library", "offloadrt.message_passing")
"""The registry of message-passing libraries: functions of all processes that return each rank's MPI_COMM_WORLD."""

R = TypeVar("R")


class Process:
    """One process of a program, with its rank among all processes. Any thread of the process may use its `world`."""

    def __init__(self, program: OffloadProgram[Any], everybody: Sequence[Process]) -> None:
        self.program = program
        self.rank = program.machine.process
        self._everybody = everybody
        self._world: Any = None
        self.most_threads = 1
        """Number of host threads of the largest team so far."""
        self._in_teams = 0.0

    def __repr__(self) -> str:
        return f"<process {self.rank} of {self.size}>"

    @property
    def size(self) -> int:
        """Return how many processes run the program (the size of MPI_COMM_WORLD)."""
        return len(self._everybody)

    @property
    def node(self) -> int:
        """Return the number of the node that the process runs on."""
        return self.program.machine.node

    @property
    def world(self) -> Any:
        """Return this process's MPI_COMM_WORLD, which an entry point of `offloadrt.message_passing` makes.

        Raises NotInstalled if there is no such entry point, ProfileError when the machine's profile lacks costs of
        messages.
        """
        if self._world is None:
            for process, world in zip(self._everybody, MESSAGE_PASSING.load("mpi")(self._everybody), strict=True):
                process._world = world
        return self._world

    def message_statistics(self) -> Mapping[str, Any]:
        """Return the statistics of the MPI library by name; empty if no process has used its `world`."""
        found: Mapping[str, Any] = {} if self._world is None else self._world.statistics()
        return found

    async def parallel(self, body: Callable[[Any], Awaitable[R]], num_threads: int = 1) -> list[R]:
        """Run `num_threads` host threads of this process, each `await body(t)`; return their results in order."""
        since = self.program.sim.now
        self.most_threads = max(self.most_threads, num_threads)
        results = await self.program.parallel(body, num_threads=num_threads)
        self._in_teams += self.program.sim.now - since
        return results

    async def run(self, main: Callable[[Process], Awaitable[R]]) -> R:
        """Run `await main(process)`, wait for work that the threads left running, and return the main's result."""
        sim, host_time = self.program.sim, self.program.machine.host_time
        since = sim.now
        result = await started("mpiexec's main", main, self)
        await self.program.end_tasks()
        host_time.lived(sim.now - since - self._in_teams)
        return result


def processes_of(programs: Sequence[OffloadProgram[Any]]) -> list[Process]:
    """Make the processes of a run, one for each `OffloadProgram`, in order of rank."""
    everybody: list[Process] = []
    everybody += [Process(program, everybody) for program in programs]
    return everybody


async def mpiexec(processes: Sequence[Process], main: Callable[[Process], Awaitable[R]]) -> list[R]:
    """Run `await main(process)` in all processes at the same time; return their results by rank."""
    results: dict[int, R] = {}

    async def one(process: Process) -> None:
        results[process.rank] = await process.run(main)

    async with processes[0].program.sim.open_nursery() as nursery:
        for process in processes:
            nursery.spawn(one, process, name=f"rank {process.rank}")
    return [results[process.rank] for process in processes]
