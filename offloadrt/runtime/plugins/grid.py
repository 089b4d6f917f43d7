"""How many teams of how many threads a target region gets that leaves them open: the rule of LLVM's plugins.

It is that of ``GenericKernelTy::getNumBlocks`` in LLVM 22 (``offload/plugins-nextgen/common/src/PluginInterface.cpp``).
"""

from __future__ import annotations

import sys
from typing import Self

import attrs

from offloadrt.machine import MachineSpec


@attrs.frozen
class GridDefaults:
    """What a plugin gives a region that leaves its teams or its threads open."""

    teams: int
    """The most teams of a loop; where they have fewer threads than it has iterations, threads take several."""
    threads: int
    """Threads of a team."""
    least_threads: int
    """Down to so many threads a team, a loop with few iterations gets more teams instead of larger ones."""
    reuses: bool = True
    """Whether ``teams`` is the most; otherwise a loop has as many teams as give each iteration a thread."""

    @classmethod
    def of(cls, spec: MachineSpec, teams: int, threads: int) -> Self:
        """Return those of a plugin, as the runtime is set."""
        return cls(teams, threads, spec.count("teams.least_threads"), spec.flag("teams.reuse"))

    def over_threads(self, iterations: int, threads: int | None) -> tuple[int, int]:
        """Return the teams of a loop whose iterations all threads share, and the threads of each.

        threads: of a team, where the program says how many

        >>> GridDefaults(3200, 128, 32).over_threads(1 << 20, None), GridDefaults(3200, 128, 32).over_threads(128, None)
        ((3200, 128), (4, 32))
        """
        per_team = self.threads if threads is None else threads
        if threads is None and iterations < self.teams * per_team:
            least = min(self.least_threads, per_team)
            if iterations >= self.teams * least:
                each = -(-iterations // self.teams)
                least = 1 << (each - 1).bit_length()
            per_team = min(per_team, least)
        return self.over_teams(-(-iterations // per_team)), per_team

    def over_teams(self, iterations: int) -> int:
        """Return the teams of a loop of which each team takes whole iterations."""
        return min(max(1, iterations), self.teams if self.reuses else sys.maxsize)
