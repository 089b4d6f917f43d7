"""The options of a program, whatever model it is written in; each model adds its own in its `options.py`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias

import attrs

from offloadrt.kernels.whole import is_whole
from offloadrt.machine import Machine, MachineSpec
from offloadrt.models.host.program import Drivers, OffloadProgram
from offloadrt.trace import Trace

Variables: TypeAlias = Mapping[str, str]
"""The environment variables of a program, by name."""


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
        self, machine: Machine, drivers: Drivers, trace: Trace | None, environment: Variables
    ) -> OffloadProgram[Any]:
        """Make the program on a machine, with a driver for each device and the environment variables that it sees.

        Raises ValueError for options that do not go with one another or with the machine.
        """
