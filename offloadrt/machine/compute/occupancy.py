"""The number of teams of a kernel that fit on a streaming multiprocessor (SM), from the limits of the hardware.

The rules are those of NVIDIA's occupancy calculator: threads, warps, teams (thread blocks) and registers.  A warp gets
a multiple of ``register_unit`` registers, and the number of warps with registers is a multiple of ``warp_unit``,
because an SM has several register files.  Shared memory is left out: the kernels here declare none.
"""

from __future__ import annotations

from typing import Annotated

import attrs

from offloadrt.kernels import Launch

_REGISTER, _DOUBLE = 4, 8
"""Bytes of a register and of a double."""


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
    loads_per_warp: Annotated[int, "sm.max_loads_per_warp"]

    def working_lanes(self, launch: Launch) -> float:
        """Return the part of the lanes of a team's warps that have a thread: less than 1 when a warp is not full."""
        return launch.threads / (-(-launch.threads // self.warp_size) * self.warp_size)

    def loads_in_flight(self, launch: Launch) -> float:
        """Return how many loads a thread of a launch waits for at once.

        They are at most those that the SM counts for a warp, and those that there are registers for: a load needs them
        from its begin on.
        """
        assert launch.kernel.loads_in_flight is not None
        held = launch.kernel.registers_per_thread * _REGISTER / _DOUBLE
        return min(launch.kernel.loads_in_flight, float(self.loads_per_warp), held)

    def resident_teams(self, launch: Launch) -> int:
        """Return the teams of a launch that are resident on one SM at a time.

        Raises LaunchOutOfResources when it is none.
        """
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
