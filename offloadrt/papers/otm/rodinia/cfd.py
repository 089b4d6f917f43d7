"""CFD: an Euler solver for compressible flow with finite volumes and three Runge-Kutta steps an iteration.

As the paper describes it, each kernel is a target region of its own: copy, step factors, and three times fluxes and
time step. Arrays hold one quantity after the other (density, three momenta, energy), each for all elements.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Final

import attrs
import numpy as np
from numpy.typing import NDArray

from offloadrt.kernels import expect, kernel
from offloadrt.models import openmp as omp
from offloadrt.papers.otm.rodinia.inputs import ALIGNMENT, THREADS, Mesh, Structure

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]

WING: Final = -1
FAR: Final = -2


@attrs.frozen
class Sheet:
    """A sheet of `length` by `width` elements; `numbering` says whether neighbours have numbers that lie near."""

    length: int
    width: int
    numbering: Mesh = "ordered"

    @classmethod
    def of(cls, elements: int, numbering: Mesh = "ordered") -> Sheet:
        """Make a nearly square sheet of at most `elements` elements."""
        width = max(1, math.isqrt(elements))
        return cls(max(1, elements // width), width, numbering)

    @property
    def elements(self) -> int:
        return self.length * self.width

    @property
    def interior(self) -> float:
        """Return the part of the faces behind which there is an element."""
        return 1.0 - (self.length + self.width) / (2.0 * self.elements)

    def neighbours(self, rng: np.random.Generator) -> Ints:
        """Return [face, element]: the element behind each face, `WING` in front and behind, `FAR` at the sides."""
        number = np.arange(self.elements)
        if self.numbering == "random":
            number = rng.permutation(self.elements)
        around = np.full((self.length + 2, self.width + 2), FAR)
        around[0], around[-1] = WING, WING
        around[1:-1, 1:-1] = number.reshape(self.length, self.width)
        faces = [around[:-2, 1:-1], around[2:, 1:-1], around[1:-1, :-2], around[1:-1, 2:]]
        neighbours = np.empty((4, self.elements), np.int32)
        neighbours[:, number] = [face.ravel() for face in faces]
        return neighbours

    def normals(self, rng: np.random.Generator) -> Floats:
        """Draw [direction, face, element]: outward, of different lengths, not quite in the sheet."""
        outward = np.array([[-1, 1, 0, 0], [0, 0, -1, 1], [0, 0, 0, 0]], np.float64)
        return (outward[:, :, np.newaxis] + 0.1 * rng.random((3, 4, self.elements))).astype(np.float32)


GAMMA = 1.4
MACH = 1.2


@kernel(threads_per_team=THREADS)
def copy(old: Floats, variables: Floats, values: int) -> None:
    """Keep the variables of this iteration's start."""
    for i in range(values):
        old[i] = variables[i]


@kernel(threads_per_team=THREADS)
def step_factor(variables: Floats, areas: Floats, step_factors: Floats, n: int) -> None:
    """Compute the time step of each element divided by its area."""
    for i in range(n):
        density = variables[i]
        mx = variables[i + n]
        my = variables[i + 2 * n]
        mz = variables[i + 3 * n]
        squared = (mx * mx + my * my + mz * mz) / (density * density)
        pressure = (GAMMA - 1.0) * (variables[i + 4 * n] - 0.5 * density * squared)
        step_factors[i] = 0.5 / (math.sqrt(areas[i]) * (math.sqrt(squared) + math.sqrt(GAMMA * pressure / density)))


@kernel(threads_per_team=THREADS)
def flux(
    neighbours: Ints,
    normals: Floats,
    variables: Floats,
    fluxes: Floats,
    far_field: Floats,
    n: int,
    near: float,
    interior: float,
) -> None:
    """Compute what flows through an element's four faces, with artificial viscosity between elements."""
    for i in range(n):
        density = variables[i]
        mx = variables[i + n]
        my = variables[i + 2 * n]
        mz = variables[i + 3 * n]
        energy = variables[i + 4 * n]
        squared = (mx * mx + my * my + mz * mz) / (density * density)
        pressure = (GAMMA - 1.0) * (energy - 0.5 * density * squared)
        speed = math.sqrt(squared) + math.sqrt(GAMMA * pressure / density)
        flux_density = 0.0
        flux_x = 0.0
        flux_y = 0.0
        flux_z = 0.0
        flux_energy = 0.0
        for j in range(4):
            nb = expect(neighbours[i + j * n], near=near)
            nx = normals[i + j * n]
            ny = normals[i + (j + 4) * n]
            nz = normals[i + (j + 8) * n]
            through = (mx * nx + my * ny + mz * nz) / density
            if expect(nb >= 0, probability=interior):
                density_nb = variables[nb]
                x_nb = variables[nb + n]
                y_nb = variables[nb + 2 * n]
                z_nb = variables[nb + 3 * n]
                energy_nb = variables[nb + 4 * n]
                squared_nb = (x_nb * x_nb + y_nb * y_nb + z_nb * z_nb) / (density_nb * density_nb)
                pressure_nb = (GAMMA - 1.0) * (energy_nb - 0.5 * density_nb * squared_nb)
                speed_nb = math.sqrt(squared_nb) + math.sqrt(GAMMA * pressure_nb / density_nb)
                viscosity = -0.1 * math.sqrt(nx * nx + ny * ny + nz * nz) * (speed + speed_nb)
                behind = (x_nb * nx + y_nb * ny + z_nb * nz) / density_nb
                both = pressure + pressure_nb
                flux_density += viscosity * (density - density_nb)
                flux_x += viscosity * (mx - x_nb) + 0.5 * (through * mx + behind * x_nb + both * nx)
                flux_y += viscosity * (my - y_nb) + 0.5 * (through * my + behind * y_nb + both * ny)
                flux_z += viscosity * (mz - z_nb) + 0.5 * (through * mz + behind * z_nb + both * nz)
                flux_energy += viscosity * (energy - energy_nb)
                flux_energy += 0.5 * (through * (energy + pressure) + behind * (energy_nb + pressure_nb))
                flux_density += 0.5 * (through * density + behind * density_nb)
            elif nb == -1:
                flux_x += nx * pressure
                flux_y += ny * pressure
                flux_z += nz * pressure
            else:
                there = far_field[1] * nx + far_field[2] * ny + far_field[3] * nz
                behind = there / far_field[0]
                both = pressure + far_field[5]
                flux_density += 0.5 * (through * density + there)
                flux_x += 0.5 * (through * mx + behind * far_field[1] + both * nx)
                flux_y += 0.5 * (through * my + behind * far_field[2] + both * ny)
                flux_z += 0.5 * (through * mz + behind * far_field[3] + both * nz)
                flux_energy += 0.5 * (through * (energy + pressure) + behind * (far_field[4] + far_field[5]))
        fluxes[i] = flux_density
        fluxes[i + n] = flux_x
        fluxes[i + 2 * n] = flux_y
        fluxes[i + 3 * n] = flux_z
        fluxes[i + 4 * n] = flux_energy


@kernel(threads_per_team=THREADS)
def time_step(old: Floats, variables: Floats, step_factors: Floats, fluxes: Floats, n: int, part: float) -> None:
    """Take one Runge-Kutta step from the variables at the iteration's start."""
    for i in range(n):
        factor = step_factors[i] / part
        for m in (0, 1, 2, 3, 4):
            variables[i + m * n] = old[i + m * n] + factor * fluxes[i + m * n]


def far_field() -> Floats:
    """Return density, momenta and energy of the far field, and its pressure.

    The flow goes along x at 1.2 times the speed of sound.
    """
    density, pressure = 1.4, 1.0
    speed = MACH * math.sqrt(GAMMA * pressure / density)
    energy = 0.5 * density * speed * speed + pressure / (GAMMA - 1.0)
    return np.array([density, density * speed, 0.0, 0.0, energy, pressure], np.float32)


@attrs.frozen
class Cfd:
    """A run of `iterations` iterations on a mesh."""

    sheet: Sheet
    iterations: int
    phantom: bool = True
    seed: int = 0
    structure: Structure = "data"

    BYTES = 4 * (1 + 4 + 12 + 5 + 5 + 5 + 1)
    """Bytes of all arrays for each element."""

    @classmethod
    def of(
        cls,
        nbytes: int,
        iterations: int,
        *,
        phantom: bool,
        mesh: Mesh = "ordered",
        seed: int = 0,
        structure: Structure = "data",
    ) -> Cfd:
        """Make a run on as many elements as fit into `nbytes`, except for the rest of a row."""
        return cls(Sheet.of(nbytes // cls.BYTES, mesh), iterations, phantom, seed, structure)

    @property
    def steps(self) -> int:
        """Return the number of iterations."""
        return self.iterations

    def values(self) -> dict[str, NDArray[np.float32] | NDArray[np.int32]]:
        """Return what the host has read or set before the first iteration, flat."""
        rng, n = np.random.default_rng(self.seed), self.sheet.elements
        faces, normals = self.sheet.neighbours(rng), self.sheet.normals(rng)
        disturbed = 1.0 + 0.02 * rng.random((5, n))
        return {
            "areas": (1.0 + rng.random(n)).astype(np.float32),
            "neighbours": faces.ravel(),
            "normals": normals.ravel(),
            "variables": (far_field()[:5, np.newaxis] * disturbed).astype(np.float32).ravel(),
        }

    async def run(self, t: omp.HostThread) -> list[omp.HostArray]:
        """Run the whole program on one host thread; return its arrays, after the host has looked at the variables."""
        n = self.sheet.elements
        fill = dict.fromkeys(("areas", "neighbours", "normals", "variables"), 0) if self.phantom else self.values()
        near, interior = float(self.sheet.numbering == "ordered"), self.sheet.interior
        areas = t.array("areas", n, np.float32, fill=fill["areas"], align=ALIGNMENT)
        neighbours = t.array("neighbours", 4 * n, np.int32, fill=fill["neighbours"], align=ALIGNMENT)
        normals = t.array("normals", 12 * n, np.float32, fill=fill["normals"], align=ALIGNMENT)
        variables = t.array("variables", 5 * n, np.float32, fill=fill["variables"], align=ALIGNMENT)
        old = t.array("old_variables", 5 * n, np.float32, align=ALIGNMENT)
        fluxes = t.array("fluxes", 5 * n, np.float32, align=ALIGNMENT)
        step_factors = t.array("step_factors", n, np.float32, align=ALIGNMENT)
        around_all = t.array("far_field", 6, np.float32, fill=far_field())
        around = t.target_data(
            omp.map(
                to=[areas, step_factors, neighbours, normals, fluxes, around_all],
                tofrom=variables,
                alloc=old,
            )
        )
        async with around if self.structure == "data" else nullcontext():
            for _ in range(self.iterations):
                await t.target(copy, old, variables, 5 * n)
                await t.target(step_factor, variables, areas, step_factors, n)
                for j in range(3):
                    await t.target(flux, neighbours, normals, variables, fluxes, around_all, n, near, interior)
                    await t.target(time_step, old, variables, step_factors, fluxes, n, float(4 - j))
        await t.host_access(variables)
        return [areas, neighbours, normals, variables, old, fluxes, step_factors, around_all]
