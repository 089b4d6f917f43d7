"""The options of a CUDA program."""

from __future__ import annotations

from typing import ClassVar

import attrs

from offloadrt.machine import Machine
from offloadrt.models.cuda.program import CUDA
from offloadrt.models.host.options import ProgramOptions, Variables
from offloadrt.models.host.program import Drivers
from offloadrt.trace import Trace


@attrs.frozen(kw_only=True)
class CUDAOptions(ProgramOptions):
    """The options of a CUDA program, which has one device. Fixed once the machine is built."""

    model: ClassVar[str] = "cuda"

    def check(self) -> None:
        """Raise ValueError, also for several devices."""
        super().check()
        if self.num_devices != 1:
            raise ValueError("a CUDA program has one device here")

    def make_program(self, machine: Machine, drivers: Drivers, trace: Trace | None, environment: Variables) -> CUDA:
        """Make the program. Raises ValueError on a machine whose driver library is not CUDA's."""
        return CUDA(machine, drivers, trace=trace, phantom=self.phantom)
