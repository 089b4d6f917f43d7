"""Gathering the scattered patches of a batch into one block, and scattering the results: the host's memcpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from offloadrt.models import openmp as omp
from offloadrt.papers.exahype.program.geometry import PatchGeometry


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
