"""Kernels and the copies of DMA rings divide the memory's bandwidth: against closed forms, and what fluids conserve."""

import math

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from property_examples import examples

from offloadrt.kernels import Kernel
from offloadrt.machine import FairShare, load
from offloadrt.machine.compute.residency import ComputeSpec
from offloadrt.machine.messages import DmaPacket, KernelPacket
from offloadrt.sim import Signal

MIB = 1 << 20
BANDWIDTH, RATE, LATENCY, LAUNCH = 3500e9, 70e9, 6e-6, 3e-6
MACHINE = {
    "mem.bw": "3500 GB/s",
    "dma.bw": "70 GB/s",
    "dma.latency": "6 us",
    "dma.occupancy": "6 us",
    "launch.latency": "3 us",
    "sm.saturating_occupancy": 1,
}
FULL = 228 * 8  # teams of 256 threads that fill all SMs
BYTES, FLOPS = Kernel("bytes", None, 1.0, 4096.0, 256), Kernel("flops", None, 1e5, 8.0, 256)
SWEEP = BYTES.launch(FULL)
SWEEP_S = FULL * 256 * 4096 / BANDWIDTH
FAST = {"dma.bw": "1750 GB/s", "dma.latency": "0 us", "dma.occupancy": "0 us"}
"""A ring that can use all of the memory's bandwidth."""
WHOLE = FULL * 256 * 4096 // 2
"""Bytes whose copy alone takes the time of SWEEP with such a ring."""


def copy_s(nbytes):
    return LATENCY + nbytes / RATE


def ends(make_rig, *jobs, gear="turbo", **overrides):
    """(when each job has ended, the rig); a job is a launch or a copy's number of bytes, or (time, one of them)."""
    rig = make_rig(MACHINE | overrides, gear=gear, profile="mi300a")
    device = rig.machine.devices[0]

    async def run(job):
        at, what = job if isinstance(job, tuple) else (0.0, job)
        await rig.sim.sleep(at)
        done, number = Signal(rig.sim), rig.machine.next_number()
        device.start()
        if isinstance(what, int):
            device.next_ring().submit(DmaPacket(number, 0, "h2d", what, "staged", None, done, submitted=rig.sim.now))
        else:
            stream = device.hsa_queues.open_stream()
            device.hsa_queues.take(stream)
            stream.submit(KernelPacket(number, stream, 0, what, None, done))
        await done.wait()

    return rig.together(*[lambda job=job: run(job) for job in jobs]), rig


def test_a_kernel_at_full_bandwidth_takes_longer_by_what_a_copy_reads_and_writes(rig):
    (kernel, copy), _ = ends(rig, SWEEP, (1e-4, MIB))
    assert kernel == pytest.approx(LAUNCH + SWEEP_S + 2 * MIB / BANDWIDTH, rel=1e-12)
    assert copy == pytest.approx(1e-4 + copy_s(MIB), rel=1e-12)


def test_copies_one_after_the_other_take_from_it_what_all_read_and_write(rig):
    (kernel, *_), _ = ends(rig, SWEEP, *[(1e-4, MIB)] * 7)
    assert kernel == pytest.approx(LAUNCH + SWEEP_S + 7 * 2 * MIB / BANDWIDTH, rel=1e-12)


def test_a_kernel_is_slowed_by_the_part_of_a_copy_that_falls_into_it(rig):
    late = copy_s(MIB) / 4
    (_, kernel), _ = ends(rig, MIB, (late - LAUNCH, SWEEP))
    assert kernel == pytest.approx(late + SWEEP_S + 0.75 * 2 * MIB / BANDWIDTH, rel=1e-12)


@pytest.mark.parametrize(
    "launch",
    [
        FLOPS.launch(FULL),
        BYTES.launch(FULL // 16),
        Kernel("latency", None, 0.0, 8.0, 256, dependent_accesses=100).launch(FULL),
        Kernel("empty").launch(1),
    ],
    ids=lambda launch: launch.kernel.name,
)
def test_a_kernel_that_leaves_enough_to_a_copy_takes_its_own_time(rig, launch):
    (alone,), _ = ends(rig, launch)
    (beside, copy), did = ends(rig, launch, MIB)
    assert beside == alone and copy == copy_s(MIB)
    assert did.machine.statistics()["device 0 memory"].busy_s == 0.0


def test_kernels_that_share_the_memory_have_less_of_it_together(rig):
    half = BYTES.launch(FULL // 2)  # draws half of the bandwidth for as long
    (first, second, _), _ = ends(rig, half, half, (1e-4, MIB))
    assert first == second == pytest.approx(LAUNCH + SWEEP_S + 2 * MIB / BANDWIDTH, rel=1e-12)
    (first, second, _), _ = ends(rig, SWEEP, SWEEP, (1e-4, MIB))
    assert first == second == pytest.approx(LAUNCH + 2 * SWEEP_S + 2 * MIB / BANDWIDTH, rel=1e-12)


def test_a_kernel_that_has_too_few_sms_to_use_the_memory_does_not_feel_a_copy(rig):
    computing = FLOPS.launch(FULL // 4)
    without, _ = ends(rig, SWEEP, computing)
    beside, did = ends(rig, SWEEP, computing, (1e-4, MIB))
    assert beside[:2] == pytest.approx(without, rel=1e-12)
    assert did.machine.statistics()["device 0 memory"].busy_s == pytest.approx(copy_s(MIB))


def test_a_ring_as_fast_as_the_memory_and_a_kernel_have_half_each(rig):
    (kernel, copy), did = ends(rig, (0.0, SWEEP), (LAUNCH, WHOLE), **FAST)
    assert kernel == copy == pytest.approx(LAUNCH + 2 * SWEEP_S, rel=1e-12)
    memory = did.machine.statistics()["device 0 memory"]
    assert (memory.busy_s, memory.wait_s) == pytest.approx((2 * SWEEP_S, SWEEP_S))
    (kernel, copy), _ = ends(rig, (0.0, SWEEP), (LAUNCH, 2 * WHOLE), **FAST)
    assert (kernel, copy) == pytest.approx((LAUNCH + 2 * SWEEP_S, LAUNCH + 3 * SWEEP_S), rel=1e-12)
    (kernel, copy), _ = ends(rig, (0.0, SWEEP), (LAUNCH, WHOLE // 2), **FAST)
    assert (kernel, copy) == pytest.approx((LAUNCH + 1.5 * SWEEP_S, LAUNCH + SWEEP_S), rel=1e-12)


def test_a_copy_that_has_begun_is_slowed_by_a_kernel_that_comes(rig):
    (copy, kernel), _ = ends(rig, WHOLE, (SWEEP_S / 2 - LAUNCH, SWEEP), **FAST)
    assert (copy, kernel) == pytest.approx((1.5 * SWEEP_S, 2 * SWEEP_S), rel=1e-12)


def test_rings_that_could_use_more_than_there_is_share_it_without_kernels(rig):
    together, _ = ends(rig, *[WHOLE] * 3, **FAST, **{"dma.rings": 3, "dma.multiple_engines": True})
    assert together == pytest.approx([3 * SWEEP_S] * 3, rel=1e-12)


def test_a_ring_is_no_faster_than_the_memory(rig):
    (copy,), _ = ends(rig, WHOLE, **{**FAST, "dma.bw": "9000 GB/s"})
    assert copy == pytest.approx(SWEEP_S)


def test_a_copy_of_nothing_takes_nothing_from_a_kernel(rig):
    (kernel, copy), _ = ends(rig, SWEEP, (1e-4, 0), **FAST)
    assert (kernel, copy) == (LAUNCH + SWEEP_S, 1e-4)


def test_nothing_is_divided_without_the_contention(rig):
    jobs = (SWEEP, (LAUNCH, WHOLE), (LAUNCH, WHOLE))
    together, did = ends(rig, *jobs, **FAST, **{"dma.multiple_engines": True, "memory_traffic.uncontended": True})
    assert together == pytest.approx([LAUNCH + SWEEP_S] * 3, rel=1e-12)
    assert did.machine.statistics()["device 0 memory"].busy_s == 0.0


moments = st.integers(1, 40).map(lambda n: n * 1e-5)
launches = st.builds(BYTES.launch, st.sampled_from([FULL // 8, FULL // 2, FULL])) | st.just(FLOPS.launch(FULL // 2))


@given(
    st.lists(st.tuples(moments, launches), max_size=4), st.lists(st.tuples(moments, st.integers(0, MIB)), max_size=6)
)
@examples(40, HealthCheck.function_scoped_fixture)
def test_bytes_take_their_time_whoever_draws_them_in_both_gears(rig, kernels, copies):
    """Beside a kernel at full bandwidth, all of the bandwidth is drawn at any time, and no more."""
    long = BYTES.launch(20 * FULL)
    jobs = [long, *[job for job in kernels if job[1].kernel is BYTES], *copies]
    (end, *others), did = ends(rig, *jobs)
    traffic = math.fsum([2 * job[1] if isinstance(job[1], int) else job[1].bytes for job in jobs[1:]])
    assert max(others, default=0.0) < end
    assert end == pytest.approx(LAUNCH + (long.bytes + traffic) / BANDWIDTH, rel=1e-9)
    runs = [ends(rig, *kernels, *copies, gear=gear) for gear in ("native", "turbo")]
    assert runs[0][0] == runs[1][0] and runs[0][1].trace.hash() == runs[1][1].trace.hash()
    assert did.machine.devices[0].bytes_moved()["h2d"] == sum(nbytes for _, nbytes in copies)


@given(
    st.lists(
        st.builds(
            lambda flops, nbytes, loads, teams: Kernel("any", None, flops, nbytes, 256, loads_in_flight=loads).launch(
                teams
            ),
            st.sampled_from([0.0, 10.0, 1e5]),
            st.sampled_from([8.0, 4096.0]),
            st.none() | st.integers(1, 40),
            st.integers(1, 3 * FULL),
        ),
        min_size=1,
        max_size=6,
    )
)
@examples(100)
def test_the_division_of_the_sms_keeps_kernels_within_the_bandwidth(launches):
    spec = load("mi300a", MACHINE).read(ComputeSpec)
    share = FairShare(float(spec.sms))
    tickets = [share.join(0.0, 1.0, spec.demand(launch)) for launch in launches]
    drawn = [
        share.rate(ticket) / spec.demand(launch) * launch.bytes / spec.seconds_on_idle_device(launch)
        for ticket, launch in zip(tickets, launches, strict=True)
    ]
    assert math.fsum(drawn) <= BANDWIDTH * (1 + 1e-9)
