"""The paper's programs in their public versions, recorded, beside those that are written anew for its claims.

Compiled with `offloadrt cxx -stdpar -O2 -std=c++20` and recorded: BabelStream (``-s 65536 -n 5``, over data and over
indices), CloverLeaf (std-indices, 96 x 96 cells, 5 steps), and what `programs/recorded.py` names.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest

from offloadrt.extensions.evidence.validation.judging import hear
from offloadrt.papers.stdpar.judges import PAPER
from offloadrt.papers.stdpar.programs.recorded import FOLDER
from offloadrt.study import ParameterError
from offloadrt.study.reporting.results import Result
from offloadrt.study.running.execution import execute
from offloadrt.study.scripts import registry
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import Point

RECORDED = Path(__file__).parent / "recorded"
LULESH_FILE = FOLDER / "lulesh-15.rec"
A100 = RunSpec(machine="isambard-a100")
LULESH: dict[str, object] = {"application": "lulesh", "size": 15, "steps": 3, "prefetch": "never"}


def measured(name: str, **parameters: object) -> dict[str, float]:
    scenario = registry.find(str(RECORDED / f"{name}.rec"))
    return execute(scenario, {"heuristic": "off", **parameters}, spec=A100).measured


def lulesh(**parameters: object) -> dict[str, float]:
    return execute(registry.find("stdpar"), {**LULESH, **parameters}, spec=A100).measured


def test_the_lulesh_that_is_written_anew_has_the_algorithms_and_barriers_of_the_public_one() -> None:
    anew, public = lulesh(), lulesh(recorded=True)
    same = ("steps", "algorithms", "offloaded", "waits", "elided", "elided_share", "kept_value", "kept_allocation")
    assert {name: public[name] for name in same} == {name: anew[name] for name in same}
    assert public["time_s"] == pytest.approx(anew["time_s"], rel=0.1)


def test_four_barriers_in_five_of_the_public_lulesh_are_elided() -> None:
    found = lulesh(recorded=True)
    assert found["algorithms"] == 3 * 752
    assert 0.7 <= found["elided_share"] <= 0.9  # the claim acpp.lulesh.a100.elided: about 80 %
    assert found["time_s"] < lulesh(recorded=True, implementation="nvcpp")["time_s"]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"size": 16}, r"size: 16, but lulesh was recorded at 15, 30, 45, 60, 90"),
        ({"application": "babelstream"}, r"recorded: True, but no recording of babelstream is here"),
        ({"implementation": "native"}, r"recorded: True, but native is no implementation of parallel algorithms"),
        ({"implementation": "icpx"}, r"icpx does not compile kernels that capture 'domain' by reference"),
    ],
)
def test_what_was_not_recorded_is_refused(given: dict[str, object], reason: str) -> None:
    with pytest.raises(ParameterError, match=reason):
        lulesh(recorded=True, **{"prefetch": "auto", **given})


@pytest.mark.slow
@pytest.mark.parametrize("claim", ["a100.elided", "a100.se", "a100.mp"])
def test_claims_on_lulesh_hold_for_the_recorded_program(claim: str) -> None:
    grid = attrs.evolve(PAPER.grid("full", RunSpec()), lulesh=(15, 45))

    def runs(points: Sequence[Point]) -> list[Result]:
        find = registry.find("stdpar")
        return [execute(find, {**point.parameters, "recorded": True}, spec=point.options) for point in points]

    judgement = hear([PAPER.bench.judges[f"acpp.lulesh.{claim}"]], grid, runs)[f"acpp.lulesh.{claim}"]
    assert judgement.holds, judgement


def test_what_is_offloaded_to_an_amd_gpu_has_the_policy_for_it() -> None:
    file, spec = registry.find(str(LULESH_FILE)), RunSpec(machine="isambard-mi100")
    found = {policy: execute(file, {"policy": policy}, spec=spec).measured for policy in ("recorded", "par_unseq")}
    assert found["recorded"]["offloaded"] == 0 < found["par_unseq"]["offloaded"]


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
