"""How many teams of a kernel are resident on a streaming multiprocessor (SM), from the limits of the hardware.

The rules are those of NVIDIA's occupancy calculator: threads, warps, teams (thread blocks) and registers, of which
a warp gets a multiple of a unit, and a multiple of a number of warps gets any (an SM has four register files).
"""

from __future__ import annotations

from typing import Annotated

import attrs

from offloadrt.kernels import Launch


class LaunchOutOfResources(Exception):
    """Not even one team of the launch fits on an SM (the real call fails with CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES)."""


@attrs.frozen
class SMLimits:
    """What one SM holds at most."""

    threads: Annotated[int, "sm.max_threads"]
    teams: Annotated[int, "sm.max_teams"]
    warps: Annotated[int, "sm.max_warps"]
    registers: Annotated[int, "sm.registers"]
    warp_size: Annotated[int, "sm.warp_size"]
    register_unit: Annotated[int, "sm.register_unit"]
    warp_unit: Annotated[int, "sm.warp_unit"]
    threads_per_team: Annotated[int, "sm.max_threads_per_team"]

    def working_lanes(self, launch: Launch) -> float:
        """The part of the lanes of a team's warps that have a thread: less than 1 when a warp is not full."""
        return launch.threads / (-(-launch.threads // self.warp_size) * self.warp_size)

    def resident_teams(self, launch: Launch) -> int:
        """Teams of a launch that are resident on one SM at a time.  Raises LaunchOutOfResources when it is none."""
        warps = -(-launch.threads // self.warp_size)
        units = -(-launch.kernel.registers_per_thread * self.warp_size // self.register_unit)
        with_registers = self.registers // (units * self.register_unit) // self.warp_unit * self.warp_unit
        teams = min(self.teams, self.threads // launch.threads, self.warps // warps, with_registers // warps)
        if launch.threads > self.threads_per_team or teams < 1:
            raise LaunchOutOfResources(
                f"kernel {launch.kernel.name!r}: a team of {launch.threads} threads with "
                f"{launch.kernel.registers_per_thread} registers each does not fit on an SM "
                f"({self.threads_per_team} threads per team, {self.registers} registers)"
            )
        return teams
