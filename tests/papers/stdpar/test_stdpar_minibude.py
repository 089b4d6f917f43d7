"""miniBUDE's energies are those of NumPy; its time is arithmetic's, whatever the implementation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from stdpar_apps_rig import measured, play

from offloadrt.papers.stdpar.programs.minibude import ACCEPTOR, CHARGE, DONOR, FAR, HARDNESS, NEAR, MiniBude

SMALL = MiniBude(poses=12, steps=1, phantom=False, protein=40, ligand=6)


def reference(program: MiniBude) -> Any:
    """Half of the sum over pairs of atoms of what holds them apart, of their charges, and of their phobia of water."""
    given = {name: values.astype(np.float64) for name, values in program.input().items()}
    forces, bond = given["forces"], given["bond"]
    near, far = (forces[given[f"{name}_type"].astype(int)] for name in ("ligand", "protein"))
    bonds = [bond[given[f"{name}_type"].astype(int)] for name in ("ligand", "protein")]
    radius = near[:, None, 0] + far[None, :, 0]
    both = (bonds[0] == DONOR)[:, None] & (bonds[1] == DONOR)
    either = (bonds[0] == ACCEPTOR)[:, None] | (bonds[1] == ACCEPTOR)
    reach = np.where(both, 4.0, 2.0)
    charge = near[:, None, 2] * far[None, :, 2]
    own, other = np.broadcast_arrays(near[:, None, 1], far[None, :, 1])
    limit = np.where((own < 0) & (other < 0), FAR, np.where((own < 0) | (other < 0), NEAR, -np.inf))
    phobia = np.where((other < 0) & (own > 0), -other, other) + np.where((other > 0) & (own < 0), -own, own)
    energies = []
    for rx, ry, rz, *shift in given["poses"].T:
        about_x = np.array([[1, 0, 0], [0, math.cos(rx), -math.sin(rx)], [0, math.sin(rx), math.cos(rx)]])
        about_y = np.array([[math.cos(ry), 0, math.sin(ry)], [0, 1, 0], [-math.sin(ry), 0, math.cos(ry)]])
        about_z = np.array([[math.cos(rz), -math.sin(rz), 0], [math.sin(rz), math.cos(rz), 0], [0, 0, 1]])
        placed = given["ligand"] @ (about_z @ about_y @ about_x).T + shift
        distance = np.linalg.norm(placed[:, None] - given["protein"][None], axis=2)
        gap = distance - radius
        inside = gap < 0
        steric = np.where(inside, (1 - distance / radius) * 2 * HARDNESS, 0.0)
        electric = np.where(gap < reach, charge * np.where(inside, 1.0, 1 - gap / reach), 0.0)
        electric = np.where(either, -np.abs(electric), electric) * CHARGE
        water = np.where((gap < limit) & (other != 0), phobia * np.where(inside, 1.0, 1 - gap / limit), 0.0)
        energies.append(0.5 * (steric + electric + water).sum())
    return np.array(energies)


@pytest.mark.parametrize(
    ("machine", "implementation"),
    [("isambard-a100", "acpp"), ("isambard-a100", "sycl"), ("idc-max1550", "icpx"), ("isambard-milan", "host")],
)
def test_energies_are_those_of_numpy(machine: str, implementation: str) -> None:
    _, outcome, _ = play(SMALL, machine, implementation)
    energies = outcome.results["energies"]
    assert np.allclose(energies, reference(SMALL), rtol=1e-5, atol=1e-5)
    assert np.count_nonzero(energies) > len(energies) // 2


def test_there_is_one_algorithm_and_one_wait_an_iteration() -> None:
    found = measured(application="minibude", steps=3)
    assert (found["algorithms"], found["waits"], found["elided"]) == (3, 3, 0)


def test_twice_the_poses_that_fill_a_device_take_twice_as_long_under_any_implementation() -> None:
    one, two = (measured(application="minibude", size=size, steps=2)["time_s"] for size in (1 << 19, 1 << 20))
    assert two / one == pytest.approx(2.0, rel=0.01)
    assert measured(application="minibude", size=1 << 19, steps=2, implementation="nvcpp")["time_s"] == pytest.approx(
        one, rel=0.01
    )
