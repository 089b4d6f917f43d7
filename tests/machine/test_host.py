"""Cores and host memory."""

import pytest

from offloadrt.machine import load

SPEC = load("alex-a100")


def test_a_thread_computes_on_a_core(rig):
    hardware = rig()
    assert hardware.together(lambda: hardware.machine.cores.compute(2.0)) == [2.0]
    assert hardware.machine.host_time.seconds["compute"] == 2.0


def test_more_threads_than_cores_wait_for_one(rig):
    hardware = rig({"cpu.cores": 2})
    assert hardware.together(*[lambda: hardware.machine.cores.compute(1.0)] * 5) == [1, 1, 2, 2, 3]
    did = hardware.machine.cores.statistics()
    assert (did.busy_s, did.idle_s, did.wait_s, did.waited) == (5.0, 1.0, 1 + 1 + 2, 3)


def test_a_cancelled_computation_was_busy_until_then(rig):
    hardware = rig({"cpu.cores": 1})

    async def impatient():
        with hardware.sim.move_on_after(0.25):
            await hardware.machine.cores.compute(1.0)

    assert hardware.together(impatient, lambda: hardware.machine.cores.compute(1.0)) == [0.25, 1.25]
    did = hardware.machine.statistics()["cores"]
    assert (did.busy_s, did.idle_s, did.wait_s) == (1.25, 0.0, 0.25)


def test_a_thread_that_gives_up_the_wait_for_a_core_takes_none(rig):
    hardware = rig({"cpu.cores": 1})
    compute = hardware.machine.cores.compute

    async def impatient():
        with hardware.sim.move_on_after(0.5):
            await compute(1.0)

    assert hardware.together(lambda: compute(1.0), impatient, lambda: compute(1.0)) == [1.0, 0.5, 2.0]
    assert hardware.machine.cores.statistics().busy_s == 2.0


def test_computations_in_progress_count_up_to_now(rig):
    hardware = rig()

    async def main():
        for _ in range(3):
            hardware.sim.spawn(hardware.machine.cores.compute, 1.0)
        await hardware.sim.sleep(0.5)
        return hardware.machine.cores.statistics().busy_s

    assert hardware.run(main) == 1.5


def test_as_many_threads_as_cores_do_not_wait(rig):
    hardware = rig()
    assert hardware.together(*[lambda: hardware.machine.cores.compute(1.0)] * 128) == [1.0] * 128


def test_one_thread_copies_at_the_speed_of_a_core(rig):
    hardware = rig()
    assert hardware.together(lambda: hardware.machine.host_memory.copy(10**9)) == pytest.approx(
        [10**9 / SPEC.value("host.memcpy_1t")]
    )


def test_all_threads_together_share_the_memory_bandwidth(rig):
    hardware = rig()
    ends = hardware.together(*[lambda: hardware.machine.host_memory.copy(10**7)] * 64)
    assert ends == pytest.approx([64 * 10**7 / SPEC.value("host.memcpy_max")] * 64)
    did = hardware.machine.statistics()["host memory"]
    assert (did.copies, did.bytes) == (64, 64 * 10**7)
    assert (did.busy_s, did.idle_s) == (pytest.approx(ends[0]), 0.0)
    assert did.wait_s == pytest.approx(64 * (ends[0] - 10**7 / SPEC.value("host.memcpy_1t")))


def test_host_blocks_do_not_touch_and_are_used_again(rig):
    memory = rig().machine.host_memory
    first, second = memory.allocate(100), memory.allocate(100)
    assert second >= first + 100 + 16 and first % 16 == second % 16 == 0
    memory.release(first)
    assert memory.allocate(200) != first
    assert memory.allocate(100) == first
    assert memory.allocate(8, align=4096) % 4096 == 0
    with pytest.raises(KeyError):
        memory.release(12345)


def test_regions_of_the_host_are_apart(rig):
    memory = rig().machine.host_memory
    stack, heap, data = (memory.allocate(64, region=region) for region in ("stack", "heap", "global"))
    assert data < heap < stack


def test_jitter_is_off_by_default_and_drawn_from_the_run(rig):
    assert rig().machine.jitter(1.0) == 1.0
    drawn = [rig({"jitter": 0.1}).machine.jitter(1.0) for _ in range(2)]
    assert drawn[0] == drawn[1] != 1.0 and 0.9 <= drawn[0] <= 1.1
