"""The order in which a kernel's thread blocks come to its iterations, where it is not that of the iterations.

The blocks that are resident at a time are a *window*, or a part of one where they come to more pages than their SMs can
wait for.  Each order divides the cells of a kernel (its iterations, or the threads of its grid) into windows: ``cells``
gives those of a window as ranges, ascending.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import ClassVar

import attrs

from offloadrt.kernels import Launch


@attrs.frozen
class GridStride:
    """Threads that take one iteration of each stretch that the grid covers: blocks stay resident for all ``rounds``.

    The window of a group of resident blocks is divided into ``lots`` where they come to more pages than their SMs can
    wait for: each SM gets what its oldest blocks ask for first.
    """

    blocks: int
    threads: int
    groups: int
    """How many groups of blocks are resident, one after the other."""
    rounds: int
    """Iterations of a thread."""
    total: int
    """Cells."""
    at_a_time: int
    """Blocks of a lot."""
    sms: int | None = None
    """SMs that report their blocks' pages side by side; None where the blocks lie side by side in a page."""

    @property
    def lots(self) -> int:
        """Return into how many lots of blocks a group is divided."""
        return -(-self.blocks // (self.groups * self.at_a_time))

    @property
    def windows(self) -> int:
        """Return how many windows there are: each lot has one in each round."""
        return self.groups * self.rounds * self.lots

    def cells(self, window: int) -> list[tuple[int, int]]:
        """Return the cells of a window; those of each block are a range of their own where SMs report side by side."""
        blocks = self._blocks_of(window)
        edges = [blocks.start, blocks.stop] if self.sms is None else [*blocks, blocks.stop]
        places = [min(edge * self.threads, self.total) for edge in edges]
        return [(low, high) for low, high in itertools.pairwise(places) if low < high]

    def span(self, window: int) -> tuple[int, int]:
        """Return the first cell of a window, and the one after the last."""
        blocks = self._blocks_of(window)
        return min(blocks.start * self.threads, self.total), min(blocks.stop * self.threads, self.total)

    def _blocks_of(self, window: int) -> range:
        """Return the blocks of a window, counted on through the rounds."""
        rest, lot = divmod(window, self.lots)
        group, turn = divmod(rest, self.rounds)
        first, last = (self.blocks * one // self.groups for one in (group, group + 1))
        first += lot * self.at_a_time
        return range(turn * self.blocks + first, turn * self.blocks + min(last, first + self.at_a_time))

    def before(self, window: int) -> int | None:
        """Return the window that the threads of a window have had one iteration before; None where they begin."""
        return window - self.lots if self._turn(window) else None

    def ends(self, window: int) -> bool:
        """Tell whether the threads of a window end."""
        return self._turn(window) == self.rounds - 1

    def _turn(self, window: int) -> int:
        return window // self.lots % self.rounds


@attrs.frozen
class Tiled:
    """Blocks of ``height`` rows and ``width`` columns of threads, ``columns`` blocks in a row of the grid."""

    blocks: int
    width: int
    height: int
    columns: int
    windows: int
    sms: ClassVar[None] = None
    """Its blocks lie side by side in a page."""

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

    def span(self, window: int) -> tuple[int, int]:
        """Return the first cell of a window, and the one after the last."""
        cells = self.cells(window)
        return (cells[0][0], cells[-1][1]) if cells else (0, 0)

    def before(self, window: int) -> None:
        """Return no window: each thread has one iteration."""

    def ends(self, window: int) -> bool:
        """Tell that the threads of every window end there."""
        return True


WindowOrder = GridStride | Tiled


@attrs.frozen
class Residence:
    """What the SMs of a device hold of a launch at a time."""

    sms: int
    blocks: int
    """Blocks that are resident on an SM."""
    held_back: int
    """Bytes of the pages that all SMs together can wait for."""
    page: int
    """Bytes that the GPU reports at a time."""


def order_of(launch: Launch, on: Residence, swept: Sequence[int]) -> WindowOrder | None:
    """Return the order in which a launch comes to its cells; None for that of the iterations.

    swept: bytes of the pages that it comes to of each array that it sweeps
    """
    groups = -(-launch.teams // (on.sms * on.blocks))
    rounds = -(-launch.iterations // (launch.teams * launch.threads))
    shape = launch.teams, launch.threads, groups, rounds, launch.iterations
    total, most, pages = sum(swept), max(swept, default=0), on.page * launch.iterations
    order: WindowOrder | None = None
    if (tile := launch.tile) is not None:
        order = Tiled(launch.teams, tile.width, tile.height, tile.columns, groups)
    elif rounds > 1 and not launch.strided:
        return None
    elif launch.teams > 1 and most <= pages < most * launch.threads:
        # A thread comes to a page of an array at most, its block to several: the blocks that run at one time wait for
        # pages far apart.
        per_sm = on.held_back * launch.iterations // (on.sms * total * launch.threads)
        return GridStride(*shape, min(max(per_sm, 1), on.blocks) * on.sms, on.sms)
    elif rounds > 1:
        order = GridStride(*shape, -(-launch.teams // groups))
    if order is not None and order.windows * on.held_back < total:
        return None  # fewer blocks than are resident have pages to wait for: as if in the order of the iterations
    return order
