"""The interface between the runtime and one device (`DevicePlugin`), and LLVM's rule for open teams and threads.

The plugins are in `cuda.py` for CUDA's driver library and in `amdgpu.py` for ROCr.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, Self

import attrs

from offloadrt.driver import Driver, Schedule, Touching
from offloadrt.kernels import Launch
from offloadrt.machine import MachineSpec
from offloadrt.runtime.host_array import HostSpan
from offloadrt.sim import LockStatistics, Signal


@attrs.frozen
class GridDefaults:
    """The teams and threads that a plugin gives a region that leaves its teams or its threads open."""

    teams: int
    """The most teams of a loop; where they have fewer threads than it has iterations, threads take several."""
    threads: int
    """Threads of a team."""
    least_threads: int
    """Down to so many threads a team, a loop with few iterations gets more teams instead of larger ones."""
    reuses: bool = True
    """Whether ``teams`` is the most; otherwise a loop has as many teams as give each iteration a thread."""

    @classmethod
    def of(cls, spec: MachineSpec, teams: int, threads: int) -> Self:
        """Return those of a plugin, as the runtime is set."""
        return cls(teams, threads, spec.count("teams.least_threads"), spec.flag("teams.reuse"))

    def over_threads(self, iterations: int, threads: int | None) -> tuple[int, int]:
        """Return the teams of a loop whose iterations all threads share, and the threads of each.

        threads: of a team, where the program says how many

        >>> GridDefaults(3200, 128, 32).over_threads(1 << 20, None), GridDefaults(3200, 128, 32).over_threads(128, None)
        ((3200, 128), (4, 32))
        """
        per_team = self.threads if threads is None else threads
        if threads is None and iterations < self.teams * per_team:
            least = min(self.least_threads, per_team)
            if iterations >= self.teams * least:
                each = -(-iterations // self.teams)
                least = 1 << (each - 1).bit_length()
            per_team = min(per_team, least)
        return self.over_teams(-(-iterations // per_team)), per_team

    def over_teams(self, iterations: int) -> int:
        """Return the teams of a loop of which each team takes whole iterations."""
        return min(max(1, iterations), self.teams if self.reuses else sys.maxsize)


class QueueLike(Protocol):
    """The part of a directive's queue that the plugin uses."""

    stream: Any
    cause: int
    copy: Signal | None
    lasts: bool


class DevicePlugin(Protocol):
    """One device as the runtime sees it; plugins inherit what most of them do alike.

    `queue` arguments are `DirectiveQueue`s, which get their stream here at first use; device memory is told by its
    addresses. What a call wants may still be going on when it returns; `synchronize` waits for it.
    """

    driver: Driver
    kernels_fault: bool
    """Whether kernels reach host memory through a page table of the device; launches then say what they touch."""
    kernels_die: bool
    """Whether a kernel dies that meets a page without translation (XNACK off)."""
    global_indirection: float
    """Seconds that a kernel takes longer which reaches a global of the host through a pointer."""
    grid: GridDefaults
    """The rule for a region that leaves its teams or its threads open."""
    illegal_access: str
    """The driver's message when a kernel reaches memory that the device does not have."""
    shared_streams: bool
    """Whether several host threads may put work into one stream at the same time."""
    image_pending: bool
    """Whether the first thread that reaches the device has to load the program."""

    def start(self) -> None:
        """Spawn the actors below. Called by a running actor, once."""
        self.driver.start()

    def locks(self) -> dict[str, LockStatistics]: ...
    def in_use(self) -> dict[str, int]:
        """Return how many of its streams, and what else it pools, are not in the pool, by what they are."""

    def set_schedule(self, schedule: Schedule, /) -> None:
        """Say how threads wait for a CUDA device from now on; other devices have ways of their own."""
        return

    async def load_image(self, cause: int, /) -> None:
        """Load the program on the device, when `image_pending`; done by the first thread that reaches it."""
        self.image_pending = False
        await self.load_program()

    def load_program(self) -> Awaitable[None]:
        """Start the driver library and load the program, as `runtime.start` says; `load_image` does it, too."""

    async def find_kernel(self, name: str, /) -> None:
        """Load a kernel before its first launch, where that is loaded lazily; `launch_kernel` does it, too."""
        return

    async def unload(self) -> None:
        """Give back what the plugin has of the device, at the end of the program; unloading an image costs no time."""
        return

    def submit_data(self, queue: QueueLike, device_address: int, source: HostSpan, /) -> Awaitable[None]:
        """Copy to the device; returns when the host may go on."""

    def retrieve_data(self, queue: QueueLike, destination: HostSpan, device_address: int, /) -> Awaitable[None]: ...
    def exchanges_with(self, device: int, /) -> bool:
        """Tell whether `exchange_data` can copy to another device."""

    def reach(self, device: int, /) -> Awaitable[None]:
        """Enable access to another device's memory, which the first `exchange_data` to it does otherwise."""

    def exchange_data(
        self, queue: QueueLike, destination: int, source: int, nbytes: int, /, device: int | None = None
    ) -> Awaitable[None]:
        """Copy within the device, or from it to the memory of `device`."""

    def launch_kernel(
        self, queue: QueueLike, launch: Launch, run: Callable[[], None] | None, touching: Touching, arguments: int, /
    ) -> Awaitable[None]:
        """Launch a kernel with so many arguments; `run` computes its result at its end, None for phantoms."""

    def open(self, queue: QueueLike, /) -> Awaitable[object]:
        """Give the queue a stream before its first use."""

    def record_event(self, queue: QueueLike, /) -> Awaitable[Any]:
        """Put a mark behind everything in the queue."""

    def needs_wait(self, event: Any, /) -> bool:
        """Tell whether `wait_event` has anything to do."""

    def is_complete(self, event: Any, /) -> bool:
        """Tell whether everything before the mark has completed; asking costs nothing."""

    def wait_event(self, queue: QueueLike, event: Any, /) -> Awaitable[None]:
        """Make the queue's stream wait; the host does not."""

    def synchronize(self, queue: QueueLike, /) -> Awaitable[None]:
        """Wait for everything in the queue, then give its stream back unless the queue lasts.

        There is nothing to do for a queue without one.
        """

    def prefault(self, address: int, nbytes: int, /) -> Awaitable[object]:
        """Fill the device's page table for a range of host memory."""

    def host_touch(self, address: int, nbytes: int, writes: bool = True, /) -> Awaitable[object]:
        """Touch host memory in the calling thread.

        Pages that nobody has touched are populated, those that a device owns come back.
        """

    def prefetch(self, queue: QueueLike, address: int, nbytes: int, to_host: bool, /) -> Awaitable[None]:
        """Have managed memory migrate, in the order of the queue."""
