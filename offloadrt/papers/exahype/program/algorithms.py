"""Algorithms 1 and 2 of the paper: how a host thread takes one batch of patches to a device and back.

`OffloadMap` names every patch in map clauses: the runtime's present table allocates, copies and frees per patch.
`OffloadManaged` asks the host-side GPU memory manager for blocks and hands device pointers to the kernel: no table.
Both return with the updated patch, without halo and packed, at the front of each patch's host array.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from offloadrt.models import openmp as omp
from offloadrt.models.openmp.routines import must_copy
from offloadrt.papers.exahype.program.euler import DOUBLE, PatchGeometry
from offloadrt.papers.exahype.program.kernels import Setup, UpdateKernels, block_values


async def gather(
    t: omp.HostThread, geometry: PatchGeometry, batch: Sequence[omp.HostArray], block: omp.HostArray
) -> None:
    """Copy the patches of the batch, one after another, to the front of `block`."""
    await t.program.machine.host_memory.copy(len(batch) * geometry.input_bytes)
    if not block.phantom:
        values = geometry.input_values
        for number, patch in enumerate(batch):
            block[number * values : (number + 1) * values] = patch[:values]


async def scatter(
    t: omp.HostThread, geometry: PatchGeometry, results: NDArray[np.float64] | None, batch: Sequence[omp.HostArray]
) -> None:
    """Copy results, one patch after another (None: phantoms), to the front of each patch of the batch."""
    await t.program.machine.host_memory.copy(len(batch) * geometry.output_bytes)
    if results is not None:
        values = geometry.output_values
        for number, patch in enumerate(batch):
            patch[:values] = results[number * values : (number + 1) * values]


@attrs.define
class Offload(ABC):
    """One host thread's way of offloading; called with a batch of patches (flat host arrays with halo)."""

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
    """Algorithm 1: `target enter data`, `omp_get_mapped_ptr`, one kernel over the pointer list, `target exit data`.

    For n patches: n + 2 device allocations and frees, n + 1 copies in, n copies out, one kernel.
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
    """Algorithm 2: blocks from the GPU memory manager, one kernel on device pointers.

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
"""The host array of the patch with this number, allocated by this thread."""


async def burst(t: omp.HostThread, offload: Offload, batches: Sequence[range], make_patch: MakePatch) -> list[int]:
    """Offload this thread's `batches` one after another; returns the sizes of the batches."""
    patches = [[make_patch(t, number) for number in batch] for batch in batches]
    for batch in patches:
        await offload(batch)
    return [len(batch) for batch in patches]


@attrs.define
class EnclaveQueue:
    """The queue of pooled tasks that all threads of a rank share.

    Emulated threads change only where they wait, so putting and taking need no lock; a real queue's lock is short.
    """

    threshold: int
    """Tasks that make a batch."""
    producing: int
    """The number of threads that still spawn tasks."""
    tasks: deque[omp.HostArray] = attrs.field(factory=deque)

    def take(self) -> list[omp.HostArray]:
        """Take a batch if the threshold is reached, or what is left when nobody spawns any more; otherwise nothing."""
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
    """Spawn this thread's patches as tasks (`spawn_s` seconds each) and deploy batches as they fill.

    Returns the sizes of the batches that this thread deployed.
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
    """A block of managed memory holds the patches of the batch and room for the results.

    With `memory=managed+prefetch` the block migrates by cuMemPrefetchAsync, to the device before the kernel and back
    after it. Both are waited for: OpenMP gives no stream that the kernel would share with them.
    """

    manager: omp.UnifiedMemoryManager
    device_manager: omp.GpuMemoryManager | None
    """The manager of the kernel's temporaries; None when they are managed memory too."""

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
        """Run the kernel, with temporaries for it."""
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
