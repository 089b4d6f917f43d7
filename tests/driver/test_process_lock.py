"""Contexts of one process share a lock: launches on different devices wait for one another, processes do not."""

import pytest
from peer_rig import peer_rig

from offloadrt import Run
from offloadrt import openmp as omp
from offloadrt.kernels import Kernel

EMPTY = Kernel("empty", None, 1.0, 0.0, 1).launch(1)
CALLS = 20
LAUNCH = 10e-6
N = 4


def launches(devices, uncontended=False, part=1.0, handoff="barging"):
    """A thread for each device launches kernels; the seconds that each takes, and what the shared lock did."""
    settings = {
        "driver.launch": "10 us",
        "driver.stream_create": 0.0,
        "driver.handoff": handoff,
        "process.driver_lock": part,
        "process.driver_lock.uncontended": uncontended,
    }
    rig = peer_rig(devices, settings, access=False, one_process=True)
    took = {}

    async def body(number):
        stream = await rig.drivers[number].streams.create()
        begin = rig.sim.now
        for _ in range(CALLS):
            await rig.drivers[number].kernels.launch(EMPTY, (), stream)
        took[number] = rig.sim.now - begin

    async def main():
        async with rig.sim.open_nursery() as nursery:
            for number in range(devices):
                nursery.spawn(body, number, name=f"host thread {number}")

    rig.run(main)
    return [took[number] for number in range(devices)], rig.drivers[0].locks().get("driver library")


def test_a_process_with_one_device_has_no_such_lock():
    (alone,), lock = launches(1)
    assert alone == pytest.approx(CALLS * LAUNCH) and lock is None


def test_a_thread_alone_takes_as_long_with_several_devices():
    rig = peer_rig(N, {"driver.launch": "10 us", "process.driver_lock": 0.3}, one_process=True)

    async def main():
        stream = await rig.drivers[0].streams.create()
        begin = rig.sim.now
        for _ in range(CALLS):
            await rig.drivers[0].kernels.launch(EMPTY, (), stream)
        return rig.sim.now - begin

    assert rig.run(main) == pytest.approx(CALLS * LAUNCH)


def test_the_service_does_not_depend_on_the_number_of_devices_and_the_loss_is_the_waiting():
    took, lock = launches(N, handoff="fifo")
    assert lock.hold_s / (CALLS * N) == pytest.approx(LAUNCH, rel=1e-2), "each call holds it for its own work"
    assert max(took) == pytest.approx(N * CALLS * LAUNCH, rel=1e-2)
    assert sum(took) - N * CALLS * LAUNCH == pytest.approx(lock.wait_s, rel=1e-2)


@pytest.mark.parametrize(("uncontended", "part"), [(True, 1.0), (False, 0.0)])
def test_without_the_lock_every_device_takes_the_time_of_one(uncontended, part):
    took, _ = launches(N, uncontended, part)
    assert took == pytest.approx([CALLS * LAUNCH] * N)


def test_processes_do_not_share_it():
    def waited(processes, threads):
        run = Run(machine="a100-node8", overrides={"process.driver_lock": "1"})
        run.configure(num_devices=2, num_processes=processes)
        run.phantom = True

        async def main(process):
            async def body(t):
                t.omp_set_default_device(process.rank + t.number)
                a = t.array("a", 64)
                await t.target_enter_data(omp.map(to=a))
                for _ in range(CALLS):
                    await t.target(EMPTY.kernel, a, teams=1, iterations=1)

            await process.parallel(body, num_threads=threads)

        async def all_of_it():
            await run.mpiexec(main)
            await run.finish()

        run.sim.run(all_of_it)
        return sum(lock.contended for name, lock in run.locks.items() if name.startswith("driver library"))

    assert waited(processes=1, threads=2) > 0
    assert waited(processes=2, threads=1) == 0
