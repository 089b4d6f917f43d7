"""The actor that decides who enters the present table, and the emergence checks of the runtime's locks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from openmp_rig import MakeRig

from offloadrt import Run
from offloadrt import openmp as omp
from offloadrt.kernels import Kernel
from offloadrt.machine import Machine, load
from offloadrt.machine.host_lock import HostLock, LockPolicy, lock_policy
from offloadrt.runtime.mapping.table_arbiter import TableArbiter
from offloadrt.sim import Lock, Signal, Simulation
from offloadrt.trace import events

HANDOVER = 0.25


def arbiter(sim: Simulation, policy: str | LockPolicy = "fifo", cores: int = 64, **overrides: object) -> TableArbiter:
    """A device table on a machine of its own, with a hand-over of a quarter of a second."""
    machine = Machine(sim, load("alex-a100", {"jitter": 0.0, "cpu.cores": cores, **overrides}))
    return TableArbiter(machine, "device table", lock_policy(policy), HANDOVER)


def together(sim: Simulation, table: TableArbiter, *bodies: Callable[[], Awaitable[None]]) -> None:
    """Run the bodies as threads that begin at the same instant."""

    async def main() -> None:
        table.start()
        async with sim.open_nursery() as nursery:
            for number, body in enumerate(bodies):
                nursery.spawn(body, name=f"thread {number}")

    sim.run(main)


def contend(sim: Simulation, table: TableArbiter, threads: int) -> list[tuple[str, float]]:
    """Have each thread enter twice and work there for a second; who has finished its work there, and when."""
    log: list[tuple[str, float]] = []

    async def body() -> None:
        for _ in range(2):
            await table.lock.enter(1.0)
            log.append((sim.current.name, sim.now))
            table.lock.release()

    together(sim, table, *[body] * threads)
    return log


@pytest.mark.parametrize("gear", ["native", "turbo"])
class TestDeviceTable:
    def test_first_come_first_served(self, gear: Any) -> None:
        sim = Simulation(gear=gear)
        table = arbiter(sim)
        assert contend(sim, table, 3) == [
            ("thread 0", 1.0), ("thread 1", 2.25), ("thread 2", 3.5),
            ("thread 0", 4.75), ("thread 1", 6.0), ("thread 2", 7.25),
        ]  # fmt: skip
        statistics = table.lock.statistics()
        assert (statistics.acquired, statistics.contended, statistics.hold_s) == (6, 5, 7.25)
        assert statistics.wait_s == 1.0 + 2.25 + 2.5 + 2.5 + 2.5
        assert statistics.owner is None and statistics.tasks_waiting == 0

    def test_a_request_waits_in_the_mailbox_and_leaves_the_actor_asleep(self, gear: Any) -> None:
        sim = Simulation(gear=gear)
        table = arbiter(sim)

        async def holder() -> None:
            await table.lock.enter(1.0)
            await sim.sleep(1.0)
            [request] = table._requests.items
            assert (request.thread.name, request.seconds) == ("thread 1", 3.0)
            assert len(table._requests.getters) == 1, "the actor sleeps on"
            table.lock.release()
            assert not table._requests.items

        async def waiter() -> None:
            await table.lock.enter(3.0)
            table.lock.release()

        together(sim, table, holder, waiter)
        assert sim.now == 2.0 + HANDOVER + 3.0

    def test_waits_and_work_are_accounted_apart(self, gear: Any) -> None:
        sim = Simulation(gear=gear)
        machine = Machine(sim, load("alex-a100", {"jitter": 0.0}))
        table = TableArbiter(machine, "device table", lock_policy("fifo"), HANDOVER)
        contend(sim, table, 2)
        seconds = machine.host_time.seconds
        assert seconds["runtime"] == 4 * 1.0 + 3 * HANDOVER
        assert seconds["table lock"] == table.lock.statistics().wait_s

    def test_barging_lets_a_running_thread_overtake(self, gear: Any) -> None:
        """The woken thread still pays for its wake-up when the other has entered again."""
        sim = Simulation(gear=gear)
        assert contend(sim, arbiter(sim, "barging"), 2) == [
            ("thread 0", 1.0), ("thread 0", 2.0), ("thread 1", 3.25), ("thread 1", 4.25),
        ]  # fmt: skip

    def test_under_barging_the_woken_thread_needs_a_core_before_it_tries_again(self, gear: Any) -> None:
        sim = Simulation(gear=gear)
        machine = Machine(sim, load("alex-a100", {"jitter": 0.0, "cpu.cores": 1}))
        table = TableArbiter(machine, "device table", lock_policy("barging"), HANDOVER)
        log: list[tuple[str, float]] = []

        async def holder() -> None:
            await table.lock.enter(1.0)
            table.lock.release()
            await machine.cores.compute(5.0)

        async def waiter() -> None:
            await table.lock.enter(1.0)
            log.append(("waiter", sim.now))
            table.lock.release()

        together(sim, table, holder, waiter)
        assert log == [("waiter", 1.0 + HANDOVER + 5.0 + 1.0)], "the one core went to the waiter, then to the holder"

    def test_who_was_overtaken_keeps_its_place(self, gear: Any) -> None:
        sim = Simulation(gear=gear)
        table, log = arbiter(sim, "barging"), list[str]()

        async def once() -> None:
            await table.lock.enter(1.0)
            log.append(sim.current.name)
            table.lock.release()

        async def twice() -> None:
            await once()
            await once()

        together(sim, table, twice, once, once)
        assert log == ["thread 0", "thread 0", "thread 1", "thread 2"]

    def test_uncontended_excludes_nobody(self, gear: Any) -> None:
        sim = Simulation(gear=gear)
        table = arbiter(sim, **{"table.uncontended": True})
        contend(sim, table, 3)
        assert sim.now == 2.0
        assert table.lock.statistics().contended == 0

    def test_only_the_holder_may_release(self, gear: Any) -> None:
        sim = Simulation(gear=gear)
        lock = arbiter(sim).lock

        async def main() -> None:
            with pytest.raises(RuntimeError, match="main releases 'device table', which it does not hold"):
                lock.release()
            await lock.enter(0.0)
            with pytest.raises(RuntimeError, match="main acquires 'device table', which it holds"):
                await lock.enter(0.0)
            lock.release()

        sim.run(main)


@pytest.mark.parametrize("gear", ["native", "turbo"])
class TestCancellation:
    """A cancelled thread is queued for the table, queued for a core with it, or at work: it gives back what it has."""

    @pytest.mark.parametrize("policy", ["fifo", "barging"])
    @pytest.mark.parametrize(
        ("cores", "patience"), [(64, 1.5), (64, 2.1), (64, 2.5), (2, 2.5), (2, 1.5), (1, 2.1), (1, 3.0), (2, 9.0)]
    )
    def test_whoever_comes_after_gets_the_table_and_the_core(
        self, gear: Any, policy: str, cores: int, patience: float
    ) -> None:
        sim = Simulation(gear=gear)
        machine = Machine(sim, load("alex-a100", {"jitter": 0.0, "cpu.cores": cores}))
        table, log = TableArbiter(machine, "device table", lock_policy(policy), HANDOVER), list[float]()

        async def holder() -> None:
            await table.lock.enter(2.0)
            table.lock.release()

        async def impatient() -> None:
            with sim.move_on_after(patience):
                await table.lock.enter(1.0)
                table.lock.release()

        async def patient() -> None:
            await sim.sleep(1.0)
            await table.lock.enter(1.0)
            log.append(sim.now)
            table.lock.release()

        async def others() -> None:
            for _ in range(4):
                await machine.cores.compute(1.0)

        together(sim, table, holder, impatient, patient, others)
        assert len(log) == 1
        statistics = table.lock.statistics()
        assert (statistics.owner, statistics.tasks_waiting) == (None, 0)
        assert machine.cores.statistics().busy_s <= cores * sim.now
        assert machine.cores._busy == 0, "every core was given back"

    def test_a_wait_that_is_cut_short_counts_as_that_for_any_lock(self, gear: Any) -> None:
        sim = Simulation(gear=gear)
        made, plain = arbiter(sim), Lock(sim, "plain")
        table = made.lock

        def take(lock: HostLock | Lock) -> Awaitable[None]:
            return lock.enter(0.0) if isinstance(lock, HostLock) else lock.acquire()

        async def waiter(lock: HostLock | Lock, patience: float) -> None:
            with sim.move_on_after(patience):
                await take(lock)
                lock.release()

        async def main() -> None:
            made.start()
            for lock in (table, plain):
                await take(lock)
            async with sim.open_nursery() as nursery:
                for patience in (0.5, 2.0):
                    for lock in (table, plain):
                        nursery.spawn(waiter, lock, patience)
                await sim.sleep(1.0)
                for lock in (table, plain):
                    lock.release()

        sim.run(main)
        assert (table.statistics().contended, table.statistics().wait_s) == (2, 1.5)
        assert (plain.statistics().contended, plain.statistics().wait_s) == (2, 1.5)

    @pytest.mark.parametrize("policy", ["fifo", "barging"])
    def test_whoever_is_cancelled_when_it_is_free_passes_it_on(self, gear: Any, policy: str) -> None:
        sim = Simulation(gear=gear)
        table = arbiter(sim, policy)
        lock, free = table.lock, Signal(sim, "free")
        got: list[float] = []

        async def waiter() -> None:
            await lock.enter(0.0)
            got.append(sim.now)
            lock.release()

        async def cancelled() -> None:
            async with sim.open_nursery() as nursery:
                nursery.spawn(waiter)
                await free.wait()
                nursery.cancel()

        async def main() -> None:
            table.start()
            await lock.enter(0.0)
            async with sim.open_nursery() as nursery:
                nursery.spawn(cancelled)
                await sim.sleep(1.0)
                nursery.spawn(waiter)
                await sim.sleep(1.0)
                lock.release()
                free.set()

        sim.run(main)
        assert got == [2.0 + HANDOVER] and lock.statistics().tasks_waiting == 0


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


def test_whoever_waited_for_the_table_and_nobody_else_pays_the_hand_over() -> None:
    """Also when the entries were locked meanwhile; of a lock that is handed over."""
    run = Run(record=True)
    run.phantom = True
    run.set("table.handoff", "fifo")
    run.set("table.handover", "10 ms")
    shared: list[omp.HostArray] = []
    kernel = Kernel("touch", bytes_per_iteration=8.0)

    async def body(t: omp.HostThread) -> None:
        if t.number == 0:
            shared.extend(t.array(f"a{i}", 1 << 20) for i in range(4))
            await t.target_enter_data(omp.map(to=shared))
        await t.barrier()
        for _ in range(10):
            if t.number < 2:  # copies under the entry's lock
                await t.target_enter_data(omp.map(to=shared[t.number], always=True))
            else:
                await t.target(kernel, *shared, maps=omp.map(tofrom=shared), teams=8)

    run.sim.run(run.parallel, body, 6)
    assert run.trace is not None
    waiting: set[int] = set()
    since: dict[int, tuple[int, bool]] = {}
    holds: set[tuple[bool, bool]] = set()
    for event in run.trace.events:
        if getattr(event, "lock", "") != "device table":
            continue
        if isinstance(event, events.LockWait):
            waiting.add(event.actor)
        elif isinstance(event, events.LockAcquire):
            since[event.actor] = event.time_ps, event.actor in waiting
            waiting.discard(event.actor)
        else:
            begin, waited = since.pop(event.actor)
            holds.add((waited, event.time_ps - begin > 9e9))
    assert holds == {(True, True), (False, False)}
