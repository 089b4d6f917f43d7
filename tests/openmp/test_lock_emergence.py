"""Emergence of what the runtime's locks cost: a thread alone waits for nobody, and each lock can be switched off."""

from __future__ import annotations

import pytest
from openmp_rig import SLOW_TABLE, MakeRig, mapped

from offloadrt import openmp as omp


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
