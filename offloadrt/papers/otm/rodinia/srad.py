"""SRAD v2: two kernels per iteration over an image, after the host has looked at a corner of it.

The loops over rows and columns are nested, and only the loop over rows is distributed: a compiler that does not know
how often the inner loop runs underestimates how densely the image is accessed.
"""

from __future__ import annotations

import math
from contextlib import nullcontext

import attrs
import numpy as np
from numpy.typing import NDArray

from offloadrt.kernels import expect, kernel
from offloadrt.models import openmp as omp
from offloadrt.papers.otm.rodinia.inputs import ALIGNMENT, LAMBDA, SRAD_REGION, THREADS, Structure

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]


@kernel(threads_per_team=THREADS)
def gradients(
    J: Floats,
    c: Floats,
    dN: Floats,
    dS: Floats,
    dW: Floats,
    dE: Floats,
    iN: Ints,
    iS: Ints,
    jW: Ints,
    jE: Ints,
    rows: int,
    cols: int,
    q0: float,
) -> None:
    """Compute the differences to the neighbours, and the diffusion coefficient that follows from them."""
    for i in range(rows):
        for j in range(cols):
            k = i * cols + j
            here = J[k]
            north = J[expect(iN[i], near=1) * cols + j] - here
            south = J[expect(iS[i], near=1) * cols + j] - here
            west = J[i * cols + expect(jW[j], near=1)] - here
            east = J[i * cols + expect(jE[j], near=1)] - here
            dN[k] = north
            dS[k] = south
            dW[k] = west
            dE[k] = east
            gradient = (north * north + south * south + west * west + east * east) / (here * here)
            laplacian = (north + south + west + east) / here
            below = 1.0 + 0.25 * laplacian
            q = (0.5 * gradient - 0.0625 * laplacian * laplacian) / (below * below)
            c[k] = min(max(1.0 / (1.0 + (q - q0) / (q0 * (1.0 + q0))), 0.0), 1.0)


@kernel(threads_per_team=THREADS)
def diffuse(
    J: Floats,
    c: Floats,
    dN: Floats,
    dS: Floats,
    dW: Floats,
    dE: Floats,
    iS: Ints,
    jE: Ints,
    rows: int,
    cols: int,
    rate: float,
) -> None:
    """Advance the image by the divergence of coefficient times gradient."""
    for i in range(rows):
        for j in range(cols):
            k = i * cols + j
            here = c[k]
            south = c[expect(iS[i], near=1) * cols + j]
            east = c[i * cols + expect(jE[j], near=1)]
            J[k] = J[k] + 0.25 * rate * (here * dN[k] + south * dS[k] + here * dW[k] + east * dE[k])


@attrs.frozen
class Srad:
    """A run of `iterations` iterations on an image of `rows` by `cols` points, whose values are drawn from `seed`."""

    rows: int
    cols: int
    iterations: int
    phantom: bool = True
    seed: int = 0
    structure: Structure = "data"

    BYTES = 6 * 4
    """Bytes of all arrays for each point; four lists of neighbours come on top."""

    @classmethod
    def of(cls, nbytes: int, iterations: int, *, phantom: bool, seed: int = 0, structure: Structure = "data") -> Srad:
        """Make the largest square image whose arrays have no more than `nbytes` bytes."""
        side = max(2, int((-16 + math.sqrt(256 + 4 * cls.BYTES * nbytes)) / (2 * cls.BYTES)))
        return cls(side, side, iterations, phantom, seed, structure)

    @property
    def steps(self) -> int:
        """Return the number of iterations."""
        return self.iterations

    def image(self) -> Floats:
        """Return what the host starts from: exponentials of numbers between 0 and 1."""
        return np.exp(np.random.default_rng(self.seed).random(self.rows * self.cols, dtype=np.float32))

    def speckle(self, J: omp.HostArray) -> float:
        """Return the variance over the squared mean of the region of interest, computed on the host."""
        if J.phantom:
            return 1.0  # any value: no time of a phantom depends on it
        region = J.data.reshape(self.rows, self.cols)[:SRAD_REGION, :SRAD_REGION].astype(np.float64)
        mean = float(region.mean())
        return float(region.var()) / (mean * mean)

    async def run(self, t: omp.HostThread) -> list[omp.HostArray]:
        """Run the whole program on one host thread; return its arrays, after the host has looked at the image."""
        rows, cols = self.rows, self.cols
        size = rows * cols
        J = t.array("J", size, np.float32, fill=0.0 if self.phantom else self.image(), align=ALIGNMENT)
        c = t.array("c", size, np.float32, align=ALIGNMENT)
        dN = t.array("dN", size, np.float32, align=ALIGNMENT)
        dS = t.array("dS", size, np.float32, align=ALIGNMENT)
        dW = t.array("dW", size, np.float32, align=ALIGNMENT)
        dE = t.array("dE", size, np.float32, align=ALIGNMENT)
        iN = t.array("iN", rows, np.int32, fill=np.maximum(np.arange(rows) - 1, 0))
        iS = t.array("iS", rows, np.int32, fill=np.minimum(np.arange(rows) + 1, rows - 1))
        jW = t.array("jW", cols, np.int32, fill=np.maximum(np.arange(cols) - 1, 0))
        jE = t.array("jE", cols, np.int32, fill=np.minimum(np.arange(cols) + 1, cols - 1))
        region = (min(SRAD_REGION, rows) - 1) * cols + min(SRAD_REGION, cols)
        look = t.construct_target_update(omp.from_(omp.section(J, 0, region)))
        around = t.target_data(omp.map(to=[iN, iS, jW, jE], tofrom=J, alloc=[c, dN, dS, dW, dE]))
        async with around if self.structure == "data" else nullcontext():
            for iteration in range(self.iterations):
                if iteration:
                    await t.run(look)
                await self._look(t, J)
                q0 = self.speckle(J)
                await t.target(gradients, J, c, dN, dS, dW, dE, iN, iS, jW, jE, rows, cols, q0)
                await t.target(diffuse, J, c, dN, dS, dW, dE, iS, jE, rows, cols, LAMBDA)
        await t.host_access(J)
        return [J, c, dN, dS, dW, dE, iN, iS, jW, jE]

    async def _look(self, t: omp.HostThread, J: omp.HostArray) -> None:
        """Let the host read the region of interest, row by row."""
        for row in range(min(SRAD_REGION, self.rows)):
            await t.host_access(omp.section(J, row * self.cols, min(SRAD_REGION, self.cols)))
