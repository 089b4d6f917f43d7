"""The actor that guards the present table, and the emergence checks of the runtime's locks."""

from __future__ import annotations

from typing import Any

import pytest
from openmp_rig import MakeRig

from offloadrt import openmp as omp
from offloadrt.runtime import DeviceTableLock
from offloadrt.runtime.barging_table_lock import BargingTableLock
from offloadrt.sim import Lock, Signal, Simulation
from offloadrt.trace import events


def contend(sim: Simulation, lock: DeviceTableLock, threads: int, hold: float) -> list[str]:
    """Threads that take the lock at the same instant; the order in which they got it."""
    order: list[str] = []

    async def body(number: int) -> None:
        for _ in range(2):
            await lock.acquire()
            order.append(f"thread {number}")
            lock.assert_held()
            await sim.sleep(hold)
            lock.release()

    async def main() -> None:
        lock.start()
        async with sim.open_nursery() as nursery:
            for number in range(threads):
                nursery.spawn(body, number, name=f"thread {number}")

    sim.run(main)
    return order


@pytest.mark.parametrize("gear", ["native", "turbo"])
class TestDeviceTableLock:
    def test_first_come_first_served(self, gear: Any) -> None:
        sim = Simulation(gear=gear)
        lock = DeviceTableLock(sim, "device table")
        assert contend(sim, lock, 3, 1.0) == ["thread 0", "thread 1", "thread 2"] * 2
        assert sim.now == 6.0
        statistics = lock.statistics()
        assert (statistics.acquired, statistics.contended, statistics.hold_s) == (6, 5, 6.0)
        assert statistics.wait_s == 1.0 + 2.0 + 2.0 + 2.0 + 2.0
        assert statistics.owner is None

    def test_barging_lets_a_running_thread_overtake(self, gear: Any) -> None:
        sim = Simulation(gear=gear)
        lock = BargingTableLock(sim, "device table")
        assert contend(sim, lock, 2, 1.0) == ["thread 0", "thread 0", "thread 1", "thread 1"]

    def test_uncontended_excludes_nobody(self, gear: Any) -> None:
        sim = Simulation(gear=gear)
        lock = DeviceTableLock(sim, "device table", uncontended=True)
        contend(sim, lock, 3, 1.0)
        assert sim.now == 2.0
        assert lock.statistics().contended == 0

    def test_a_cancelled_waiter_is_passed_over(self, gear: Any) -> None:
        sim = Simulation(gear=gear)
        lock = DeviceTableLock(sim, "device table")
        got: list[int] = []

        async def holder() -> None:
            await lock.acquire()
            await sim.sleep(10.0)
            lock.release()

        async def impatient() -> None:
            with sim.move_on_after(1.0) as scope:
                await lock.acquire()
            assert scope.timed_out

        async def patient() -> None:
            await lock.acquire()
            got.append(int(sim.now))
            lock.release()

        async def main() -> None:
            lock.start()
            async with sim.open_nursery() as nursery:
                for fn in (holder, impatient, patient):
                    nursery.spawn(fn, name=fn.__name__)

        sim.run(main)
        assert got == [10]

    def test_a_wait_that_is_cut_short_counts_as_that_for_any_lock(self, gear: Any) -> None:
        sim = Simulation(gear=gear)
        table, plain = DeviceTableLock(sim, "device table"), Lock(sim, "plain")

        async def waiter(lock: DeviceTableLock | Lock, patience: float) -> None:
            with sim.move_on_after(patience):
                await lock.acquire()
                lock.release()

        async def main() -> None:
            table.start()
            for lock in (table, plain):
                await lock.acquire()
            async with sim.open_nursery() as nursery:
                for patience in (0.5, 2.0):
                    for lock in (table, plain):
                        nursery.spawn(waiter, lock, patience)
                await sim.sleep(1.0)
                for lock in (table, plain):
                    lock.release()

        sim.run(main)
        assert table.statistics() == plain.statistics()
        assert (table.statistics().contended, table.statistics().wait_s) == (2, 1.5)

    @pytest.mark.parametrize("kind", [DeviceTableLock, BargingTableLock])
    def test_whoever_is_cancelled_when_it_is_free_passes_it_on(self, gear: Any, kind: type[DeviceTableLock]) -> None:
        sim = Simulation(gear=gear)
        lock = kind(sim, "device table")
        free = Signal(sim, "free")
        got: list[float] = []

        async def waiter() -> None:
            await lock.acquire()
            got.append(sim.now)
            lock.release()

        async def cancelled() -> None:
            async with sim.open_nursery() as nursery:
                nursery.spawn(waiter)
                await free.wait()
                nursery.cancel()

        async def main() -> None:
            lock.start()
            await lock.acquire()
            async with sim.open_nursery() as nursery:
                nursery.spawn(cancelled)
                await sim.sleep(1.0)
                nursery.spawn(waiter)
                await sim.sleep(1.0)
                lock.release()
                free.set()

        sim.run(main)
        assert got[-1] == 2.0 and lock.statistics().tasks_waiting == 0

    def test_only_the_holder_may_use_the_table(self, gear: Any) -> None:
        sim = Simulation(gear=gear)
        lock = DeviceTableLock(sim, "device table")

        async def main() -> None:
            lock.start()
            with pytest.raises(RuntimeError, match="main uses the present table without holding 'device table'"):
                lock.assert_held()
            with pytest.raises(RuntimeError, match="main releases 'device table', which it does not hold"):
                lock.release()
            await lock.acquire()
            with pytest.raises(RuntimeError, match="main acquires 'device table', which it holds"):
                await lock.acquire()
            lock.release()

        sim.run(main)


SLOW_TABLE = {"table.lookup": "1 ms", "table.handover": "0 us"}


def mapped(rig: MakeRig, threads: int, overrides: dict[str, object]) -> Any:
    """Each thread maps ten arrays of its own."""
    made = rig(overrides)

    async def body(t: omp.HostThread) -> None:
        for i in range(10):
            async with t.target_data(omp.map(tofrom=t.array(f"a{i}", 16))):
                pass

    made.run(body, threads)
    return made


class TestEmergence:
    def test_one_thread_waits_for_nobody(self, rig: MakeRig) -> None:
        for name, lock in mapped(rig, 1, {}).program.locks().items():
            assert (lock.contended, lock.wait_s) == (0, 0.0), name

    def test_service_is_the_same_with_many_threads(self, rig: MakeRig) -> None:
        """Holding the table takes as long an acquisition with 1 as with 8 threads; only waiting grows."""
        overrides = {**SLOW_TABLE, "driver.context.uncontended": True, "entry.uncontended": True}
        one, eight = mapped(rig, 1, overrides), mapped(rig, 8, overrides)
        alone, together = one.program.locks()["device table"], eight.program.locks()["device table"]
        assert together.acquired == 8 * alone.acquired
        assert together.wait_s > 0.0
        assert together.hold_s / together.acquired == pytest.approx(alone.hold_s / alone.acquired, rel=0.05)

    def test_ablation_of_the_table_lock(self, rig: MakeRig) -> None:
        alone = mapped(rig, 1, SLOW_TABLE).sim.now
        without = {**SLOW_TABLE, "table.uncontended": True}
        assert mapped(rig, 1, without).sim.now == pytest.approx(alone, rel=1e-9)
        assert mapped(rig, 8, SLOW_TABLE).sim.now > 6 * alone, "the table serves one thread after the other"
        assert mapped(rig, 8, without).sim.now < 1.5 * alone

    def test_ablation_of_the_entry_locks(self, rig: MakeRig) -> None:
        slow = {"host.memcpy_1t": "10 kB/s", "driver.context.uncontended": True}

        def shared(threads: int, overrides: dict[str, object]) -> float:
            made = rig(overrides)
            found: list[omp.HostArray] = []

            async def body(t: omp.HostThread) -> float:
                if t.number == 0:
                    found.append(t.array("a", 16))
                    await t.target_enter_data(omp.map(to=found[0]))
                await t.barrier()
                begin = t.sim.now
                await t.target_enter_data(omp.map(to=found[0], always=True))
                await t.barrier()
                return t.sim.now - begin

            return max(made.run(body, threads))

        alone = shared(1, slow)
        assert shared(1, {**slow, "entry.uncontended": True}) == pytest.approx(alone, rel=1e-9)
        assert shared(4, slow) > 3.5 * alone
        assert shared(4, {**slow, "entry.uncontended": True, "table.uncontended": True}) < 1.5 * alone

    def test_ablation_of_the_bucket_mutexes(self, rig: MakeRig) -> None:
        def allocating(threads: int, overrides: dict[str, object]) -> float:
            made = rig({"memory_manager.hand_out": "1 ms", **overrides})

            async def body(t: omp.HostThread) -> None:
                for _ in range(3):
                    await t.omp_target_free(await t.omp_target_alloc(64))

            made.run(body, threads)
            return made.sim.now

        alone = allocating(1, {})
        without: dict[str, object] = {"memory_manager.uncontended": True}
        assert allocating(1, without) == pytest.approx(alone, rel=1e-9)
        assert allocating(6, {}) > 4 * alone
        assert allocating(6, without) < 1.5 * alone

    def test_ablation_of_the_memory_managers_semaphore(self, rig: MakeRig) -> None:
        def pooled(threads: int, overrides: dict[str, object]) -> float:
            made = rig({"gpu_memory_manager.hand_out": "1 ms", **overrides})
            manager = omp.GpuMemoryManager(made.program)

            async def body(t: omp.HostThread) -> None:
                for _ in range(3):
                    await manager.free(t, await manager.allocate(t, 64))

            made.run(body, threads)
            return made.sim.now

        alone = pooled(1, {})
        without: dict[str, object] = {"gpu_memory_manager.uncontended": True}
        assert pooled(1, without) == pytest.approx(alone, rel=1e-9)
        assert pooled(6, {}) > 4 * alone
        assert pooled(6, without) < 1.5 * alone


def test_the_trace_shows_who_waits_for_the_table(rig: MakeRig) -> None:
    made = mapped(rig, 3, SLOW_TABLE)
    lock = made.program.locks()["device table"]
    waits = [e for e in made.trace.events if isinstance(e, events.LockWait) and e.lock == "device table"]
    acquired = [e for e in made.trace.events if isinstance(e, events.LockAcquire) and e.lock == "device table"]
    released = [e for e in made.trace.events if isinstance(e, events.LockRelease) and e.lock == "device table"]
    assert len(waits) == lock.contended
    assert len(acquired) == len(released) == lock.acquired
