"""The paper's programs in their public versions, recorded, beside those that are written anew for its claims.

Compiled with `offloadrt cxx -stdpar -O2 -std=c++20` and recorded: BabelStream (``-s 65536 -n 5``, over data and over
indices), LULESH of the 2.0.2-dev branch (``-s 15 -i 3``), CloverLeaf (std-indices, 96 x 96 cells, 5 steps).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from offloadrt.study.running.execution import execute
from offloadrt.study.scripts import registry
from offloadrt.study.spec import RunSpec

RECORDED = Path(__file__).parent / "recorded"
A100 = RunSpec(machine="isambard-a100")


def measured(name: str, **parameters: object) -> dict[str, float]:
    scenario = registry.find(str(RECORDED / f"{name}.rec"))
    return execute(scenario, {"heuristic": "off", **parameters}, spec=A100).measured


def test_the_lulesh_that_is_written_anew_has_the_algorithms_and_barriers_of_the_public_one() -> None:
    given = {"application": "lulesh", "size": 15, "steps": 3, "heuristic": "off"}
    anew = execute(registry.find("stdpar"), given, spec=A100).measured
    public = measured("lulesh-15-3")
    same = ("algorithms", "offloaded", "waits", "elided", "elided_share", "kept_value", "kept_allocation")
    assert {name: public[name] for name in same} == {name: anew[name] for name in same}


def test_four_barriers_in_five_of_the_public_lulesh_are_elided() -> None:
    assert 0.7 <= measured("lulesh-15-3")["elided_share"] <= 0.9  # the claim acpp.lulesh.a100.elided: about 80 %


def test_elision_lets_the_public_lulesh_gain_on_nvcpp() -> None:
    """Without the host's own work, which was recorded on another machine."""
    times = [
        execute(
            registry.find(str(RECORDED / "lulesh-15-3.rec")),
            {"host_compute": 0.0, "heuristic": "auto", **given},
            spec=A100,
        ).elapsed_s
        for given in ({"implementation": "acpp", "heuristic": "off", "prefetch": "never"}, {"implementation": "nvcpp"})
    ]
    assert times[0] < times[1]


@pytest.mark.parametrize("version", ["data", "indices"])
def test_no_barrier_of_babelstream_is_elided(version: str) -> None:
    """Each algorithm is the body of a virtual function, whose end the compiler cannot look behind."""
    found = measured(f"babelstream-{version}")
    assert (found["algorithms"], found["elided"], found["kept_value"]) == (31, 0, 5)
    assert found["prefetches"] == found["interposed"] == 3


def test_cloverleafs_barriers_stay_for_what_the_host_loads_in_between() -> None:
    found = measured("cloverleaf-96-5")
    assert (found["algorithms"], found["elided"]) == (685, 0)
    assert found["kept_access"] > 0.9 * found["algorithms"]
