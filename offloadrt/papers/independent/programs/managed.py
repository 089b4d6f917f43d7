"""Programs over managed memory, with what they have in common: rules of the driver, the timed part, fault batches.

The programs report three kinds of time. *Kernel*: from the first launch to the end of the synchronisation. *Process*:
the whole program in virtual time, allocation and the host's own work included; creating process and context is not
emulated, so that only differences mean something. *Window*: the sum over the batches of the fault handler, each from
the beginning of fetching to the replay.

Some programs sweep arrays: a triad, a five-point stencil, a page-by-page touch. Others choose pages: some of each
block, one for each lane of a warp, or all of more memory than the device has.

Two call a library, for a matrix product and a Fourier transform, whose own code is not public. The product is counted
as its definition in source, with every element moved once; a library that re-reads tiles from memory moves more. The
transform is counted as passes over the data.

One is a breadth-first search of an R-MAT graph, whose frontier moves between host and device. NumPy searches a graph to
find what each level does. For a graph of more than 2**SAMPLED_SCALE vertices, one of that scale is searched instead:
R-MAT draws the leading bits of a vertex' number in the same way at any scale, so that a vertex of the sample stands for
those of the large graph that begin with its bits. The large graph keeps more duplicates of edges and has about as many
levels.

Then come small benchmarks of the driver's calls: launches, allocations and copies, by one host thread or several.

`contend` is a program of host threads that do nothing but take a lock: folly's SmallLocksBenchmark on `std::mutex`.
Threads in groups share a mutex; each repeats a loop of some turns outside of the lock and some inside. How long a turn
takes is an input, as it depends on the compiler and the core. The work outside varies by 20 %, so that threads with
equal work do not march in step.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final, Literal

import attrs
import numpy as np
from numpy.typing import NDArray

from offloadrt.driver import Advice, FaultBatch
from offloadrt.kernels import expect, kernel
from offloadrt.machine.host_lock import HostLock, lock_policy
from offloadrt.models import cuda
from offloadrt.models.cuda import CUDAOptions
from offloadrt.runtime.host_array import section
from offloadrt.study import Run
from offloadrt.study.scripts.parameters import Range, Value

MIB: Final = 1 << 20
BLOCK: Final = 256
"""Threads per block in most of the programs."""

PHASES: Final = ("fetch", "preprocess", "lock", "service", "replay")
"""The phases of a fault batch (D1, D2, D3, D5 and D6 of the measurements)."""
PERCENTILES: Final = (10, 25, 75, 90)


@attrs.frozen
class FaultRules:
    """Parameters of a scenario: the rules by which the unified-memory driver serves the faults of its program.

    None keeps the value of the machine's profile.
    """

    batch_limit: Annotated[
        int | None,
        Range(1, 65536),
        "faults that the driver takes from the buffer at a time; none: as the machine's profile says",
    ] = None
    """``uvm_perf_fault_batch_count``."""
    threshold: Annotated[
        int | None,
        Range(0, 100),
        "per cent of a subtree above which the driver prefetches it; none: as the profile says",
    ] = None
    """``uvm_perf_prefetch_threshold``."""
    prefetch: Annotated[bool, "whether the driver prefetches at all"] = True
    """``uvm_perf_prefetch_enable``."""

    def loop(self, run: Run, phantom: bool = True) -> KernelLoop:
        """Make the run's driver follow these rules, and return the loop that times kernels of a CUDA program.

        phantom: whether arrays have no values.
        """
        run.options = CUDAOptions(phantom=phantom)
        if self.batch_limit is not None:
            run.set("fault.batch_max", self.batch_limit)
        if self.threshold is not None:
            run.set("prefetch.threshold", self.threshold / 100.0)
        if not self.prefetch:
            run.set("prefetch.tree", False)
        return KernelLoop(run)


AS_PROFILED: Final = FaultRules()


@attrs.define
class KernelLoop:
    """Times a part of a program's `run`, from the virtual second `begin` on; `figures` returns what was measured.

    Programs execute their kernels inside ``async with loop.timed()``.
    """

    run: Run
    begin: float = 0.0
    _ends: list[tuple[float, int, int]] = attrs.field(init=False, factory=list)
    """For the beginning and the end of each pass: the time, and the bytes copied so far to the device and to the host.
    """

    @asynccontextmanager
    async def timed(self) -> AsyncIterator[None]:
        """Measure the body as the timed part. The body must end with a synchronisation."""
        self.begin = self.run.sim.now
        self.end_pass()
        async with self.run.measure():
            yield

    def end_pass(self) -> None:
        """End a pass over the data, which `pass_figures` will report, and begin the next pass."""
        faults = self.run.statistics.faults
        copied = [int(faults.get(name, 0)) for name in ("bytes_transfer_htod", "bytes_transfer_dtoh")]
        self._ends.append((self.run.sim.now, copied[0], copied[1]))

    def pass_figures(self) -> dict[str, Value]:
        """Return the seconds and the bytes of each pass that has ended."""
        figures, names = dict[str, Value](), ("kernel_s", "to_device_bytes", "to_host_bytes")
        for number, ends in enumerate(itertools.pairwise(self._ends), start=1):
            for name, before, after in zip(names, *ends, strict=True):
                figures[f"pass{number}_{name}"] = after - before
        return figures

    def figures(self) -> dict[str, Value]:
        """Return times and bytes of the timed part, statistics over its fault batches, and all page faults of the CPU.

        The CPU faults when it first touches the memory, which is before the timed part.
        """
        run, faults = self.run, self.run.measured.faults
        batches = [batch for batch in run.statistics.fault_batches if batch.begin >= self.begin]
        figures: dict[str, Value] = {
            "kernel_s": run.elapsed,
            "process_s": run.sim.now,
            "to_device_bytes": int(faults.get("bytes_transfer_htod", 0)),
            "to_host_bytes": int(faults.get("bytes_transfer_dtoh", 0)),
            "host_faults": int(run.statistics.faults.get("cpu_page_fault_count", 0)),
            "evicted_blocks": int(faults.get("evicted_blocks", 0)),
        }
        return figures | batch_figures(batches)


def batch_figures(batches: Sequence[FaultBatch]) -> dict[str, Value]:
    """Return statistics over the fault batches that the unified-memory driver has served, by name.

    Sums over all batches: ``batches``, ``faults`` (entries in the fault buffer), ``pages`` (those without duplicates),
    ``duplicates``, ``blocks`` (of 2 MiB), ``window_s`` and ``busy_s`` (seconds with and without fetching from the
    buffer). Then shares; and as mean, median, extremes and percentiles (``_mean``, ``_p90``, ...): the faults, pages,
    blocks and bytes of a batch, and the seconds of a batch (``batch_s``) and of its five phases (``PHASES``). ``fit_*``
    is the line fitted to time over bytes, if batches differ in bytes. Without batches there are sums only.
    """
    names = ("begin", "fetched", "preprocessed", "locked", "served", "end", "faults", "pages", "blocks", "nbytes")
    columns = [np.array([getattr(batch, name) for batch in batches], float) for name in names]
    begin, fetched, preprocessed, locked, served, end, faults, pages, blocks, nbytes = columns
    figures: dict[str, Value] = {
        "batches": len(batches),
        "faults": int(faults.sum()),
        "pages": int(pages.sum()),
        "duplicates": int((faults - pages).sum()),
        "blocks": int(blocks.sum()),
        "window_s": float((end - begin).sum()),
        "busy_s": float((end - fetched).sum()),
    }
    if not batches:
        return figures
    figures["span_s"] = float(end[-1] - begin[0])
    figures["duplicate_share"] = float((faults - pages).sum() / faults.sum())
    figures["one_fault_share"] = float(np.mean(faults == 1))
    phases = dict(
        zip(PHASES, np.diff(np.stack([begin, fetched, preprocessed, locked, served, end]), axis=0), strict=True)
    )
    for name, values in {
        "faults_per_batch": faults,
        "pages_per_batch": pages,
        "blocks_per_batch": blocks,
        "bytes_per_batch": nbytes,
        "batch_s": end - begin,
        "after_fetch_s": end - fetched,
        **{f"{phase}_s": values for phase, values in phases.items()},
    }.items():
        figures |= _distribution(name, values)
    middle = float(np.median(end - begin))
    figures |= {f"{phase}_share": float(np.median(values)) / middle for phase, values in phases.items() if middle}
    if np.ptp(nbytes) > 0:
        slope, intercept = np.polyfit(nbytes, end - begin, 1)
        figures |= {"fit_intercept_s": float(intercept), "fit_slope_s_per_byte": float(slope)}
    return figures


def _distribution(name: str, values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> dict[str, Value]:
    found: dict[str, Value] = {
        f"{name}_mean": float(np.mean(values)),
        f"{name}_median": float(np.median(values)),
        f"{name}_min": float(np.min(values)),
        f"{name}_max": float(np.max(values)),
    }
    return found | {f"{name}_p{part}": float(np.percentile(values, part)) for part in PERCENTILES}


Floats = NDArray[np.float32]

MOST_BLOCKS: Final = 65535
"""The most blocks of the triad's grid. With more elements, its threads stride over the arrays."""
TILE: Final = 16
"""The edge of the stencil's thread blocks, in threads."""
PAGE_WORDS: Final = 4096 // 4


@kernel(threads_per_team=BLOCK, precision="single")
def triad(a: Floats, b: Floats, c: Floats, factor: float) -> None:
    """Compute STREAM's triad, c = a + factor · b, on arrays of equal length."""
    for i in range(len(c)):
        c[i] = a[i] + factor * b[i]


@kernel(collapse=2, threads_per_team=TILE * TILE, precision="single")
def five_point(source: Floats, target: Floats, n: int) -> None:
    """Store in `target` the average of the four neighbours in `source` of each inner point; both are n by n grids."""
    for i in range(1, n - 1):
        for j in range(1, n - 1):
            target[i, j] = 0.25 * (source[i - 1, j] + source[i + 1, j] + source[i, j - 1] + source[i, j + 1])


@kernel(threads_per_team=BLOCK, precision="single")
def touch(data: Floats, pages: int, words: int) -> None:
    """Write one word of each of the first `pages` pages of `data`, one page a thread. words: the words in a page."""
    for page in range(pages):
        data[page * words] = 1.0


async def stream(t: cuda.HostThread, loop: KernelLoop, elements: int) -> list[Any]:
    """Make three managed arrays of `elements` numbers, write them, and run STREAM's triad on them on the device.

    `loop` times the triad. Returns the arrays.
    """
    arrays = [await t.malloc_managed(name, elements, written=True) for name in "abc"]
    async with loop.timed():
        await t.launch(triad, *arrays, 3.0, grid=min(MOST_BLOCKS, -(-elements // BLOCK)), block=BLOCK)
        await t.device_synchronize()
    return arrays


async def stencil(t: cuda.HostThread, loop: KernelLoop, n: int, iterations: int, occupied_mib: int) -> list[Any]:
    """Make two managed grids, write them, and run `iterations` five-point stencils between them; return both.

    n: the points of a grid along one side. occupied_mib: device memory in MiB that is allocated before, so that the
    grids cannot use it.
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
    """Make a managed array of `nbytes` bytes, write it, and touch its pages in order on the device, timed by `loop`.

    block: threads per block.
    """
    pages = -(-nbytes // 4096)
    data = await t.malloc_managed("data", pages * PAGE_WORDS, written=True)
    async with loop.timed():
        await t.launch(touch, data, pages, PAGE_WORDS, grid=-(-pages // block), block=block)
        await t.device_synchronize()


PRODUCT_TILE: Final = 128
"""The edge of the part of the product that a thread block computes, in elements."""
POINTS_A_PASS: Final = 4096
"""How many points a thread block transforms in shared memory: 32 KiB of single-precision complex numbers."""
NEIGHBOURS: Final = 8
"""How many neighbouring points a thread block loads of each row: two sectors."""


@kernel(collapse=2, threads_per_team=BLOCK, precision="single")
def product(a: Floats, b: Floats, c: Floats, n: int) -> None:
    """Multiply two square matrices [row, column] of `n` rows: c = a b."""
    for i in range(n):
        for j in range(n):
            total = 0.0
            for k in range(n):
                total += a[i, k] * b[k, j]
            c[i, j] = total


@kernel(collapse=3, threads_per_team=BLOCK, precision="single")
def butterflies(data: Floats, lots: int, rows: int, width: int, stages: int, cosine: float, sine: float) -> None:
    """Do `stages` stages of a Fourier transform of `data`; each point takes one complex product and one sum a stage.

    A thread block works on `rows` rows that lie far apart in the array, and on `width` neighbouring points of each row,
    which make one memory sector. lots: how many such groups of points a row has. cosine, sine: the complex factor.
    """
    for lot in range(lots):
        for row in range(rows):
            for column in range(width):
                real = data[(row * lots + lot) * width + column, 0]
                imaginary = data[(row * lots + lot) * width + column, 1]
                for _ in range(stages):
                    turned = real + real * cosine - imaginary * sine
                    imaginary = imaginary + real * sine + imaginary * cosine
                    real = turned
                data[(row * lots + lot) * width + column, 0] = real
                data[(row * lots + lot) * width + column, 1] = imaginary


async def sgemm(t: cuda.HostThread, loop: KernelLoop, n: int) -> list[Any]:
    """Multiply two `n` x `n` matrices in managed memory on the GPU, as a library's SGEMM does; return all three arrays.

    The host thread `t` allocates the two factors and the product, and writes all three. `loop` then times one launch
    with its wait.
    """
    arrays = [await t.malloc_managed(name, (n, n), fill=1.0 if name != "c" else 0.0) for name in "abc"]
    async with loop.timed():
        await t.launch(product, *arrays, n, grid=(-(-n // PRODUCT_TILE)) ** 2, block=BLOCK, library=True)
        await t.device_synchronize()
    return arrays


async def cufft(t: cuda.HostThread, loop: KernelLoop, n: int) -> None:
    """Make a managed array of `n` complex numbers, and transform it in place on the GPU (FFT), timed by `loop`.

    Each pass over the data does as many stages as fit into shared memory.
    """
    data = await t.malloc_managed("data", (n, 2), written=True)
    stages = max(1, math.ceil(math.log2(n)))
    passes = max(1, math.ceil(stages / math.log2(POINTS_A_PASS)))
    a_pass, width = -(-stages // passes), min(NEIGHBOURS, n)
    rows = min(1 << a_pass, n // width)
    lots = n // (rows * width)
    async with loop.timed():
        for _ in range(passes):
            await t.launch(
                butterflies, data, lots, rows, width, a_pass, 0.5, 0.5, grid=-(-n // BLOCK), block=BLOCK, library=True
            )
        await t.device_synchronize()


Ints = NDArray[np.int64]

Order = Literal["seq", "random", "anywhere"]
Advised = Literal["none", "prefer_host", "accessed_by", "prefetch"]

PAGE: Final = 4096
WORDS: Final = PAGE // 4
PAGES_A_BLOCK: Final = 2 * MIB // PAGE
LANES: Final = 32
CHUNKS: Final = 256 * 256
"""The most threads of the oversubscribed programs. Each thread has a contiguous chunk of pages."""


@kernel(threads_per_team=BLOCK, precision="single")
def increment(data: Floats, pages: Ints, words: int) -> None:
    """Read and write one word of each page in the list `pages`, one page a thread. words: the words in a page."""
    for k in range(len(pages)):
        data[expect(pages[k] * words, near=1)] = data[expect(pages[k] * words, near=1)] + 1.0


@kernel(threads_per_team=LANES, precision="single")
def add_pages(a: Floats, b: Floats, c: Floats, lanes: int, words: int) -> None:
    """Set the first word of each of `lanes` pages of c to the sum of those of a and b.

    Each lane (thread of the warp) has a page of its own. words: the words in a page.
    """
    for lane in range(lanes):
        c[lane * words] = a[lane * words] + b[lane * words]


@kernel(threads_per_team=BLOCK, precision="single")
def copy_chunks(source: Floats, target: Floats, threads: int, pages: int, words: int) -> None:
    """Copy one word of each page from `source` to `target`; each of `threads` threads has `pages` neighbouring pages.

    words: the words in a page.
    """
    for thread in range(threads):
        for page in range(pages):
            target[(thread * pages + page) * words] = source[(thread * pages + page) * words]


@kernel(threads_per_team=BLOCK, precision="single")
def copy_apart(source: Floats, target: Floats, threads: int, pages: int, words: int) -> None:
    """Copy one word of each page from `source` to `target`; each of `threads` threads has `pages` neighbouring pages.

    It takes them in an order in which two consecutive ones never lie in the same big page (64 KiB). words: of a page.
    """
    for thread in range(threads):
        for first in range(16):
            for k in range(pages // 16):
                target[(thread * pages + 16 * k + first) * words] = source[(thread * pages + 16 * k + first) * words]


@kernel(threads_per_team=BLOCK, precision="single")
def copy_random(source: Floats, target: Floats, order: Ints, threads: int, pages: int, words: int) -> None:
    """Copy one word of each page from `source` to `target`, in the order of the page numbers in `order`.

    Each of `threads` threads copies `pages` pages, which follow one another in `order`. words: the words in a page.
    """
    for thread in range(threads):
        for k in range(pages):
            page = order[thread * pages + k]
            target[page * words] = source[page * words]


async def sparse(t: cuda.HostThread, loop: KernelLoop, blocks: int, per_block: int, passes: int) -> list[Any]:
    """Make a managed array, write it, and increment a word in some random pages of each of its blocks on the device.

    blocks: the number of the driver's blocks of 2 MiB. per_block: pages that are chosen in each. passes: how often each
    of them is incremented. The list of pages goes through the blocks in order. The measured program takes the blocks in
    random order, which makes no difference to the driver: it looks at no neighbours beyond a block.
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
            loop.end_pass()
    return [data, listed]


def _pages_of(blocks: int, per_block: int, rng: np.random.Generator) -> Ints:
    """Draw `per_block` different pages of each block."""
    drawn = np.argsort(rng.random((blocks, PAGES_A_BLOCK)), axis=1)[:, :per_block]
    return np.ravel(drawn + np.arange(blocks)[:, None] * PAGES_A_BLOCK)


async def one_warp(t: cuda.HostThread, loop: KernelLoop) -> list[Any]:
    """Add two arrays with one warp, each lane on its own page, timed by `loop`; return the arrays."""
    arrays = [await t.malloc_managed(name, LANES * WORDS, fill=1.0) for name in "abc"]
    async with loop.timed():
        await t.launch(add_pages, *arrays, LANES, WORDS, grid=1, block=LANES)
        await t.device_synchronize()
    return arrays


async def oversubscribed(
    t: cuda.HostThread, loop: KernelLoop, nbytes: int, order: Order, advised: Advised, warm_up: int, launches: int
) -> None:
    """Make and write a managed array, then copy one word of each page of it to an array that nobody has touched.

    nbytes: of both arrays together. order: in which a thread takes its pages. advised: the memory advice or prefetch
    for both arrays. warm_up, launches: how many copies are made before the timed part and in it.
    """
    total = max(CHUNKS, nbytes // 2 // PAGE)
    pages = -(-total // CHUNKS)
    if order == "random":
        pages = -(-pages // 16) * 16  # whole big pages
    threads = total // pages  # the others have nothing to do, so that the size is what was asked for
    source = await t.malloc_managed("source", threads * pages * WORDS, written=True)
    target = await t.malloc_managed("target", threads * pages * WORDS)
    for array in (source, target):
        if advised == "prefetch":
            await t.mem_prefetch(array)
        elif advised != "none":
            advice: Advice = advised
            await t.mem_advise(array, advice)
    grid = -(-threads // BLOCK)
    sizes, listed = (threads, pages, WORDS), None
    if order == "anywhere":
        listed = await t.malloc(threads * pages, np.int64)
    # How the measured program mixes the pages of a chunk is not said; what matters is that neighbours do not follow.
    sweep = copy_chunks if order == "seq" else copy_apart

    async def copy(times: int) -> None:
        for _ in range(times):
            if listed is not None:
                await t.launch(copy_random, source, target, listed, *sizes, grid=grid, block=BLOCK)
            else:
                await t.launch(sweep, source, target, *sizes, grid=grid, block=BLOCK)
            await t.device_synchronize()

    await copy(warm_up)
    async with loop.timed():
        await copy(launches)


Flags = NDArray[np.int32]

QUADRANTS: Final = (0.57, 0.19, 0.19, 0.05)
EDGES_A_VERTEX: Final = 16
SAMPLED_SCALE: Final = 17
PAGE_ROWS: Final = 4096 // 8


@kernel(threads_per_team=BLOCK)
def expand(
    frontier: Ints,
    rows: Ints,
    targets: Ints,
    visited: Flags,
    following: Ints,
    counter: Ints,
    size: int,
    degree: float,
    fresh: float,
) -> None:
    """Visit the neighbours of the frontier, one vertex a thread; append newly found vertices to the next frontier.

    frontier, following: the vertices of this frontier and of the next. rows, targets: the graph, where vertex v's edges
    lead to ``targets[rows[v]:rows[v + 1]]``. visited: a flag for each vertex. counter: the length of `following`. size:
    the length of the frontier. degree: the mean number of edges of its vertices. fresh: the fraction of edges that lead
    to new vertices.
    """
    for k in range(size):
        vertex = frontier[k]
        for e in expect(range(rows[vertex], rows[vertex + 1]), trips=degree):
            neighbour = targets[e]
            if expect(visited[neighbour] == 0, probability=fresh):
                visited[neighbour] = 1
                following[expect(counter[0], near=1)] = neighbour
                counter[0] = counter[0] + 1


@attrs.frozen(eq=False)
class RmatGraph:
    """A directed graph: vertex v's edges lead to `targets[rows[v]:rows[v + 1]]`, each once."""

    rows: Ints
    targets: Ints

    @classmethod
    def random(cls, scale: int, seed: int) -> RmatGraph:
        """Make a random graph of 2**scale vertices (Chakrabarti, Zhan, Faloutsos, R-MAT, SDM 2004)."""
        rng, count = np.random.default_rng(seed), 1 << scale
        a, b, c, _ = QUADRANTS
        edges = np.zeros(count * EDGES_A_VERTEX, np.int64)
        for bit in range(scale):
            drawn = rng.random(edges.size)
            edges |= (drawn >= a + b).astype(np.int64) << (scale + bit)
            edges |= (((drawn >= a) & (drawn < a + b)) | (drawn >= a + b + c)).astype(np.int64) << bit
        edges, _ = np.unique(
            edges, return_counts=True
        )  # sorts; without counts numpy hashes, and takes six times as long
        source, target = edges >> scale, edges & (count - 1)
        rows = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(source, minlength=count), out=rows[1:])
        return cls(rows, target)


@attrs.frozen(eq=False)
class RmatLevel:
    """One level of a breadth-first search: the vertices it starts from, the edges, and the vertices it reaches."""

    frontier: Ints
    """The vertices whose neighbours are visited."""
    edges: int
    """The number of their edges."""
    reached: Ints
    """The vertices that this level reaches first, in the order of their numbers."""


def search(graph: RmatGraph, start: int) -> list[RmatLevel]:
    """Search a graph breadth first from the vertex `start`, level by level. The last level reaches nothing new."""
    visited = np.zeros(graph.rows.size - 1, np.bool_)
    visited[start] = True
    frontier, levels = np.array([start], np.int64), list[RmatLevel]()
    while frontier.size:
        first, degrees = graph.rows[frontier], graph.rows[frontier + 1] - graph.rows[frontier]
        total = int(degrees.sum())
        ends = graph.targets[np.repeat(first - np.cumsum(degrees) + degrees, degrees) + np.arange(total)]
        reached = np.unique(ends[~visited[ends]])
        visited[reached] = True
        levels.append(RmatLevel(frontier, total, reached))
        frontier = reached
    return levels


@functools.lru_cache(maxsize=2)
def sampled(scale: int, seed: int) -> tuple[RmatGraph, tuple[RmatLevel, ...]]:
    """Return a random graph of 2**scale vertices, and the levels of its search from the vertex with most edges."""
    graph = RmatGraph.random(scale, seed)
    return graph, tuple(search(graph, int(np.argmax(np.diff(graph.rows)))))


async def bfs(t: cuda.HostThread, loop: KernelLoop, scale: int, seed: int) -> dict[str, int]:
    """Make and write a random graph of 2**scale vertices, and search it breadth first on the GPU, timed by `loop`.

    Returns the number of levels and of vertices reached.
    """
    graph, levels = sampled(min(scale, SAMPLED_SCALE), seed)
    times, count = 1 << max(0, scale - SAMPLED_SCALE), 1 << scale
    edges = graph.targets.size * times
    arrays = {
        "rows": await t.malloc_managed("rows", count + 1, np.int64, written=True),
        "targets": await t.malloc_managed("targets", edges, np.int64, written=True),
        "visited": await t.malloc_managed("visited", count, np.int32, written=True),
    }
    frontiers = [await t.malloc_managed(name, count, np.int64, written=True) for name in ("frontier", "following")]
    counter = await t.malloc_managed("counter", 1, np.int64, written=True)
    reached = 1
    async with loop.timed():
        for depth, level in enumerate(levels):
            size, new = (level.frontier.size * times if depth else 1), level.reached.size * times
            fresh = min(1.0, level.reached.size / max(level.edges, 1))
            degree = level.edges / level.frontier.size
            frontier, following = frontiers
            await t.host_access(counter)
            appended = attrs.evolve(following, shape=(max(new, 1),))
            await t.launch(
                expand, frontier, *arrays.values(), appended, counter, size, degree, fresh,
                grid=-(-size // BLOCK), block=BLOCK,
            )  # fmt: skip
            await t.device_synchronize()
            await t.host_access(counter)
            if new:
                await t.host_access(section(following, 0, new))
                await _walk(t, arrays["rows"], level.reached, times)
            reached += new
            frontiers.reverse()
    return {"levels": len(levels), "reached": reached}


async def _walk(t: cuda.HostThread, rows: Any, reached: Ints, times: int) -> None:
    """Let the host read the row pointers of the vertices that were reached, each page once."""
    pages = np.unique(reached * times // PAGE_ROWS)
    ends = np.flatnonzero(np.diff(pages, append=pages[-1] + 2) > 1)
    first = 0
    for last in ends.tolist():
        low = int(pages[first]) * PAGE_ROWS
        await t.host_access(section(rows, low, min((int(pages[last]) + 1) * PAGE_ROWS, len(rows)) - low))
        first = last + 1


Allocated = Literal["device", "managed", "pinned"]
CopyKind = Literal["pinned", "pageable"]
CopyDirection = Literal["h2d", "d2h"]


@kernel(threads_per_team=BLOCK, precision="single")
def add(a: Floats, b: Floats, c: Floats) -> None:
    """Add two vectors: c = a + b."""
    for i in range(len(c)):
        c[i] = a[i] + b[i]


@attrs.define
class MeanTime:
    """The mean time of an operation over all threads and repetitions: `total_s` virtual seconds for `count` of them."""

    run: Run
    total_s: float = 0.0
    count: int = 0

    async def of(self, operation: Callable[[], Awaitable[object]], times: int = 1) -> None:
        """Time an operation that counts as `times` repetitions."""
        begin = self.run.sim.now
        await operation()
        self.total_s += self.run.sim.now - begin
        self.count += times

    @property
    def mean_s(self) -> float:
        """Return the mean time in seconds."""
        return self.total_s / self.count


async def launches(
    t: cuda.HostThread, times: dict[str, MeanTime], elements: int, repeats: int, by_value: int = 0
) -> None:
    """Launch a kernel `repeats` times in this thread's own stream: first back to back, then waiting for each launch.

    elements: of each array. times: gets the mean times of a call, of a launch back to back, and of a launch with its
    wait. by_value: bytes of structs that each launch passes by value.
    """
    a, b, c = [await t.malloc(elements, np.float32) for _ in range(3)]
    stream = await t.stream_create(non_blocking=True)
    grid = -(-elements // BLOCK)

    async def launch() -> None:
        await t.launch(add, a, b, c, grid=grid, block=BLOCK, stream=stream, by_value=by_value)

    async def fenced() -> None:
        await launch()
        await t.stream_synchronize(stream)

    async def back_to_back() -> None:
        for _ in range(repeats):
            await times["call"].of(launch)
        await t.stream_synchronize(stream)

    await fenced()
    await times["back_to_back"].of(back_to_back, repeats)
    for _ in range(repeats):
        await times["fenced"].of(fenced)


async def allocations(
    t: cuda.HostThread, times: dict[str, MeanTime], memory: Allocated, nbytes: int, repeats: int
) -> None:
    """Allocate `nbytes` bytes of a kind of memory and free them, `repeats` times; `times` gets each call's mean time.

    memory: the kind, such as device memory or pinned host memory.
    """
    for number in range(repeats):
        made: list[object] = []

        async def allocate(number: int = number, made: list[object] = made) -> None:
            if memory == "device":
                made.append(await t.malloc(nbytes))
            elif memory == "managed":
                made.append(await t.malloc_managed(f"block {number}", nbytes, np.uint8))
            else:
                made.append(await t.malloc_host(nbytes))

        async def free(made: list[object] = made) -> None:
            (block,) = made
            if isinstance(block, int):
                await t.free_host(block)
            else:
                await t.free(block)  # type: ignore[arg-type]  # an array of device or managed memory

        await times["alloc"].of(allocate)
        await times["free"].of(free)


async def copies(
    t: cuda.HostThread,
    times: dict[str, MeanTime],
    direction: CopyDirection,
    memory: CopyKind,
    nbytes: int,
    repeats: int,
) -> None:
    """Copy `nbytes` bytes to or from pinned or pageable memory `repeats` times, with waits; `times` gets mean times."""
    there = await t.malloc(nbytes)
    is_pinned = memory == "pinned"
    here = await t.host_alloc("host", nbytes, np.uint8) if is_pinned else t.array("host", nbytes, np.uint8, fill=0)

    async def copy() -> None:
        await t.memcpy(*((there, here) if direction == "h2d" else (here, there)))

    for _ in range(repeats):
        await times["copy"].of(copy)


VARIES: Final = 0.2


@attrs.define
class SharedMutex:
    """Mutex number `number`, with the wake-up cost of C++'s `std::mutex`; `operations`: how often it was taken."""

    run: Run
    number: int
    operations: int = 0
    lock: HostLock = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        spec = self.run.machine.spec
        self.lock = HostLock(
            self.run.machine,
            f"mutex {self.number}",
            lock_policy(spec.text("table.handoff")),
            spec.value("table.handover"),
            category="compute",
            wait_category="threads",
        )

    async def use(self, until: float, inside_s: float, outside_s: float) -> None:
        """Until the virtual time `until`, work for `outside_s` seconds, then take the mutex and work for `inside_s`."""
        sim, machine = self.run.sim, self.run.machine
        while sim.now < until:
            if outside_s:
                await machine.work(outside_s * sim.rng.uniform(1.0 - VARIES, 1.0 + VARIES), "compute")
            await self.lock.enter(inside_s)
            self.lock.release()
            self.operations += 1


async def contend(run: Run, sharing: int, threads: int, inside_s: float, outside_s: float, seconds: float) -> int:
    """Let `threads` threads use mutexes for `seconds` virtual seconds; return the number of operations of all of them.

    sharing: the threads that share a mutex. A thread in turn works for `outside_s` seconds, takes the mutex, and works
    for `inside_s` seconds with it.
    """
    mutexes = [SharedMutex(run, number) for number in range(max(1, threads // sharing))]
    until = run.sim.now + seconds
    async with run.sim.open_nursery() as nursery:
        for mutex in mutexes:
            for _ in range(sharing):
                nursery.spawn(mutex.use, until, inside_s, outside_s)
    return sum(mutex.operations for mutex in mutexes)
