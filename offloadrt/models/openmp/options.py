"""The options of an OpenMP program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

import attrs

from offloadrt.machine import MachineSpec
from offloadrt.machine.host_lock import LockPolicy, lock_policy
from offloadrt.models.host.options import ProgramOptions
from offloadrt.runtime.allocators import MakeAllocator
from offloadrt.runtime.allocators import allocator as allocator_named
from offloadrt.runtime.configurations import MemoryConfiguration
from offloadrt.runtime.configurations import configuration as configuration_named
from offloadrt.runtime.environment import OFFLOAD, is_on, select_configuration

_TARGET_OFFLOAD: Final = ("default", "disabled", "mandatory")


@attrs.frozen(kw_only=True)
class OpenMPOptions(ProgramOptions):
    """The options of an OpenMP program. Fixed once the machine is built."""

    model: ClassVar[str] = "openmp"
    configuration: str | MemoryConfiguration = "copy"
    """What a map means: `copy`, `usm`, `implicit_zero_copy`, `eager_maps`, `managed`, `managed+prefetch`, or one of an
    extension; with `environment` the runtime chooses, as a real one does; or an object of one's own.
    """
    allocator: str | MakeAllocator = "llvm"
    """How device blocks are obtained: `direct`, `llvm` or `malloc`, or a class of one's own."""
    table_policy: str | LockPolicy | None = None
    """Who enters the device table next: `fifo`, `barging`, or an object of one's own
    (`machine/host_lock/policy.py`); None: as the profile's `table.handoff` says.
    """
    host_program: object = None
    """What a compiler knows of the program, for a configuration that asks for it."""
    requires_unified_shared_memory: bool = False
    """Whether the program is built with `requires unified_shared_memory`; for the configuration `environment`."""
    target_offload: str = "default"
    """OMP_TARGET_OFFLOAD: under `disabled` the program can use no device; where it can use none, the host does what is
    meant for one, unless it is `mandatory`.
    """

    def check(self) -> None:
        """Raise ValueError, also for a memory configuration or an allocator that does not exist."""
        super().check()
        if self.configuration != "environment":
            configuration_named(self.configuration)
        allocator_named(self.allocator)
        if self.target_offload not in _TARGET_OFFLOAD:
            raise ValueError(f"{OFFLOAD} is {self.target_offload!r}; it can be {', '.join(_TARGET_OFFLOAD)}")
        if self.table_policy is not None:
            lock_policy(self.table_policy)

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
