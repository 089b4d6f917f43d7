"""Library calls over managed memory: a matrix product and a Fourier transform.

The libraries' own code is not public. The product is counted as its definition in source, with every element moved
once; a library that re-reads tiles from memory moves more. The transform is counted as passes over the data.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from offloadrt.kernels import kernel
from offloadrt.models import cuda
from offloadrt.papers.independent.programs.managed import BLOCK, KernelLoop

Floats = NDArray[np.float32]

TILE: Final = 128
"""Edge of the part of the product that a thread block computes."""
POINTS_A_PASS: Final = 4096
"""Points that a thread block transforms in shared memory: 32 KiB of single-precision complex numbers."""


@kernel(collapse=2, threads_per_team=BLOCK, precision="single")
def product(a: Floats, b: Floats, c: Floats, n: int) -> None:
    """Multiply two square matrices."""
    for i in range(n):
        for j in range(n):
            total = 0.0
            for k in range(n):
                total += a[i, k] * b[k, j]
            c[i, j] = total


@kernel(threads_per_team=BLOCK, precision="single")
def butterflies(data: Floats, stages: int, cosine: float, sine: float) -> None:
    """Do some stages of a transform on what a block holds: one complex product and sum a stage and point."""
    for i in range(data.shape[0]):
        real = data[i, 0]
        imaginary = data[i, 1]
        for _ in range(stages):
            turned = real + real * cosine - imaginary * sine
            imaginary = imaginary + real * sine + imaginary * cosine
            real = turned
        data[i, 0] = real
        data[i, 1] = imaginary


async def sgemm(t: cuda.HostThread, loop: KernelLoop, n: int) -> list[Any]:
    """Multiply two matrices that this thread has written, as it has the result's; return all three."""
    arrays = [await t.malloc_managed(name, (n, n), fill=1.0 if name != "c" else 0.0) for name in "abc"]
    async with loop.timed():
        await t.launch(product, *arrays, n, grid=(-(-n // TILE)) ** 2, block=BLOCK, library=True)
        await t.device_synchronize()
    return arrays


async def cufft(t: cuda.HostThread, loop: KernelLoop, n: int) -> None:
    """Transform an array in place; each pass does as many stages as shared memory has room for."""
    data = await t.malloc_managed("data", (n, 2), written=True)
    stages = max(1, math.ceil(math.log2(n)))
    passes = max(1, math.ceil(stages / math.log2(POINTS_A_PASS)))
    async with loop.timed():
        for _ in range(passes):
            await t.launch(
                butterflies, data, -(-stages // passes), 0.5, 0.5, grid=-(-n // BLOCK), block=BLOCK, library=True
            )
        await t.device_synchronize()
