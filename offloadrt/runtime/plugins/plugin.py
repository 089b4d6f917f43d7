"""The interface between the runtime and one device (`DevicePlugin`), and LLVM's rule for open teams and threads.

The plugins are in `cuda.py` for CUDA's driver library and in `amdgpu.py` for ROCr.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable
from typing import Any, Protocol, Self

import attrs

from offloadrt.driver import Driver, KernelAccesses, Schedule
from offloadrt.kernels import Launch
from offloadrt.machine import MachineSpec
from offloadrt.machine.messages import Move
from offloadrt.runtime.host_array import HostSpan
from offloadrt.sim import LockStatistics, Signal


@attrs.frozen
class GridDefaults:
    """The numbers of teams and threads that a plugin chooses for a region whose clauses do not set them."""

    teams: int
    """Largest number of teams of a loop; where the loop has more iterations than threads, a thread takes several."""
    threads: int
    """Number of threads in a team."""
    least_threads: int
    """Smallest number of threads in a team: a loop with few iterations gets more teams of at least this size."""
    reuses: bool = True
    """Whether ``teams`` is a limit; otherwise a loop has enough teams to give each iteration a thread."""

    @classmethod
    def of(cls, spec: MachineSpec, teams: int, threads: int) -> Self:
        """Return the defaults with a plugin's `teams` and `threads`; the other fields are from the profile `spec`."""
        return cls(teams, threads, spec.count("teams.least_threads"), spec.flag("teams.reuse"))

    def over_threads(self, iterations: int, threads: int | None) -> tuple[int, int]:
        """Return the number of teams for a loop whose iterations all threads share, and the threads in each team.

        threads: the number of threads in a team, if the program sets it

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
        """Return the number of teams for a loop whose iterations are each done by one whole team."""
        return min(max(1, iterations), self.teams if self.reuses else sys.maxsize)


class QueueLike(Protocol):
    """The fields of a directive's queue that the plugin uses; `DirectiveQueue` explains them."""

    stream: Any
    cause: int
    copy: Signal | None
    lasts: bool


class DevicePlugin(Protocol):
    """One device as the runtime sees it, as LLVM's `GenericDeviceTy`; methods with a body are the default for plugins.

    `queue` arguments are `DirectiveQueue`s, which get a stream at their first use here. Device memory is given by its
    addresses. Most calls only submit work: it may be in progress when they return, and `synchronize` waits for it.
    """

    driver: Driver
    kernels_fault: bool
    """Whether kernels access host memory by a page table of the device, so that launches must list their accesses."""
    kernels_die: bool
    """Whether a page without a translation kills the kernel that meets it (XNACK off)."""
    global_indirection: float
    """Seconds that a kernel takes longer if it reaches a global in host memory through a pointer."""
    grid: GridDefaults
    """The rule for a region that leaves its teams or its threads open."""
    illegal_access: str
    """The driver's message for a kernel's access to memory that the device does not have."""
    shared_streams: bool
    """Whether several host threads may put work into one stream at the same time."""
    image_pending: bool
    """Whether the program is not loaded yet, so that the first thread that uses the device has to load it."""

    def start(self) -> None:
        """Spawn the actors (simulated tasks) of driver and hardware. Called once, by a running actor."""
        self.driver.start()

    def locks(self) -> dict[str, LockStatistics]: ...
    def in_use(self) -> dict[str, int]:
        """Return the number of streams and other pooled resources in use, by kind."""

    def set_schedule(self, schedule: Schedule, /) -> None:
        """Set how threads wait for a CUDA device from now on; do nothing for other devices."""
        return

    async def load_image(self, cause: int, /) -> None:
        """Load the program, if `image_pending`, for directive `cause`; the first thread that comes here does it."""
        self.image_pending = False
        await self.load_program()

    def load_program(self) -> Awaitable[None]:
        """Start the driver library and load the program, unless they are there at the start (entry `runtime.start`)."""

    async def find_kernel(self, name: str, /) -> None:
        """Load a lazily loaded kernel before its first launch; `launch_kernel` does this, too."""
        return

    async def unload(self) -> None:
        """Free the plugin's own device memory, at the end of the program; unloading an image costs no time."""
        return

    def submit_data(self, queue: QueueLike, device_address: int, source: HostSpan, /) -> Awaitable[None]:
        """Submit a copy of host `source` to `device_address`; it may still be in progress when the call returns."""

    def retrieve_data(self, queue: QueueLike, destination: HostSpan, device_address: int, /) -> Awaitable[None]: ...
    def exchanges_with(self, device: int, /) -> bool:
        """Tell whether `exchange_data` can copy to another device."""

    def reach(self, device: int, /) -> Awaitable[None]:
        """Enable access to another device's memory; otherwise the first `exchange_data` to that device does so."""

    def exchange_data(
        self, queue: QueueLike, destination: int, source: int, nbytes: int, /, device: int | None = None
    ) -> Awaitable[None]:
        """Copy from address `source` to `destination`, within the device or to another one, number `device`."""

    def launch_kernel(
        self, queue: QueueLike, launch: Launch, run: Move | None, touching: KernelAccesses, arguments: int, /
    ) -> Awaitable[None]:
        """Submit a kernel. run: computes its result; touching: host memory it uses; arguments: how many it has."""

    def open(self, queue: QueueLike, /) -> Awaitable[object]:
        """Give the queue a stream before its first use."""

    def record_event(self, queue: QueueLike, /) -> Awaitable[Any]:
        """Record an event behind everything that is in the queue's stream now, and return the event."""

    def needs_wait(self, event: Any, /) -> bool:
        """Tell whether `wait_event` has anything to wait for."""

    def is_complete(self, event: Any, /) -> bool:
        """Tell whether everything before the event has completed; this takes no virtual time."""

    def wait_event(self, queue: QueueLike, event: Any, /) -> Awaitable[None]:
        """Make the queue's stream wait for the event; the host does not wait."""

    def synchronize(self, queue: QueueLike, /) -> Awaitable[None]:
        """Wait for the queue's work, then return its stream to the pool, unless an `AsyncQueue` has it (`lasts`)."""

    def prefault(self, address: int, nbytes: int, /) -> Awaitable[object]:
        """Fill the device's page table for a range of host memory, so that kernels do not fault there."""

    def host_touch(self, address: int, nbytes: int, writes: bool = True, /) -> Awaitable[object]:
        """Read host memory, or write it if `writes`, in the calling thread.

        Pages without memory are populated, and managed pages that a device owns migrate back.
        """

    def prefetch(self, queue: QueueLike, address: int, nbytes: int, to_host: bool, /) -> Awaitable[None]:
        """Migrate managed memory to the device, or to the host, in the order of the queue."""
