"""BabelStream computes what its authors check, and its rates are those of the memory that its data lies in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from stdpar_apps_rig import measured, play

from offloadrt import stdpar as std
from offloadrt.machine import load
from offloadrt.papers.stdpar.programs import BabelStream
from offloadrt.study import ParameterError, execute, find_scenario

N = 4096


@pytest.mark.parametrize("implementation", std.IMPLEMENTATIONS)
@pytest.mark.parametrize("machine", ["isambard-a100", "isambard-mi100", "isambard-milan"])
def test_arrays_hold_what_the_benchmark_checks(machine: str, implementation: str) -> None:
    program = BabelStream(N, steps=7, phantom=False)
    run, outcome, _ = play(program, machine, implementation)
    a, b, c, dot = program.expected()
    for name, value in (("a", a), ("b", b), ("c", c)):
        assert np.allclose(outcome.results[name], value, rtol=1e-12, atol=0)
    assert outcome.results["dot"] == pytest.approx(dot, rel=1e-12)
    assert len(run.stdpar.heap.allocations) == 0


def test_no_barrier_of_a_kernel_in_another_translation_unit_is_elided() -> None:
    found = measured(steps=4)
    assert (found["algorithms"], found["waits"], found["elided"]) == (20, 20, 0)
    assert (found["kept_exit"], found["kept_value"]) == (16, 4)


def test_what_is_compared_has_every_reason_for_which_a_barrier_stays() -> None:
    found, compared = measured(size=1000, steps=2), find_scenario("stdpar").measures
    assert (
        {name for name in found if name.startswith("kept_")}
        == {name for name in compared if name.startswith("kept_")}
        != set()
    )
    assert {*compared} <= {*found}


@pytest.mark.parametrize("implementation", ["acpp", "nvcpp", "native"])
def test_rates_are_below_the_peak_and_near_it(implementation: str) -> None:
    """The memory's own attained rate, as a part of the peak, bounds them."""
    found, memory = measured(steps=4, implementation=implementation), load("isambard-a100")
    attained = memory.value("mem.bw") / memory.value("mem.bw_peak")
    assert 0.95 * attained < found["fraction_of_peak"] < attained < 1.0
    assert measured(steps=4, implementation=implementation, size=1 << 12)["fraction_of_peak"] < 0.1


@pytest.mark.parametrize("implementation", ["sycl", "native"])
def test_the_first_iteration_does_not_wait_for_what_initialises_the_arrays(implementation: str) -> None:
    first, later = (measured(steps=steps, implementation=implementation)["copy_gbs"] for steps in (1, 2))
    assert first == pytest.approx(later, rel=0.01)


def test_without_migration_rates_are_those_of_the_link() -> None:
    fast = measured(steps=4, machine="isambard-mi100", implementation="native")["triad_gbs"]
    slow = measured(steps=4, machine="isambard-mi100", implementation="rocstdpar")["triad_gbs"]
    link = load("isambard-mi100").value("link.h2d_pinned") / 1e9
    assert slow < 1.5 * link, "two arrays of three cross the link in the direction of the device"
    assert fast > 1000.0
    assert measured(steps=4, machine="isambard-mi100", implementation="rocstdpar", xnack="on")["triad_gbs"] > 1000.0


def test_features_are_switched_one_by_one() -> None:
    plain = std.variant("acpp", pool="off", elision="off", prefetch="never", heuristic="off")
    assert not (plain.pool or plain.elision or plain.heuristic)
    assert plain.prefetch is std.PrefetchMode.NEVER
    assert std.variant("acpp") == std.implementation("acpp")


def test_what_goes_together_with_nothing_is_refused() -> None:
    with pytest.raises(ParameterError, match="parameter pool: native has no shared memory"):
        measured(steps=4, implementation="native", pool="on")


@pytest.mark.parametrize("machine", ["isambard-a100", "idc-max1550", "integrated-gpu", "isambard-milan"])
@pytest.mark.parametrize("xnack", ["on", "off"])
def test_xnack_is_switched_where_a_machine_has_it(machine: str, xnack: str) -> None:
    with pytest.raises(ParameterError, match=f"parameter xnack: {xnack}, but {machine} has no XNACK to switch"):
        measured(machine, steps=2, xnack=xnack)


def test_xnack_says_where_shared_memory_lies_whatever_the_profile_has() -> None:
    def history(xnack: str, shared: str) -> str | None:
        given, overrides = {"size": 1 << 16, "steps": 2, "xnack": xnack}, {"usm.shared": shared}
        found = execute(find_scenario("stdpar"), given, machine="isambard-mi100", overrides=overrides, hash=True)
        return found.trace_hash

    on, off = ({history(xnack, shared) for shared in ("migrates", "host")} for xnack in ("on", "off"))
    assert len(on) == len(off) == 1 and on != off


def test_arrays_that_do_not_fit_are_told_by_name() -> None:
    with pytest.raises(
        ParameterError, match=r"parameter size: 2147483648 does not fit .*: array 'c': 17179869184 bytes"
    ):
        measured(size=1 << 31, steps=2, implementation="native")


@pytest.mark.parametrize(("size", "on_host"), [(100, 50), (4_000_000, 0)])
def test_after_a_run_that_sampled_each_side_the_heuristic_takes_the_one_whose_operations_were_faster(
    tmp_path: Path, size: int, on_host: int
) -> None:
    """Each by itself, as it measures them: small ones are faster on the device only in a row, as launches overlap."""
    given = {"size": size, "steps": 10, "database": str(tmp_path / "times.json")}
    host, offload = (measured(sampling=side, **given) for side in ("host", "offload"))
    assert (host["on_host"], offload["on_host"]) == (50, 0)
    decided = measured(heuristic="on", **given)
    assert decided["on_host"] == on_host
    assert decided["time_s"] == pytest.approx((host if on_host else offload)["time_s"])
    assert measured(size=size, steps=10, heuristic="on")["on_host"] == 0


def test_sampling_and_a_database_need_a_heuristic_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="parameter sampling: host, but nvcpp has no heuristic"):
        measured(implementation="nvcpp", sampling="host")
    with pytest.raises(ParameterError, match=r"parameter database: x.json, but acpp has no heuristic"):
        measured(heuristic="off", database="x.json")
    with pytest.raises(ParameterError, match=r"parameter database: .*, but there is no such folder"):
        measured(database=str(tmp_path / "nowhere" / "x.json"))
