"""miniBUDE: the energies of a ligand in many poses at a protein; one algorithm per iteration, bound by arithmetic.

The clock is read around each iteration, so that its barrier stays, whatever the implementation. Atoms, poses and the
force field are drawn from a seed: there are as many as in the benchmark's input, with other values. Operations are in
double precision here, and in single precision in the public source, which also has several poses in each iteration of
its algorithm.
"""

from __future__ import annotations

import math
from typing import Any, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from offloadrt.extensions import stdpar as std
from offloadrt.kernels import kernel
from offloadrt.papers.stdpar.programs.frame import ApplicationOutcome, Timed
from offloadrt.study.running.phases import StepNumbers

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
PROTEIN: Final = 938
LIGAND: Final = 26
TYPES: Final = 34
WARM_UP: Final = 2
"""The first iterations, which are not timed."""
HARDNESS: Final = 38.0
CHARGE: Final = 45.0
FAR, NEAR = 5.5, 1.0
"""Distances up to which two nonpolar atoms, or a nonpolar and a polar one, repel each other."""
DONOR: Final = 70
ACCEPTOR: Final = 69
NOWHERE: Final = -1e30


@kernel
def fasten(
    protein: Floats,
    protein_type: Ints,
    ligand: Floats,
    ligand_type: Ints,
    poses: Floats,
    bond: Ints,
    forces: Floats,
    energies: Floats,
) -> None:
    """Compute the energy of each pose.

    forces: radius, hydrophobicity and charge of each type of atom; bond: its kind of hydrogen bond.
    """
    for pose in range(len(energies)):
        sx = math.sin(poses[0, pose])
        cx = math.cos(poses[0, pose])
        sy = math.sin(poses[1, pose])
        cy = math.cos(poses[1, pose])
        sz = math.sin(poses[2, pose])
        cz = math.cos(poses[2, pose])
        total = 0.0
        for a in range(len(ligand_type)):
            kind = ligand_type[a]
            u = ligand[a, 0]
            v = ligand[a, 1]
            w = ligand[a, 2]
            x = poses[3, pose] + u * cy * cz + v * (sx * sy * cz - cx * sz) + w * (cx * sy * cz + sx * sz)
            y = poses[4, pose] + u * cy * sz + v * (sx * sy * sz + cx * cz) + w * (cx * sy * sz - sx * cz)
            z = poses[5, pose] - u * sy + v * sx * cy + w * cx * cy
            for b in range(len(protein_type)):
                other = protein_type[b]
                radius = forces[other, 0] + forces[kind, 0]
                both = bond[other] == DONOR and bond[kind] == DONOR
                reach = 4.0 if both else 2.0
                phobia = forces[other, 1]
                own = forces[kind, 1]
                limit = NOWHERE
                if phobia < 0.0:
                    limit = FAR if own < 0.0 else NEAR
                elif own < 0.0:
                    limit = NEAR
                if phobia < 0.0 and forces[kind, 1] > 0.0:
                    phobia = -phobia
                if forces[other, 1] > 0.0 and own < 0.0:
                    own = -own
                dx = x - protein[b, 0]
                dy = y - protein[b, 1]
                dz = z - protein[b, 2]
                distance = math.sqrt(dx * dx + dy * dy + dz * dz)
                gap = distance - radius
                inside = gap < 0.0
                if inside:
                    total += (1.0 - distance / radius) * 2.0 * HARDNESS
                if gap < reach:
                    charge = forces[kind, 2] * forces[other, 2] * (1.0 if inside else 1.0 - gap / reach)
                    if bond[other] == ACCEPTOR or bond[kind] == ACCEPTOR:
                        charge = -abs(charge)
                    total += charge * CHARGE
                if gap < limit and forces[other, 1] != 0.0:
                    total += (phobia + own) * (1.0 if inside else 1.0 - gap / limit)
        energies[pose] = 0.5 * total


@attrs.frozen
class MiniBude:
    """`steps` iterations over `poses` poses, after two that are not timed."""

    poses: int = 65_536
    steps: int = 8
    phantom: bool = True
    protein: int = PROTEIN
    ligand: int = LIGAND
    seed: int = 0
    step_numbers: StepNumbers = range

    async def run(self, t: std.HostThread, timed: Timed) -> ApplicationOutcome:
        """Copy the input to the heap, iterate, and read the energies."""
        given = self.input()
        arrays = []
        for name, values in given.items():
            array = await t.new_array(name, values.shape, values.dtype, phantom=self.phantom)
            await t.write(array, None if self.phantom else values)
            arrays.append(array)
        energies = await t.new_array("energies", self.poses, np.float32, phantom=self.phantom)
        for _ in range(WARM_UP):
            await self.iterate(t, *arrays, energies)
        async with timed():
            for _ in self.step_numbers(self.steps):
                await self.iterate(t, *arrays, energies)
        computed = await t.read(energies)
        for array in (*arrays, energies):
            await t.delete(array)
        return ApplicationOutcome({}, {"energies": computed})

    async def iterate(self, t: std.HostThread, *arguments: std.UsmArray) -> None:
        async with t.function():
            await t.for_each(std.par_unseq, fasten, *arguments)
        await t.wait()

    def input(self) -> dict[str, NDArray[Any]]:
        """Draw atoms within a box, poses in it, and a force field, by the kernel's parameters."""
        random = np.random.default_rng(self.seed)

        def floats(low: float, high: float, *shape: int) -> Floats:
            return random.uniform(low, high, shape).astype(np.float32)

        return {
            "protein": floats(-20.0, 20.0, self.protein, 3),
            "protein_type": random.integers(0, TYPES, self.protein, dtype=np.int32),
            "ligand": floats(-3.0, 3.0, self.ligand, 3),
            "ligand_type": random.integers(0, TYPES, self.ligand, dtype=np.int32),
            "poses": np.concatenate([floats(-math.pi, math.pi, 3, self.poses), floats(-8.0, 8.0, 3, self.poses)]),
            "bond": random.choice(np.array([DONOR, ACCEPTOR, 0], dtype=np.int32), TYPES),
            "forces": np.column_stack(
                [floats(1.0, 2.0, TYPES), random.integers(-1, 2, TYPES), floats(-1.0, 1.0, TYPES)]
            ).astype(np.float32),
        }
