"""LULESH 2.0: explicit Lagrangian hydrodynamics of a Sedov blast, in the stdpar version (LLNL/LULESH, 2.0.2-dev).

Some 750 algorithms a step, most of them small, 209 allocations, and 26 algorithms that return a value. Windows of
synchronization elision end where the host loads a member of the domain, which is on the heap, where it allocates and
frees, and where a function ends that calls no algorithm itself and so is not inlined. Region by region, the equation of
state is evaluated as often as the region's cost says. The public source has the policy ``par``; here it is
``par_unseq``, without which devices that make no independent progress would do nothing.

The kernels here are those on the elements of a region: artificial viscosity, equation of state, constraints of the time
step. Regions have lists of their elements; temporary arrays have one number for each entry of the list. Costs are
declared as in `lulesh_domain.py`.
"""

from __future__ import annotations

from typing import Any, Final

import attrs
import numpy as np

from offloadrt.extensions import stdpar as std
from offloadrt.papers.stdpar.programs import lulesh_domain as kernels
from offloadrt.papers.stdpar.programs.frame import ApplicationOutcome, Timed, captured_by_reference, sequential_loop
from offloadrt.papers.stdpar.programs.lulesh_domain import (
    DOMAIN,
    FREE,
    LAST_TIME,
    LIST,
    REGIONS,
    RW,
    SELDOM,
    SYMMETRIC,
    Domain,
    Mesh,
    R,
    W,
    made,
)
from offloadrt.study.running.phases import StepNumbers

E_CUT = P_CUT = Q_CUT = 1e-7
V_CUT = 1e-10
LEAST_ENERGY = -1e15
LEAST_VOLUME, MOST_VOLUME = 1e-9, 1e9
LIMITER, MOST_SLOPE = 2.0, 1.0
LINEAR_Q, QUADRATIC_Q = 0.5, 2.0 / 3.0
QQC = 2.0
MOST_CHANGE = 0.1
"""The largest change of a volume in one step."""
QSTOP = 1e12


def _monotonic_q(
    n: int, domain: Any, elements: Any, bits: Any, lxim: Any, lxip: Any, letam: Any, letap: Any, lzetam: Any,
    lzetap: Any, delx_xi: Any, delx_eta: Any, delx_zeta: Any, delv_xi: Any, delv_eta: Any, delv_zeta: Any,
    vdov: Any, mass: Any, volo: Any, vnew: Any, qq: Any, ql: Any,
) -> None:  # fmt: skip
    tiny = 1e-36
    linear, quadratic = np.zeros(len(elements)), np.zeros(len(elements))
    axes = ((delv_xi, delx_xi, lxim, lxip), (delv_eta, delx_eta, letam, letap), (delv_zeta, delx_zeta, lzetam, lzetap))
    for axis, (delv, delx, before, behind) in enumerate(axes):
        here, flags = delv[elements], bits[elements] >> 4 * axis

        def beyond(at: Any, shift: int, delv: Any = delv, here: Any = here, flags: Any = flags) -> Any:
            face = flags >> shift & 3
            neighbour = np.where(face == SYMMETRIC, here, delv[at[elements]])
            return np.where(face == FREE, 0.0, neighbour) / (here + tiny)

        low, high = beyond(before, 0), beyond(behind, 2)
        phi = np.minimum(np.minimum(0.5 * (low + high), LIMITER * low), LIMITER * high)
        phi = np.clip(phi, 0.0, MOST_SLOPE)
        change = np.minimum(here * delx[elements], 0.0)
        linear += change * (1.0 - phi)
        quadratic += change * change * (1.0 - phi * phi)
    density = mass[elements] / (volo[elements] * vnew[elements])
    squeezed = vdov[elements] <= 0.0
    qq[elements] = np.where(squeezed, QUADRATIC_Q * density * quadratic, 0.0)
    ql[elements] = np.where(squeezed, -LINEAR_Q * density * linear, 0.0)


monotonic_q = made(
    "MonotonicQRegion", _monotonic_q, 100,
    DOMAIN, LIST, *[LIST] * 7, *[R] * 3, *[R] * 3, R, R, R, R, W, W, n=True,
)  # fmt: skip


def _gather(
    n: int, domain: Any, elements: Any, e: Any, delv: Any, p: Any, q: Any, qq: Any, ql: Any,
    e_old: Any, delvc: Any, p_old: Any, q_old: Any, qq_old: Any, ql_old: Any,
) -> None:  # fmt: skip
    pairs = ((e, e_old), (delv, delvc), (p, p_old), (q, q_old), (qq, qq_old), (ql, ql_old))
    for field, old in pairs:
        old[...] = field[elements]


def _compress(n: int, elements: Any, vnewc: Any, delvc: Any, compression: Any, half: Any) -> None:
    volume = vnewc[elements]
    compression[...] = 1.0 / volume - 1.0
    half[...] = 1.0 / (volume - 0.5 * delvc) - 1.0


def _least_volume(n: int, elements: Any, vnewc: Any, compression: Any, half: Any) -> None:
    low = vnewc[elements] <= LEAST_VOLUME
    half[low] = compression[low]


def _most_volume(n: int, elements: Any, vnewc: Any, p_old: Any, compression: Any, half: Any) -> None:
    high = vnewc[elements] >= MOST_VOLUME
    for field in (p_old, compression, half):
        field[high] = 0.0


gather = made("GatherRegion", _gather, 0, DOMAIN, LIST, *[R] * 6, *[W] * 6, n=True)
compress = made("Compression", _compress, 6, LIST, R, R, W, W, n=True)
least_volume = made("LeastVolume", _least_volume, 1, LIST, R, SELDOM, SELDOM, n=True)
most_volume = made("MostVolume", _most_volume, 1, LIST, R, SELDOM, SELDOM, SELDOM, n=True)


def _bulk(compression: Any, bvc: Any) -> None:
    bvc[...] = 2.0 / 3.0 * (compression + 1.0)


def _pressure(n: int, elements: Any, bvc: Any, energy: Any, vnewc: Any, pressure: Any) -> None:
    raw = bvc * energy
    raw[(np.abs(raw) < P_CUT) | (vnewc[elements] >= MOST_VOLUME)] = 0.0
    pressure[...] = np.maximum(raw, 0.0)


bulk = made("BulkModulus", _bulk, 2, R, W, n=False)
pressure = made("Pressure", _pressure, 4, LIST, R, R, R, W, n=True)


def _sound(pbvc: Any, energy: Any, volume: Any, bvc: Any, pressure: Any) -> Any:
    square = pbvc * energy + volume * volume * bvc * pressure
    return np.where(square <= 0.1111111e-36, 0.3333333e-18, np.sqrt(np.maximum(square, 0.0)))


def _energy_begin(n: int, e_old: Any, delvc: Any, p_old: Any, q_old: Any, work: Any, e_new: Any) -> None:
    e_new[...] = np.maximum(e_old - 0.5 * delvc * (p_old + q_old) + 0.5 * work, LEAST_ENERGY)


def _energy_half(
    n: int, half: Any, delvc: Any, pbvc: Any, bvc: Any, p_half: Any, ql_old: Any, qq_old: Any, p_old: Any, q_old: Any,
    e_new: Any, q_new: Any,
) -> None:  # fmt: skip
    sound = _sound(pbvc, e_new, 1.0 / (1.0 + half), bvc, p_half)
    q_new[...] = np.where(delvc > 0.0, 0.0, sound * ql_old + qq_old)
    e_new += 0.5 * delvc * (3.0 * (p_old + q_old) - 4.0 * (p_half + q_new))


def _energy_work(e_new: Any, work: Any) -> None:
    e_new += 0.5 * work
    e_new[np.abs(e_new) < E_CUT] = 0.0
    np.maximum(e_new, LEAST_ENERGY, out=e_new)


def _energy_end(
    n: int, elements: Any, vnewc: Any, delvc: Any, pbvc: Any, bvc: Any, p_new: Any, ql_old: Any, qq_old: Any,
    p_old: Any, q_old: Any, p_half: Any, q_new: Any, e_new: Any,
) -> None:  # fmt: skip
    sound = _sound(pbvc, e_new, vnewc[elements], bvc, p_new)
    q = np.where(delvc > 0.0, 0.0, sound * ql_old + qq_old)
    e_new -= (7.0 * (p_old + q_old) - 8.0 * (p_half + q_new) + (p_new + q)) * delvc / 6.0
    e_new[np.abs(e_new) < E_CUT] = 0.0
    np.maximum(e_new, LEAST_ENERGY, out=e_new)


def _viscosity(
    n: int, elements: Any, vnewc: Any, delvc: Any, pbvc: Any, bvc: Any, p_new: Any, e_new: Any, ql_old: Any,
    qq_old: Any, q_new: Any,
) -> None:  # fmt: skip
    q = _sound(pbvc, e_new, vnewc[elements], bvc, p_new) * ql_old + qq_old
    q[np.abs(q) < Q_CUT] = 0.0
    squeezed = delvc <= 0.0
    q_new[squeezed] = q[squeezed]


energy_begin = made("EnergyBegin", _energy_begin, 6, *[R] * 5, W, n=True)
energy_half = made("EnergyHalf", _energy_half, 18, *[R] * 9, RW, W, n=True)
energy_work = made("EnergyWork", _energy_work, 4, RW, R, n=False)
energy_end = made("EnergyEnd", _energy_end, 22, LIST, *[R] * 11, RW, n=True)
new_viscosity = made("Viscosity", _viscosity, 11, LIST, *[R] * 8, W, n=True)


def _scatter(n: int, domain: Any, elements: Any, p_new: Any, e_new: Any, q_new: Any, p: Any, e: Any, q: Any) -> None:
    p[elements], e[elements], q[elements] = p_new, e_new, q_new


def _sound_speed(
    n: int, domain: Any, elements: Any, vnewc: Any, pbvc: Any, e_new: Any, bvc: Any, p_new: Any, ss: Any
) -> None:
    ss[elements] = _sound(pbvc, e_new, vnewc[elements], bvc, p_new)


scatter = made("ScatterRegion", _scatter, 0, DOMAIN, LIST, R, R, R, W, W, W, n=True)
sound_speed = made("SoundSpeed", _sound_speed, 7, DOMAIN, LIST, *[R] * 5, W, n=True)


def _at_least(volume: Any) -> None:
    np.maximum(volume, LEAST_VOLUME, out=volume)


def _at_most(volume: Any) -> None:
    np.minimum(volume, MOST_VOLUME, out=volume)


def _new_volume(vnew: Any, v: Any) -> None:
    v[...] = np.where(np.abs(vnew - 1.0) < V_CUT, 1.0, vnew)


at_least = made("AtLeast", _at_least, 1, RW, n=False)
at_most = made("AtMost", _at_most, 1, RW, n=False)
new_volume = made("UpdateVolumes", _new_volume, 2, R, W, n=False)


def _courant(domain: Any, elements: Any, ss: Any, arealg: Any, vdov: Any, least: Any) -> None:
    change, length = vdov[elements], arealg[elements]
    square = ss[elements] ** 2 + np.where(change < 0.0, 64.0 * QQC * QQC * (length * change) ** 2, 0.0)
    moving = change != 0.0
    if moving.any():
        least[0] = min(least[0], (length[moving] / np.sqrt(square[moving])).min())


def _hydro(domain: Any, elements: Any, vdov: Any, least: Any) -> None:
    change = np.abs(vdov[elements])
    if change.any():
        least[0] = min(least[0], (MOST_CHANGE / (change[change != 0.0] + 1e-20)).min())


courant = made("CourantConstraint", _courant, 9, DOMAIN, LIST, R, R, R, n=False)
hydro = made("HydroConstraint", _hydro, 3, DOMAIN, LIST, R, n=False)


p: Final = std.par_unseq
TEMPORARY: Final = (
    *("e_old", "delvc", "p_old", "q_old", "compression", "half", "qq_old", "ql_old", "work"),
    *("p_new", "e_new", "q_new", "bvc", "pbvc"),
)


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


U_CUT: Final = 1e-7
HGCOEF: Final = 3.0
TEMPORARY_STRESS: Final = ("sigxx", "sigyy", "sigzz", "determ")
TEMPORARY_CORNERS: Final = ("dvdx", "dvdy", "dvdz", "x8n", "y8n", "z8n")
GRADIENTS: Final = ("delx_xi", "delx_eta", "delx_zeta", "delv_xi", "delv_eta", "delv_zeta")
STRAINS: Final = ("dxx", "dyy", "dzz")


class VolumeError(ArithmeticError):
    """An element has no volume left, or its viscosity stops the run; the message says where."""


@attrs.frozen
class Lulesh:
    """`steps` time steps, or fewer with numbers that reach the last time; `nx` elements along a side."""

    nx: int = 30
    steps: int = 100
    phantom: bool = True
    seed: int = 0
    step_numbers: StepNumbers = range

    async def run(self, t: std.HostThread, timed: Timed) -> ApplicationOutcome:
        """Construct the domain on the host, and step. Raises VolumeError, and CompilationRefused under icpx."""
        captured_by_reference(t, "domain")
        domain = await Domain.create(t, Mesh(self.nx), self.phantom, self.seed)
        corner_forces: list[std.UsmArray] = []
        cycle, ran, begin = 0, 0, 0.0
        async with timed():
            begin = t.sim.now
            for step in self.step_numbers(self.steps):
                if not self.phantom and domain.time >= LAST_TIME:
                    break
                await time_increment(t, domain, step)
                await lagrange_nodal(t, domain, corner_forces)
                await lagrange_elements(t, domain)
                await time_constraints(t, domain)
                cycle, ran = step + 1, ran + 1
            seconds = t.sim.now - begin
        energy = await t.read(domain["e"])
        for array in corner_forces:
            await t.delete(array)
        await domain.release(t)
        rate = self.nx**3 * ran / seconds if ran else 0.0
        return ApplicationOutcome(
            {"cycles": cycle, "zones_per_second": rate}, {"e": energy, "time": domain.time, "dt": domain.dt}
        )


async def time_increment(t: std.HostThread, domain: Domain, cycle: int) -> None:
    """Choose the next time step: what the constraints allow, but not much more than the last one."""
    await domain.load(t)
    left = LAST_TIME - domain.time
    if cycle and not domain.phantom:
        new = 1e20
        if domain.dtcourant < new:
            new = domain.dtcourant / 2.0
        if domain.dthydro < new:
            new = domain.dthydro * 2.0 / 3.0
        ratio = new / domain.dt
        if 1.0 <= ratio < 1.1:
            new = domain.dt
        elif ratio > 1.2:
            new = domain.dt * 1.2
        domain.dt = min(new, 1e-2)
    if domain.dt < left < 4.0 * domain.dt / 3.0:
        left = 2.0 * domain.dt / 3.0
    domain.dt = min(domain.dt, left)
    domain.time += domain.dt
    await domain.store(t)


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
            await t.transform(p, kernels.accelerate, domain[f"f{axis}"], domain["nodalMass"], domain[f"{axis}dd"])
        for axis in "xyz":
            await domain.load(t)
            plane = domain[f"symm{axis.upper()}"]
            await t.for_each(p, kernels.hold, plane, domain.itself, *domain.behind(f"{axis}dd"))
        for axis in "xyz":
            await domain.load(t)
            await t.transform(p, kernels.velocity, domain[f"{axis}d"], domain[f"{axis}dd"], domain.dt, U_CUT)
        for axis in "xyz":
            await domain.load(t)
            await t.transform(p, kernels.position, domain[axis], domain[f"{axis}d"], domain.dt)


async def volume_force(t: std.HostThread, domain: Domain, corner_forces: list[std.UsmArray]) -> None:
    """Compute stresses and the forces against hourglass modes, each gathered at the nodes."""
    n, nodes, itself = domain.mesh.elements, domain.mesh.nodes, domain.itself
    at_nodes = domain.behind("nodeElemStart", "nodeElemCornerList")
    forces = domain.behind("fx", "fy", "fz")
    await domain.load(t)
    stress = await domain.take(t, n, *TEMPORARY_STRESS)
    *sigma, determ = stress
    await t.for_each_n(p, n, kernels.init_stress, itself, *domain.behind("p", "q"), *sigma)
    await domain.load(t)
    if not corner_forces:
        for name in ("fx_elem", "fy_elem", "fz_elem"):
            corner_forces.append(await t.new_array(name, 8 * n, phantom=domain.phantom))
            await t.write(corner_forces[-1], 0.0)
    place = domain.behind("nodelist", "x", "y", "z")
    await t.for_each_n(p, n, kernels.integrate_stress, itself, *place, *sigma, determ, *corner_forces)
    await t.for_each_n(p, nodes, kernels.sum_forces, itself, *at_nodes, *corner_forces, *forces)
    await check(t, "stress", await t.any_of(p, kernels.not_positive, determ))
    await domain.load(t)
    corners = await domain.take(t, 8 * n, *TEMPORARY_CORNERS)
    *gradient, x8n, y8n, z8n = corners
    volume = domain.behind("volo", "v")
    await t.for_each_n(p, n, kernels.hourglass_control, itself, *place, *volume, determ, *corners)
    await domain.load(t)
    await check(t, "hourglass control", await t.any_of(p, kernels.negative, domain["v"]))
    await domain.load(t)
    moving = domain.behind("nodelist", "ss", "elemMass", "xd", "yd", "zd")
    await t.for_each_n(
        p, n, kernels.hourglass_force, itself, *moving, determ, x8n, y8n, z8n, *gradient, *corner_forces, HGCOEF
    )
    await t.for_each_n(p, nodes, kernels.add_forces, itself, *at_nodes, *corner_forces, *forces)
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
        await t.for_each_n(p, n, kernels.kinematics, itself, *use, *behind, domain.dt)
        await t.for_each_n(p, n, kernels.deviatoric, itself, *domain.behind("vdov"), *behind)
        await domain.load(t)
        await check(t, "kinematics", await t.any_of(p, kernels.not_positive, domain["vnew"]))
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
        gradients = await domain.take(t, ghosts, *GRADIENTS[3:])
        await domain.store(t)
        use = domain.behind("nodelist", "x", "y", "z", "xd", "yd", "zd", "volo", "vnew")
        behind = [std.indirect(array) for array in (*lengths, *gradients)]
        await t.for_each_n(p, n, kernels.gradients, itself, *use, *behind)
        async with t.function():
            around = domain.behind("elemBC", "lxim", "lxip", "letam", "letap", "lzetam", "lzetap")
            of = domain.behind("vdov", "elemMass", "volo", "vnew", "qq", "ql")
            for elements in domain.region_lists:
                await domain.load(t)
                size = len(elements)
                await t.for_each_n(p, size, monotonic_q, itself, std.indirect(elements), *around, *behind, *of)
        await domain.give(t, *reversed(lengths), *reversed(gradients))
        await domain.store(t)
        if t.runtime.is_explicit:
            await check(t, "viscosity", await t.any_of(p, kernels.above, domain["q"], QSTOP))
        else:
            await sequential_loop(t, kernels.above, domain["q"], QSTOP)


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
    await check(t, "material", await t.any_of(p, kernels.negative, domain["v"]))
    for region, elements in enumerate(domain.region_lists):
        await evaluate(t, domain, vnewc, elements, repetitions(region))
    await domain.give(t, vnewc)


def repetitions(region: int, cost: int = 1) -> int:
    """Return how often the equation of state of a region is evaluated: costly regions are few."""
    if region < REGIONS // 2:
        return 1
    if region < REGIONS - (REGIONS + 15) // 20:
        return 1 + cost
    return 10 * (1 + cost)


async def time_constraints(t: std.HostThread, domain: Domain) -> None:
    """Compute the largest time steps that each region allows."""
    async with t.function():
        domain.dtcourant = domain.dthydro = 1e20
        await domain.store(t)
        for elements in domain.region_lists:
            await domain.load(t)
            constraint = await t.transform_reduce(
                p, courant, domain.itself, elements, *domain.behind("ss", "arealg", "vdov"),
                init=domain.dtcourant, iterations=len(elements),
            )  # fmt: skip
            domain.dtcourant = constraint if constraint is not None else domain.dtcourant
            await domain.store(t)
            constraint = await t.transform_reduce(
                p, hydro, domain.itself, elements, *domain.behind("vdov"),
                init=domain.dthydro, iterations=len(elements),
            )  # fmt: skip
            domain.dthydro = constraint if constraint is not None else domain.dthydro
            await domain.store(t)


async def check(t: std.HostThread, where: str, wrong: bool | None) -> None:
    """End the program when some element is wrong. Of phantoms nothing is known."""
    if wrong:
        raise VolumeError(f"{where}: an element is out of bounds at {t.sim.now:.6f} s")
