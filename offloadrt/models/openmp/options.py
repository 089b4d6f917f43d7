"""The options of an OpenMP program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

import attrs

from offloadrt.machine import MachineSpec
from offloadrt.models.host.options import ProgramOptions
from offloadrt.runtime.configurations import configuration as configuration_named
from offloadrt.runtime.device import DeviceOptions
from offloadrt.runtime.environment import OFFLOAD, is_on, select_configuration

_TARGET_OFFLOAD: Final = ("default", "disabled", "mandatory")


@attrs.frozen(kw_only=True)
class OpenMPOptions(DeviceOptions, ProgramOptions):
    """The options of an OpenMP program. Fixed once the machine is built.

    The memory configuration may also be `environment`: the runtime chooses, as a real one does.
    """

    model: ClassVar[str] = "openmp"
    requires_unified_shared_memory: bool = False
    """Whether the program is built with `requires unified_shared_memory`; for the configuration `environment`."""
    target_offload: str = "default"
    """OMP_TARGET_OFFLOAD: under `disabled` the program can use no device; where it can use none, the host does what is
    meant for one, unless it is `mandatory`.
    """

    def check(self) -> None:
        """Raise ValueError, also for a memory configuration or an allocator that does not exist."""
        ProgramOptions.check(self)
        if self.configuration != "environment":
            configuration_named(self.configuration)
        DeviceOptions.check(self)
        if self.target_offload not in _TARGET_OFFLOAD:
            raise ValueError(f"{OFFLOAD} is {self.target_offload!r}; it can be {', '.join(_TARGET_OFFLOAD)}")

    def chosen_on(self, spec: MachineSpec, environment: Mapping[str, str]) -> OpenMPOptions:
        """Return the options with what the environment chooses, also the memory configuration. Raises ValueError."""
        offload = environment.get(OFFLOAD, self.target_offload).strip().lower()
        chosen = attrs.evolve(self, target_offload=offload)
        if self.configuration == "environment":
            apu = spec.flag("machine.apu")
            xnack = spec.flag("gpu.xnack") if "gpu.xnack" in spec.entries else is_on(environment, "HSA_XNACK")
            unified = spec.flag("gpu.unified_memory")
            taken = select_configuration(self.requires_unified_shared_memory, apu, xnack, unified, environment)
            chosen = attrs.evolve(chosen, configuration=taken)
        chosen.check()
        return chosen
