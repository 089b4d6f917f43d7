"""Programs whose kernels sweep managed arrays: a triad, a five-point stencil, and a page-by-page touch."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from offloadrt.kernels import kernel
from offloadrt.models import cuda
from offloadrt.papers.independent.programs.managed import BLOCK, MIB, KernelLoop

Floats = NDArray[np.float32]

MOST_BLOCKS: Final = 65535
"""Blocks of the triad's grid at most; its threads then stride over the arrays."""
TILE: Final = 16
"""Edge of the stencil's thread blocks."""
PAGE_WORDS: Final = 4096 // 4


@kernel(threads_per_team=BLOCK, precision="single")
def triad(a: Floats, b: Floats, c: Floats, factor: float) -> None:
    """Compute STREAM's triad."""
    for i in range(len(c)):
        c[i] = a[i] + factor * b[i]


@kernel(collapse=2, threads_per_team=TILE * TILE, precision="single")
def five_point(source: Floats, target: Floats, n: int) -> None:
    """Average the four neighbours of each inner point."""
    for i in range(1, n - 1):
        for j in range(1, n - 1):
            target[i, j] = 0.25 * (source[i - 1, j] + source[i + 1, j] + source[i, j - 1] + source[i, j + 1])


@kernel(threads_per_team=BLOCK, precision="single")
def touch(data: Floats, pages: int, words: int) -> None:
    """Write one word of each page, a thread a page."""
    for page in range(pages):
        data[page * words] = 1.0


async def stream(t: cuda.HostThread, loop: KernelLoop, elements: int) -> list[Any]:
    """Run the triad once over three arrays that this thread has written; return them."""
    arrays = [await t.malloc_managed(name, elements, written=True) for name in "abc"]
    async with loop.timed():
        await t.launch(triad, *arrays, 3.0, grid=min(MOST_BLOCKS, -(-elements // BLOCK)), block=BLOCK)
        await t.device_synchronize()
    return arrays


async def stencil(t: cuda.HostThread, loop: KernelLoop, n: int, iterations: int, occupied_mib: int) -> list[Any]:
    """Iterate the stencil to and fro between two grids that this thread has written; return both.

    occupied_mib: device memory that is allocated before, and so is not there for the grids.
    """
    if occupied_mib:
        await t.malloc(occupied_mib * MIB)
    source, target = [await t.malloc_managed(name, (n, n), written=True) for name in ("a", "b")]
    blocks = -(-n // TILE)
    async with loop.timed():
        for _ in range(iterations):
            await t.launch(five_point, source, target, n, grid=(blocks, blocks), block=(TILE, TILE))
            source, target = target, source
        await t.device_synchronize()
    return [source, target]


async def touch_pages(t: cuda.HostThread, loop: KernelLoop, nbytes: int, block: int) -> None:
    """Touch every page of an array in order, which this thread has written; a block has so many threads."""
    pages = -(-nbytes // 4096)
    data = await t.malloc_managed("data", pages * PAGE_WORDS, written=True)
    async with loop.timed():
        await t.launch(touch, data, pages, PAGE_WORDS, grid=-(-pages // block), block=block)
        await t.device_synchronize()
