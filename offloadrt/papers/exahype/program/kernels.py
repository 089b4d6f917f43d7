"""The update kernels: one team per patch of the batch, its threads over the volumes (the paper's section 4).

`scattered` follows a list of device pointers to patches (Algorithm 1), `gathered` walks one block that holds the batch
(Algorithm 2). Both run `euler.update_batch`, so that the numbers do not depend on how memory was managed.
"""

from __future__ import annotations

import functools
from typing import Annotated, Any, Literal

import attrs
import numpy as np
from numpy.typing import NDArray

from offloadrt.kernels import Kernel
from offloadrt.papers.exahype.program.euler import EQUATIONS, Equations, Name, PatchGeometry, update_batch
from offloadrt.study.errors import ParameterError
from offloadrt.study.inputs import InputRange
from offloadrt.study.scripts.parameters import Range, check_fields

Scaling = Literal["weak", "strong"]
Memory = Literal["map", "pool", "managed", "managed+prefetch"]


@attrs.frozen(kw_only=True)
class Setup:
    """One experiment: the parameters of a scenario. Raises ParameterError for those that do not go together."""

    equations: Annotated[Name, "Euler in two or three dimensions, or CCZ4 (sizes and work only)"] = "euler2d"
    patch: Annotated[
        int | None,
        "volumes per dimension of a patch: 17 in two dimensions, 5 or 9 in three; none takes the first of them",
    ] = None
    batch: Annotated[int, Range(1, None), "patches per offload; the last batch may be smaller"] = 16
    """|P_GPU| in the paper."""
    threads: Annotated[int, Range(1, 4096), "host threads that offload at the same time"] = 8
    patches: Annotated[int, Range(1, 1 << 20), "patches per thread when scaling is weak, in all when it is strong"] = (
        100
    )
    scaling: Annotated[Scaling, "weak gives every thread the same work, strong divides one amount of work"] = "weak"
    memory: Annotated[
        Memory,
        "`map` uses map clauses, `pool` the GPU memory manager; with `managed` its blocks are managed memory, into "
        "which the host copies and whose pages migrate by faults; with `managed+prefetch` by prefetches",
    ] = "map"
    gather: Annotated[
        Literal["batch", "patch"],
        "with the pool, one copy of patches gathered on the host, or one copy per patch",
    ] = "batch"
    temporaries: Annotated[
        Literal["managed", "device"],
        "with managed memory, the kernel's temporaries are managed blocks as well, or device memory",
    ] = "managed"
    """The paper's manager has one flavour; device memory is best for data that the host never sees. It does not say."""
    arrival: Annotated[
        Literal["burst", "enclave"],
        "`burst` lets all threads offload at once, `enclave` pools tasks until a batch is full",
    ] = "burst"
    devices: Annotated[int, Range(1, 64), "GPUs that the threads take in turn"] = 1
    phantom: Annotated[bool, "sizes without numbers; false computes real ones (Euler only)"] = True
    kernel_work: Annotated[Literal["low", "mean", "high"], "end of the stated ranges of the kernels' work (CCZ4)"] = (
        "mean"
    )

    def __attrs_post_init__(self) -> None:
        check_fields(self)
        if self.system.phantom_only and not self.phantom:
            raise ParameterError(
                "phantom", f"{self.equations} is modelled by its sizes and its work only: it runs with phantom=true"
            )
        try:
            self.geometry  # noqa: B018  # computed now, so that a wrong patch is refused before anything runs
        except ValueError as error:
            raise ParameterError("patch", str(error)) from None

    @property
    def system(self) -> Equations:
        """Return the system of equations."""
        return EQUATIONS[self.equations]

    @functools.cached_property
    def geometry(self) -> PatchGeometry:
        """Return the geometry of a patch."""
        return self.system.geometry(self.patch)

    @property
    def migrates(self) -> bool:
        """Tell whether batches migrate in managed memory."""
        return self.memory in ("managed", "managed+prefetch")

    @property
    def total_patches(self) -> int:
        """Return the number of patches that all threads update together."""
        return self.patches * self.threads if self.scaling == "weak" else self.patches

    @property
    def total_volumes(self) -> int:
        """Return the volume updates of the whole experiment."""
        return self.total_patches * self.geometry.volumes

    @property
    def volumes_per_thread(self) -> float:
        """Return one thread's share of the volume updates."""
        return self.total_volumes / self.threads

    def shares(self) -> list[list[range]]:
        """Return the batches of each thread, as ranges of patch numbers.

        Weak: a thread's patches follow one another and are cut into batches. Strong: all patches are cut into batches,
        which the threads take in turn (the paper's section 5: a fixed number of patches is split into chunks).
        """
        if self.scaling == "weak":
            own = [range(k * self.patches, (k + 1) * self.patches) for k in range(self.threads)]
            return [_cut(patches, self.batch) for patches in own]
        chunks = _cut(range(self.patches), self.batch)
        return [chunks[k :: self.threads] for k in range(self.threads)]


def _cut(patches: range, batch: int) -> list[range]:
    return [patches[start : start + batch] for start in range(0, len(patches), batch)]


@attrs.frozen
class KernelWork:
    """What one volume's update costs a device, apart from any machine."""

    flops_per_volume: float
    bytes_per_volume: float
    efficiency: float
    """Share of the device's arithmetic peak that the code can reach; 1 when nothing is known to hold it back."""
    registers_per_thread: int
    loads_in_flight: float
    """Loads for which a thread waits at once."""


CCZ4_FLOPS = InputRange(
    2e4, 5e4, "flop/volume", "engineering estimate from the size of CCZ4's right-hand side", name="exahype.ccz4_flops"
)
CCZ4_EFFICIENCY = InputRange(
    0.02, 0.05, "of peak", "engineering estimate: register spilling (paper, section 2)", name="exahype.ccz4_efficiency"
)

CCZ4_LOADS = InputRange(
    1, 59, "loads", "from one value after the other to all unknowns of a volume at once", name="exahype.ccz4_loads"
)

MAX_REGISTERS = 255
"""The most registers that the hardware gives a thread; code that spills uses them all."""

EULER_REGISTERS = 64
"""Two states, two fluxes and a few scalars of doubles at two registers each."""


def euler_flops_per_face(dimensions: int) -> int:
    """Count the operations of Rusanov's numerical flux at one face.

    Each side: pressure (2d + 3), velocity (1), flux (d products, the pressure, 2 for the energy), speed (5). Then the
    larger speed and its half (2), and for each unknown the mean flux less the dissipation (5).
    """
    per_side = (2 * dimensions + 3) + 1 + (dimensions + 3) + 5
    return 2 * per_side + 2 + 5 * (dimensions + 2)


def euler_flops_per_update(dimensions: int) -> int:
    """Count the operations that advance all unknowns of one volume from its face fluxes."""
    return (dimensions + 2) * (2 * dimensions - 1 + 2)


def bytes_per_volume(geometry: PatchGeometry) -> float:
    """Return the device memory traffic of a patch divided by its volumes.

    The patch with halo is read once, the temporaries are written and read once, the result is written once.
    """
    # Counted as if caches kept a patch while its team works on it, so that a volume which several stencils load comes
    # from memory once, and as if they did not keep the temporaries.
    return (geometry.input_bytes + 2 * geometry.temporary_bytes + geometry.output_bytes) / geometry.volumes


def kernel_work(equations: Equations, geometry: PatchGeometry, where: str = "mean") -> KernelWork:
    """Return the work per volume of the update kernel; `where` says where ranges are taken: low, mean or high."""
    traffic = bytes_per_volume(geometry)
    if equations.phantom_only:
        flops, efficiency, loads = CCZ4_FLOPS.at(where), CCZ4_EFFICIENCY.at(where), CCZ4_LOADS.at(where)
        return KernelWork(flops, traffic, efficiency, MAX_REGISTERS, loads)
    d = geometry.dimensions
    flops = geometry.faces * euler_flops_per_face(d) / geometry.volumes + euler_flops_per_update(d)
    # A face's flux needs the states of both its volumes, and none of their unknowns' addresses depends on another.
    return KernelWork(flops, traffic, 1.0, EULER_REGISTERS, 2.0 * equations.unknowns)


Doubles = NDArray[np.float64]

MAX_THREADS_PER_TEAM = 1024
"""Threads that a team may have on the devices at hand."""

REGISTERS_PER_MULTIPROCESSOR = 65536
"""Registers that the compiler may count on when it chooses the threads of a team (as launch bounds do)."""

WARP = 32


@attrs.frozen
class UpdateKernels:
    """The two kernels of one experiment and the launch configuration they share."""

    scattered: Kernel
    gathered: Kernel
    threads: int
    """Threads of a team: one per volume, as far as the registers of a multiprocessor reach."""

    @classmethod
    def of(cls, setup: Setup) -> UpdateKernels:
        """Make the kernels of `setup`."""
        geometry = setup.geometry
        work = kernel_work(setup.system, geometry, setup.kernel_work)
        threads = threads_per_team(geometry, work)

        def scattered(patches: list[Doubles], temporaries: Doubles, dt_over_dx: float) -> None:
            results = [patch[: geometry.output_values] for patch in patches]
            update_batch(geometry, patches, results, temporaries, dt_over_dx)

        def gathered(block: Doubles, temporaries: Doubles, dt_over_dx: float) -> None:
            patches, results = split_block(geometry, block)
            update_batch(geometry, patches, results, temporaries, dt_over_dx)

        def kernel(name: str, body: Any) -> Kernel:
            return Kernel(
                f"{setup.system.name} {name}",
                None if setup.system.phantom_only else body,
                flops_per_iteration=work.flops_per_volume,
                bytes_per_iteration=work.bytes_per_volume,
                threads_per_team=threads,
                registers_per_thread=work.registers_per_thread,
                efficiency=work.efficiency,
                loads_in_flight=work.loads_in_flight,
            )

        return cls(kernel("update of scattered patches", scattered), kernel("update of a block", gathered), threads)


def threads_per_team(geometry: PatchGeometry, work: KernelWork) -> int:
    """Return one thread per volume, but no more than a team may have or than find registers, in whole warps then."""
    by_registers = REGISTERS_PER_MULTIPROCESSOR // (work.registers_per_thread * WARP) * WARP
    return min(geometry.volumes, MAX_THREADS_PER_TEAM, by_registers)


def block_values(geometry: PatchGeometry, patches: int) -> int:
    """Return the doubles of a gathered block: the patches with their halos, then room for the updated ones."""
    return patches * (geometry.input_values + geometry.output_values)


def split_block(geometry: PatchGeometry, block: Doubles) -> tuple[list[Doubles], list[Doubles]]:
    """Split a gathered block into its patches and its results, each as a flat view per patch."""
    count = len(block) // (geometry.input_values + geometry.output_values)
    border = count * geometry.input_values
    return list(block[:border].reshape(count, -1)), list(block[border:].reshape(count, -1))
