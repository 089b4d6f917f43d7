"""The launch configuration of a kernel: how many teams of how many threads do how many iterations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from offloadrt.kernels import Kernel, Launch


def launch_of(
    kernel: Kernel,
    arguments: Sequence[Any],
    teams: int | None = None,
    threads: int | None = None,
    iterations: int | None = None,
) -> Launch:
    """A launch with these arguments, of which only shapes, types and numbers are looked at.

    A loop nest does the iterations that its source says, in as many teams as they fill; any other kernel is one team
    with one iteration a thread unless given. KernelError when a loop needs what is not known.
    """
    per_team = kernel.threads_per_team if threads is None else threads
    known = None if kernel.analysis is None else arguments
    if kernel.analysis is not None and iterations is None:
        iterations = kernel.analysis.trip_count(*arguments)
    if teams is None:
        teams = 1 if iterations is None else max(1, -(-iterations // max(1, per_team)))
    return kernel.launch(teams, per_team, iterations, known)
