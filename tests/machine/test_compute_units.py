"""Compute units against the roofline, the fluid model of shared SMs, and what halts mean."""

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from property_examples import examples

from offloadrt.kernels import Kernel
from offloadrt.machine import LaunchOutOfResources, SMLimits, load
from offloadrt.machine.compute.residency import ComputeSpec
from offloadrt.machine.messages import DrainKernels, KernelPacket, ResumeKernels, SuspendKernels
from offloadrt.sim import Signal
from offloadrt.trace import events

A100 = load("alex-a100")
LATENCY, BANDWIDTH = A100.value("launch.latency"), A100.value("mem.bw")
FULL = 108 * 8  # teams of 256 threads that fill all SMs
FLOPS, BYTES = Kernel("flops", None, 1e6, 8.0, 256), Kernel("bytes", None, 1.0, 4096.0, 256)


class Device:
    """The compute units of a rig, with a number for each kernel."""

    def __init__(self, rig):
        self.rig, self.compute, self.number = rig, rig.machine.devices[0].compute, 0
        self.stream = None

    async def run(self, launch, **fields):
        self.stream = self.stream or self.rig.machine.devices[0].open_stream()
        self.number += 1
        done = Signal(self.rig.sim)
        self.compute.mailbox.put(KernelPacket(self.number, self.stream, 0, launch, None, done, **fields))
        await done.wait()

    async def halt(self, message):
        self.rig.machine.devices[0].start()
        await self.compute.mailbox.call(message)

    def resume(self, suspended=True):
        self.compute.mailbox.put(ResumeKernels("test", suspended))


@pytest.fixture
def device(rig):
    return Device(rig({"gpu.sustained_clock": 1.0}))  # a roofline's ceilings are those of one clock


@pytest.mark.parametrize(
    ("launch", "seconds"),
    [
        (FLOPS.launch(FULL), FULL * 256 * 1e6 / 9.7e12),
        (BYTES.launch(FULL), FULL * 256 * 4096 / BANDWIDTH),
        (FLOPS.launch(10 * FULL), 10 * FULL * 256 * 1e6 / 9.7e12),
        (FLOPS.launch(FULL // 4), FULL * 256 * 1e6 / 9.7e12 / 4 * 2),  # a quarter of the teams, half of the rate
        (BYTES.launch(1, iterations=1000), 1000 * 4096 / 90e9 * 4),  # a quarter of what goes into an SM
        (BYTES.launch(72), 72 * 256 * 4096 / (72 / 4 * 90e9)),
        (BYTES.launch(80), 80 * 256 * 4096 / BANDWIDTH),  # teams that would fill 20 SMs draw all
        (FLOPS.launch(FULL + 1), 108 * 9 * 256 * 1e6 / 9.7e12),  # an SM has a ninth team
        (Kernel("spills", None, 1e6, 0.0, 256, 32, 0.05).launch(FULL), FULL * 256 * 1e6 / 9.7e12 / 0.05),
        (Kernel("empty").launch(1), 0.0),
        (Kernel("one lane", None, 1e6, 0.0, 1).launch(108 * 64), 108 * 64 * 1e6 / 9.7e12 * 32),
        (Kernel("half a warp", None, 1e6, 0.0, 48).launch(FULL * 8), FULL * 8 * 48 * 1e6 / 9.7e12 * 64 / 48),
    ],
)
def test_a_kernel_alone_takes_its_roofline_time(device, launch, seconds):
    device.rig.run(lambda: device.run(launch))
    assert device.rig.sim.now == pytest.approx(LATENCY + seconds)


def test_dependent_accesses_come_on_top_of_the_roofline(rig):
    device = Device(rig({"mem.latency": "0.5 us"}))
    chained = Kernel("chained", None, 1e6, 0.0, 256, dependent_accesses=40.0).launch(FULL // 16)
    plain = device.compute.spec.seconds_on_idle_device(Kernel("plain", None, 1e6, 0.0, 256).launch(FULL // 16))
    device.rig.run(lambda: device.run(chained))
    assert device.rig.sim.now == pytest.approx(LATENCY + plain + 40 * 0.5e-6)


def chain(teams, **more):
    return Kernel("chain", None, threads_per_team=256, dependent_accesses=40.0, **more).launch(teams)


@pytest.mark.parametrize(
    ("teams", "waves"), [(1, 1), (FULL // 2, 1), (FULL, 1), (FULL + 1, 2), (2 * FULL, 2), (10 * FULL - 1, 10)]
)
def test_teams_that_find_no_place_at_once_make_their_dependent_accesses_later(rig, teams, waves):
    device = Device(rig({"mem.latency": "0.5 us"}))
    device.rig.run(lambda: device.run(chain(teams)))
    assert device.rig.sim.now == pytest.approx(LATENCY + waves * 40 * 0.5e-6)


@pytest.mark.parametrize(("flops", "hides"), [(1e2, "arithmetic"), (1e4, "accesses")])
def test_later_teams_compute_while_others_wait_for_dependent_accesses(rig, flops, hides):
    device = Device(rig({"mem.latency": "0.5 us"}))
    spec, waves = device.compute.spec, 10
    of_a_wave = 40 * 0.5e-6
    arithmetic = spec.seconds_on_idle_device(Kernel("f", None, flops, 0.0, 256).launch(waves * FULL))
    assert (arithmetic < (waves - 1) * of_a_wave) == (hides == "arithmetic")
    taken = spec.seconds_on_idle_device(chain(waves * FULL, flops_per_iteration=flops))
    assert taken == pytest.approx(of_a_wave + max(arithmetic, (waves - 1) * of_a_wave))


def test_the_places_that_a_last_wave_leaves_are_for_others(rig):
    device = Device(rig({"gpu.placement": "shared", "mem.latency": "0.5 us", "launch.latency": "0 s"}))
    ends = device.rig.together(*[lambda: device.run(chain(FULL // 2 * 3))] * 2)
    assert ends == pytest.approx([3 * 40 * 0.5e-6] * 2), "one and a half waves each: two alone, three together"


@pytest.mark.parametrize("parts", [2, 16])
def test_dependent_accesses_of_many_teams_take_as_long_in_several_kernels_as_in_one(rig, parts):
    device = Device(rig({"gpu.placement": "shared", "mem.latency": "0.5 us", "launch.latency": "0 s"}))
    whole = device.compute.spec.seconds_on_idle_device(chain(32 * FULL))
    ends = device.rig.together(*[lambda: device.run(chain(32 * FULL // parts))] * parts)
    assert ends == pytest.approx([whole] * parts)


def test_a_launch_may_take_a_serial_time_besides(device):
    alone = device.compute.spec.seconds_on_idle_device(FLOPS.launch(4))
    device.rig.run(lambda: device.run(FLOPS.launch(4), serial_s=3e-6))
    assert device.rig.sim.now == pytest.approx(LATENCY + alone + 3e-6)


def test_a_discrete_device_does_not_ask_what_a_kernel_touches(device):
    alone = device.compute.spec.seconds_on_idle_device(FLOPS.launch(4))
    device.rig.run(lambda: device.run(FLOPS.launch(4), touches=((0x1000, 1 << 30),)))
    assert device.rig.sim.now == pytest.approx(LATENCY + alone)
    assert device.rig.machine.devices[0].fault_statistics().faults == 0


def test_a_kernel_that_fills_the_machine_holds_up_the_next_one(device):
    alone = device.compute.spec.seconds_on_idle_device(FLOPS.launch(FULL))
    ends = device.rig.together(*[lambda: device.run(FLOPS.launch(FULL))] * 2)
    assert ends == pytest.approx([LATENCY + alone, LATENCY + 2 * alone])
    assert device.compute.statistics().wait_s == pytest.approx(alone)


def test_where_places_are_shared_two_kernels_that_fill_the_machine_end_together(rig):
    device = Device(rig({"gpu.placement": "shared"}))
    alone = device.compute.spec.seconds_on_idle_device(FLOPS.launch(FULL))
    ends = device.rig.together(*[lambda: device.run(FLOPS.launch(FULL))] * 2)
    assert ends == pytest.approx([LATENCY + 2 * alone] * 2)


def test_a_kernel_begins_with_the_places_that_are_left_and_gets_more_when_others_end(device):
    spec = device.compute.spec
    spilled = Kernel("spilled", None, 1e6, 0.0, 125, 255)  # two teams on an SM, each of which could keep it busy
    first, second = spilled.launch(108 * 2 // 3), spilled.launch(108 * 2)
    team = spec.seconds_on_idle_device(spilled.launch(1))
    ends = device.rig.together(lambda: device.run(first), lambda: device.run(second))
    assert spec.limits.resident_teams(first) == 2
    # The first kernel has 72 of the 216 places, the second the others: together they keep all SMs busy to the end.
    assert ends[1] == pytest.approx(LATENCY + team * (72 + 216) / 108)
    assert ends[0] < ends[1]


def test_a_kernel_that_lacks_places_holds_up_those_behind_it_that_would_fit(device):
    large = FLOPS.launch(FULL // 16 * 15)
    half, small = FLOPS.launch(FULL // 2), FLOPS.launch(FULL // 16)
    ends = device.rig.together(*[lambda w=w: device.run(w) for w in (large, half, small)])
    alone = [device.compute.spec.seconds_on_idle_device(w) for w in (large, half, small)]
    assert ends[0] >= LATENCY + alone[0]
    assert ends[2] == pytest.approx(ends[0] + alone[2])


def test_a_kernel_that_waits_for_places_has_not_begun(rig):
    device = Device(rig())
    device.rig.together(*[lambda: device.run(FLOPS.launch(FULL))] * 3)
    assert device.compute.statistics().most_resident == 1


def test_small_kernels_run_side_by_side(device):
    small = FLOPS.launch(FULL // 16)
    ends = device.rig.together(*[lambda: device.run(small)] * 8)
    assert ends == pytest.approx([LATENCY + device.compute.spec.seconds_on_idle_device(small)] * 8)


def test_kernels_that_wait_for_dependent_accesses_leave_the_memory_to_others(rig):
    device = Device(rig({"mem.latency": "0.5 us", "launch.latency": "0 s"}))
    chained = Kernel("chained", None, 1.0, 64.0, 256, dependent_accesses=100.0).launch(80)
    alone = device.compute.spec.seconds_on_idle_device(chained)
    assert chained.bytes / BANDWIDTH < alone / 20, "a twentieth of the bandwidth over all of its time"
    assert device.rig.together(*[lambda: device.run(chained)] * 10) == pytest.approx([alone] * 10)


def test_a_small_kernel_is_not_slowed_by_a_large_one(device):
    small, large = FLOPS.launch(FULL // 16), FLOPS.launch(FULL)
    spec = device.compute.spec
    work = spec.seconds_on_idle_device(small) * spec.demand(small) + spec.seconds_on_idle_device(large) * 108
    ends = device.rig.together(lambda: device.run(small), lambda: device.run(large))
    assert ends == pytest.approx([LATENCY + spec.seconds_on_idle_device(small), LATENCY + work / 108])


def test_shares_are_redivided_when_a_kernel_comes(rig):
    device = Device(rig({"gpu.placement": "shared"}))
    spec, sim = device.compute.spec, device.rig.sim
    alone = spec.seconds_on_idle_device(FLOPS.launch(FULL))

    async def later():
        await sim.sleep(alone / 2)
        await device.run(FLOPS.launch(FULL))

    ends = device.rig.together(lambda: device.run(FLOPS.launch(FULL)), later)
    assert ends == pytest.approx([LATENCY + 1.5 * alone, LATENCY + 2 * alone])


def test_no_more_kernels_are_resident_than_the_limit(rig):
    device = Device(rig({"gpu.max_concurrent_kernels": 4}))
    small = FLOPS.launch(1)
    ends = device.rig.together(*[lambda: device.run(small)] * 10)
    alone = device.compute.spec.seconds_on_idle_device(small)
    assert ends == pytest.approx([LATENCY + wave * alone for wave in (1, 1, 1, 1, 2, 2, 2, 2, 3, 3)])
    assert device.compute.statistics().most_resident == 4


def test_doubling_all_rates_halves_the_time(rig):
    def end(factor):
        overrides = {"gpu.fp64": 9.7 * factor, "mem.bw": f"{BANDWIDTH * factor} B/s", "launch.latency": 0.0}
        overrides["sm.bandwidth"] = 90 * factor
        device = Device(rig(overrides))
        return device.rig.together(*[lambda: device.run(FLOPS.launch(FULL))] * 3, lambda: device.run(BYTES.launch(99)))

    assert end(2.0) == pytest.approx([t / 2 for t in end(1.0)])


launches = st.lists(
    st.tuples(st.floats(0, 3e-3), st.integers(1, 2000), st.sampled_from([FLOPS, BYTES])), min_size=1, max_size=10
)


@given(launches, st.lists(st.tuples(st.floats(0, 4e-3), st.floats(0, 1e-3)), max_size=4))
@examples(40, HealthCheck.function_scoped_fixture)
def test_time_and_work_are_conserved(rig, launches, halts):
    device = Device(rig())
    sim, spec = device.rig.sim, device.compute.spec

    async def kernel(when, teams, what):
        await sim.sleep(when)
        await device.run(what.launch(teams))

    async def halt(when, length):
        await sim.sleep(when)
        await device.halt(SuspendKernels("test"))
        await sim.sleep(length)
        device.resume()

    bodies = [lambda row=row: kernel(*row) for row in launches] + [lambda row=row: halt(*row) for row in halts]
    device.rig.together(*bodies)
    did = device.compute.statistics()
    work = sum(spec.seconds_on_idle_device(w.launch(teams)) * spec.demand(w.launch(teams)) for _, teams, w in launches)
    assert did.busy_s + did.idle_s == pytest.approx(sim.now)
    assert did.halted_s <= did.idle_s + 1e-12
    assert did.sm_s == pytest.approx(work)
    assert did.wall_s >= did.alone_s * (1 - 1e-9) and did.kernels == len(launches)


def test_a_drain_waits_for_running_kernels_and_holds_back_new_ones(device):
    sim = device.rig.sim
    alone = device.compute.spec.seconds_on_idle_device(FLOPS.launch(FULL))

    async def drains():
        await sim.sleep(LATENCY + alone / 2)
        await device.halt(DrainKernels("test"))
        assert sim.now == pytest.approx(LATENCY + alone)
        await sim.sleep(alone)
        device.resume(suspended=False)

    async def comes_during_the_drain():
        await sim.sleep(LATENCY + alone * 0.75)
        await device.run(FLOPS.launch(FULL))

    ends = device.rig.together(lambda: device.run(FLOPS.launch(FULL)), drains, comes_during_the_drain)
    assert ends == pytest.approx([LATENCY + alone, LATENCY + 2 * alone, LATENCY + 3 * alone])
    assert device.compute.statistics().draining_s == pytest.approx(1.5 * alone)


def test_draining_an_idle_device_does_not_wait(device):
    device.rig.run(lambda: device.halt(DrainKernels("test")))
    assert device.rig.sim.now == 0.0


def test_suspensions_are_counted_and_stop_progress(device):
    sim = device.rig.sim
    alone = device.compute.spec.seconds_on_idle_device(FLOPS.launch(FULL))

    async def suspends(when, length):
        await sim.sleep(when)
        await device.halt(SuspendKernels("test"))
        await sim.sleep(length)
        device.resume()

    half = LATENCY + alone / 2
    ends = device.rig.together(
        lambda: device.run(FLOPS.launch(FULL)), lambda: suspends(half, 2.0), lambda: suspends(half + 1.0, 3.0)
    )
    assert ends[0] == pytest.approx(LATENCY + alone + 4.0)
    did = device.compute.statistics()
    assert did.halted_s == pytest.approx(4.0) and did.wall_s - did.alone_s == pytest.approx(4.0)
    kinds = [type(event) for event in device.rig.trace.events if isinstance(event, (events.Drain, events.Resume))]
    assert kinds == [events.Drain, events.Drain, events.Resume, events.Resume]


def test_saving_and_restoring_visits_each_resident_kernel(rig):
    device = Device(rig({"driver.halt_save_restore": "1 ms"}))
    sim = device.rig.sim
    small = FLOPS.launch(1)

    async def suspends():
        await sim.sleep(2 * LATENCY)
        await device.halt(SuspendKernels("test"))
        assert sim.now == pytest.approx(2 * LATENCY + 3e-3)
        device.resume()

    ends = device.rig.together(*[lambda: device.run(small)] * 3, suspends)
    assert ends[:3] == pytest.approx([LATENCY + device.compute.spec.seconds_on_idle_device(small) + 6e-3] * 3)


@pytest.mark.parametrize(
    ("threads", "registers", "teams"),
    [
        (128, 32, 16),
        (1024, 32, 2),
        (32, 32, 32),
        (256, 64, 4),
        (256, 255, 1),
        (289, 32, 6),
        (100, 40, 12),
        (32, 96, 20),
    ],
)
def test_resident_teams_are_those_of_the_occupancy_calculator(threads, registers, teams):
    limits = load("alex-a100").read(SMLimits)
    assert limits.resident_teams(Kernel("k", None, 0, 0, threads, registers).launch(1)) == teams


@pytest.mark.parametrize(
    ("machine", "kib", "teams"), [("alex-a100", 40, 4), ("alex-a100", 100, 1), ("h100", 100, 2), ("mi250x", 32, 2)]
)
def test_shared_memory_bounds_the_resident_teams(machine, kib, teams):
    kernel = Kernel("k", shared_bytes_per_team=kib << 10, threads_per_team=128)
    assert load(machine).read(SMLimits).resident_teams(kernel.launch(1)) == teams


def test_a_team_with_more_shared_memory_than_it_can_have_is_an_error():
    kernel = Kernel("k", shared_bytes_per_team=49 << 10, threads_per_team=128)
    with pytest.raises(LaunchOutOfResources, match="50176 bytes of shared memory does not fit"):
        load("summitdev-p100").read(SMLimits).resident_teams(kernel.launch(1))


@pytest.mark.parametrize(("threads", "registers"), [(2048, 32), (1024, 128)])
def test_a_team_that_does_not_fit_is_an_error(threads, registers):
    limits = load("alex-a100").read(SMLimits)
    with pytest.raises(LaunchOutOfResources, match=f"'k': a team of {threads} threads with {registers} registers"):
        limits.resident_teams(Kernel("k", None, 0, 0, threads, registers).launch(1))


def test_the_time_of_kernels_that_may_not_start_is_known(rig):
    device = Device(rig({"gpu.max_concurrent_kernels": 1, "launch.latency": 0.0}))
    device.rig.together(*[lambda: device.run(FLOPS.launch(FULL))] * 3)
    alone = device.compute.spec.seconds_on_idle_device(FLOPS.launch(FULL))
    assert device.compute.statistics().wait_s == pytest.approx((1 + 2) * alone)


def test_a_kernel_in_single_precision_takes_the_rate_of_single_precision():
    spec = load("t4", overrides={"gpu.sustained_clock": 1.0}).read(ComputeSpec)
    double = Kernel("double", flops_per_iteration=1e6).launch(4000, 256)
    single = Kernel("single", flops_per_iteration=1e6, precision="single").launch(4000, 256)
    ratio = spec.flops_single / spec.flops
    assert (
        spec.seconds_on_idle_device(double) == pytest.approx(ratio * spec.seconds_on_idle_device(single)) and ratio > 30
    )
