"""The options of an OpenACC program."""

from __future__ import annotations

from typing import ClassVar

import attrs

from offloadrt.machine import Machine
from offloadrt.models.host.options import ProgramOptions, Variables
from offloadrt.models.host.program import Drivers
from offloadrt.models.openacc.compilers import compiler_model
from offloadrt.models.openacc.program import OpenACC
from offloadrt.trace import Trace


@attrs.frozen(kw_only=True)
class OpenACCOptions(ProgramOptions):
    """The options of an OpenACC program. Fixed once the machine is built."""

    model: ClassVar[str] = "openacc"
    compiler: str = "pgi"
    """Whose run-time library the program is linked with: `pgi` or `gcc`."""
    pools: bool = False
    """Whether GCC's library has JACC's two pools of device memory."""

    def check(self) -> None:
        """Raise ValueError, also for a compiler that does not exist."""
        super().check()
        compiler_model(self.compiler)

    def make_program(self, machine: Machine, drivers: Drivers, trace: Trace | None, environment: Variables) -> OpenACC:
        """Make the program. Raises ValueError for options that do not go with the machine."""
        return OpenACC(machine, drivers, trace=trace, compiler=self.compiler, pools=self.pools, phantom=self.phantom)
