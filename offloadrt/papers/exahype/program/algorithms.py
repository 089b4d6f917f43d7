"""Algorithms 1 and 2 of the paper: how a host thread takes one batch of patches to a device and back.

`OffloadMap` names every patch in map clauses: the runtime's present table allocates, copies and frees per patch.
`OffloadManaged` asks the host-side GPU memory manager for blocks and hands device pointers to the kernel: no table.
Both return with the updated patch, without halo and packed, at the front of each patch's host array.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import attrs
import numpy as np

from offloadrt.models import openmp as omp
from offloadrt.models.openmp.routines import must_copy
from offloadrt.papers.exahype.program.gathering import gather, scatter
from offloadrt.papers.exahype.program.geometry import DOUBLE
from offloadrt.papers.exahype.program.kernels import UpdateKernels, block_values
from offloadrt.papers.exahype.program.setup import Setup


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
