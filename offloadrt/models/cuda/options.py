"""The options of a CUDA program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import attrs

from offloadrt.driver import Rocr
from offloadrt.machine import Machine
from offloadrt.models.cuda.program import CUDA
from offloadrt.models.host.options import ProgramOptions
from offloadrt.runtime.plugins.plugin import UserModeDriver
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

    def make_program(
        self,
        machine: Machine,
        drivers: Sequence[UserModeDriver | Rocr],
        trace: Trace | None,
        environment: Mapping[str, str],
    ) -> CUDA:
        """Make the program. Raises ValueError on a machine whose driver library is not CUDA's."""
        return CUDA(machine, drivers, trace=trace, phantom=self.phantom)
