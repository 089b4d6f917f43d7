"""How many teams of a kernel are resident on a streaming multiprocessor (SM), from the limits of the hardware.

The rules are those of NVIDIA's occupancy calculator: threads, warps, teams (thread blocks) and registers, of which
a warp gets a multiple of a unit.
"""

from __future__ import annotations

import attrs

from offloadrt.kernels import Launch
from offloadrt.machine.profile import MachineSpec


class LaunchOutOfResources(Exception):
    """Not even one team of the launch fits on an SM (the real call fails with CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES)."""


@attrs.frozen
class SMLimits:
    """What one SM holds at most."""

    threads: int
    teams: int
    warps: int
    registers: int
    warp_size: int
    register_unit: int
    threads_per_team: int

    @classmethod
    def of(cls, spec: MachineSpec) -> SMLimits:
        """The limits that a profile states.  Raises ProfileError."""
        return cls(
            threads=spec.count("sm.max_threads"),
            teams=spec.count("sm.max_teams"),
            warps=spec.count("sm.max_warps"),
            registers=spec.count("sm.registers"),
            warp_size=spec.count("sm.warp_size"),
            register_unit=spec.count("sm.register_unit"),
            threads_per_team=spec.count("sm.max_threads_per_team"),
        )

    def resident_teams(self, launch: Launch) -> int:
        """Teams of a launch that are resident on one SM at a time.  Raises LaunchOutOfResources when it is none."""
        warps = -(-launch.threads // self.warp_size)
        units = -(-launch.kernel.registers_per_thread * self.warp_size // self.register_unit)
        teams = min(
            self.teams,
            self.threads // launch.threads,
            self.warps // warps,
            self.registers // (units * self.register_unit * warps),
        )
        if launch.threads > self.threads_per_team or teams < 1:
            raise LaunchOutOfResources(
                f"kernel {launch.kernel.name!r}: a team of {launch.threads} threads with "
                f"{launch.kernel.registers_per_thread} registers each does not fit on an SM "
                f"({self.threads_per_team} threads per team, {self.registers} registers)"
            )
        return teams
