"""LULESH's equation of state in one region: each repetition is 19 algorithms on temporary arrays of the region's size.

Everything is a local pointer here. So windows of synchronization elision end only where each repetition allocates and
frees one array.
"""

from __future__ import annotations

from typing import Final

from offloadrt.models import stdpar as std
from offloadrt.papers.stdpar.programs import lulesh_material as material
from offloadrt.papers.stdpar.programs.lulesh_domain import Domain

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
        await t.for_each_n(p, n, material.gather, itself, elements, *fields, *old)
        await t.for_each_n(p, n, material.compress, elements, vnewc, a["delvc"], a["compression"], a["half"])
        await t.for_each_n(p, n, material.least_volume, elements, vnewc, a["compression"], a["half"])
        await t.for_each_n(p, n, material.most_volume, elements, vnewc, a["p_old"], a["compression"], a["half"])
        await t.fill(p, a["work"], 0.0)
        await energy(t, domain, a, vnewc, elements)
    await t.for_each_n(p, n, material.scatter, itself, elements, *new)
    await t.for_each_n(p, n, material.sound_speed, itself, elements, *use)
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
    await t.for_each_n(p, n, material.energy_begin, e_old, delvc, *before, work, e_new)
    await pressure(t, p_half, bvc, pbvc, e_new, half, vnewc, elements)
    await t.for_each_n(p, n, material.energy_half, half, delvc, pbvc, bvc, p_half, *viscous, *before, e_new, q_new)
    await t.transform(p, material.energy_work, e_new, work)
    await pressure(t, p_new, bvc, pbvc, e_new, compression, vnewc, elements)
    await t.for_each_n(
        p, n, material.energy_end, elements, vnewc, delvc, pbvc, bvc, p_new, *viscous, *before, p_half, q_new, e_new
    )
    await pressure(t, p_new, bvc, pbvc, e_new, compression, vnewc, elements)
    await t.for_each_n(p, n, material.viscosity, elements, vnewc, delvc, pbvc, bvc, p_new, e_new, *viscous, q_new)
    await domain.give(t, p_half)


async def pressure(
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
    await t.transform(p, material.bulk, compression, bvc)
    await t.fill(p, pbvc, 2.0 / 3.0)
    await t.for_each_n(p, len(elements), material.pressure, elements, bvc, energies, vnewc, result)
