"""The calls of ROCr that a process makes before its first kernel: the library itself, and the program's code object."""

from __future__ import annotations

from offloadrt.driver.calls import CallAccounts
from offloadrt.driver.rocr.costs import RocrCosts
from offloadrt.machine import Machine


class RocrStartCalls:
    """The start of one device's library."""

    def __init__(self, machine: Machine, costs: RocrCosts, calls: CallAccounts) -> None:
        self._machine = machine
        self._costs = costs
        self._calls = calls

    async def init(self) -> None:
        """Initialize the library in the process (hsa_init), which looks at every GPU that the program sees."""
        with self._calls.call("init"):
            seconds = self._costs.init + len(self._machine.devices) * self._costs.init_device
            await self._machine.work(seconds, "driver")

    async def executable_load_agent_code_object(self) -> None:
        """Load the program's code object with all its kernels (hsa_executable_load_agent_code_object)."""
        with self._calls.call("executable_load_agent_code_object"):
            await self._machine.work(self._costs.load_module, "driver")
