"""The experiment: host threads that offload all patches of a `Setup` once, and what is counted on the way."""

from __future__ import annotations

import zlib
from collections.abc import Awaitable

import attrs
import numpy as np
from numpy.typing import NDArray

from offloadrt.models import openmp as omp
from offloadrt.papers.exahype.program.algorithms import (
    EnclaveQueue,
    MakePatch,
    Offload,
    OffloadManaged,
    OffloadMap,
    OffloadUnified,
    burst,
    enclave,
)
from offloadrt.papers.exahype.program.euler import PatchDomain
from offloadrt.papers.exahype.program.kernels import Setup, UpdateKernels
from offloadrt.study.errors import ParameterError

GAMMA = 1.4


def rusanov_reference(patch: NDArray[np.float64], dt_over_dx: float) -> NDArray[np.float64]:
    """Return the patch after one step, without halo: shape (p, ..., p, N) from (p + 2, ..., p + 2, N), N = d + 2."""
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
    """What real data gave."""

    equal_to_reference: bool
    """Whether every patch equals the plain NumPy reference in every bit."""
    mass: float
    """Density summed over all volumes after the step."""
    mass_change: float
    """The same sum, less the sum before the step."""
    crc32: int
    """Checksum of the state after the step."""


@attrs.frozen
class Updated:
    """What one pass over all patches did."""

    batches: int
    patches: int
    volumes: int
    blocks: int
    """Blocks that the memory managers acquired so far; 0 with map clauses."""
    hits: int
    """Requests that were met with a block that a manager had."""
    numbers: Numbers | None
    """None for phantom data."""

    def measured(self) -> dict[str, float | int | bool]:
        """Return all of it as one flat dict, as results show it."""
        counts = attrs.asdict(self, filter=attrs.filters.exclude("numbers"))
        return counts if self.numbers is None else counts | attrs.asdict(self.numbers)


@attrs.define
class Experiment:
    """A `Setup` on an OpenMP program. With real data it owns the domain that the patches come from.

    Raises ParameterError for managed memory where the machine has none.
    """

    program: omp.OpenMP
    setup: Setup
    domain: PatchDomain | None = attrs.field(init=False)
    manager: omp.GpuMemoryManager | None = attrs.field(init=False)
    """The manager of device memory, where the setup uses one."""
    unified_manager: omp.UnifiedMemoryManager | None = attrs.field(init=False)
    """The manager of managed memory, likewise."""
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
        """Offload all patches, and again as long as the memory manager acquires blocks; the domain stays as it is.

        Threads that wait for one another's first allocations need fewer blocks at once than in later passes. The
        paper's totals are so large that this does not show.
        """
        for _ in range(MAX_WARM_UP_PASSES):
            before, _ = self._held()
            updated = await self.update(keep=False)
            if updated.blocks == before:
                break

    async def update(self, *, keep: bool = True) -> Updated:
        """Take one time step of all patches: halos out, every batch to the device and back, results into the domain.

        Without `keep` the domain does not take the results.
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
        """Run the parallel region; return the sizes of the batches that each thread deployed."""
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
        """Choose Algorithm 1 or 2, or 2 on managed memory, for one host thread."""
        if self.unified_manager is not None:
            return OffloadUnified(t, self.setup, self.kernels, dt_over_dx, device, self.unified_manager, self.manager)
        if self.manager is None:
            return OffloadMap(t, self.setup, self.kernels, dt_over_dx, device)
        return OffloadManaged(t, self.setup, self.kernels, dt_over_dx, device, self.manager)

    def _updated(self, sizes: list[list[int]], numbers: Numbers | None) -> Updated:
        """Return the account of a pass, from the sizes of the batches that each thread deployed."""
        batches = [size for of_thread in sizes for size in of_thread]
        patches = sum(batches)
        blocks, hits = self._held()
        return Updated(len(batches), patches, patches * self.setup.geometry.volumes, blocks, hits, numbers)

    def _held(self) -> tuple[int, int]:
        """Return the blocks of the memory managers so far, and the requests that they met with one of them."""
        managers = [manager for manager in (self.manager, self.unified_manager) if manager is not None]
        statistics = [manager.statistics() for manager in managers]
        return sum(pool.blocks for pool in statistics), sum(pool.hits for pool in statistics)
