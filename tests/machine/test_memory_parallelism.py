"""What bandwidth the threads of a kernel draw: Little's law, against closed forms and a vendor's numbers."""

from __future__ import annotations

import math

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offloadrt.kernels import Kernel, Launch
from offloadrt.machine import ComputeSpec, load

V100 = load("dgx1-v100").with_overrides({"mem.latency": "0.4 us", "mem.bw": "900 GB/s"}).read(ComputeSpec)
LATENCY, BANDWIDTH, SMS, OF_AN_SM = 0.4e-6, 900e9, 80, 98e9
RESIDENT = 16
"""Teams of 128 threads on an SM."""


def loads(in_flight: float, per_iteration: float = 64.0, **more: float) -> Kernel:
    """A kernel of teams of 128 threads that loads doubles."""
    return Kernel("loads", None, 0.0, 8.0 * per_iteration, 128, 64, loads_in_flight=in_flight, **more)  # type: ignore[arg-type]


def seconds(launch: Launch) -> float:
    return V100.seconds_on_idle_device(launch)


@given(teams=st.integers(1, 4000), in_flight=st.floats(0.25, 32))
def test_bytes_in_flight_over_latency_at_most_what_the_hardware_lets_through(teams: int, in_flight: float) -> None:
    launch = loads(in_flight).launch(teams)
    threads = min(teams, (RESIDENT // 2) * SMS) * 128  # 64 registers a thread: half of the places
    drawn = min(BANDWIDTH, min(teams, SMS) * OF_AN_SM, threads * in_flight * 8 / LATENCY)
    assert seconds(launch) == pytest.approx(launch.bytes / drawn)


@pytest.mark.parametrize(("teams", "ratio"), [(10, 2.0), (40, 2.0), (2000, 1.0)])
def test_twice_the_loads_in_flight_take_half_of_the_time_until_the_memory_is_busy(teams: int, ratio: float) -> None:
    assert seconds(loads(2).launch(teams)) == pytest.approx(ratio * seconds(loads(4).launch(teams)))


def test_a_load_at_a_time_is_a_chain_of_latencies() -> None:
    assert seconds(loads(1, per_iteration=1000).launch(1, 1)) == pytest.approx(1000 * LATENCY)


def test_so_many_threads_with_two_doubles_each_keep_an_a100_busy() -> None:
    """39264 of them, as NVIDIA's talk has it for 1555 GB/s and 404 ns."""
    a100 = load("isambard-a100").with_overrides({"mem.latency": "404 ns", "mem.bw": "1555 GB/s"}).read(ComputeSpec)
    needed = 1555e9 * 404e-9 / 16
    assert needed == pytest.approx(39264, rel=1e-4)
    for share in (0.5, 1.0, 2.0):
        launch = attrs.evolve(loads(2).launch(math.ceil(share * needed / 128)), iterations=round(share * needed))
        assert a100.drawn(launch) == pytest.approx(min(1.0, share) * 1555e9, rel=1e-4)


def test_a_load_needs_registers_for_what_it_brings() -> None:
    few, many = (attrs.evolve(loads(1000), registers_per_thread=registers).launch(8) for registers in (16, 32))
    assert seconds(few) == pytest.approx(2 * seconds(many))
    assert V100.limits.loads_in_flight(many) == 16


def test_an_sm_counts_so_many_loads_of_a_warp() -> None:
    assert V100.limits.loads_in_flight(attrs.evolve(loads(1000), registers_per_thread=255).launch(1)) == 63


def test_teams_that_find_nothing_to_access_draw_nothing_and_only_have_to_begin() -> None:
    """A quarter of the teams with all the accesses is a quarter of the launch, before or after the other teams."""
    part = loads(2).launch(100)
    predicated = attrs.evolve(loads(2, per_iteration=16).launch(400), accessing=0.25)
    assert predicated.bytes == part.bytes
    assert seconds(predicated) == pytest.approx(seconds(part) + 300 * V100.team_dispatch)


def test_arithmetic_that_every_team_does_hides_no_accesses_of_others() -> None:
    """With little to compute, what teams without accesses compute comes on top; with much, nothing does."""
    accesses = attrs.evolve(loads(2, per_iteration=16).launch(400), accessing=0.25)
    for flops in (2e3, 1e5):
        computing = attrs.evolve(accesses, kernel=attrs.evolve(accesses.kernel, flops_per_iteration=flops))
        arithmetic_s = seconds(attrs.evolve(computing, kernel=attrs.evolve(computing.kernel, bytes_per_iteration=0.0)))
        memory_s = seconds(accesses) - 300 * V100.team_dispatch
        assert 0.75 * arithmetic_s > 300 * V100.team_dispatch
        assert seconds(computing) == pytest.approx(max(memory_s, arithmetic_s / 4) + 0.75 * arithmetic_s)


def test_teams_are_spread_over_the_sms_before_any_gets_a_second_one() -> None:
    """So that the way into an SM limits few teams only."""
    wide = loads(32)
    assert [V100.drawn(wide.launch(teams, 256)) for teams in (1, 5, 80)] == [OF_AN_SM, 5 * OF_AN_SM, BANDWIDTH]


def test_iterations_that_do_not_fill_their_team_have_only_their_own_loads_in_flight() -> None:
    assert V100.drawn(loads(1).launch(1, iterations=3)) == pytest.approx(3 * 8 / LATENCY)


def test_arithmetic_hides_behind_memory_and_the_other_way_round() -> None:
    both = attrs.evolve(loads(1), flops_per_iteration=1000.0)
    arithmetic = attrs.evolve(both, bytes_per_iteration=0.0)
    for teams in (1, 40, 4000):
        alone = (seconds(arithmetic.launch(teams)), seconds(loads(1).launch(teams)))
        assert seconds(both.launch(teams)) == max(alone)


@given(teams=st.integers(1, 3000), in_flight=st.floats(0.25, 32), flops=st.floats(0, 1e4))
def test_kernels_side_by_side_never_exceed_what_the_device_can_do(teams: int, in_flight: float, flops: float) -> None:
    """A launch that runs as often as it finds room together draws no more than the memory and the SMs give."""
    launch = attrs.evolve(loads(in_flight), flops_per_iteration=flops).launch(teams)
    at_once = SMS / V100.demand(launch)
    assert launch.bytes * at_once / seconds(launch) <= BANDWIDTH * (1 + 1e-9)
    assert launch.flops * at_once / seconds(launch) <= V100.flops * (1 + 1e-9)
    assert launch.teams * at_once <= max(teams, SMS * V100.limits.resident_teams(launch)) * (1 + 1e-9)


@given(teams=st.integers(1, 20_000), accesses=st.floats(1, 100), flops=st.floats(0, 1e4))
def test_teams_keep_their_places_while_they_wait_for_dependent_accesses(
    teams: int, accesses: float, flops: float
) -> None:
    launch = Kernel("chain", None, flops, 64.0, 128, dependent_accesses=accesses).launch(teams)
    occupied = teams / RESIDENT * accesses * LATENCY
    assert V100.demand(launch) * seconds(launch) >= occupied * (1 - 1e-9)


@given(teams=st.integers(1, 3000), flops=st.floats(0, 1e4))
def test_without_a_number_of_loads_teams_that_keep_an_sm_busy_draw_all_that_goes_into_it(
    teams: int, flops: float
) -> None:
    launch = Kernel("costs", None, flops, 64.0, 128).launch(teams)
    busiest = max(V100.saturating_occupancy * RESIDENT, math.ceil(teams / SMS))  # the SM that ends last
    filled = teams / busiest
    drawn = min(BANDWIDTH, filled * OF_AN_SM)
    assert seconds(launch) == pytest.approx(max(launch.flops / V100.flops * SMS / filled, launch.bytes / drawn))


def test_a_few_sms_draw_all_of_the_bandwidth() -> None:
    kernel = Kernel("costs", None, 0.0, 64.0, 128)
    teams = math.ceil(BANDWIDTH / OF_AN_SM) * RESIDENT
    assert V100.drawn(kernel.launch(teams)) == BANDWIDTH and teams <= SMS * RESIDENT / 8


@pytest.mark.parametrize(
    "kernel",
    [
        loads(4),
        Kernel("operates", None, 1e4),
        Kernel("operates on floats", None, 10.0, single_flops_per_iteration=1e4),
        Kernel("follows a chain", None, dependent_accesses=500.0),
        attrs.evolve(loads(4), name="all of it", flops_per_iteration=1e3, dependent_accesses=40.0),
    ],
    ids=lambda kernel: kernel.name,
)
def test_code_of_a_factor_takes_the_factor_times_as_long_whatever_bounds_it(kernel: Kernel) -> None:
    launch = kernel.launch(4000)
    assert seconds(launch) > 0.0
    assert seconds(launch.slower(3.0)) == pytest.approx(3.0 * seconds(launch))
    assert launch.slower(1.0) == launch


@given(boost_seconds=st.floats(1e-3, 10), sustained=st.floats(0.4, 1.0))
def test_a_long_kernel_of_arithmetic_falls_to_the_sustained_clock(boost_seconds: float, sustained: float) -> None:
    """The first 100 ms at the boost clock, the rest as many times longer as the clock is lower."""
    clocks = {"gpu.sustained_clock": sustained, "gpu.boost_time": "100 ms"}
    t4 = load("t4").with_overrides(clocks).read(ComputeSpec)
    flops = t4.flops_single * boost_seconds / (t4.sms * 32 * 1024)
    launch = Kernel("product", None, flops, 0.0, 1024, precision="single").launch(t4.sms * 32)
    expected = boost_seconds if boost_seconds < 0.1 else 0.1 + (boost_seconds - 0.1) / sustained
    assert t4.seconds_on_idle_device(launch) == pytest.approx(expected)
