"""The domain of LULESH: a cube of hexahedra around one corner of a Sedov blast, its fields, its regions, its kernels.

The domain is an object of the heap that the host and most kernels use: they find the fields behind pointers in it.
The kernels here are those on nodes and elements: forces, motion, kinematics, gradients. Costs are declared as what one
iteration moves between memory and compute units; values at nodes and neighbours that several elements use come from
memory once. Operations are counted from the formulas. Bodies are NumPy; their parameter `domain` is the object.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from offloadrt.extensions import stdpar as std
from offloadrt.kernels import ArrayUse, Kernel
from offloadrt.papers.stdpar.programs.frame import loads, stores

Doubles = NDArray[np.float64]

SIGNS: Final[Doubles] = np.array(
    [[-1, -1, -1], [1, -1, -1], [1, 1, -1], [-1, 1, -1], [-1, -1, 1], [1, -1, 1], [1, 1, 1], [-1, 1, 1]], dtype=float
)
"""On which side of the element each corner lies along the element's own axes xi, eta and zeta."""
_NORMAL_FACES: Final = ((0, 1, 2, 3), (0, 4, 5, 1), (1, 5, 6, 2), (2, 6, 7, 3), (3, 7, 4, 0), (4, 7, 6, 5))
_AREA_FACES: Final = ((0, 1, 2, 3), (4, 5, 6, 7), (0, 1, 5, 4), (1, 2, 6, 5), (2, 3, 7, 6), (3, 0, 4, 7))
_AROUND: Final = (
    (1, 2, 3, 4, 5, 7), (2, 3, 0, 5, 6, 4), (3, 0, 1, 6, 7, 5), (0, 1, 2, 7, 4, 6),
    (7, 6, 5, 0, 3, 1), (4, 7, 6, 1, 0, 2), (5, 4, 7, 2, 1, 3), (6, 5, 4, 3, 2, 0),
)  # fmt: skip
"""For each corner, the corners on which the volume's derivative by it depends."""
HOURGLASS: Final[Doubles] = np.array(
    [
        [1, 1, -1, -1, -1, -1, 1, 1],
        [1, -1, -1, 1, -1, 1, 1, -1],
        [1, -1, 1, -1, 1, -1, 1, -1],
        [-1, 1, -1, 1, 1, -1, 1, -1],
    ],
    dtype=float,
)
"""The modes of the corners' motion that change no volume."""


def corners(x: Doubles, y: Doubles, z: Doubles, nodelist: NDArray[np.int32]) -> Doubles:
    """Gather the corners of the elements from values at the nodes."""
    nodes = nodelist.reshape(-1, 8)
    return np.stack([x[nodes], y[nodes], z[nodes]], axis=-1)


def shape_derivatives(at: Doubles) -> tuple[Doubles, Doubles]:
    """Return the derivatives of the shape functions, (elements, 8, 3), times the volume, and the volume."""
    axes = 0.125 * np.einsum("eci,ca->eai", at, SIGNS)
    xi, eta, zeta = axes[:, 0], axes[:, 1], axes[:, 2]
    cofactors = np.stack([np.cross(eta, zeta), np.cross(zeta, xi), np.cross(xi, eta)], axis=1)
    volume = 8.0 * np.einsum("ei,ei->e", eta, cofactors[:, 1])
    return np.einsum("ca,eai->eci", SIGNS, cofactors), volume


def node_normals(at: Doubles) -> Doubles:
    """Return a quarter of the normals of the three faces at each corner."""
    normals = np.zeros_like(at)
    for face in _NORMAL_FACES:
        a, b, c, d = (at[:, corner] for corner in face)
        quarter = 0.25 * np.cross(0.5 * (d + c - b - a), 0.5 * (c + b - d - a))
        for corner in face:
            normals[:, corner] += quarter
    return normals


def volume_derivatives(at: Doubles) -> Doubles:
    """Return the derivative of the volume by the position of each corner."""
    derivatives = np.empty_like(at)
    for corner, around in enumerate(_AROUND):
        a, b, c, d, e, f = (at[:, other] for other in around)
        derivatives[:, corner] = (np.cross(b + c, a + b) + np.cross(a + e, d + e) + np.cross(d + f, c + f)) / 12.0
    return derivatives


def volumes(at: Doubles) -> Doubles:
    """Return the volumes of the elements."""

    def d(i: int, j: int) -> Doubles:
        return np.asarray(at[:, i] - at[:, j])

    def triple(a: Doubles, b: Doubles, c: Doubles) -> Doubles:
        return np.asarray(np.einsum("ei,ei->e", a, np.cross(b, c)))

    return (
        triple(d(3, 1) + d(7, 2), d(6, 3), d(2, 0))
        + triple(d(4, 3) + d(5, 7), d(6, 4), d(7, 0))
        + triple(d(1, 4) + d(2, 5), d(6, 1), d(5, 0))
    ) / 12.0


def characteristic_lengths(at: Doubles, volume: Doubles) -> Doubles:
    """Return the volume over the largest face, as LULESH measures it."""
    largest = np.zeros(len(at))
    for face in _AREA_FACES:
        a, b, c, d = (at[:, corner] for corner in face)
        f, g = (c - a) - (d - b), (c - a) + (d - b)
        area = (f * f).sum(1) * (g * g).sum(1) - (f * g).sum(1) ** 2
        largest = np.maximum(largest, area)
    return np.asarray(4.0 * volume / np.sqrt(largest))


def hourglass_forces(
    corner: Doubles, derivatives: Doubles, velocity: Doubles, volume: Doubles, coefficient: Doubles
) -> Doubles:
    """Return the forces at the corners against hourglass modes (Flanagan and Belytschko)."""
    modes = np.einsum("kc,eci->eki", HOURGLASS, corner)
    shape = HOURGLASS.T - np.einsum("eci,eki->eck", derivatives, modes) / volume[:, None, None]
    along = np.einsum("eck,eci->eki", shape, velocity)
    return np.asarray(coefficient[:, None, None] * np.einsum("eck,eki->eci", shape, along))


INT: Final = 4


@attrs.frozen
class Use:
    """What one iteration does with an array: elements that it reads and writes, and their size in bytes."""

    read: float = 0.0
    written: float = 0.0
    size: int = 8
    seldom: bool = False
    """Whether it is written only where something is wrong with an element, which costs nothing otherwise."""


def made(name: str, body: Callable[..., None], flops: float, *uses: Use, n: bool) -> Kernel:
    """Make a kernel from what it does with its arrays. With `n`, its first argument is the count of ``for_each_n``."""
    arrays, moved = [], 0.0
    for position, use in enumerate(uses, start=int(n)):
        arrays.append(
            ArrayUse(
                f"argument {position}",
                position,
                reads=use.read if use.written or use.seldom else max(use.read, 1.0),
                writes=1.0 if use.seldom else use.written,
                elements_read=use.read,
                elements_written=use.written,
                element_size=use.size,
            )
        )
        moved += arrays[-1].bytes
    return Kernel(name, body, flops, moved, arrays=tuple(arrays))


R, W, RW, SELDOM = Use(1.0), Use(written=1.0), Use(1.0, 1.0), Use(seldom=True)
DOMAIN: Final = Use(size=1)
"""The object itself: the same bytes for all iterations."""
LIST: Final = Use(1.0, size=INT)
NODELIST: Final = Use(8.0, size=INT)
READ_CORNERS: Final = Use(8.0)
CORNERS: Final = Use(written=8.0)
"""The corners of an element, which the element writes."""


def _init_stress(n: int, domain: Any, p: Any, q: Any, sigxx: Any, sigyy: Any, sigzz: Any) -> None:
    sigxx[...] = sigyy[...] = sigzz[...] = -p - q


init_stress = made("InitStressTerms", _init_stress, 2, DOMAIN, R, R, W, W, W, n=True)


def _integrate_stress(
    n: int, domain: Any, nodelist: Any, x: Any, y: Any, z: Any, sigxx: Any, sigyy: Any, sigzz: Any,
    determ: Any, fx: Any, fy: Any, fz: Any,
) -> None:  # fmt: skip
    at = corners(x, y, z, nodelist)
    determ[...] = shape_derivatives(at)[1]
    normals = node_normals(at)
    for axis, (stress, force) in enumerate(((sigxx, fx), (sigyy, fy), (sigzz, fz))):
        force[...] = (-stress[:, None] * normals[:, :, axis]).ravel()


integrate_stress = made(
    "IntegrateStress", _integrate_stress, 480,
    DOMAIN, NODELIST, R, R, R, R, R, R, W, CORNERS, CORNERS, CORNERS, n=True,
)  # fmt: skip


def _sum_forces(
    n: int, domain: Any, starts: Any, corner: Any, fx_elem: Any, fy_elem: Any, fz_elem: Any, fx: Any, fy: Any, fz: Any
) -> None:
    for of_corner, force in ((fx_elem, fx), (fy_elem, fy), (fz_elem, fz)):
        force[...] = np.add.reduceat(of_corner[corner], starts[:-1])


def _add_forces(
    n: int, domain: Any, starts: Any, corner: Any, fx_elem: Any, fy_elem: Any, fz_elem: Any, fx: Any, fy: Any, fz: Any
) -> None:
    for of_corner, force in ((fx_elem, fx), (fy_elem, fy), (fz_elem, fz)):
        force += np.add.reduceat(of_corner[corner], starts[:-1])


_OF_CORNERS = (LIST, NODELIST, READ_CORNERS, READ_CORNERS, READ_CORNERS)
sum_forces = made("SumForces", _sum_forces, 24, DOMAIN, *_OF_CORNERS, W, W, W, n=True)
add_forces = made("AddForces", _add_forces, 27, DOMAIN, *_OF_CORNERS, RW, RW, RW, n=True)


def _hourglass_control(
    n: int, domain: Any, nodelist: Any, x: Any, y: Any, z: Any, volo: Any, v: Any, determ: Any,
    dvdx: Any, dvdy: Any, dvdz: Any, x8n: Any, y8n: Any, z8n: Any,
) -> None:  # fmt: skip
    at = corners(x, y, z, nodelist)
    derivatives = volume_derivatives(at)
    for axis, (dv, copy) in enumerate(((dvdx, x8n), (dvdy, y8n), (dvdz, z8n))):
        dv[...], copy[...] = derivatives[:, :, axis].ravel(), at[:, :, axis].ravel()
    determ[...] = volo * v


hourglass_control = made(
    "HourglassControl", _hourglass_control, 720, DOMAIN, NODELIST, R, R, R, R, R, W, *[CORNERS] * 6, n=True
)


def _hourglass_force(
    n: int, domain: Any, nodelist: Any, ss: Any, mass: Any, xd: Any, yd: Any, zd: Any, determ: Any,
    x8n: Any, y8n: Any, z8n: Any, dvdx: Any, dvdy: Any, dvdz: Any, fx: Any, fy: Any, fz: Any, hourg: float,
) -> None:  # fmt: skip
    def stacked(*parts: Any) -> Any:
        return np.stack([part.reshape(-1, 8) for part in parts], axis=-1)

    coefficient = -hourg * 0.01 * ss * mass / np.cbrt(determ)
    velocity = corners(xd, yd, zd, nodelist)
    force = hourglass_forces(stacked(x8n, y8n, z8n), stacked(dvdx, dvdy, dvdz), velocity, determ, coefficient)
    for axis, field in enumerate((fx, fy, fz)):
        field[...] = force[:, :, axis].ravel()


hourglass_force = made(
    "HourglassForce", _hourglass_force, 830,
    DOMAIN, NODELIST, R, R, R, R, R, R, *[READ_CORNERS] * 6, CORNERS, CORNERS, CORNERS, n=True,
)  # fmt: skip


def _accelerate(force: Any, mass: Any, acceleration: Any) -> None:
    acceleration[...] = force / mass


def _hold(plane: Any, domain: Any, acceleration: Any) -> None:
    acceleration[plane] = 0.0


def _velocity(velocity: Any, acceleration: Any, dt: float, cut: float) -> None:
    velocity += acceleration * dt
    velocity[np.abs(velocity) < cut] = 0.0


def _position(position: Any, velocity: Any, dt: float) -> None:
    position += velocity * dt


accelerate = made("Acceleration", _accelerate, 1, R, R, W, n=False)
hold = made("AccelerationBoundary", _hold, 0, LIST, DOMAIN, W, n=False)
velocity = made("Velocity", _velocity, 3, RW, R, n=False)
position = made("Position", _position, 2, RW, R, n=False)


def _kinematics(
    n: int, domain: Any, nodelist: Any, x: Any, y: Any, z: Any, xd: Any, yd: Any, zd: Any, volo: Any, v: Any,
    vnew: Any, delv: Any, arealg: Any, dxx: Any, dyy: Any, dzz: Any, dt: float,
) -> None:  # fmt: skip
    at = corners(x, y, z, nodelist)
    speed = corners(xd, yd, zd, nodelist)
    volume = volumes(at)
    vnew[...] = volume / volo
    delv[...] = vnew - v
    arealg[...] = characteristic_lengths(at, volume)
    shape, determinant = shape_derivatives(at - 0.5 * dt * speed)
    gradient = np.einsum("eci,eci->ei", shape, speed) / determinant[:, None]
    for axis, field in enumerate((dxx, dyy, dzz)):
        field[...] = gradient[:, axis]


kinematics = made("Kinematics", _kinematics, 600, DOMAIN, NODELIST, *[R] * 8, *[W] * 6, n=True)


def _deviatoric(n: int, domain: Any, vdov: Any, dxx: Any, dyy: Any, dzz: Any) -> None:
    vdov[...] = dxx + dyy + dzz
    for field in (dxx, dyy, dzz):
        field -= vdov / 3.0


deviatoric = made("StrainRate", _deviatoric, 6, DOMAIN, W, RW, RW, RW, n=True)


def _gradients(
    n: int, domain: Any, nodelist: Any, x: Any, y: Any, z: Any, xd: Any, yd: Any, zd: Any, volo: Any, vnew: Any,
    delx_xi: Any, delx_eta: Any, delx_zeta: Any, delv_xi: Any, delv_eta: Any, delv_zeta: Any,
) -> None:  # fmt: skip
    tiny = 1e-36
    at, speed = corners(x, y, z, nodelist), corners(xd, yd, zd, nodelist)
    along = 0.25 * np.einsum("eci,ca->aei", at, SIGNS)
    change = 0.25 * np.einsum("eci,ca->aei", speed, SIGNS)
    volume = volo * vnew
    for axis, (delx, delv) in enumerate(((delx_xi, delv_xi), (delx_eta, delv_eta), (delx_zeta, delv_zeta))):
        area = np.cross(along[(axis + 1) % 3], along[(axis + 2) % 3])
        delx[...] = volume / np.sqrt((area * area).sum(1) + tiny)
        delv[: len(volume)] = (area * change[axis]).sum(1) / (volume + tiny)


gradients = made("MonotonicQGradients", _gradients, 240, DOMAIN, NODELIST, *[R] * 8, *[W] * 6, n=True)


def _not_positive(field: Any, count: Any) -> None:
    count[0] += (field <= 0.0).sum()


def _negative(field: Any, count: Any) -> None:
    count[0] += (field < 0.0).sum()


def _above(field: Any, bound: float, count: Any) -> None:
    count[0] += (field > bound).sum()


not_positive = made("NotPositive", _not_positive, 1, R, n=False)
negative = made("Negative", _negative, 1, R, n=False)
above = made("Above", _above, 1, R, n=False)


REGIONS: Final = 11
DOMAIN_BYTES: Final = 2048
"""The size of the object itself: some fifty vectors of three pointers, and its parameters."""
BLAST: Final = 3.948746e7
"""The energy for 45 elements along a side (public source)."""
LENGTH: Final = 1.125
LAST_TIME: Final = 1e-2

NODAL: Final = ("x", "y", "z", "xd", "yd", "zd", "xdd", "ydd", "zdd", "fx", "fy", "fz", "nodalMass")
ELEMENTAL: Final = (*("e", "p", "q", "ql", "qq", "v", "volo", "delv", "vdov", "arealg", "ss", "elemMass", "vnew"),)
NEIGHBOURS: Final = ("lxim", "lxip", "letam", "letap", "lzetam", "lzetap")
SYMMETRIC, FREE = 1, 2
"""Kinds of a face of the mesh, in the bits of `elemBC`: two bits for each of six neighbours, ordered as `NEIGHBOURS`.
"""


@attrs.frozen
class Mesh:
    """`nx` elements along each side of the cube."""

    nx: int

    @property
    def elements(self) -> int:
        return self.nx**3

    @property
    def nodes(self) -> int:
        return (self.nx + 1) ** 3

    def region_sizes(self) -> list[int]:
        """Draw the number of elements of each region: the r-th has a chance of r, as in the public source."""
        shares = np.cumsum(np.arange(1, REGIONS + 1)) / (REGIONS * (REGIONS + 1) / 2)
        ends = np.rint(shares * self.elements).astype(int)
        return [int(size) for size in np.diff(ends, prepend=0)]

    def regions(self, seed: int) -> list[NDArray[np.int32]]:
        """Draw which elements are in each region, in order: runs that are mostly short."""
        rng = np.random.default_rng(seed)
        ends = np.cumsum(np.arange(1, REGIONS + 1)) / (REGIONS * (REGIONS + 1) / 2)
        of = np.empty(self.elements, np.int32)
        begin = 0
        while begin < self.elements:
            length = int(rng.integers(1, 16))
            of[begin : begin + length] = np.searchsorted(ends, rng.random(), side="right")
            begin += length
        return [np.flatnonzero(of == region).astype(np.int32) for region in range(REGIONS)]

    def values(self) -> dict[str, NDArray[Any]]:
        """Return what the host initialises fields with; fields that are not here start with zeros."""
        nx, side = self.nx, self.nx + 1
        node = np.arange(self.nodes)
        at = LENGTH * np.arange(side) / nx
        x, y, z = at[node % side], at[node // side % side], at[node // side**2]
        k, j, i = np.unravel_index(np.arange(self.elements), (nx, nx, nx))
        first = (k * side + j) * side + i
        plane = side * side
        nodelist = np.stack(
            [
                *(first, first + 1, first + side + 1, first + side),
                *(first + plane, first + plane + 1, first + plane + side + 1, first + plane + side),
            ],
            axis=1,
        ).astype(np.int32)
        volume = volumes(corners(x, y, z, nodelist))
        energy = np.zeros(self.elements)
        energy[0] = BLAST * (nx / 45.0) ** 3
        element = np.arange(self.elements)
        bits = np.zeros(self.elements, np.int32)
        for axis, along in enumerate((i, j, k)):
            bits[along == 0] |= SYMMETRIC << 4 * axis
            bits[along == nx - 1] |= FREE << 4 * axis + 2
        corner_of = np.argsort(nodelist, axis=None, kind="stable").astype(np.int32)
        starts = np.concatenate([[0], np.cumsum(np.bincount(nodelist.ravel(), minlength=self.nodes))])
        neighbours = {
            name: np.clip(element + (1 if name.endswith("p") else -1) * step, 0, self.elements - 1).astype(np.int32)
            for name, step in zip(NEIGHBOURS, (1, 1, nx, nx, nx * nx, nx * nx), strict=True)
        }
        face = np.arange(side * side, dtype=np.int32)
        return {
            "x": x, "y": y, "z": z, "nodelist": nodelist.ravel(), "e": energy, "v": np.ones(self.elements),
            "volo": volume, "elemMass": volume, "nodalMass": np.bincount(
                nodelist.ravel(), np.repeat(volume / 8.0, 8), self.nodes
            ),
            "elemBC": bits, "nodeElemStart": starts.astype(np.int32), "nodeElemCornerList": corner_of,
            "symmX": (face * side).astype(np.int32), "symmY": (face // side * plane + face % side).astype(np.int32),
            "symmZ": face, **neighbours,
        }  # fmt: skip

    def first_time_step(self) -> float:
        """Return half of the time that a sound wave needs to cross the first element."""
        energy = BLAST * (self.nx / 45.0) ** 3
        return 0.5 * (LENGTH / self.nx) / math.sqrt(2.0 * energy)


@attrs.define
class Domain:
    """The object and its fields. `time`, `dt`, `dtcourant` and `dthydro` belong to the host."""

    mesh: Mesh
    phantom: bool
    itself: std.UsmArray
    fields: Mapping[str, std.UsmArray]
    region_lists: list[std.UsmArray]
    dt: float
    time: float = 0.0
    dtcourant: float = 1e20
    dthydro: float = 1e20
    kept: dict[tuple[str, int], std.UsmArray] = attrs.field(factory=dict)
    """Temporary arrays of a program with device memory of its own, which it does not free."""

    @classmethod
    async def create(cls, t: std.HostThread, mesh: Mesh, phantom: bool, seed: int) -> Domain:
        """Construct the domain: the host allocates and writes everything."""
        values = {} if phantom else mesh.values()
        lists = None if phantom else mesh.regions(seed)
        side = (mesh.nx + 1) ** 2
        itself = await t.new_array("domain", DOMAIN_BYTES, np.int8, phantom=phantom)
        await stores(t, itself)
        shapes: dict[str, tuple[int, type]] = {
            **dict.fromkeys(NODAL, (mesh.nodes, np.float64)),
            **dict.fromkeys(ELEMENTAL, (mesh.elements, np.float64)),
            "nodelist": (8 * mesh.elements, np.int32),
            **dict.fromkeys((*NEIGHBOURS, "elemBC"), (mesh.elements, np.int32)),
            "nodeElemStart": (mesh.nodes + 1, np.int32),
            "nodeElemCornerList": (8 * mesh.elements, np.int32),
            **dict.fromkeys(("symmX", "symmY", "symmZ"), (side, np.int32)),
        }
        fields = {}
        for name, (length, dtype) in shapes.items():
            fields[name] = await t.new_array(name, length, dtype, phantom=phantom)
            await t.write(fields[name], values.get(name, 0))
        sizes = mesh.region_sizes() if lists is None else [len(elements) for elements in lists]
        region_lists = []
        for region, size in enumerate(sizes):
            region_lists.append(await t.new_array(f"region {region}", size, np.int32, phantom=phantom))
            await t.write(region_lists[-1], None if lists is None else lists[region])
        return cls(mesh, phantom, itself, fields, region_lists, mesh.first_time_step())

    def __getitem__(self, name: str) -> std.UsmArray:
        return self.fields[name]

    def behind(self, *names: str) -> list[std.Indirect]:
        """Return fields as a kernel gets them that has a pointer to the domain."""
        return [std.indirect(self.fields[name]) for name in names]

    async def load(self, t: std.HostThread) -> None:
        """Let the host load a member of the object: a size, a parameter, or a pointer to a field."""
        await loads(t, self.itself)

    async def store(self, t: std.HostThread) -> None:
        """Let the host store to a member."""
        await stores(t, self.itself)

    async def take(self, t: std.HostThread, n: int, *names: str) -> list[std.UsmArray]:
        """Allocate temporary arrays of `n` numbers."""
        if not t.runtime.is_explicit:
            return [await t.new_array(name, n, phantom=self.phantom) for name in names]
        for name in names:
            if (name, n) not in self.kept:
                self.kept[name, n] = await t.new_array(name, n, phantom=self.phantom)
        return [self.kept[name, n] for name in names]

    async def give(self, t: std.HostThread, *arrays: std.UsmArray) -> None:
        """Free temporary arrays, in this order."""
        if not t.runtime.is_explicit:
            for array in arrays:
                await t.delete(array)

    async def release(self, t: std.HostThread) -> None:
        """Destroy the domain."""
        for array in (*self.kept.values(), *self.fields.values(), *self.region_lists, self.itself):
            await t.delete(array)
