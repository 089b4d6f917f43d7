"""The options of a program of C++ standard parallelism."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import attrs

from offloadrt.extensions.stdpar.heuristic import HeuristicRules
from offloadrt.extensions.stdpar.implementations import Implementation, implementation
from offloadrt.machine import MachineSpec
from offloadrt.models.host.program import ProgramOptions, has_devices


@attrs.frozen(kw_only=True)
class StdParOptions(ProgramOptions):
    """The options of a program of C++ standard parallelism. Fixed once the machine is built."""

    model: ClassVar[str] = "stdpar"
    implementation: str | Implementation = "acpp"
    """A name of `IMPLEMENTATIONS`, or one made of these with `attrs.evolve`."""
    pool_gb: float | None = None
    """The size of the memory pool in GiB, 0 for none, instead of the implementation's own."""
    system_usm: bool = False
    """Whether the device uses all memory of the host as it is (``--acpp-stdpar-system-usm``): nothing is taken over,
    validated or prefetched.
    """
    heuristic: HeuristicRules | None = None
    """The rules of the offload heuristic, instead of the implementation's own."""
    heuristic_file: Path | None = None
    """The file with the runtimes that the heuristic knows; written at the end."""

    def check(self) -> None:
        """Raise ValueError, also for several devices and an implementation that does not exist."""
        super().check()
        if self.num_devices != 1:
            raise ValueError("a stdpar program has one device")
        if isinstance(self.implementation, str):
            implementation(self.implementation)

    def devices_on(self, spec: MachineSpec) -> int:
        """Return 1, or 0 where the machine has no device, so that algorithms run on the host."""
        return 1 if has_devices(spec) else 0

    @property
    def chosen(self) -> Implementation:
        """Return the implementation. Raises ValueError for one that does not exist."""
        named = self.implementation
        return named if isinstance(named, Implementation) else implementation(named)
