"""Kernels over managed memory, as the compute units run them: how far each gets, and the faults that it raises.

A kernel has at most as many faults at a time as its SMs can hold back (``utlb.outstanding_faults`` for each pair).
It is replayed when the handler has served a batch; what was not in the batch it asks for again.
"""

from __future__ import annotations

from typing import Annotated

import attrs

from offloadrt.machine.compute_spec import ComputeSpec
from offloadrt.machine.managed_pages import ManagedPages
from offloadrt.machine.managed_sweep import Sweep
from offloadrt.machine.messages import KernelPacket, ManagedFault, RemoteAccess
from offloadrt.machine.remote_port import RemotePort
from offloadrt.sim import Mailbox, Simulation


@attrs.frozen
class ManagedSpec:
    """Managed memory of a device: sizes in bytes, rates in bytes/s."""

    block: Annotated[int, "page.uvm_block"]
    page: Annotated[int, "page.uvm_page"]
    touch_chunk: Annotated[int, "managed.touch_chunk"]
    """The longest step of a kernel, over all its arguments."""
    outstanding: Annotated[int, "utlb.outstanding_faults"]
    """Faults that two SMs hold back together."""
    remote_bandwidth: Annotated[float, "remote.access_bw"]
    """Of one direction, for kernels that reach host memory."""
    sector: Annotated[int, "remote.sector"]


class ManagedKernels:
    """What the compute units of a device ask about kernels over managed memory; ``handler`` is who serves faults."""

    def __init__(
        self, sim: Simulation, device: int, spec: ManagedSpec, pages: ManagedPages, ports: dict[str, RemotePort]
    ) -> None:
        self.sim = sim
        self.spec = spec
        self.pages = pages
        self.handler = Mailbox(sim, f"device {device} page fault handler")
        self.running = 0
        """Kernels that are in a step: whoever takes translations away has to tell the compute units."""
        self._ports = ports

    def begin(self, packet: KernelPacket, compute: ComputeSpec) -> Sweep:
        """A kernel that starts: its windows are what its resident threads execute at a time."""
        launch, total, swept = packet.launch, 0, 0
        for access in packet.accesses:
            total += access.nbytes
            swept += 0 if access.scattered else access.nbytes
        teams = min(launch.teams, compute.sms * compute.limits.resident_teams(launch))
        held_back = self.spec.outstanding * max(1, compute.sms // 2) * self.pages.page_size
        windows = max(1, -(-launch.iterations // (teams * launch.threads)), -(-swept // held_back))
        return Sweep.of(packet.accesses, windows, self.spec.touch_chunk * windows // max(total, 1))

    def step(self, packet: KernelPacket, sweep: Sweep) -> float:
        """The next step, as a part of the kernel's work; 0 when it has to wait for the faults that it has raised."""
        rng = self.sim.rng
        while sweep.level < len(sweep.levels):
            missing = sweep.missing(self.pages, sweep.levels[sweep.level], rng)
            sweep.level += 1
            if missing:
                self._raise(packet, sweep, missing)
                return 0.0
        sweep.plan(self.pages, rng)
        if self.pages.remote_pages:
            self._reach(packet, sweep)
        self.running += 1
        return (sweep.until - sweep.at) / sweep.windows

    def ended(self, sweep: Sweep) -> None:
        """The compute units have done the work of a step."""
        self.running -= 1
        sweep.at, sweep.level = sweep.until, 0

    def replayed(self, packet: KernelPacket, sweep: Sweep, served: frozenset[int]) -> bool:
        """Whether a kernel goes on after a batch in which these pages were served; otherwise it has faulted again."""
        needed = sweep.needed - served
        sweep.needed = frozenset()
        missing = [page for page in sorted(needed) if self.pages.next_unmapped(page, page + 1) >= 0]
        if missing:
            self._raise(packet, sweep, missing)
        return not missing

    def shorten(self, sweep: Sweep, left: float) -> float:
        """Translations were taken away: the step, of which the part ``left`` is still to be done, may end sooner.

        Returns what is left of it then, as a part of the kernel's work. A step that waits for the link stays as it is.
        """
        whole = sweep.until - sweep.at
        done = whole * (1.0 - left)
        if not sweep.remote:
            began, sweep.at = sweep.at, sweep.at + min(int(done), whole - 1)
            sweep.hits = [-1] * len(sweep.hits)
            longest, sweep.step_windows = sweep.step_windows, sweep.until - sweep.at
            sweep.plan(self.pages, self.sim.rng)
            sweep.at, sweep.step_windows = began, longest
        return max(sweep.until - sweep.at - done, 0.0) / sweep.windows

    def _raise(self, packet: KernelPacket, sweep: Sweep, missing: list[int]) -> None:
        sweep.needed = frozenset(missing)
        self.handler.put(ManagedFault(tuple(missing), packet.number, packet.cause, self.sim.now))

    def _reach(self, packet: KernelPacket, sweep: Sweep) -> None:
        """What the step reads and writes in host memory goes over the link meanwhile."""
        reads, writes = sweep.remote_bytes(self.pages, self.spec.sector)
        for direction, nbytes in (("h2d", reads), ("d2h", writes)):
            if nbytes:
                sweep.remote += 1
                self._ports[direction].submit(RemoteAccess(packet.number, nbytes))
