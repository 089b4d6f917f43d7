"""LULESH 2.0: explicit Lagrangian hydrodynamics of a Sedov blast, in the stdpar version (LLNL/LULESH, 2.0.2-dev).

A step has some 750 algorithms, most of them small, 209 allocations, and 26 algorithms that return a value. Windows of
synchronization elision end where the host loads a member of the domain, which is on the heap, where it allocates and
frees, and where a function ends that calls no algorithm itself and so is not inlined. Region by region, the equation of
state is evaluated as often as the region's cost says. The public source has the policy ``par``; here it is
``par_unseq``, without which devices that make no independent progress would do nothing.

The domain is a cube of hexahedra around one corner of the blast. It is an object of the heap that the host and most
kernels use: they find the fields behind pointers in it. Regions have lists of their elements; temporary arrays have one
number for each entry of the list.

Kernels are declared by their costs: what one iteration moves between memory and compute units, and the operations
counted from the formulas. Values at nodes and neighbours that several elements use come from memory once. The kernels
compute nothing, so that arrays are phantoms and every time step has the length of the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs
import numpy as np

from offloadrt.extensions import stdpar as std
from offloadrt.kernels import ArrayUse, Kernel
from offloadrt.papers.stdpar.programs.frame import (
    ApplicationOutcome,
    Timed,
    captured_by_reference,
    loads,
    sequential_loop,
    stores,
)
from offloadrt.study.running.phases import StepNumbers

INT: Final = 4


@attrs.frozen
class Use:
    """What one iteration does with an array: elements that it reads and writes, and their size in bytes."""

    read: float = 0.0
    written: float = 0.0
    size: int = 8
    seldom: bool = False
    """Whether it is written only where something is wrong with an element, which costs nothing otherwise."""


def made(name: str, flops: float, *uses: Use, n: bool) -> Kernel:
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
    return Kernel(name, None, flops, moved, arrays=tuple(arrays))


R, W, RW, SELDOM = Use(1.0), Use(written=1.0), Use(1.0, 1.0), Use(seldom=True)
DOMAIN: Final = Use(size=1)
"""The object itself: the same bytes for all iterations."""
LIST: Final = Use(1.0, size=INT)
NODELIST: Final = Use(8.0, size=INT)
READ_CORNERS: Final = Use(8.0)
CORNERS: Final = Use(written=8.0)
"""The corners of an element, which the element writes."""

init_stress = made("InitStressTerms", 2, DOMAIN, R, R, W, W, W, n=True)
integrate_stress = made(
    "IntegrateStress", 480,
    DOMAIN, NODELIST, R, R, R, R, R, R, W, CORNERS, CORNERS, CORNERS, n=True,
)  # fmt: skip
_OF_CORNERS = (LIST, NODELIST, READ_CORNERS, READ_CORNERS, READ_CORNERS)
sum_forces = made("SumForces", 24, DOMAIN, *_OF_CORNERS, W, W, W, n=True)
add_forces = made("AddForces", 27, DOMAIN, *_OF_CORNERS, RW, RW, RW, n=True)
hourglass_control = made("HourglassControl", 720, DOMAIN, NODELIST, R, R, R, R, R, W, *[CORNERS] * 6, n=True)
hourglass_force = made(
    "HourglassForce", 830,
    DOMAIN, NODELIST, R, R, R, R, R, R, *[READ_CORNERS] * 6, CORNERS, CORNERS, CORNERS, n=True,
)  # fmt: skip
accelerate = made("Acceleration", 1, R, R, W, n=False)
hold = made("AccelerationBoundary", 0, LIST, DOMAIN, W, n=False)
velocity = made("Velocity", 3, RW, R, n=False)
position = made("Position", 2, RW, R, n=False)
kinematics = made("Kinematics", 600, DOMAIN, NODELIST, *[R] * 8, *[W] * 6, n=True)
deviatoric = made("StrainRate", 6, DOMAIN, W, RW, RW, RW, n=True)
gradients = made("MonotonicQGradients", 240, DOMAIN, NODELIST, *[R] * 8, *[W] * 6, n=True)
not_positive = made("NotPositive", 1, R, n=False)
negative = made("Negative", 1, R, n=False)
above = made("Above", 1, R, n=False)
monotonic_q = made(
    "MonotonicQRegion", 100,
    DOMAIN, LIST, *[LIST] * 7, *[R] * 3, *[R] * 3, R, R, R, R, W, W, n=True,
)  # fmt: skip
gather = made("GatherRegion", 0, DOMAIN, LIST, *[R] * 6, *[W] * 6, n=True)
compress = made("Compression", 6, LIST, R, R, W, W, n=True)
least_volume = made("LeastVolume", 1, LIST, R, SELDOM, SELDOM, n=True)
most_volume = made("MostVolume", 1, LIST, R, SELDOM, SELDOM, SELDOM, n=True)
bulk = made("BulkModulus", 2, R, W, n=False)
pressure = made("Pressure", 4, LIST, R, R, R, W, n=True)
energy_begin = made("EnergyBegin", 6, *[R] * 5, W, n=True)
energy_half = made("EnergyHalf", 18, *[R] * 9, RW, W, n=True)
energy_work = made("EnergyWork", 4, RW, R, n=False)
energy_end = made("EnergyEnd", 22, LIST, *[R] * 11, RW, n=True)
new_viscosity = made("Viscosity", 11, LIST, *[R] * 8, W, n=True)
scatter = made("ScatterRegion", 0, DOMAIN, LIST, R, R, R, W, W, W, n=True)
sound_speed = made("SoundSpeed", 7, DOMAIN, LIST, *[R] * 5, W, n=True)
at_least = made("AtLeast", 1, RW, n=False)
at_most = made("AtMost", 1, RW, n=False)
new_volume = made("UpdateVolumes", 2, R, W, n=False)
courant = made("CourantConstraint", 9, DOMAIN, LIST, R, R, R, n=False)
hydro = made("HydroConstraint", 3, DOMAIN, LIST, R, n=False)

REGIONS: Final = 11
DOMAIN_BYTES: Final = 2048
"""The size of the object itself: some fifty vectors of three pointers, and its parameters."""
NODAL: Final = ("x", "y", "z", "xd", "yd", "zd", "xdd", "ydd", "zdd", "fx", "fy", "fz", "nodalMass")
ELEMENTAL: Final = (*("e", "p", "q", "ql", "qq", "v", "volo", "delv", "vdov", "arealg", "ss", "elemMass", "vnew"),)
NEIGHBOURS: Final = ("lxim", "lxip", "letam", "letap", "lzetam", "lzetap")
p: Final = std.par_unseq
TEMPORARY: Final = (
    *("e_old", "delvc", "p_old", "q_old", "compression", "half", "qq_old", "ql_old", "work"),
    *("p_new", "e_new", "q_new", "bvc", "pbvc"),
)
TEMPORARY_STRESS: Final = ("sigxx", "sigyy", "sigzz", "determ")
TEMPORARY_CORNERS: Final = ("dvdx", "dvdy", "dvdz", "x8n", "y8n", "z8n")
GRADIENTS: Final = ("delx_xi", "delx_eta", "delx_zeta", "delv_xi", "delv_eta", "delv_zeta")
STRAINS: Final = ("dxx", "dyy", "dzz")


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


@attrs.define
class Domain:
    """The object and its fields, all of them phantoms."""

    mesh: Mesh
    itself: std.UsmArray
    fields: Mapping[str, std.UsmArray]
    region_lists: list[std.UsmArray]
    kept: dict[tuple[str, int], std.UsmArray] = attrs.field(factory=dict)
    """Temporary arrays of a program with device memory of its own, which it does not free."""

    @classmethod
    async def create(cls, t: std.HostThread, mesh: Mesh) -> Domain:
        """Construct the domain: the host allocates and writes everything."""
        side = (mesh.nx + 1) ** 2
        itself = await t.new_array("domain", DOMAIN_BYTES, np.int8, phantom=True)
        await stores(t, itself)
        shapes: dict[str, tuple[int, type]] = {
            **dict.fromkeys(NODAL, (mesh.nodes, np.float64)),
            **dict.fromkeys(ELEMENTAL, (mesh.elements, np.float64)),
            "nodelist": (8 * mesh.elements, np.int32),
            **dict.fromkeys((*NEIGHBOURS, "elemBC"), (mesh.elements, np.int32)),
            "nodeElemStart": (mesh.nodes + 1, np.int32),
            "nodeElemCornerList": (8 * mesh.elements, np.int32),
            **dict.fromkeys(("symmX", "symmY", "symmZ"), (side, np.int32)),
            **{f"region {region}": (size, np.int32) for region, size in enumerate(mesh.region_sizes())},
        }
        fields = {}
        for name, (length, dtype) in shapes.items():
            fields[name] = await t.new_array(name, length, dtype, phantom=True)
            await t.write(fields[name])
        region_lists = [fields.pop(f"region {region}") for region in range(REGIONS)]
        return cls(mesh, itself, fields, region_lists)

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
            return [await t.new_array(name, n, phantom=True) for name in names]
        for name in names:
            if (name, n) not in self.kept:
                self.kept[name, n] = await t.new_array(name, n, phantom=True)
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


async def evaluate(
    t: std.HostThread, domain: Domain, vnewc: std.UsmArray, elements: std.UsmArray, repetitions: int
) -> None:
    """Compute energy, pressure, viscosity and sound speed of a region's elements."""
    n, itself = len(elements), domain.itself
    await domain.load(t)
    temporary = await domain.take(t, n, *TEMPORARY)
    a = dict(zip(TEMPORARY, temporary, strict=True))
    fields = domain.behind("e", "delv", "p", "q", "qq", "ql")
    old = [a[name] for name in ("e_old", "delvc", "p_old", "q_old", "qq_old", "ql_old")]
    new = (a["p_new"], a["e_new"], a["q_new"], *domain.behind("p", "e", "q"))
    use = (vnewc, a["pbvc"], a["e_new"], a["bvc"], a["p_new"], *domain.behind("ss"))
    for _ in range(repetitions):
        await t.for_each_n(p, n, gather, itself, elements, *fields, *old)
        await t.for_each_n(p, n, compress, elements, vnewc, a["delvc"], a["compression"], a["half"])
        await t.for_each_n(p, n, least_volume, elements, vnewc, a["compression"], a["half"])
        await t.for_each_n(p, n, most_volume, elements, vnewc, a["p_old"], a["compression"], a["half"])
        await t.fill(p, a["work"], 0.0)
        await energy(t, domain, a, vnewc, elements)
    await t.for_each_n(p, n, scatter, itself, elements, *new)
    await t.for_each_n(p, n, sound_speed, itself, elements, *use)
    await domain.give(t, *reversed(temporary))


async def energy(
    t: std.HostThread, domain: Domain, a: dict[str, std.UsmArray], vnewc: std.UsmArray, elements: std.UsmArray
) -> None:
    """Compute the new energy in three approximations, each with the pressure that follows from it."""
    n, (p_half,) = len(elements), await domain.take(t, len(elements), "pHalfStep")
    e_new, delvc, bvc, pbvc, p_new, q_new = (a[name] for name in ("e_new", "delvc", "bvc", "pbvc", "p_new", "q_new"))
    compression, half, work, e_old = a["compression"], a["half"], a["work"], a["e_old"]
    before = (a["p_old"], a["q_old"])
    viscous = (a["ql_old"], a["qq_old"])
    await t.for_each_n(p, n, energy_begin, e_old, delvc, *before, work, e_new)
    await pressure_of(t, p_half, bvc, pbvc, e_new, half, vnewc, elements)
    await t.for_each_n(p, n, energy_half, half, delvc, pbvc, bvc, p_half, *viscous, *before, e_new, q_new)
    await t.transform(p, energy_work, e_new, work)
    await pressure_of(t, p_new, bvc, pbvc, e_new, compression, vnewc, elements)
    await t.for_each_n(
        p, n, energy_end, elements, vnewc, delvc, pbvc, bvc, p_new, *viscous, *before, p_half, q_new, e_new
    )
    await pressure_of(t, p_new, bvc, pbvc, e_new, compression, vnewc, elements)
    await t.for_each_n(p, n, new_viscosity, elements, vnewc, delvc, pbvc, bvc, p_new, e_new, *viscous, q_new)
    await domain.give(t, p_half)


async def pressure_of(
    t: std.HostThread,
    result: std.UsmArray,
    bvc: std.UsmArray,
    pbvc: std.UsmArray,
    energies: std.UsmArray,
    compression: std.UsmArray,
    vnewc: std.UsmArray,
    elements: std.UsmArray,
) -> None:
    """Compute the pressure from energy and compression."""
    await t.transform(p, bulk, compression, bvc)
    await t.fill(p, pbvc, 2.0 / 3.0)
    await t.for_each_n(p, len(elements), pressure, elements, bvc, energies, vnewc, result)


@attrs.frozen
class Lulesh:
    """`steps` time steps, `nx` elements along a side. Raises ValueError unless arrays are phantoms."""

    nx: int = 30
    steps: int = 100
    phantom: bool = attrs.field(default=True)
    step_numbers: StepNumbers = range

    @phantom.validator
    def _have_no_numbers(self, _attribute: object, phantom: bool) -> None:
        if not phantom:
            raise ValueError("LULESH has no numbers: its kernels are declared by costs and accesses")

    async def run(self, t: std.HostThread, timed: Timed) -> ApplicationOutcome:
        """Construct the domain on the host, and step. Raises CompilationRefused under icpx."""
        captured_by_reference(t, "domain")
        domain = await Domain.create(t, Mesh(self.nx))
        corner_forces: list[std.UsmArray] = []
        cycle, ran = 0, 0
        async with timed():
            begin = t.sim.now
            for step in self.step_numbers(self.steps):
                await domain.load(t)  # the host chooses the next time step
                await domain.store(t)
                await lagrange_nodal(t, domain, corner_forces)
                await lagrange_elements(t, domain)
                await time_constraints(t, domain)
                cycle, ran = step + 1, ran + 1
            seconds = t.sim.now - begin
        await t.read(domain["e"])
        for array in corner_forces:
            await t.delete(array)
        await domain.release(t)
        return ApplicationOutcome({"cycles": cycle, "zones_per_second": self.nx**3 * ran / seconds if ran else 0.0})


async def lagrange_nodal(t: std.HostThread, domain: Domain, corner_forces: list[std.UsmArray]) -> None:
    """Compute forces at the nodes, and move them."""
    async with t.function():
        await domain.load(t)
        for axis in "xyz":
            await domain.load(t)
            await t.fill(p, domain[f"f{axis}"], 0.0)
        await volume_force(t, domain, corner_forces)
        for axis in "xyz":
            await domain.load(t)
            await t.transform(p, accelerate, domain[f"f{axis}"], domain["nodalMass"], domain[f"{axis}dd"])
        for axis in "xyz":
            await domain.load(t)
            plane = domain[f"symm{axis.upper()}"]
            await t.for_each(p, hold, plane, domain.itself, *domain.behind(f"{axis}dd"))
        for axis in "xyz":
            await domain.load(t)
            await t.transform(p, velocity, domain[f"{axis}d"], domain[f"{axis}dd"])
        for axis in "xyz":
            await domain.load(t)
            await t.transform(p, position, domain[axis], domain[f"{axis}d"])


async def volume_force(t: std.HostThread, domain: Domain, corner_forces: list[std.UsmArray]) -> None:
    """Compute stresses and the forces against hourglass modes, each gathered at the nodes."""
    n, nodes, itself = domain.mesh.elements, domain.mesh.nodes, domain.itself
    at_nodes = domain.behind("nodeElemStart", "nodeElemCornerList")
    forces = domain.behind("fx", "fy", "fz")
    await domain.load(t)
    stress = await domain.take(t, n, *TEMPORARY_STRESS)
    *sigma, determ = stress
    await t.for_each_n(p, n, init_stress, itself, *domain.behind("p", "q"), *sigma)
    await domain.load(t)
    if not corner_forces:
        for name in ("fx_elem", "fy_elem", "fz_elem"):
            corner_forces.append(await t.new_array(name, 8 * n, phantom=True))
            await t.write(corner_forces[-1], 0.0)
    place = domain.behind("nodelist", "x", "y", "z")
    await t.for_each_n(p, n, integrate_stress, itself, *place, *sigma, determ, *corner_forces)
    await t.for_each_n(p, nodes, sum_forces, itself, *at_nodes, *corner_forces, *forces)
    await t.any_of(p, not_positive, determ)
    await domain.load(t)
    corners = await domain.take(t, 8 * n, *TEMPORARY_CORNERS)
    *gradient, x8n, y8n, z8n = corners
    volume = domain.behind("volo", "v")
    await t.for_each_n(p, n, hourglass_control, itself, *place, *volume, determ, *corners)
    await domain.load(t)
    await t.any_of(p, negative, domain["v"])
    await domain.load(t)
    moving = domain.behind("nodelist", "ss", "elemMass", "xd", "yd", "zd")
    await t.for_each_n(p, n, hourglass_force, itself, *moving, determ, x8n, y8n, z8n, *gradient, *corner_forces)
    await t.for_each_n(p, nodes, add_forces, itself, *at_nodes, *corner_forces, *forces)
    await domain.give(t, *reversed(corners))
    await domain.give(t, *reversed(stress))


async def lagrange_elements(t: std.HostThread, domain: Domain) -> None:
    """Update kinematics, viscosity and material of the elements."""
    async with t.function():
        n, itself = domain.mesh.elements, domain.itself
        await domain.load(t)
        strains = await domain.take(t, n, *STRAINS)
        await domain.store(t)
        use = domain.behind("nodelist", "x", "y", "z", "xd", "yd", "zd", "volo", "v", "vnew", "delv", "arealg")
        behind = [std.indirect(strain) for strain in strains]
        await t.for_each_n(p, n, kinematics, itself, *use, *behind)
        await t.for_each_n(p, n, deviatoric, itself, *domain.behind("vdov"), *behind)
        await domain.load(t)
        await t.any_of(p, not_positive, domain["vnew"])
        await domain.give(t, *reversed(strains))
        await domain.store(t)
        await viscosity(t, domain)
        await material_properties(t, domain)
        await domain.load(t)
        await t.transform(p, new_volume, domain["vnew"], domain["v"])


async def viscosity(t: std.HostThread, domain: Domain) -> None:
    """Compute gradients and the monotonic q of each region; then the host looks at q, element by element."""
    async with t.function():
        n, itself = domain.mesh.elements, domain.itself
        ghosts = n + 6 * domain.mesh.nx**2
        lengths = await domain.take(t, n, *GRADIENTS[:3])
        slopes = await domain.take(t, ghosts, *GRADIENTS[3:])
        await domain.store(t)
        use = domain.behind("nodelist", "x", "y", "z", "xd", "yd", "zd", "volo", "vnew")
        behind = [std.indirect(array) for array in (*lengths, *slopes)]
        await t.for_each_n(p, n, gradients, itself, *use, *behind)
        async with t.function():
            around = domain.behind("elemBC", "lxim", "lxip", "letam", "letap", "lzetam", "lzetap")
            of = domain.behind("vdov", "elemMass", "volo", "vnew", "qq", "ql")
            for elements in domain.region_lists:
                await domain.load(t)
                size = len(elements)
                await t.for_each_n(p, size, monotonic_q, itself, std.indirect(elements), *around, *behind, *of)
        await domain.give(t, *reversed(lengths), *reversed(slopes))
        await domain.store(t)
        if t.runtime.is_explicit:
            await t.any_of(p, above, domain["q"])
        else:
            await sequential_loop(t, above, domain["q"])


async def material_properties(t: std.HostThread, domain: Domain) -> None:
    """Evaluate the equation of state in each region, as often as its cost says."""
    n = domain.mesh.elements
    await domain.load(t)
    (vnewc,) = await domain.take(t, n, "vnewc")
    await domain.load(t)
    await t.copy(p, domain["vnew"], vnewc)
    await t.transform(p, at_least, vnewc)
    await t.transform(p, at_most, vnewc)
    await domain.load(t)
    await t.any_of(p, negative, domain["v"])
    for region, elements in enumerate(domain.region_lists):
        await evaluate(t, domain, vnewc, elements, repetitions(region))
    await domain.give(t, vnewc)


def repetitions(region: int) -> int:
    """Return how often the equation of state of a region is evaluated: costly regions are few."""
    if region < REGIONS // 2:
        return 1
    if region < REGIONS - (REGIONS + 15) // 20:
        return 2
    return 20


async def time_constraints(t: std.HostThread, domain: Domain) -> None:
    """Compute the largest time steps that each region allows."""
    async with t.function():
        await domain.store(t)
        for elements in domain.region_lists:
            await domain.load(t)
            n, fields = len(elements), domain.behind("ss", "arealg", "vdov")
            await t.transform_reduce(p, courant, domain.itself, elements, *fields, init=1e20, iterations=n)
            await domain.store(t)
            await t.transform_reduce(p, hydro, domain.itself, elements, *domain.behind("vdov"), init=1e20, iterations=n)
            await domain.store(t)
