"""The options of a program, whatever model it is written in; each model adds its own in its `options.py`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import attrs

from offloadrt.driver import Rocr
from offloadrt.kernels.whole import is_whole
from offloadrt.machine import Machine, MachineSpec
from offloadrt.models.host.program import OffloadProgram
from offloadrt.runtime.plugins.plugin import UserModeDriver
from offloadrt.trace import Trace


@attrs.frozen(kw_only=True)
class ProgramOptions(ABC):
    """The options that programs of every model have. Fixed once the machine is built."""

    model: ClassVar[str]
    """The name of the programming model."""
    phantom: bool = False
    """Whether arrays have a size and no storage, unless an array says otherwise."""
    num_devices: int = 1
    """How many of the machine's devices the program uses."""

    def check(self) -> None:
        """Raise ValueError for an option with a value that it cannot have, as far as that depends on no machine."""
        if not is_whole(self.num_devices) or self.num_devices < 1:
            raise ValueError(f"num_devices is {self.num_devices!r}, but must be a whole number from 1")

    def devices_on(self, spec: MachineSpec) -> int:
        """Return how many devices the program finds on this machine."""
        return self.num_devices

    @abstractmethod
    def make_program(
        self,
        machine: Machine,
        drivers: Sequence[UserModeDriver | Rocr],
        trace: Trace | None,
        environment: Mapping[str, str],
    ) -> OffloadProgram[Any]:
        """Make the program on a machine, with a driver for each device and the environment variables that it sees.

        Raises ValueError for options that do not go with one another or with the machine.
        """
