"""Unified memory (the paper's section 4.2): Algorithm 2 with a memory manager of managed blocks, and no device copies.

The host copies a batch into the block (CPU memcpy), where it faults on pages that the device owns; the kernel faults on
those that the host owns; the host copies the results out and faults again. Only blocks of the manager are managed
memory: the patches stay where they are.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np

from offloadrt.models import openmp as omp
from offloadrt.papers.exahype.program.algorithms import Offload
from offloadrt.papers.exahype.program.gathering import gather, scatter
from offloadrt.papers.exahype.program.geometry import DOUBLE
from offloadrt.papers.exahype.program.kernels import block_values


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
