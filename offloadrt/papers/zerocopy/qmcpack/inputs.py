"""What the paper leaves open about QMCPACK: each input as a range with its source, and where in it a run takes it."""

from __future__ import annotations

import attrs

from offloadrt.papers.zerocopy.qmcpack.structure import KernelKind, Size
from offloadrt.study.inputs import InputRange

ACCESSES = InputRange(
    10, 60, "dependent accesses",
    "engineering estimate: argument block, walker pointers, shared state of generic mode, a reduction over the team",
    name="qmcpack.accesses",
)  # fmt: skip
"""The serial part of a team of a kernel of S2."""

ACCESSES_GROWTH = 1.07
"""The exponent over n: calibrated so that the kernels of S24 take ten times as long as those of S2 with 1 thread (claim
mi300a.scale.kernel_s2_s24, role `calibrate`).
"""

SPREAD = InputRange(0.05, 0.3, "standard deviation of the logarithm", "engineering estimate", name="qmcpack.spread")
"""How much the work of one kind of kernel varies from launch to launch: accepted walkers, cutoffs, cache contents."""

HOST_WORK = InputRange(
    50e-9, 500e-9, "s per walker and move",
    "engineering estimate: three normal deviates, packing of pointers, Metropolis test, one-body Jastrow on the host",
    name="qmcpack.host_work",
)  # fmt: skip

UPDATE_GROWTH = InputRange(
    1, 2, "exponent over n",
    "the paper: as many copies at every size, of larger data; between vectors over the electrons and whole matrices",
    name="qmcpack.update_growth",
)  # fmt: skip
"""How the bytes of a walker's copy grow from those at S2, where they are matrices."""

REALLOCATIONS = InputRange(
    16, 1024, "per run", "engineering estimate: reduction arrays that outgrow their capacity (`resize` in the source)",
    name="qmcpack.reallocations",
)  # fmt: skip
BLOCK_BYTES = InputRange(
    64, 8192, "B", "public source: scalars, tables of pointers and vectors over electrons of one walker",
    name="qmcpack.block_bytes",
)  # fmt: skip
"""The bytes of a small object of a walker."""

MAP_ITEMS = 15
"""Map items of a target region: 1.5 million maps of S2 with 1 thread (claim mi300a.eager.calls) over its kernels. For
more threads the paper gives no number."""


@attrs.frozen
class Inputs:
    """One value of each input."""

    accesses: float
    spread: float
    host_s: float
    update_growth: float
    reallocations: int
    block_bytes: int
    map_items: int

    @classmethod
    def at(
        cls,
        kernel_work: str = "mean",
        host_work: str = "mean",
        copy_growth: str = "mean",
        map_items: int = MAP_ITEMS,
    ) -> Inputs:
        """Take the ranges at these ends: low, mean or high. Raises ValueError."""
        return cls(
            ACCESSES.at(kernel_work),
            SPREAD.at(),
            HOST_WORK.at(host_work),
            UPDATE_GROWTH.at(copy_growth),
            round(REALLOCATIONS.at()),
            round(BLOCK_BYTES.at()) // 8 * 8,
            map_items,
        )

    def accesses_of(self, kind: KernelKind, size: Size, walkers: int, default_teams: int) -> float:
        """Return a team's accesses that wait for one another: the serial part, two per round of its inner loop.

        It makes all of them as often as it takes an iteration of `distribute`.
        """
        growth: float = (size.n / 2) ** ACCESSES_GROWTH
        return (self.accesses * growth + 2 * kind.rounds(size)) * kind.turns(size, walkers, default_teams)

    def update_bytes(self, size: Size, at_s2: int, most: int) -> int:
        """Return the bytes of a walker's copy that has `at_s2` bytes at S2 and never more than `most`."""
        return min(most, int(at_s2 * (size.n / 2) ** self.update_growth) // 8 * 8)
