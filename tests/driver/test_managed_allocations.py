"""Managed memory beside other memory: what shares pages, blocks and segments, and room that comes and goes."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from managed_rig import resident_pages
from property_examples import examples

from offloadrt.kernels import Kernel
from offloadrt.machine.managed.sweep import ManagedAccess

PAGE, BLOCK = 64 << 10, 2 << 20
SWEEP = Kernel("sweep", bytes_per_iteration=16.0)
FUNCTION_SCOPED = examples(30, HealthCheck.function_scoped_fixture)


def small(blocks):
    return {"mem.size": f"{blocks * BLOCK} B", "mem.reserved": 0}


def sweep(nbytes):
    return SWEEP.launch(max(1, nbytes // 1024), 128, max(1, nbytes // 8))


def assert_conserved(rig):
    """The sums over objects are the totals."""
    used, total = list(rig.machine.devices[0].managed_objects.values()), rig.counters
    assert sum(one.faults for one in used) == total.faults
    assert sum(one.host_faults for one in used) == total.host_faults
    assert sum(one.bytes_htod for one in used) == total.bytes_htod
    assert sum(one.bytes_dtoh for one in used) == total.bytes_dtoh
    ports = rig.machine.devices[0].managed.ports.values()
    assert sum(one.remote_bytes for one in used) == pytest.approx(sum(port.bytes for port in ports))


SIZES = st.lists(st.one_of(st.integers(1, 3 * PAGE), st.integers(1, 3 * BLOCK)), min_size=1, max_size=8)


@FUNCTION_SCOPED
@given(SIZES, st.integers(1, 8), st.randoms(use_true_random=False), st.booleans())
def test_when_everything_is_freed_nothing_is_resident(uvm, sizes, blocks, random, host_first):
    """Whatever the sizes; and what lives keeps its pages until it is freed itself."""
    rig = uvm(small(blocks))

    async def main():
        pages = rig.uvm.pages
        live = {await rig.driver.managed.alloc(nbytes, name=f"{nbytes % 3}"): nbytes for nbytes in sizes}
        for address, nbytes in live.items():
            if host_first:
                await rig.uvm.host_access(address, nbytes)
            await rig.kernel(sweep(nbytes), ManagedAccess(address, nbytes))
        order = list(live)
        random.shuffle(order)
        for address in order:
            await rig.driver.memory.free(address)
            del live[address]
            for begin, nbytes in live.items():
                assert all(
                    block.valid & own == own == block.populated & own for block, own in pages.parts(begin, nbytes)
                )
        assert not resident_pages(pages) and not pages.chunks and not pages.remote_pages
        assert not any(block.valid or block.users for block in pages.blocks.values())
        memory = rig.machine.devices[0].memory
        assert memory.free_bytes == memory.capacity

    rig.run(main)
    assert_conserved(rig)


@FUNCTION_SCOPED
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from(["sweep", "scatter", "host", "pin", "free"])), max_size=20
    )
)
def test_what_becomes_of_objects_adds_up_to_the_totals(uvm, steps):
    rig = uvm(small(5))

    async def main():
        sizes = {"a": 3 * BLOCK + 5, "b": PAGE + 1, "c": 2 * BLOCK}
        live = {name: await rig.driver.managed.alloc(nbytes, name=name) for name, nbytes in sizes.items()}
        for name, what in steps:
            address, nbytes = live[name], sizes[name]
            if what == "sweep":
                await rig.kernel(sweep(nbytes), ManagedAccess(address, nbytes))
            elif what == "scatter":
                await rig.kernel(sweep(nbytes), ManagedAccess(address, nbytes, scattered=1e4, writes=()))
            elif what == "host":
                await rig.uvm.host_access(address, nbytes)
            elif what == "pin":
                await rig.driver.managed.advise(address, nbytes, "prefer_host")
            else:
                await rig.driver.memory.free(address)
                live[name] = await rig.driver.managed.alloc(nbytes, name=name)

    rig.run(main)
    assert_conserved(rig)


def test_a_block_is_made_when_it_is_used_and_has_one_owner_then(uvm):
    """A terabyte, of which a program uses one block, and again after it has been freed."""
    rig = uvm(small(6))

    async def main():
        for name in ("first", "second"):
            address = await rig.driver.managed.alloc(1 << 40, name=name)
            used = address + (1 << 39)
            await rig.kernel(sweep(BLOCK), ManagedAccess(used, BLOCK))
            block = rig.uvm.pages.blocks[used // BLOCK]
            assert list(block.users) == [address] and block.valid == block.resident == (1 << BLOCK // PAGE) - 1
            assert rig.uvm.pages.usage[name].faults > 0
            await rig.driver.memory.free(address)
            assert not block.users and not block.valid

    rig.run(main)
    assert len(rig.uvm.pages.blocks) < 8
    assert_conserved(rig)


def test_a_block_that_finds_a_hole_evicts_nothing(uvm):
    rig = uvm(small(6))
    address = rig.array(5 * BLOCK, touched=True)

    async def main():
        await rig.driver.memory.alloc(4096)
        await rig.kernel(sweep(5 * BLOCK), ManagedAccess(address, 5 * BLOCK))
        assert rig.machine.devices[0].memory.free_bytes == 0
        for _ in range(3):
            await rig.driver.memory.alloc(4096)

    rig.run(main)
    assert rig.counters.evictions == 0


def test_a_segment_that_holds_no_block_any_more_is_given_to_managed_memory(uvm):
    rig = uvm(small(6))
    address = rig.array(6 * BLOCK, touched=True)

    async def main():
        await rig.driver.memory.free(await rig.driver.memory.alloc(4096))
        await rig.kernel(sweep(6 * BLOCK), ManagedAccess(address, 6 * BLOCK))

    rig.run(main)
    assert rig.counters.evictions == 0 and rig.counters.remote_maps == 0
    assert resident_pages(rig.uvm.pages) == 6 * BLOCK // PAGE


def test_an_allocation_evicts_as_much_as_its_segments_take(uvm):
    rig = uvm(small(4))
    address = rig.array(4 * BLOCK, touched=True)

    async def main():
        await rig.kernel(sweep(4 * BLOCK), ManagedAccess(address, 4 * BLOCK))
        await rig.driver.memory.alloc(BLOCK + 1, phantom=True)

    rig.run(main)
    assert rig.counters.evictions == 2


# no device memory to be had


@pytest.mark.parametrize("service", [0.0, 40e-6])
def test_a_map_for_want_of_memory_costs_what_the_service_of_a_block_costs(uvm, service):
    def elapsed(cost):
        rig = uvm(small(2) | {"fault.per_vablock": f"{cost} s"})
        address = rig.array(BLOCK, touched=True)

        async def main():
            await rig.driver.memory.alloc(2 * BLOCK, phantom=True)
            await rig.kernel(SWEEP.launch(1, 128, 128), ManagedAccess(address, PAGE))

        rig.run(main)
        assert rig.counters.remote_maps == 1 and rig.counters.bytes_htod == 0
        return rig.sim.now

    assert elapsed(10e-6 + service) - elapsed(10e-6) == pytest.approx(service)


def test_what_found_no_memory_migrates_once_the_program_has_freed_some(uvm):
    rig = uvm(small(4))
    address = rig.array(2 * BLOCK, touched=True)
    migrated = []

    async def main():
        block = await rig.driver.memory.alloc(4 * BLOCK, phantom=True)
        for _ in range(2):
            await rig.kernel(sweep(2 * BLOCK), ManagedAccess(address, 2 * BLOCK))
        assert rig.uvm.pages.remote_pages == 2 * BLOCK // PAGE
        migrated.append(rig.counters.bytes_htod)
        await rig.driver.memory.free(block)
        assert not rig.uvm.pages.remote_pages
        await rig.kernel(sweep(2 * BLOCK), ManagedAccess(address, 2 * BLOCK))
        migrated.append(rig.counters.bytes_htod)

    rig.run(main)
    assert migrated == [0, 2 * BLOCK]
    assert_conserved(rig)


def test_what_prefers_the_host_stays_there_when_memory_is_freed(uvm):
    rig = uvm(small(4))
    address = rig.array(2 * BLOCK, touched=True)

    async def main():
        block = await rig.driver.memory.alloc(4 * BLOCK, phantom=True)
        await rig.kernel(sweep(2 * BLOCK), ManagedAccess(address, 2 * BLOCK))
        await rig.driver.managed.advise(address, BLOCK, "prefer_host")
        await rig.driver.memory.free(block)
        await rig.kernel(sweep(2 * BLOCK), ManagedAccess(address, 2 * BLOCK))

    rig.run(main)
    assert rig.counters.bytes_htod == BLOCK
