"""The update kernels: one team per patch of the batch, its threads over the volumes (the paper's section 4).

`scattered` follows a list of device pointers to patches (Algorithm 1), `gathered` walks one block that holds the batch
(Algorithm 2). Both run `update_batch`, so that the numbers do not depend on how memory was managed.

The update is that of Rusanov for the compressible Euler equations of a gamma-law gas. The kernel does what a team does
with its patch, in two phases with a barrier between them:

1. every volume evaluates, for each direction, the numerical flux at its upper face and writes it to the temporaries
   (the volumes of the lower halo layer do so too, for the first face of the patch);
2. every volume reads the two face fluxes of each direction and advances its own unknowns. The result is written without
   halo, packed, to the place that the caller names, which may be the front of the patch's own block.

A volume holds (density, momentum per direction, energy density). Each value is the outcome of one fixed sequence of
IEEE operations, whatever the batch, so that results are compared bit by bit. The arithmetic is written over sequences
of number-likes: the kernel passes arrays (one entry per face), the test that counts operations passes tallies.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias

import attrs
import numpy as np
from numpy.typing import NDArray

from offloadrt.kernels import Kernel
from offloadrt.study.errors import ParameterError
from offloadrt.study.inputs import InputRange
from offloadrt.study.scripts.parameters import Range, check_fields

HALO = 1
"""Halo layers of the finite-volume Rusanov scheme."""

DOUBLE = 8
"""Bytes of one unknown, a double."""


@attrs.frozen
class PatchGeometry:
    """The shapes and sizes of one patch (a small cubic grid of volumes) in a number of dimensions.

    unknowns: doubles of a volume. temporary_fields: temporaries of a kernel, in fields of `unknowns` doubles on the
    patch.
    """

    dimensions: int
    patch: int
    """Volumes per dimension."""
    unknowns: int
    temporary_fields: int

    @property
    def volumes(self) -> int:
        """Return the volumes that one update of the patch advances."""
        return int(self.patch**self.dimensions)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Return the shape of the patch with halo; the unknowns of a volume are neighbours in memory."""
        return (self.patch + 2 * HALO,) * self.dimensions + (self.unknowns,)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Return the shape of the updated patch, without halo."""
        return (self.patch,) * self.dimensions + (self.unknowns,)

    @property
    def temporary_shape(self) -> tuple[int, ...]:
        """Return the shape of the temporaries of one patch: the fields, each on the patch with halo."""
        return (self.temporary_fields, *self.input_shape)

    @property
    def input_values(self) -> int:
        """Return the number of doubles in the patch with halo."""
        return math.prod(self.input_shape)

    @property
    def output_values(self) -> int:
        """Return the number of doubles in the updated patch."""
        return math.prod(self.output_shape)

    @property
    def temporary_values(self) -> int:
        """Return the number of doubles in the temporaries of one patch."""
        return math.prod(self.temporary_shape)

    @property
    def input_bytes(self) -> int:
        """Return the bytes that are copied to the device per patch."""
        return DOUBLE * self.input_values

    @property
    def output_bytes(self) -> int:
        """Return the bytes that are copied back per patch."""
        return DOUBLE * self.output_values

    @property
    def temporary_bytes(self) -> int:
        """Return the bytes of device memory that the kernel needs per patch besides the patch itself."""
        return DOUBLE * self.temporary_values

    @property
    def faces(self) -> int:
        """Return the number of faces at which the update evaluates a numerical flux, over all directions."""
        return int(self.dimensions * (self.patch + 1) * self.patch ** (self.dimensions - 1))


GAMMA = 1.4
"""Ratio of specific heats."""

Doubles = NDArray[np.float64]


def pressure(state: Sequence[Any]) -> Any:
    """Compute the pressure of a volume from its `state` (density, momentum..., energy density)."""
    density, *momentum, energy = state
    squares = momentum[0] * momentum[0]
    for component in momentum[1:]:
        squares = squares + component * component
    return (GAMMA - 1.0) * (energy - 0.5 * squares / density)


def flux_and_speed(state: Sequence[Any], direction: int) -> tuple[list[Any], Any]:
    """Compute the flux of each unknown along `direction`, and the largest wave speed in that direction.

    state: a volume's density, momentum in each dimension, and energy density. direction: the dimension's number.
    """
    density, *momentum, energy = state
    velocity = momentum[direction] / density
    push = pressure(state)
    flux = [momentum[direction], *(component * velocity for component in momentum), (energy + push) * velocity]
    flux[1 + direction] = flux[1 + direction] + push
    return flux, abs(velocity) + np.sqrt(GAMMA * push / density)


def face_flux(lower: Sequence[Any], upper: Sequence[Any], direction: int) -> list[Any]:
    """Compute Rusanov's numerical flux of each unknown at the face between two volumes that are neighbours.

    lower, upper: the states of the volumes (density, momentum..., energy density). direction: the dimension's number.
    """
    lower_flux, lower_speed = flux_and_speed(lower, direction)
    upper_flux, upper_speed = flux_and_speed(upper, direction)
    half_speed = 0.5 * np.maximum(lower_speed, upper_speed)
    return [0.5 * (lower_flux[i] + upper_flux[i]) - half_speed * (upper[i] - lower[i]) for i in range(len(lower))]


def advance(value: Any, lower_faces: Sequence[Any], upper_faces: Sequence[Any], dt_over_dx: float) -> Any:
    """Advance one unknown (`value`) of a volume by a step, and return its new value.

    lower_faces, upper_faces: by dimension, the unknown's flux at the volume's lower and upper face. dt_over_dx: time
    step over the edge of a volume.
    """
    divergence = upper_faces[0] - lower_faces[0]
    for direction in range(1, len(lower_faces)):
        divergence = divergence + (upper_faces[direction] - lower_faces[direction])
    return value - dt_over_dx * divergence


def _span(geometry: PatchGeometry, direction: int, along: slice) -> tuple[slice, ...]:
    """Return the index of a batch (axis 0) that is `along` in `direction` and the patch without halo in the others."""
    inner = slice(HALO, HALO + geometry.patch)
    return (slice(None), *(along if axis == direction else inner for axis in range(geometry.dimensions)))


def update_batch(
    geometry: PatchGeometry,
    patches: Sequence[Doubles],
    results: Sequence[Doubles],
    temporaries: Doubles,
    dt_over_dx: float,
) -> None:
    """Advance each of `patches` by one time step: the body of the one kernel of a batch.

    patches: flat views of device memory, `input_values` doubles each. results: flat views of `output_values` doubles
    each, which receive the updated patches; a result may lie over its own patch. temporaries: flat view of
    `temporary_values` doubles per patch, for the face fluxes. dt_over_dx: time step over volume length.
    """
    p, d, n = geometry.patch, geometry.dimensions, geometry.unknowns
    block = np.stack([patch.reshape(geometry.input_shape) for patch in patches])
    fluxes = temporaries.reshape(len(patches), *geometry.temporary_shape)
    for direction in range(d):
        below = block[_span(geometry, direction, slice(0, p + HALO))]
        above = block[_span(geometry, direction, slice(HALO, p + 2 * HALO))]
        faces = fluxes[:, direction][_span(geometry, direction, slice(0, p + HALO))]
        flux = face_flux([below[..., i] for i in range(n)], [above[..., i] for i in range(n)], direction)
        for i in range(n):
            faces[..., i] = flux[i]
    own = block[_span(geometry, 0, slice(HALO, p + HALO))]
    lower = [fluxes[:, k][_span(geometry, k, slice(0, p))] for k in range(d)]
    upper = [fluxes[:, k][_span(geometry, k, slice(HALO, p + HALO))] for k in range(d)]
    new = advance(own, lower, upper, dt_over_dx)
    for result, updated in zip(results, new, strict=True):
        result[:] = updated.reshape(-1)


def largest_speed(states: Doubles, dimensions: int) -> float:
    """Return the largest wave speed in any volume and direction; states: of shape (..., unknowns)."""
    unknowns = [states[..., i] for i in range(states.shape[-1])]
    return max(float(np.max(flux_and_speed(unknowns, k)[1])) for k in range(dimensions))


Name: TypeAlias = Literal["euler2d", "euler3d", "ccz4"]


@attrs.frozen
class Equations:
    """A system of equations in a number of dimensions, with `unknowns` unknowns in each volume (cell)."""

    name: str
    dimensions: int
    unknowns: int
    patch_sizes: tuple[int, ...]
    """The patch sizes that the paper ran, in volumes per dimension; the first is the default."""
    temporary_fields: int
    """How many fields of `unknowns` doubles on the patch with halo a kernel needs per patch."""
    phantom_only: bool
    """True when only sizes and work are modelled, so that no real numbers can be computed."""

    def geometry(self, patch: int | None = None) -> PatchGeometry:
        """Return the geometry of a patch of `patch` volumes per dimension (None: the default of these equations).

        Raises ValueError when the paper has no such patch for these equations.
        """
        chosen = self.patch_sizes[0] if patch is None else patch
        if chosen not in self.patch_sizes:
            sizes = " or ".join(str(size) for size in self.patch_sizes)
            raise ValueError(f"{chosen}: {self.name} runs with patches of {sizes} volumes per dimension")
        return PatchGeometry(self.dimensions, chosen, self.unknowns, self.temporary_fields)


EQUATIONS: dict[str, Equations] = {
    # Rusanov's numerical fluxes are kept per face: one field per direction.
    "euler2d": Equations("euler2d", 2, 4, (17,), temporary_fields=2, phantom_only=False),
    "euler3d": Equations("euler3d", 3, 5, (5, 9), temporary_fields=3, phantom_only=False),
    # Non-conservative products in three directions and the source term (section 5 of the paper).
    "ccz4": Equations("ccz4", 3, 59, (5, 9), temporary_fields=4, phantom_only=True),
}

CASES_3D: dict[str, tuple[Name, int]] = {
    "euler3d-5": ("euler3d", 5),
    "euler3d-9": ("euler3d", 9),
    "ccz4-5": ("ccz4", 5),
}
"""The three-dimensional cases of the paper's Figures 2 to 4: equations and volumes per dimension of a patch."""


def grid_of(patches: int, dimensions: int) -> tuple[int, ...]:
    """Split `patches` into one factor per dimension, as near to a cube as divisors allow."""
    grid: list[int] = []
    left = patches
    for axis in range(dimensions, 1, -1):
        side = next(n for n in range(_root(left, axis), 0, -1) if left % n == 0)
        grid.append(side)
        left //= side
    return (left, *reversed(grid))


def _root(value: int, degree: int) -> int:
    """Return the largest whole number whose power of `degree` does not exceed `value`."""
    root = 1
    while (root + 1) ** degree <= value:
        root += 1
    return root


def _initial_state(grid: tuple[int, ...], geometry: PatchGeometry) -> Doubles:
    """Return a smooth, periodic bump in density and velocity under uniform pressure, by additions and products only."""
    shape = tuple(n * geometry.patch for n in grid)
    centres = [(np.arange(n, dtype=np.float64) + 0.5) / n for n in shape]
    bump = np.ones(shape)
    for axis, x in enumerate(centres):
        along = 4.0 * x * (1.0 - x)
        bump = bump * along.reshape([-1 if k == axis else 1 for k in range(len(shape))])
    state = np.empty((*shape, geometry.unknowns))
    density = 1.0 + 0.5 * bump
    squares = np.zeros(shape)
    state[..., 0] = density
    for k in range(geometry.dimensions):
        velocity = (0.3 - 0.1 * k) * bump
        state[..., 1 + k] = density * velocity
        squares = squares + velocity * velocity
    state[..., -1] = 1.0 / (GAMMA - 1.0) + 0.5 * density * squares
    return state


@attrs.define
class PatchDomain:
    """The state of a periodic box of equal patches, which are blocks of equal cells (volumes).

    The edge of a volume is 1 over the number of volumes along dimension 0. geometry: of a patch. grid: patches per
    dimension.
    """

    geometry: PatchGeometry
    grid: tuple[int, ...]
    state: Doubles
    """The unknowns of all volumes, with shape (volumes of the box in each dimension, then unknowns)."""

    @classmethod
    def with_patches(cls, geometry: PatchGeometry, patches: int) -> PatchDomain:
        """Make a box of `patches` patches with the initial state."""
        grid = grid_of(patches, geometry.dimensions)
        return cls(geometry, grid, _initial_state(grid, geometry))

    @property
    def patches(self) -> int:
        """Return the number of patches of the box."""
        return math.prod(self.grid)

    def dt_over_dx(self, cfl: float) -> float:
        """Return the time step over volume length that the CFL number `cfl` (0 to 1) allows in this state."""
        if not 0.0 < cfl < 1.0:
            raise ValueError(f"cfl={cfl}: the CFL number lies between 0 and 1")
        return cfl / (self.geometry.dimensions * largest_speed(self.state, self.geometry.dimensions))

    def with_halos(self) -> list[Doubles]:
        """Exchange halos over the periodic box: return every patch with its halo, as a new flat array."""
        p, d = self.geometry.patch, self.geometry.dimensions
        padded = np.pad(self.state, [(HALO, HALO)] * d + [(0, 0)], mode="wrap")
        cut: list[Doubles] = []
        for position in np.ndindex(*self.grid):
            box = tuple(slice(k * p, k * p + p + 2 * HALO) for k in position)
            cut.append(np.ascontiguousarray(padded[box]).reshape(-1))
        return cut

    def take(self, results: list[Doubles]) -> None:
        """Store the updated patches, given flat and without halo in the order of `with_halos`."""
        p = self.geometry.patch
        for position, result in zip(np.ndindex(*self.grid), results, strict=True):
            box = tuple(slice(k * p, k * p + p) for k in position)
            self.state[box] = result.reshape(self.geometry.output_shape)

    @property
    def mass(self) -> float:
        """Return the density summed over all volumes, correctly rounded."""
        return math.fsum(self.state[..., 0].flat)


Scaling = Literal["weak", "strong"]
Memory = Literal["map", "pool", "managed", "managed+prefetch"]


@attrs.frozen(kw_only=True)
class Setup:
    """The parameters of one run of the ExaHyPE kernels; the text in each one's annotation says what it is.

    Raises ParameterError for combinations that cannot be run.
    """

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
    """The paper's memory manager has one variant and the paper does not say which. Device memory is best for data that
    the host never sees.
    """
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
        """Return the system of equations that the experiment solves."""
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
        """Return the number of patches of all threads together."""
        return self.patches * self.threads if self.scaling == "weak" else self.patches

    @property
    def total_volumes(self) -> int:
        """Return the number of volumes that the whole experiment updates."""
        return self.total_patches * self.geometry.volumes

    @property
    def volumes_per_thread(self) -> float:
        """Return the number of volumes that one thread updates."""
        return self.total_volumes / self.threads

    def shares(self) -> list[list[range]]:
        """Return the batches of each thread, as ranges of patch numbers.

        Weak scaling: a thread's patches have consecutive numbers and are cut into batches. Strong scaling: all patches
        are cut into batches, which the threads take in turn (the paper's section 5: a fixed number of patches is split
        into chunks).
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
    """The work of a kernel that updates one volume, in flops and bytes, independent of any machine."""

    flops_per_volume: float
    bytes_per_volume: float
    efficiency: float
    """The fraction of the device's arithmetic peak that the code can reach; 1 when no limit is known."""
    registers_per_thread: int
    loads_in_flight: float
    """The number of loads that a thread has outstanding at once."""


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
"""The most registers that the hardware gives a thread. Code that spills uses all of them."""

EULER_REGISTERS = 64
"""Registers per thread: two states, two fluxes and a few scalars of doubles, with two registers per double."""


def euler_flops_per_face(dimensions: int) -> int:
    """Return the flops of Rusanov's numerical flux at one face.

    Each side: pressure (2d + 3), velocity (1), flux (d products, the pressure, 2 for the energy), speed (5). Then the
    larger speed and its half (2), and for each unknown the mean flux less the dissipation (5).
    """
    per_side = (2 * dimensions + 3) + 1 + (dimensions + 3) + 5
    return 2 * per_side + 2 + 5 * (dimensions + 2)


def euler_flops_per_update(dimensions: int) -> int:
    """Return the flops that advance all unknowns of one volume from its face fluxes."""
    return (dimensions + 2) * (2 * dimensions - 1 + 2)


def bytes_per_volume(geometry: PatchGeometry) -> float:
    """Return the bytes that updating a patch moves from and to device memory, per volume of the patch.

    The patch with halo is read once, the temporaries are written and read once, the result is written once.
    """
    # Counted as if caches kept a patch while its team works on it, so that a volume which several stencils load comes
    # from memory once, and as if they did not keep the temporaries.
    return (geometry.input_bytes + 2 * geometry.temporary_bytes + geometry.output_bytes) / geometry.volumes


def kernel_work(equations: Equations, geometry: PatchGeometry, where: str = "mean") -> KernelWork:
    """Return the work of the update kernel per volume of a patch of this geometry.

    where: at which point of the ranges of uncertain inputs the work is taken: low, mean or high.
    """
    traffic = bytes_per_volume(geometry)
    if equations.phantom_only:
        flops, efficiency, loads = CCZ4_FLOPS.at(where), CCZ4_EFFICIENCY.at(where), CCZ4_LOADS.at(where)
        return KernelWork(flops, traffic, efficiency, MAX_REGISTERS, loads)
    d = geometry.dimensions
    flops = geometry.faces * euler_flops_per_face(d) / geometry.volumes + euler_flops_per_update(d)
    # A face's flux needs the states of both its volumes, and none of their unknowns' addresses depends on another.
    return KernelWork(flops, traffic, 1.0, EULER_REGISTERS, 2.0 * equations.unknowns)


MAX_THREADS_PER_TEAM = 1024
"""The most threads of a team on the devices of the profiles."""

REGISTERS_PER_MULTIPROCESSOR = 65536
"""The number of registers that the compiler plans with when it chooses the threads of a team (as launch bounds do)."""

WARP = 32


@attrs.frozen
class UpdateKernels:
    """The kernels of an experiment: for patches in blocks of their own (`scattered`), or in one block (`gathered`)."""

    scattered: Kernel
    gathered: Kernel
    threads: int
    """Threads per team: one per volume, as far as the registers of a multiprocessor suffice."""

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
    """Return the threads of a team: one per volume of the patch, or as many whole warps as the registers allow."""
    by_registers = REGISTERS_PER_MULTIPROCESSOR // (work.registers_per_thread * WARP) * WARP
    return min(geometry.volumes, MAX_THREADS_PER_TEAM, by_registers)


def block_values(geometry: PatchGeometry, patches: int) -> int:
    """Return the number of doubles in a gathered block: patches with halos, then room for the updated ones."""
    return patches * (geometry.input_values + geometry.output_values)


def split_block(geometry: PatchGeometry, block: Doubles) -> tuple[list[Doubles], list[Doubles]]:
    """Split a gathered block into its patches and its results, each a list of flat views."""
    count = len(block) // (geometry.input_values + geometry.output_values)
    border = count * geometry.input_values
    return list(block[:border].reshape(count, -1)), list(block[border:].reshape(count, -1))
