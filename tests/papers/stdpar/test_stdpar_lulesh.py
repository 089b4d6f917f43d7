"""LULESH computes what is published for it; its algorithms, allocations and waits follow from its structure alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from stdpar_apps_rig import measured, play

from offloadrt import stdpar as std
from offloadrt.extensions.stdpar.elision import ElisionPass
from offloadrt.papers.stdpar.programs import Lulesh, lulesh, lulesh_domain
from offloadrt.papers.stdpar.programs.lulesh import repetitions
from offloadrt.papers.stdpar.programs.lulesh_domain import LENGTH, REGIONS, Mesh
from offloadrt.study import ParameterError, execute, find_scenario

CYCLES, ORIGIN_ENERGY = 72, 7.853665e3
"""Of ``lulesh2.0 -s 5``, as the program prints them."""
EVALUATIONS = sum(repetitions(region) for region in range(REGIONS))
ALGORITHMS = 23 + 3 + 1 + REGIONS + 4 + 19 * EVALUATIONS + 2 * REGIONS + 1 + 2 * REGIONS
"""Nodes, kinematics, gradients, viscosity, bounds, equation of state with its ends, volumes, constraints."""
RETURNING = 4 + 2 * REGIONS
ALLOCATIONS = 4 + 6 + 3 + 6 + 1 + 14 * REGIONS + EVALUATIONS


def test_the_whole_run_ends_with_the_published_energy() -> None:
    _, outcome, _ = play(Lulesh(5, steps=1000, phantom=False), "isambard-milan", "host")
    assert outcome.figures["cycles"] == CYCLES
    assert outcome.results["e"][0] == pytest.approx(ORIGIN_ENERGY, rel=1e-6)


@pytest.fixture(scope="module")
def on_host() -> Any:
    return play(Lulesh(4, steps=3, phantom=False), "isambard-milan", "host")[1]


def test_the_blast_is_symmetric(on_host: Any) -> None:
    energy = on_host.results["e"].reshape(4, 4, 4)
    for axes in ((1, 0, 2), (0, 2, 1), (2, 1, 0)):
        assert np.allclose(energy, energy.transpose(axes), rtol=1e-9, atol=1e-6)
    assert energy[0, 0, 0] == energy.max()


@pytest.mark.parametrize("machine", ["isambard-a100", "isambard-mi100", "idc-max1550", "integrated-gpu"])
@pytest.mark.parametrize("implementation", ["acpp", "rocstdpar", "sycl", "native"])
def test_results_are_the_same_everywhere(machine: str, implementation: str, on_host: Any) -> None:
    _, outcome, _ = play(Lulesh(4, steps=3, phantom=False), machine, implementation)
    assert np.array_equal(outcome.results["e"], on_host.results["e"])
    assert (outcome.results["time"], outcome.results["dt"]) == (on_host.results["time"], on_host.results["dt"])


@pytest.mark.parametrize("nx", [4, 9])
def test_counts_of_a_step_follow_from_the_structure(nx: int) -> None:
    found = measured(application="lulesh", size=nx, steps=4)
    assert found["algorithms"] == 4 * ALGORITHMS == 4 * 752
    assert found["kept_value"] == 4 * RETURNING
    assert found["interposed"] == 4 * ALLOCATIONS + 3, "three arrays of forces are allocated once"
    assert found["malloc_shared"] == 0
    assert found["waits"] == found["algorithms"] - found["elided"]


def test_what_elision_leaves_is_told_from_the_structure() -> None:
    """In a step: algorithms behind which something of a window's end stands, counted by hand."""
    found = measured(application="lulesh", size=4, steps=1)
    frees = 1 + 2 * EVALUATIONS + REGIONS
    assert found["kept_allocation"] == frees
    assert found["kept_exit"] == 3
    assert found["elided"] == ALGORITHMS - found["kept_access"] - frees - 3 - RETURNING
    assert measured(application="lulesh", size=4, steps=1, elision="off")["elided"] == 0


def test_the_pass_over_the_source_finds_what_the_run_does() -> None:
    found = ElisionPass.of(lulesh.evaluate)
    assert len(found.calls) == 19 + 2
    assert len(found.calls) - found.elided == 3, "the array of each repetition twice, and the free of all"


def test_both_gears_give_one_history() -> None:
    given = {"application": "lulesh", "size": 3, "steps": 1}
    hashes = {execute(find_scenario("stdpar"), given, gear=gear, hash=True).trace_hash for gear in ("native", "turbo")}
    assert len(hashes) == 1


def test_without_the_pool_each_allocation_is_the_drivers() -> None:
    with_pool, without = (measured(application="lulesh", size=4, steps=2, pool=pool) for pool in ("on", "off"))
    assert without["malloc_shared"] == without["interposed"] == with_pool["from_pool"]
    assert without["driver_frees"] == 2 * ALLOCATIONS
    assert without["time_s"] > with_pool["time_s"]


def test_icpx_does_not_compile_kernels_that_capture_by_reference() -> None:
    with pytest.raises(std.CompilationRefused, match=r"icpx does not compile .*'domain'.* by reference"):
        play(Lulesh(3, steps=1), implementation="icpx")
    with pytest.raises(ParameterError, match=r"parameter implementation: icpx does not compile"):
        measured("idc-max1550", application="lulesh", size=3, steps=1, implementation="icpx")


def test_regions_hold_every_element_once() -> None:
    mesh = Mesh(7)
    assert sum(mesh.region_sizes()) == mesh.elements
    assert np.array_equal(np.sort(np.concatenate(mesh.regions(seed=1))), np.arange(mesh.elements))


# geometry, of a cube that was sheared: its volume is known


def parallelepipeds(count: int = 6) -> Any:
    edges = np.eye(3) + 0.3 * np.random.default_rng(5).random((count, 3, 3))
    unit = (lulesh_domain.SIGNS + 1.0) / 2.0
    return np.einsum("ca,eai->eci", unit, edges), np.linalg.det(edges)


def test_volumes_are_determinants() -> None:
    at, volume = parallelepipeds()
    assert np.allclose(lulesh_domain.volumes(at), volume)
    assert np.allclose(lulesh_domain.shape_derivatives(at)[1], volume)


def test_derivatives_of_volumes_are_difference_quotients() -> None:
    at, _ = parallelepipeds(2)
    found, small = lulesh_domain.volume_derivatives(at), 1e-6
    for corner in range(8):
        for axis in range(3):
            moved = at.copy()
            moved[:, corner, axis] += small
            quotient = (lulesh_domain.volumes(moved) - lulesh_domain.volumes(at)) / small
            assert np.allclose(found[:, corner, axis], quotient, atol=1e-5)


def test_normals_of_a_closed_surface_add_up_to_nothing() -> None:
    at, _ = parallelepipeds()
    assert np.allclose(lulesh_domain.node_normals(at).sum(axis=1), 0.0)


def test_motion_that_changes_the_volume_meets_no_hourglass_force() -> None:
    at, volume = parallelepipeds()
    gradient = np.random.default_rng(2).random((3, 3))
    force = lulesh_domain.hourglass_forces(
        at, lulesh_domain.volume_derivatives(at), at @ gradient.T, volume, np.ones(len(volume))
    )
    assert np.allclose(force, 0.0, atol=1e-12)


def test_masses_of_nodes_are_the_mesh() -> None:
    assert Mesh(6).values()["nodalMass"].sum() == pytest.approx(LENGTH**3)
