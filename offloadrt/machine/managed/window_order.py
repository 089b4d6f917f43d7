"""The order in which a kernel's thread blocks come to its iterations, where it is not that of the iterations.

The blocks that are resident at a time are a *window*.  Each order divides the cells of a kernel (its iterations, or the
threads of its grid) into windows: ``cells`` gives those of a window as ranges, ascending.
"""

from __future__ import annotations

import attrs

from offloadrt.kernels import Launch


@attrs.frozen
class GridStride:
    """Threads that take one iteration of each stretch that the grid covers: blocks stay resident for all ``rounds``."""

    blocks: int
    threads: int
    groups: int
    """How many groups of blocks are resident, one after the other."""
    rounds: int
    """Iterations of a thread."""
    total: int
    """Cells."""

    @property
    def windows(self) -> int:
        """Return how many windows there are: each group has one in each round."""
        return self.groups * self.rounds

    def cells(self, window: int) -> list[tuple[int, int]]:
        """Return the cells of a window."""
        group, turn = divmod(window, self.rounds)
        first = turn * self.blocks
        low, high = (
            min((first + self.blocks * one // self.groups) * self.threads, self.total) for one in (group, group + 1)
        )
        return [(low, high)] if low < high else []

    def begins(self, window: int) -> bool:
        """Tell whether the threads of a window begin."""
        return window % self.rounds == 0

    def ends(self, window: int) -> bool:
        """Tell whether the threads of a window end."""
        return (window + 1) % self.rounds == 0


@attrs.frozen
class Tiled:
    """Blocks of ``height`` rows and ``width`` columns of threads, ``columns`` blocks in a row of the grid."""

    blocks: int
    width: int
    height: int
    columns: int
    windows: int

    @property
    def total(self) -> int:
        """Return the number of cells: threads of the grid, row by row."""
        return self.blocks * self.width * self.height

    def cells(self, window: int) -> list[tuple[int, int]]:
        """Return the cells of a window: a piece of each row of threads that its blocks lie in."""
        first, last = (self.blocks * one // self.windows for one in (window, window + 1))
        pitch, found = self.columns * self.width, list[tuple[int, int]]()
        for line in range(first // self.columns, -(-last // self.columns)):
            low = max(first - line * self.columns, 0) * self.width
            high = min(last - line * self.columns, self.columns) * self.width
            top = line * self.height * pitch
            if high - low == pitch:
                found.append((top, top + self.height * pitch))
            else:
                found += [(top + row * pitch + low, top + row * pitch + high) for row in range(self.height)]
        return found

    def begins(self, window: int) -> bool:
        """Tell that the threads of every window begin there: they have one iteration."""
        return True

    ends = begins


WindowOrder = GridStride | Tiled


def order_of(launch: Launch, resident: int) -> WindowOrder | None:
    """Return the order of a launch of which so many blocks are resident; None for that of the iterations."""
    groups = -(-launch.teams // resident)
    if launch.tile is not None:
        return Tiled(launch.teams, launch.tile.width, launch.tile.height, launch.tile.columns, groups)
    rounds = -(-launch.iterations // (launch.teams * launch.threads))
    if launch.strided and rounds > 1:
        return GridStride(launch.teams, launch.threads, groups, rounds, launch.iterations)
    return None
