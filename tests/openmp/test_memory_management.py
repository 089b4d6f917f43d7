"""Who obtains device blocks how: LLVM's memory manager, no manager, ExaHyPE's, and malloc."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from openmp_rig import MakeRig

from offloadrt import openmp as omp
from offloadrt.driver import OutOfDeviceMemory
from offloadrt.runtime.allocators import Direct
from offloadrt.trace import events


class TestLlvm:
    @pytest.mark.parametrize(("elements", "calls"), [(1024, 1), (1025, 4)])
    def test_pools_up_to_8_KiB(self, rig: MakeRig, elements: int, calls: int) -> None:
        made = rig()

        async def body(t: omp.HostThread) -> None:
            a = t.array("a", elements)
            for _ in range(4):
                async with t.target_data(omp.map(tofrom=a)):
                    pass

        made.alone(body)
        assert made.calls.count("cuMemAlloc") == calls
        assert made.calls.count("cuMemFree") == calls - (elements == 1024)

    def test_reuses_exactly_the_same_size_only(self, rig: MakeRig) -> None:
        made = rig()

        async def body(t: omp.HostThread) -> None:
            for elements in (64, 65, 64, 63):
                async with t.target_data(omp.map(alloc=t.array("a", elements))):
                    pass

        made.alone(body)
        assert made.calls.count("cuMemAlloc") == 3

    def test_threshold(self, rig: MakeRig) -> None:
        made = rig({"memory_manager.threshold": 0})

        async def body(t: omp.HostThread) -> None:
            for _ in range(2):
                async with t.target_data(omp.map(alloc=t.array("a", 8))):
                    pass

        made.alone(body)
        assert made.calls.count("cuMemFree") == 2

    def test_gives_back_when_memory_runs_out(self, rig: MakeRig) -> None:
        made = rig(phantom=True)
        memory = made.machine.devices[0].memory

        async def body(t: omp.HostThread) -> None:
            async with t.target_data(omp.map(alloc=t.array("small", 64))):
                pass
            await t.target_enter_data(omp.map(alloc=t.array("all", memory.capacity // 8)))
            with pytest.raises(OutOfDeviceMemory):
                await t.target_enter_data(omp.map(alloc=t.array("more", 1)))

        made.alone(body)
        assert made.calls.count("cuMemFree") == 1, "the pooled block made room"

    def test_a_flush_forgets_a_block_before_it_is_freed(self, rig: MakeRig) -> None:
        """The driver may give the address to another thread at once: that thread's record must stay."""
        made = rig()
        allocator = made.device.allocator
        driver = made.device.driver
        known: list[bool] = []

        class Watched:
            """The driver, which another thread asks for a block as soon as one is freed."""

            async def alloc(self, nbytes: int, phantom: bool = False) -> int:
                address: int = await driver.memory.alloc(nbytes, phantom=phantom)
                return address

            async def free(self, address: int) -> None:
                await driver.memory.free(address)
                if not known:
                    known.append(True)
                    assert await allocator.allocate(128, False) == address

        allocator._site = attrs.evolve(allocator._site, driver=Watched())

        async def body(t: omp.HostThread) -> None:
            address = await allocator.allocate(64, False)
            await allocator.free(address)
            await allocator.release_pooled()
            await allocator.free(address)
            assert made.calls.count("cuMemFree") == 1, "the block of 128 bytes goes to its bucket"
            await allocator.release_pooled()

        made.alone(body)
        assert made.calls.count("cuMemFree") == made.calls.count("cuMemAlloc") == 2

    @pytest.mark.parametrize("step", range(12))
    def test_what_a_flush_that_is_left_has_not_freed_stays_pooled(self, rig: MakeRig, step: int) -> None:
        made = rig({"alloc.cudaFree": "63 us"})
        allocator, memory = made.device.allocator, made.machine.devices[0].memory

        async def body(t: omp.HostThread) -> None:
            addresses = [await allocator.allocate(size, False) for size in (64, 64, 64, 2048, 2048)]
            for address in addresses:
                await allocator.free(address)
            with t.sim.move_on_after(step * 25e-6) as scope:
                await allocator.release_pooled()
            assert scope.timed_out
            left = len(memory.blocks())
            again = [await allocator.allocate(size, False) for size in (64, 64, 64, 2048, 2048)]
            assert made.calls.count("cuMemAlloc") == 10 - left, "all that is left is handed out again"
            for address in again:
                await allocator.free(address)
            await allocator.release_pooled()

        made.alone(body)
        assert memory.blocks() == []

    def test_a_new_block_holds_what_was_there(self, rig: MakeRig) -> None:
        made = rig()

        async def body(t: omp.HostThread) -> float:
            async with t.target_data(omp.map(to=t.array("a", 4, fill=7.0))):
                pass
            b = t.array("b", 4)
            async with t.target_data(omp.map(from_=b)):
                pass
            return float(b[0])

        assert made.alone(body) == 7.0


@pytest.mark.parametrize("gear", ["native", "turbo"])
class TestGpuMemoryManager:
    def test_hands_blocks_out_again(self, rig: MakeRig, gear: Any) -> None:
        made = rig(gear=gear)
        manager = omp.GpuMemoryManager(made.program)

        async def body(t: omp.HostThread) -> None:
            a, b = t.array("a", 8, fill=float(t.number)), t.array("b", 8)
            for _ in range(5):
                pointer = await manager.allocate(t, 64, source=a)
                await t.sleep(1e-4)
                await manager.free(t, pointer, destination=b)
                assert (b.data == t.number).all(), "nobody else had the block"

        made.run(body, 6)
        statistics = manager.statistics()
        assert statistics.blocks == 6, "as many as were in use at one time"
        assert (statistics.allocations, statistics.hits, statistics.in_use) == (6, 24, 0)
        assert statistics.bytes == 6 * 64
        assert made.calls.count("cuMemFree") == 0
        assert manager.semaphore.statistics().acquired == 60
        assert made.program.locks()["device table"].acquired == 0, "no table is searched"

    def test_keys_are_device_and_exact_size(self, rig: MakeRig, gear: Any) -> None:
        made = rig(gear=gear, devices=2)
        manager = omp.GpuMemoryManager(made.program)

        async def body(t: omp.HostThread) -> None:
            for nbytes, device in ((64, 0), (64, 1), (65, 0), (64, 0)):
                pointer = await manager.allocate(t, nbytes, device=device)
                assert pointer.device == device
                await manager.free(t, pointer)
            await manager.release_all(t)

        made.alone(body)
        assert manager.statistics().allocations == 3
        made.assert_clean()

    def test_a_block_that_is_not_in_use(self, rig: MakeRig, gear: Any) -> None:
        made = rig(gear=gear)
        manager = omp.GpuMemoryManager(made.program)

        async def body(t: omp.HostThread) -> None:
            pointer = await manager.allocate(t, 64)
            await manager.free(t, pointer)
            with pytest.raises(ValueError, match="is not in use in this memory manager"):
                await manager.free(t, pointer)

        made.alone(body)

    def test_allocates_outside_the_semaphore(self, rig: MakeRig, gear: Any) -> None:
        made = rig({"alloc.cudaMalloc_small": "10 ms", "driver.context.uncontended": True}, gear, allocator="direct")
        manager = omp.GpuMemoryManager(made.program)

        async def body(t: omp.HostThread) -> None:
            await manager.allocate(t, 64)

        async def warm(t: omp.HostThread) -> None:
            await t.omp_target_free(await t.omp_target_alloc(1))

        async def main() -> float:
            await made.program.parallel(warm)
            begin = made.sim.now
            await made.program.parallel(body, 8)
            return made.sim.now - begin

        assert made.sim.run(main) < 11e-3

    def test_out_of_memory(self, rig: MakeRig, gear: Any) -> None:
        made = rig(gear=gear, phantom=True)
        manager = omp.GpuMemoryManager(made.program)

        async def body(t: omp.HostThread) -> None:
            with pytest.raises(OutOfDeviceMemory, match="host thread 0"):
                await manager.allocate(t, 1 << 40)

        made.alone(body)
        assert manager.statistics().blocks == 0

    @pytest.mark.parametrize("pooled", [False, True])
    def test_a_block_whose_allocation_is_left_is_for_the_next(self, rig: MakeRig, gear: Any, pooled: bool) -> None:
        made = rig(gear=gear)
        manager = omp.GpuMemoryManager(made.program)

        async def body(t: omp.HostThread) -> None:
            a = t.array("a", 1 << 17, fill=1.0)
            if pooled:
                await manager.free(t, await manager.allocate(t, a.nbytes))
            for step in range(20):
                with t.sim.move_on_after(step * 4e-6) as scope:
                    await manager.allocate(t, a.nbytes, a)
                assert scope.timed_out and manager.statistics().in_use == 0
            await manager.free(t, await manager.allocate(t, a.nbytes, a))
            assert manager.statistics().blocks == 1
            await manager.release_all(t)

        made.alone(body)
        made.assert_clean()

    def test_a_block_whose_copy_fails_is_for_the_next(self, rig: MakeRig, gear: Any) -> None:
        made = rig(gear=gear)
        manager = omp.GpuMemoryManager(made.program)

        async def body(t: omp.HostThread) -> None:
            with pytest.raises(omp.OutsideArray):
                await manager.allocate(t, 128, t.array("a", 8))
            await manager.release_all(t)

        made.alone(body)
        made.assert_clean()


def test_memory_is_conserved(rig: MakeRig) -> None:
    made = rig(allocator="direct")

    async def body(t: omp.HostThread) -> None:
        for size in (1, 2000, 1 << 20):
            a = t.array(f"a{size}", size)
            async with t.target_data(omp.map(tofrom=a)):
                await t.compute(1e-6)

    made.run(body, 5)
    balance = 0
    for event in made.trace.events:
        if isinstance(event, events.Allocate):
            balance += event.size
        elif isinstance(event, events.Free):
            balance -= event.size
        assert balance >= 0
    assert balance == 0
    made.assert_clean()


@pytest.mark.parametrize("manager", [omp.GpuMemoryManager, omp.UnifiedMemoryManager])
def test_a_manager_hands_a_block_of_the_same_size_out_again(rig: MakeRig, manager: Any) -> None:
    made = rig()
    seen: list[omp.ManagerStatistics] = []

    async def body(t: omp.HostThread) -> None:
        blocks = manager(made.program)
        first = await blocks.allocate(t, 4096)
        await blocks.free(t, first)
        again, other = await blocks.allocate(t, 4096), await blocks.allocate(t, 4096)
        assert again is first and other.address != first.address
        seen.append(blocks.statistics())
        with pytest.raises(RuntimeError, match="still in use"):
            await blocks.release_all(t)
        for block in (again, other):
            await blocks.free(t, block)
        with pytest.raises(ValueError, match="not in use"):
            await blocks.free(t, other)
        await blocks.release_all(t)
        seen.append(blocks.statistics())

    made.alone(body)
    assert seen[0] == omp.ManagerStatistics(blocks=2, bytes=8192, in_use=2, allocations=2, hits=1)
    assert (seen[1].blocks, seen[1].bytes) == (0, 0)
    managed = manager is omp.UnifiedMemoryManager
    assert made.calls.count("cuMemAllocManaged" if managed else "cuMemAlloc") == 2


def test_the_actors_of_a_program_are_started_once(rig: MakeRig, monkeypatch: pytest.MonkeyPatch) -> None:
    made, started = rig(), list[int]()
    start_actors = made.program.start_actors
    monkeypatch.setattr(made.program, "start_actors", lambda: (started.append(1), start_actors()))

    async def body(t: omp.HostThread) -> None:
        made.program.start()
        a = t.array("a", 8)
        await t.target_enter_data(omp.map(to=a), nowait=True)
        await t.taskwait()
        assert await t.omp_target_is_present(a)

    made.run(body, 3)
    assert started == [1]


async def nothing(*_: Any) -> None: ...


async def first_block(allocator: Any, nbytes: int, phantom: bool) -> int:
    allocator.mine = getattr(allocator, "mine", 0) or await Direct.allocate(allocator, 1 << 20, phantom)
    return int(allocator.mine)


async def too_small(allocator: Any, nbytes: int, phantom: bool) -> int:
    return await Direct.allocate(allocator, nbytes // 2, phantom)


async def phantom_instead(allocator: Any, nbytes: int, phantom: bool) -> int:
    return await Direct.allocate(allocator, nbytes, not phantom)


async def everywhere(*_: Any) -> int:
    return 4096


@pytest.mark.parametrize(
    ("call", "does", "what"),
    [
        ("allocate", nothing, "returns None, which is no device address"),
        ("allocate", everywhere, "returns 4096, which is no device address"),
        ("allocate", first_block, "which lies in a block in use"),
        ("allocate", too_small, "which lies in a block of 2048 bytes"),
        ("allocate", phantom_instead, "which lies in a block of 4096 bytes, phantom=True"),
        ("allocate", lambda *_: 0, "returns 0; write it as `async def`"),
        ("free", lambda *_: None, "returns None; write it as `async def`"),
        ("release_pooled", lambda *_: None, "returns None; write it as `async def`"),
        ("locks", lambda *_: None, "returns None, no LockStatistics by name"),
        ("locks", lambda *_: {"mine": 1}, "returns {'mine': 1}, no LockStatistics by name"),
    ],
)
def test_an_allocator_that_breaks_its_rules_is_refused_by_name(rig: MakeRig, call: str, does: Any, what: str) -> None:
    made = rig(allocator=type("Mine", (Direct,), {call: does}))

    async def body(t: omp.HostThread) -> None:
        await t.target_enter_data(omp.map(to=[t.array("a", 512), t.array("b", 512)]))
        await t.omp_target_free(await t.omp_target_alloc(4096))
        await made.program.finish()
        made.program.locks()

    with pytest.raises((RuntimeError, ExceptionGroup)) as raised:
        made.alone(body)
    errors = raised.value.exceptions if isinstance(raised.value, ExceptionGroup) else [raised.value]
    assert str(errors[-1]).startswith(f"allocator 'Mine' (class Mine): {call}") and what in str(errors[-1])
