"""Programs that choose pages: some of each block, one for each lane of a warp, or all of more than fits."""

from __future__ import annotations

from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from offloadrt.driver import Advice
from offloadrt.kernels import expect, kernel
from offloadrt.models import cuda
from offloadrt.papers.independent.programs.managed import BLOCK, MIB, KernelLoop

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

Order = Literal["seq", "random"]
Advised = Literal["none", "prefer_host", "accessed_by", "prefetch"]

PAGE: Final = 4096
WORDS: Final = PAGE // 4
PAGES_A_BLOCK: Final = 2 * MIB // PAGE
LANES: Final = 32
CHUNKS: Final = 256 * 256
"""The most threads of the oversubscribed programs, each with a contiguous chunk of pages."""


@kernel(threads_per_team=BLOCK, precision="single")
def increment(data: Floats, pages: Ints, words: int) -> None:
    """Read and write one word of each page that is listed, a thread a page."""
    for k in range(len(pages)):
        data[expect(pages[k] * words, near=1)] = data[expect(pages[k] * words, near=1)] + 1.0


@kernel(threads_per_team=LANES, precision="single")
def add_pages(a: Floats, b: Floats, c: Floats, lanes: int, words: int) -> None:
    """Add with each lane on a page of its own."""
    for lane in range(lanes):
        c[lane * words] = a[lane * words] + b[lane * words]


@kernel(threads_per_team=BLOCK, precision="single")
def copy_chunks(source: Floats, target: Floats, threads: int, pages: int, words: int) -> None:
    """Copy one word of each page, a chunk of pages a thread."""
    for thread in range(threads):
        for page in range(pages):
            target[(thread * pages + page) * words] = source[(thread * pages + page) * words]


@kernel(threads_per_team=BLOCK, precision="single")
def copy_random(source: Floats, target: Floats, order: Ints, threads: int, pages: int, words: int) -> None:
    """Copy one word of each page, in an order that is listed."""
    for thread in range(threads):
        for k in range(pages):
            page = order[thread * pages + k]
            target[page * words] = source[page * words]


async def sparse(t: cuda.HostThread, loop: KernelLoop, blocks: int, per_block: int, passes: int) -> list[Any]:
    """Increment a word of some random pages of each block of an array that this thread has written.

    The list of pages goes through the blocks in order here; that the measured one takes the blocks in random order
    makes no difference to the driver, which knows no neighbours beyond a block.
    """
    data = await t.malloc_managed("data", blocks * PAGES_A_BLOCK * WORDS, fill=0.0)
    pages = await t.malloc_managed("pages", blocks * per_block, np.int64) if not t.program.phantom else None
    listed: Any = await t.malloc(blocks * per_block, np.int64) if pages is None else pages
    if pages is not None:
        pages[:] = _pages_of(blocks, per_block, t.sim.rng)
    async with loop.timed():
        for _ in range(passes):
            await t.launch(increment, data, listed, WORDS, grid=-(-blocks * per_block // BLOCK), block=BLOCK)
            await t.device_synchronize()
    return [data, listed]


def _pages_of(blocks: int, per_block: int, rng: np.random.Generator) -> Ints:
    """Draw different pages of each block."""
    drawn = np.argsort(rng.random((blocks, PAGES_A_BLOCK)), axis=1)[:, :per_block]
    return np.ravel(drawn + np.arange(blocks)[:, None] * PAGES_A_BLOCK)


async def one_warp(t: cuda.HostThread, loop: KernelLoop) -> list[Any]:
    """Add two arrays by one warp, each lane on its own page."""
    arrays = [await t.malloc_managed(name, LANES * WORDS, fill=1.0) for name in "abc"]
    async with loop.timed():
        await t.launch(add_pages, *arrays, LANES, WORDS, grid=1, block=LANES)
        await t.device_synchronize()
    return arrays


async def oversubscribed(
    t: cuda.HostThread, loop: KernelLoop, nbytes: int, order: Order, advised: Advised, warm_up: int, launches: int
) -> None:
    """Copy one word of each page from a half that this thread has written to one that nobody has touched."""
    total = max(CHUNKS, nbytes // 2 // PAGE)
    pages = -(-total // CHUNKS)
    threads = total // pages  # the others have nothing to do, so that the size is what was asked for
    source = await t.malloc_managed("source", threads * pages * WORDS, written=True)
    target = await t.malloc_managed("target", threads * pages * WORDS)
    for array in (source, target):
        if advised == "prefetch":
            await t.mem_prefetch(array)
        elif advised != "none":
            advice: Advice = advised
            await t.mem_advise(array, advice)
    listed = await t.malloc(threads * pages, np.int64) if order == "random" else None
    grid = -(-threads // BLOCK)

    async def copy(times: int) -> None:
        for _ in range(times):
            if listed is None:
                await t.launch(copy_chunks, source, target, threads, pages, WORDS, grid=grid, block=BLOCK)
            else:
                await t.launch(copy_random, source, target, listed, threads, pages, WORDS, grid=grid, block=BLOCK)
            await t.device_synchronize()

    await copy(warm_up)
    async with loop.timed():
        await copy(launches)
