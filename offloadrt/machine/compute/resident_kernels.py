"""The kernels that a device has begun and not ended: those that share its SMs, and those that wait for pages."""

from __future__ import annotations

import math

from offloadrt.machine.compute.compute_spec import ComputeSpec
from offloadrt.machine.compute.resident_kernel import ResidentKernel
from offloadrt.machine.share import FairShare, Ticket
from offloadrt.sim import Mailbox, Simulation
from offloadrt.trace import Trace


class ResidentKernels:
    """The state of a device's compute units that their parts share.

    It belongs to the actor of the compute units, in which all of these run: `ComputeUnits` itself, what it knows of
    managed memory (`ManagedKernels`), and the division of an APU's memory bandwidth (`MemoryTraffic`).
    """

    def __init__(self, sim: Simulation, device: int, spec: ComputeSpec, trace: Trace | None) -> None:
        self.sim = sim
        self.device = device
        self.spec = spec
        self.trace = trace
        self.mailbox = Mailbox(sim, f"device {device} compute units")
        self.share = FairShare(math.inf if spec.uncontended else float(spec.sms))
        """Divides the SMs."""
        self.resident: dict[Ticket, ResidentKernel] = {}
        """Kernels that have a share of the SMs."""
        self.stalled: dict[int, ResidentKernel] = {}
        """Kernels that wait for pages, by number."""

    def work(self, kernel: ResidentKernel, part: float, whole: int) -> None:
        """Give a kernel its share of the SMs for ``part`` of the ``whole`` of its work."""
        amount = kernel.alone * part / whole * kernel.demand
        self.resident[self.share.join(self.sim.now, amount, kernel.rate)] = kernel

    def limit(self, ticket: Ticket, kernel: ResidentKernel, rate: float) -> None:
        """Let a kernel have at most so many SMs from now on."""
        if (limited := self.share.limit(self.sim.now, ticket, rate)) is not ticket:
            del self.resident[ticket]
            self.resident[limited] = kernel
