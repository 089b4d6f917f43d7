"""What a program's kernels took on its devices, by name, from the records that the devices keep of each kernel.

As with CUPTI's activity records, nobody waits for them: each kernel that ends is told to `KernelRecords`, which knows
by the number of its directive what it belongs to. Times are virtual seconds.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import attrs

from offloadrt.kernels import Kernel
from offloadrt.machine import Device
from offloadrt.machine.messages import KernelPacket


@attrs.define
class KernelTimes:
    """What executions of a kernel that have ended took, added up."""

    executions: int = 0
    divided: int = 0
    """How many of these were divided among the devices."""
    kernel_s: float = 0.0
    """Seconds from start to end, on the device where that takes longest."""
    communication_s: float = 0.0
    """Seconds of exchanges between devices before and after it, with the kernel that combines its partial values."""
    sent_bytes: int = 0


@attrs.define
class InFlight:
    """One execution of a kernel that has not ended on every device.

    On how many devices it has yet to end, and what it took on the slowest one so far. Devices start it one after the
    other, as the host launches it, which is not the kernel's time.
    """

    times: KernelTimes
    divided: bool
    left: int
    longest_s: float = 0.0

    def ended(self, begin: float, end: float) -> None:
        """Note that the execution has ended on one more device."""
        self.longest_s = max(self.longest_s, end - begin)
        self.left -= 1
        if not self.left:
            self.times.executions += 1
            self.times.divided += self.divided
            self.times.kernel_s += self.longest_s


class KernelRecords:
    """The records of one program's kernels on its devices."""

    def __init__(self, devices: Iterable[Device]) -> None:
        self._in_flight: dict[tuple[int, int], InFlight] = {}
        """The executions in flight, by device and number of the directive that launches them."""
        self.of_constructs: dict[str, KernelTimes] = {}
        """The ended kernels of compute constructs, by name; those of JACC have their own."""
        self._names: dict[Hashable, str] = {}
        self._same_name: dict[str, int] = {}
        for device in devices:
            device.compute.ended = self._ended

    def expect(self, device: int, directive: int, execution: InFlight) -> None:
        """Note that a directive is about to launch its kernel on a device."""
        self._in_flight[device, directive] = execution

    def _ended(self, device: int, packet: KernelPacket, begin: float, end: float) -> None:
        # Recording takes no virtual time; what collecting records costs a real program is left out.
        execution = self._in_flight.pop((device, packet.cause), None)
        if execution is not None:
            execution.ended(begin, end)

    def name(self, kernel: Kernel, code: Hashable = None) -> str:
        """Return what a kernel is called in reports.

        That is its name, with a number after it when another kernel has that name already. Kernels of one generated
        `code` are one kernel, though their functions were made twice.
        """
        name = self._names.get(kernel) or self._names.get(code or kernel)
        if name is None:
            number = self._same_name[kernel.name] = self._same_name.get(kernel.name, 0) + 1
            name = kernel.name if number == 1 else f"{kernel.name} ({number})"
        self._names[kernel] = self._names[code or kernel] = name
        return name
