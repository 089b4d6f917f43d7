"""The experiment: host threads that offload all patches of a `Setup` once, and what is counted on the way.

Algorithms 1 and 2 of the paper say how a host thread takes one batch of patches to a device and back. `OffloadMap`
names every patch in map clauses: the runtime's present table allocates, copies and frees per patch. `OffloadManaged`
requests blocks from the host-side GPU memory manager and passes device pointers to the kernel, without a present table.
Both return with the updated patch, without halo and packed, at the front of each patch's host array.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from offloadrt.models import openmp as omp
from offloadrt.papers.exahype.memory_manager import must_copy
from offloadrt.papers.exahype.program.kernels import (
    DOUBLE,
    PatchDomain,
    PatchGeometry,
    Setup,
    UpdateKernels,
    block_values,
)
from offloadrt.study.errors import ParameterError


async def gather(
    t: omp.HostThread, geometry: PatchGeometry, batch: Sequence[omp.HostArray], block: omp.HostArray
) -> None:
    """Copy, on the host, the patches of the batch, one after another, to the front of `block`, in thread `t`.

    geometry: the patches' sizes. batch: an array for each patch, with its halo.
    """
    await t.program.machine.host_memory.copy(len(batch) * geometry.input_bytes)
    if not block.phantom:
        values = geometry.input_values
        for number, patch in enumerate(batch):
            block[number * values : (number + 1) * values] = patch[:values]


async def scatter(
    t: omp.HostThread, geometry: PatchGeometry, results: NDArray[np.float64] | None, batch: Sequence[omp.HostArray]
) -> None:
    """Copy results, on the host, to the front of each patch of the batch.

    results: the updated patches, one after another, flat and without halo; None for phantoms. batch: the patches'
    arrays.
    """
    await t.program.machine.host_memory.copy(len(batch) * geometry.output_bytes)
    if results is not None:
        values = geometry.output_values
        for number, patch in enumerate(batch):
            patch[:values] = results[number * values : (number + 1) * values]


@attrs.define
class Offload(ABC):
    """Offloads batches of patches for one host thread.

    An instance is called with a batch, as flat host arrays of patches with their halo. t: the thread. setup: the
    experiment's parameters. kernels: those of the experiment. dt_over_dx: time step over volume length.
    """

    t: omp.HostThread
    setup: Setup
    kernels: UpdateKernels
    dt_over_dx: float
    device: int

    @abstractmethod
    async def __call__(self, batch: Sequence[omp.HostArray]) -> None:
        """Offload one batch."""


@attrs.define
class OffloadMap(Offload):
    """The paper's Algorithm 1: map clauses for each patch, and one kernel that gets a list of device pointers.

    It uses `target enter data`, `omp_get_mapped_ptr` and `target exit data`. For n patches: n + 2 device allocations
    and frees, n + 1 copies in, n copies out, one kernel.
    """

    async def __call__(self, batch: Sequence[omp.HostArray]) -> None:
        t, device, geometry, count = self.t, self.device, self.setup.geometry, len(batch)
        pointers = t.array("patch pointers", count, np.uint64, phantom=self.setup.phantom, kind="heap")
        for number, patch in enumerate(batch):
            await t.target_enter_data(omp.map(to=patch), device=device)
            mapped = await t.omp_get_mapped_ptr(patch, device=device)
            if not pointers.phantom:
                # A configuration without copies enters nothing into the table: kernels then use the host's address.
                pointers[number] = patch.address if mapped is None else mapped.address
        values, updated = count * geometry.temporary_values, geometry.output_values
        temporaries = t.array("temporaries", values, phantom=self.setup.phantom, kind="heap")
        await t.target(
            self.kernels.scattered,
            omp.pointees(pointers, geometry.input_values, np.float64),
            temporaries,
            self.dt_over_dx,
            maps=[omp.map(to=pointers), omp.map(alloc=temporaries)],
            teams=count,
            threads=self.kernels.threads,
            iterations=count * geometry.volumes,
            device=device,
        )
        t.free(temporaries)
        for patch in batch:
            await t.target_exit_data(omp.map(from_=omp.section(patch, 0, updated)), device=device)
        t.free(pointers)


@attrs.define
class OffloadManaged(Offload):
    """The paper's Algorithm 2: blocks from the GPU memory manager, and one kernel that gets device pointers to them.

    A block holds the patches of the batch and room for the results. With `gather=batch` the host gathers the patches
    into one array, which goes over in one copy, and scatters the results that came back in one copy; with
    `gather=patch` every patch is copied by itself.
    """

    manager: omp.GpuMemoryManager

    async def __call__(self, batch: Sequence[omp.HostArray]) -> None:
        t, device, geometry, count = self.t, self.device, self.setup.geometry, len(batch)
        phantom, gather_on_host = self.setup.phantom, self.setup.gather == "batch"
        size = DOUBLE * block_values(geometry, count)
        if gather_on_host:
            gathered = t.array("gathered batch", count * geometry.input_values, phantom=phantom, kind="heap")
            await gather(t, geometry, batch, gathered)
            block = await self.manager.allocate(t, size, device=device, phantom=phantom)
            await must_copy(t, block, gathered, gathered.nbytes)
            t.free(gathered)
        else:
            block = await self.manager.allocate(t, size, device=device, phantom=phantom)
            for number, patch in enumerate(batch):
                at = number * geometry.input_bytes
                await must_copy(t, block, patch, geometry.input_bytes, dst_offset=at)
        size = count * geometry.temporary_bytes
        temporaries = await self.manager.allocate(t, size, device=device, phantom=phantom)
        await t.target(
            self.kernels.gathered,
            block.viewed(np.float64),
            temporaries.viewed(np.float64),
            self.dt_over_dx,
            teams=count,
            threads=self.kernels.threads,
            iterations=count * geometry.volumes,
            device=device,
        )
        await self.manager.free(t, temporaries)
        results = count * geometry.input_bytes
        if gather_on_host:
            values = count * geometry.output_values
            updated = t.array("updated batch", values, phantom=phantom, kind="heap")
            await must_copy(t, updated, block, updated.nbytes, src_offset=results)
            await self.manager.free(t, block)
            await scatter(t, geometry, updated.values, batch)
            t.free(updated)
        else:
            for number, patch in enumerate(batch):
                at = results + number * geometry.output_bytes
                await must_copy(t, patch, block, geometry.output_bytes, src_offset=at)
            await self.manager.free(t, block)


MakePatch = Callable[[omp.HostThread, int], omp.HostArray]
"""Returns the host array of the patch with this number; the thread allocates it."""


async def burst(t: omp.HostThread, offload: Offload, batches: Sequence[range], make_patch: MakePatch) -> list[int]:
    """Make the patches of all batches, then offload one batch after the other; return each batch's number of patches.

    batches: the numbers of the patches in each batch. make_patch: makes the array of a patch by its number.
    """
    patches = [[make_patch(t, number) for number in batch] for batch in batches]
    for batch in patches:
        await offload(batch)
    return [len(batch) for batch in patches]


@attrs.define
class EnclaveQueue:
    """The queue of tasks (patches to update, ExaHyPE's enclave tasks) that all threads of an MPI rank share.

    It needs no lock here, since emulated threads change only where they wait; a real queue holds a lock for a short
    time.
    """

    threshold: int
    """The number of tasks that make a batch."""
    producing: int
    """The number of threads that still spawn tasks."""
    tasks: deque[omp.HostArray] = attrs.field(factory=deque)

    def take(self) -> list[omp.HostArray]:
        """Remove and return a batch of `threshold` tasks as soon as there are so many; else an empty list.

        When no thread spawns tasks any more, the rest is returned, which may be fewer.
        """
        if len(self.tasks) < self.threshold and self.producing:
            return []
        return [self.tasks.popleft() for _ in range(min(self.threshold, len(self.tasks)))]


async def enclave(
    t: omp.HostThread,
    offload: Offload,
    batches: Sequence[range],
    make_patch: MakePatch,
    queue: EnclaveQueue,
    spawn_s: float,
) -> list[int]:
    """Spawn this thread's patches as tasks (`spawn_s` seconds each), and offload batches as they fill.

    Returns how many patches each batch has that this thread offloaded. batches: the numbers of the thread's patches.
    make_patch: makes the array of a patch by its number. queue: the tasks of all threads.
    """
    patches = [make_patch(t, number) for batch in batches for number in batch]
    deployed: list[int] = []
    for patch in patches:
        await t.compute(spawn_s)
        queue.tasks.append(patch)
        if batch := queue.take():
            deployed.append(len(batch))
            await offload(batch)
    queue.producing -= 1
    while batch := queue.take():
        deployed.append(len(batch))
        await offload(batch)
    return deployed


@attrs.define
class OffloadUnified(Offload):
    """Offloads through a block of managed memory that holds the patches of the batch and room for the results.

    With `memory=managed+prefetch` the block migrates by cuMemPrefetchAsync, to the device before the kernel and back
    after it. The thread waits for both: OpenMP gives no stream that the kernel would share with them.
    """

    manager: omp.UnifiedMemoryManager
    device_manager: omp.GpuMemoryManager | None
    """The manager of the device memory for the kernel's temporaries; None when they are in managed memory, too."""

    async def __call__(self, batch: Sequence[omp.HostArray]) -> None:
        t, geometry, count, phantom = self.t, self.setup.geometry, len(batch), self.setup.phantom
        prefetches = self.setup.memory == "managed+prefetch"
        size = DOUBLE * block_values(geometry, count)
        block = (await self.manager.allocate(t, size, device=self.device, phantom=phantom)).viewed(np.float64)
        inputs = count * geometry.input_values
        await t.host_access(omp.section(block, 0, inputs))
        await gather(t, geometry, batch, block)
        if prefetches:
            await t.prefetch(block)
        await self._update(block, count)
        if prefetches:
            await t.prefetch(block, to_host=True)
        results = omp.section(block, inputs, count * geometry.output_values)
        await t.host_access(results)
        await scatter(t, geometry, None if phantom else block[inputs:], batch)
        await self.manager.free(t, block)

    async def _update(self, block: omp.HostArray, count: int) -> None:
        """Run the kernel, with memory for its temporaries."""
        t, phantom = self.t, self.setup.phantom
        size = count * self.setup.geometry.temporary_bytes
        if self.device_manager is not None:
            pointer = await self.device_manager.allocate(t, size, device=self.device, phantom=phantom)
            await self._launch(block, pointer.viewed(np.float64), count)
            await self.device_manager.free(t, pointer)
        else:
            managed = await self.manager.allocate(t, size, device=self.device, phantom=phantom)
            await self._launch(block, managed.viewed(np.float64), count)
            await self.manager.free(t, managed)

    async def _launch(self, block: omp.HostArray, temporaries: omp.HostArray | omp.DevicePointer, count: int) -> None:
        await self.t.target(
            self.kernels.gathered,
            block,
            temporaries,
            self.dt_over_dx,
            is_device_ptr=[block, temporaries],
            teams=count,
            threads=self.kernels.threads,
            iterations=count * self.setup.geometry.volumes,
            device=self.device,
        )


GAMMA = 1.4


def rusanov_reference(patch: NDArray[np.float64], dt_over_dx: float) -> NDArray[np.float64]:
    """Return a patch, without halo, after one Rusanov step, computed by plain NumPy.

    patch: shape (p + 2, ..., p + 2, N), for p volumes in each of d dimensions and N = d + 2 unknowns. The result has
    the shape (p, ..., p, N).
    """
    dimensions = patch.ndim - 1
    density, energy = patch[..., 0], patch[..., -1]
    kinetic = patch[..., 1] * patch[..., 1]
    for k in range(1, dimensions):
        kinetic = kinetic + patch[..., 1 + k] * patch[..., 1 + k]
    pressure = (GAMMA - 1.0) * (energy - 0.5 * kinetic / density)
    sound = np.sqrt(GAMMA * pressure / density)

    inner = (slice(1, -1),) * dimensions
    change = np.zeros_like(patch[inner])
    for k in range(dimensions):
        velocity = patch[..., 1 + k] / density
        flux = patch * velocity[..., None]
        flux[..., 0] = patch[..., 1 + k]
        flux[..., 1 + k] = flux[..., 1 + k] + pressure
        flux[..., -1] = (energy + pressure) * velocity
        speed = np.abs(velocity) + sound

        lower = tuple(slice(0, -1) if axis == k else slice(1, -1) for axis in range(dimensions))
        upper = tuple(slice(1, None) if axis == k else slice(1, -1) for axis in range(dimensions))
        half = 0.5 * np.maximum(speed[lower], speed[upper])[..., None]
        faces = 0.5 * (flux[lower] + flux[upper]) - half * (patch[upper] - patch[lower])
        difference = np.diff(faces, axis=k)
        change = difference if k == 0 else change + difference
    result: NDArray[np.float64] = patch[inner] - dt_over_dx * change
    return result


MAX_WARM_UP_PASSES = 10
CFL = 0.5
"""The CFL number of the time step of real data."""


@attrs.frozen
class Numbers:
    """The state of all patches after a time step that computed values (phantoms have a size, but no values)."""

    equal_to_reference: bool
    """Whether every patch equals the plain NumPy reference in every bit."""
    mass: float
    """Density summed over all volumes after the step."""
    mass_change: float
    """The change of that sum in the step."""
    crc32: int
    """Checksum of the state after the step."""


@attrs.frozen
class Updated:
    """The numbers of batches, patches and volumes (cells) that one pass over all patches has updated."""

    batches: int
    patches: int
    volumes: int
    blocks: int
    """The number of blocks that the memory managers have acquired so far; 0 with map clauses."""
    hits: int
    """The number of requests that a manager met with a block it had."""
    numbers: Numbers | None
    """The results with real data; None for phantom data."""

    def measured(self) -> dict[str, float | int | bool]:
        """Return the counts and results as one flat dict, as results of a run show them."""
        counts = attrs.asdict(self, filter=attrs.filters.exclude("numbers"))
        return counts if self.numbers is None else counts | attrs.asdict(self.numbers)


@attrs.define
class Experiment:
    """Runs what a `Setup` describes on an OpenMP program. With real data it has the domain from which patches come.

    Raises ParameterError for managed memory where the machine has none.
    """

    program: omp.OpenMP
    setup: Setup
    domain: PatchDomain | None = attrs.field(init=False)
    manager: omp.GpuMemoryManager | None = attrs.field(init=False)
    """The manager of device memory; None where the setup does not use one."""
    unified_manager: omp.UnifiedMemoryManager | None = attrs.field(init=False)
    """The manager of managed memory; None where the setup does not use one."""
    kernels: UpdateKernels = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        setup = self.setup
        self.domain = None if setup.phantom else PatchDomain.with_patches(setup.geometry, setup.total_patches)
        try:
            self.unified_manager = omp.UnifiedMemoryManager(self.program) if setup.migrates else None
        except omp.UnifiedMemoryUnavailable as error:
            raise ParameterError("memory", f"{setup.memory}: {error}") from None
        on_device = setup.memory == "pool" or (setup.migrates and setup.temporaries == "device")
        self.manager = omp.GpuMemoryManager(self.program) if on_device else None
        self.kernels = UpdateKernels.of(setup)

    async def warm_up(self) -> None:
        """Offload all patches, and do so again until a pass makes the memory manager acquire no new blocks.

        The domain does not change. Several passes are needed: in the first one, threads that wait for one another's
        allocations need fewer blocks at the same time than later. The paper does not report this, as its totals are far
        larger.
        """
        for _ in range(MAX_WARM_UP_PASSES):
            before, _ = self._held()
            updated = await self.update(keep=False)
            if updated.blocks == before:
                break

    async def update(self, *, keep: bool = True) -> Updated:
        """Advance all patches by one time step: exchange halos, offload every batch, and store results in the domain.

        keep: whether the domain stores the results.
        """
        setup, domain = self.setup, self.domain
        if domain is None:
            sizes = await self._offload_all(lambda t, number: self._patch(t, number, None), 0.0)
            return self._updated(sizes, None)
        before, dt_over_dx = domain.mass, domain.dt_over_dx(CFL)
        blocks = domain.with_halos()
        arrays: dict[int, omp.HostArray] = {}

        def make_patch(t: omp.HostThread, number: int) -> omp.HostArray:
            arrays[number] = self._patch(t, number, blocks[number])
            return arrays[number]

        sizes = await self._offload_all(make_patch, dt_over_dx)
        results = [arrays[number][: setup.geometry.output_values] for number in range(setup.total_patches)]
        expected = [rusanov_reference(block.reshape(setup.geometry.input_shape), dt_over_dx) for block in blocks]
        equal = all(a.tobytes() == b.tobytes() for a, b in zip(results, expected, strict=True))
        if keep:
            domain.take(results)
        crc32 = zlib.crc32(domain.state.tobytes())
        return self._updated(sizes, Numbers(equal, domain.mass, domain.mass - before, crc32))

    def _patch(self, t: omp.HostThread, number: int, fill: NDArray[np.float64] | None) -> omp.HostArray:
        """Allocate the host array of patch `number` with its halo, in the heap of thread `t`."""
        values = self.setup.geometry.input_values
        return t.array(f"patch {number}", values, fill=fill, phantom=self.setup.phantom, kind="heap")

    async def _offload_all(self, make_patch: MakePatch, dt_over_dx: float) -> list[list[int]]:
        """Run the parallel region; return for each thread the sizes of the batches that it offloaded."""
        setup, shares = self.setup, self.setup.shares()
        queue = EnclaveQueue(threshold=setup.batch, producing=setup.threads)
        spawn_s = self.program.machine.spec.value("runtime.task")

        def body(t: omp.HostThread) -> Awaitable[list[int]]:
            offload = self._offload(t, t.number % setup.devices, dt_over_dx)
            if setup.arrival == "burst":
                return burst(t, offload, shares[t.number], make_patch)
            return enclave(t, offload, shares[t.number], make_patch, queue, spawn_s)

        return list(await self.program.parallel(body, num_threads=setup.threads))

    def _offload(self, t: omp.HostThread, device: int, dt_over_dx: float) -> Offload:
        """Make the offloading of one host thread: Algorithm 1 or 2, or 2 on managed memory."""
        if self.unified_manager is not None:
            return OffloadUnified(t, self.setup, self.kernels, dt_over_dx, device, self.unified_manager, self.manager)
        if self.manager is None:
            return OffloadMap(t, self.setup, self.kernels, dt_over_dx, device)
        return OffloadManaged(t, self.setup, self.kernels, dt_over_dx, device, self.manager)

    def _updated(self, sizes: list[list[int]], numbers: Numbers | None) -> Updated:
        """Return the counts of a pass, from the sizes of the batches that each thread offloaded."""
        batches = [size for of_thread in sizes for size in of_thread]
        patches = sum(batches)
        blocks, hits = self._held()
        return Updated(len(batches), patches, patches * self.setup.geometry.volumes, blocks, hits, numbers)

    def _held(self) -> tuple[int, int]:
        """Return the number of blocks in the memory managers, and of the requests that they met with one of these."""
        managers = [manager for manager in (self.manager, self.unified_manager) if manager is not None]
        statistics = [manager.statistics() for manager in managers]
        return sum(pool.blocks for pool in statistics), sum(pool.hits for pool in statistics)
