"""What holds of the runtime's state when no directive is in progress, and that each breach of it is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from openmp_rig import MakeRig, Rig

from offloadrt import openmp as omp
from offloadrt.extensions.exploring.invariants import held, unreturned, violations
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.errors import MappingError


def used(rig: MakeRig, machine: str = "alex-a100", after: Callable[[Rig], object] = lambda rig: None) -> list[str]:
    """What does not hold after a mapped array, a region and a block of the program's own, and something more."""
    made = rig(machine_name=machine)

    async def body(t: omp.HostThread) -> list[str]:
        a, b = t.array("a", 64, fill=1.0), t.array("b", 64)
        await t.target_enter_data(omp.map(to=[a, b]))
        async with t.target_data(omp.map(tofrom=a)):
            await t.target_update(omp.from_(a))
        await t.omp_target_alloc(1 << 14)
        after(made)
        return violations(made.device) + held(t.sim)

    found: list[str] = made.alone(body)
    return found


@pytest.mark.parametrize("machine", ["alex-a100", "mi300a"])
def test_all_holds_between_directives(rig: MakeRig, machine: str) -> None:
    assert used(rig, machine) == []


def first_entry(device: OffloadDevice) -> Any:
    return next(iter(device.table))


def count_below_zero(made: Rig) -> None:
    first_entry(made.device).dynamic = -1


def end_without_end(made: Rig) -> None:
    first_entry(made.device).data_end_users = 1


def mark_erased(made: Rig) -> None:
    first_entry(made.device).is_erased = True


def overlap(made: Rig) -> None:
    first_entry(made.device).host_end += 1 << 20


def forget_the_entry(made: Rig) -> None:
    made.device.table.erase(first_entry(made.device))


def forget_the_block(made: Rig) -> None:
    del made.device._blocks[first_entry(made.device).block]


def lose_device_memory(made: Rig) -> None:
    made.device.memory.free(max(made.device.requested))


def lose_a_stream(made: Rig) -> None:
    made.device.plugin.streams.idle.pop()


def keep_the_entry_locked(made: Rig) -> None:
    first_entry(made.device).lock.owner = made.sim.current


def keep_the_pool_locked(made: Rig) -> None:
    made.device.plugin.streams.lock.owner = made.sim.current


@pytest.mark.parametrize(
    ("breach", "told"),
    [
        (count_below_zero, "device 0: the entry of a has the counts -1 and 0"),
        (end_without_end, "device 0: 1 directive has yet to end the mapping of a"),
        (mark_erased, "device 0: the entry of a is erased and still in the table"),
        (overlap, "device 0: the entries of a and b overlap"),
        (forget_the_entry, "(512 bytes) belongs to nobody"),
        (forget_the_block, "device 0: the entry of a has no block of device memory"),
        (lose_device_memory, "is not there any more"),
        (lose_a_stream, "device 0: 1 streams were not given back"),
        (keep_the_entry_locked, "device 0: the entry of a is locked"),
        (keep_the_pool_locked, "device 0: stream pool is held by host thread 0"),
    ],
)
def test_a_breach_is_told(rig: MakeRig, breach: Callable[[Rig], object], told: str) -> None:
    assert any(told in line for line in used(rig, after=breach))


def test_a_block_that_the_driver_does_not_get_back_at_the_exit_is_told(rig: MakeRig) -> None:
    made = rig()

    async def body(t: omp.HostThread) -> list[str]:
        await t.target_enter_data(omp.map(to=t.array("a", 64, fill=1.0)))
        await t.omp_target_alloc(1 << 14)
        pooled = await t.omp_target_alloc(64)
        await t.omp_target_free(pooled)
        before = unreturned(made.device)
        await t.program.finish()
        return [*before, *unreturned(made.device)]

    (line,) = made.alone(body)
    assert line.endswith("(64 bytes) was not returned to the driver"), "the pool has it until the exit"


def test_a_device_that_has_ended_owes_its_locks_only(rig: MakeRig) -> None:
    def end(made: Rig) -> None:
        made.device.ended = MappingError("over")
        lose_a_stream(made)
        end_without_end(made)

    assert used(rig, after=end) == []


def test_who_holds_and_who_waits_for_the_table_is_told(rig: MakeRig) -> None:
    made, seen = rig({"table.lookup": "1 ms"}), list[str]()

    async def body(t: omp.HostThread) -> None:
        if t.number == 2:
            await t.compute(0.5e-3)
            seen.extend(violations(made.device))
            return
        async with t.target_data(omp.map(to=t.array("a", 8))):
            pass

    made.run(body, num_threads=3)
    assert seen == ["device 0: device table is held by host thread 0", "device 0: 1 wait for device table"]
    made.assert_clean()
