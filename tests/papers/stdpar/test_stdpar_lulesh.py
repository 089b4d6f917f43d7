"""LULESH: its algorithms, allocations and waits follow from its structure alone."""

from __future__ import annotations

import pytest
from stdpar_apps_rig import measured, play

from offloadrt import stdpar as std
from offloadrt.extensions.stdpar.elision import ElisionPass
from offloadrt.papers.stdpar.programs import Lulesh, lulesh
from offloadrt.papers.stdpar.programs.lulesh import REGIONS, Mesh, repetitions
from offloadrt.study import ParameterError, execute, find_scenario

EVALUATIONS = sum(repetitions(region) for region in range(REGIONS))
ALGORITHMS = 23 + 3 + 1 + REGIONS + 4 + 19 * EVALUATIONS + 2 * REGIONS + 1 + 2 * REGIONS
"""Nodes, kinematics, gradients, viscosity, bounds, equation of state with its ends, volumes, constraints."""
RETURNING = 4 + 2 * REGIONS
ALLOCATIONS = 4 + 6 + 3 + 6 + 1 + 14 * REGIONS + EVALUATIONS


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


def test_regions_hold_as_many_elements_as_the_mesh() -> None:
    assert sum(Mesh(7).region_sizes()) == 7**3


def test_lulesh_without_phantoms_is_refused_since_it_has_no_numbers() -> None:
    with pytest.raises(ParameterError, match=r"parameter phantom: False, but LULESH has no numbers"):
        measured(application="lulesh", size=3, steps=1, phantom=False)
