"""LULESH 2.0: explicit Lagrangian hydrodynamics of a Sedov blast, in the stdpar version (LLNL/LULESH, 2.0.2-dev).

Some 750 algorithms a step, most of them small, 209 allocations, and 26 algorithms that return a value. Windows of
synchronization elision end where the host loads a member of the domain, which is on the heap, where it allocates and
frees, and where a function ends that calls no algorithm itself and so is not inlined. Region by region, the equation of
state is evaluated as often as the region's cost says. The public source has the policy ``par``; here it is
``par_unseq``, without which devices that make no independent progress would do nothing.
"""

from __future__ import annotations

from typing import Final

import attrs

from offloadrt.extensions import stdpar as std
from offloadrt.papers.stdpar.programs import lulesh_domain as kernels
from offloadrt.papers.stdpar.programs import lulesh_material as material
from offloadrt.papers.stdpar.programs.frame import (
    ApplicationOutcome,
    Timed,
    captured_by_reference,
    sequential_loop,
)
from offloadrt.papers.stdpar.programs.lulesh_domain import LAST_TIME, REGIONS, Domain, Mesh
from offloadrt.papers.stdpar.programs.lulesh_material import evaluate
from offloadrt.study.running.phases import StepNumbers

p: Final = std.par_unseq
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
        await t.transform(p, material.new_volume, domain["vnew"], domain["v"])


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
                await t.for_each_n(p, size, material.monotonic_q, itself, std.indirect(elements), *around, *behind, *of)
        await domain.give(t, *reversed(lengths), *reversed(gradients))
        await domain.store(t)
        if t.runtime.is_explicit:
            await check(t, "viscosity", await t.any_of(p, kernels.above, domain["q"], material.QSTOP))
        else:
            await sequential_loop(t, kernels.above, domain["q"], material.QSTOP)


async def material_properties(t: std.HostThread, domain: Domain) -> None:
    """Evaluate the equation of state in each region, as often as its cost says."""
    n = domain.mesh.elements
    await domain.load(t)
    (vnewc,) = await domain.take(t, n, "vnewc")
    await domain.load(t)
    await t.copy(p, domain["vnew"], vnewc)
    await t.transform(p, material.at_least, vnewc)
    await t.transform(p, material.at_most, vnewc)
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
                p, material.courant, domain.itself, elements, *domain.behind("ss", "arealg", "vdov"),
                init=domain.dtcourant, iterations=len(elements),
            )  # fmt: skip
            domain.dtcourant = constraint if constraint is not None else domain.dtcourant
            await domain.store(t)
            constraint = await t.transform_reduce(
                p, material.hydro, domain.itself, elements, *domain.behind("vdov"),
                init=domain.dthydro, iterations=len(elements),
            )  # fmt: skip
            domain.dthydro = constraint if constraint is not None else domain.dthydro
            await domain.store(t)


async def check(t: std.HostThread, where: str, wrong: bool | None) -> None:
    """End the program when some element is wrong. Of phantoms nothing is known."""
    if wrong:
        raise VolumeError(f"{where}: an element is out of bounds at {t.sim.now:.6f} s")
