"""The options of a program, whatever model it is written in; each model adds its own in its `options.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

import attrs

from offloadrt.kernels.integers import is_integer
from offloadrt.machine import MachineSpec


def has_devices(spec: MachineSpec) -> bool:
    """Tell whether a machine has devices to offload to."""
    shared = spec.entries.get("usm.shared")
    return shared is None or shared.value != "no_device"


@attrs.frozen(kw_only=True)
class ProgramOptions:
    """The options that programs of every model have. Fixed once the machine is built."""

    model: ClassVar[str]
    """The name of the programming model."""
    phantom: bool = False
    """Whether arrays have a size and no storage, unless an array says otherwise."""
    num_devices: int = 1
    """How many of the machine's devices the program uses."""
    num_processes: int = 1
    """How many processes run the program, each with a runtime of its own (`Run.mpiexec`)."""

    def check(self) -> None:
        """Raise ValueError for an option with a value that it cannot have, as far as that depends on no machine."""
        if not is_integer(self.num_devices) or self.num_devices < 1:
            raise ValueError(f"num_devices is {self.num_devices!r}, but must be a whole number from 1")
        if not is_integer(self.num_processes) or self.num_processes < 1:
            raise ValueError(f"num_processes is {self.num_processes!r}, but must be a whole number from 1")

    def devices_on(self, spec: MachineSpec) -> int:
        """Return how many devices the program finds on this machine."""
        return self.num_devices

    def chosen_on(self, spec: MachineSpec, environment: Mapping[str, str]) -> Self:
        """Return the options with what the program's environment chooses on this machine. Raises ValueError."""
        return self
