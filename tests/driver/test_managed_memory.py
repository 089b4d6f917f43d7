"""Managed memory of a discrete device: who owns each page, what faults, and what is evicted."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from managed_rig import BLOCK, PAGE, SWEEP, assert_sound, small, sweep
from property_examples import examples

from offloadrt.driver.uvm.prefetch.tree import with_prefetched
from offloadrt.kernels import Kernel
from offloadrt.machine.managed.block import runs
from offloadrt.machine.managed.pages import LOCAL, REMOTE, UNMAPPED, ManagedPages, divided
from offloadrt.machine.managed.sweep import ByteRuns, ManagedAccess

# the tree prefetcher


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 8]))
def test_the_tree_brings_the_largest_subtree_above_the_threshold(there, faulted, valid, big):
    def around(page, size):
        return {bit for bit in range(page // size * size, page // size * size + size) if valid >> bit & 1}

    faulted &= valid & ~there
    asked = {bit for bit in range(32) if faulted >> bit & 1}
    grown = set().union(*[around(page, big) for page in asked])
    expected = set(grown)
    for page in asked:
        for size in (2, 4, 8, 16, 32):
            subtree = around(page, size)
            there_or_asked = [bit for bit in subtree if there >> bit & 1 or bit in grown]
            if size > big and len(there_or_asked) > 0.51 * len(subtree):
                expected |= subtree
    found = with_prefetched(there, faulted, valid, 32, big, 0.51)
    assert {bit for bit in range(32) if found >> bit & 1} == expected


@given(st.integers(0, 2**32 - 1))
def test_runs_are_the_set(pages):
    assert [bit for low, high in runs(pages) for bit in range(low, high)] == [b for b in range(32) if pages >> b & 1]


# tables


def numbers(sets):
    """Pages of blocks of 8."""
    return [index * 8 + bit for index, pages in sets for bit in range(8) if pages >> bit & 1]


@given(st.lists(st.tuples(st.integers(0, 1100), st.integers(1, 2**8 - 1), st.sampled_from([LOCAL, REMOTE, UNMAPPED]))))
def test_the_byte_table_finds_what_a_dictionary_says(changes):
    pages, states = ManagedPages(8 * PAGE, PAGE), {}
    for index, mask, state in changes:
        pages.set_state(pages.block(index), mask, UNMAPPED)
        pages.set_state(pages.block(index), mask, state)
        states.update({index * 8 + bit: state for bit in range(8) if mask >> bit & 1})
    low, high = 17, 1090 * 8 + 3
    expected = [page for page in range(low, high) if states.get(page, UNMAPPED) == UNMAPPED]
    assert pages.next_unmapped(low, high) == (expected[0] if expected else -1)
    for state in (LOCAL, REMOTE):
        assert pages.translations.how_many(state, low, high) == sum(
            low <= p < high and s == state for p, s in states.items()
        )
    drawn = pages.translations.draw_unmapped(pages.translations.watch(low, high), 20, np.random.default_rng(1))
    assert drawn and set(numbers(drawn)) <= set(expected)
    assert numbers(pages.unmapped(low, high)) == pages.translations.unmapped_numbers(low, high) == expected


@given(st.lists(st.integers(0, 20000), min_size=1, max_size=5).filter(any), st.integers(1, 300), st.integers(0, 99))
def test_draws_are_divided_as_the_generator_does(counts, draws, seed):
    ours, theirs = np.random.default_rng(seed), np.random.default_rng(seed)
    expected = theirs.multinomial(draws, [count / sum(counts) for count in counts]).tolist()
    assert divided(counts, draws, ours) == expected
    assert ours.random() == theirs.random()


# kernels that sweep


def test_a_driver_that_copies_page_by_page_keeps_the_engine_longer_for_each_page_that_moves(uvm):
    nbytes = 20 * BLOCK + 5 * PAGE

    def busy_s(each_s):
        rig = uvm({"block.page_copy": f"{each_s} s"})
        address = rig.array(nbytes, True)

        async def main():
            await rig.kernel(sweep(nbytes), ManagedAccess(address, nbytes))

        rig.run(main)
        return rig.machine.statistics()["device 0 copy engine h2d"].busy_s

    assert busy_s(3e-6) - busy_s(0.0) == pytest.approx(nbytes // PAGE * 3e-6)


@pytest.mark.parametrize("touched", [False, True])
def test_a_first_sweep_migrates_what_the_host_has_written_and_a_second_nothing(uvm, touched):
    rig = uvm()
    nbytes = 20 * BLOCK + 5 * PAGE
    address = rig.array(nbytes, touched)
    faulted = []

    async def main():
        for _ in range(2):
            await rig.kernel(sweep(nbytes), ManagedAccess(address, nbytes))
            faulted.append(rig.counters.gpu_fault_groups)

    rig.run(main)
    assert rig.counters.bytes_htod == (nbytes if touched else 0)
    assert rig.counters.first_on_gpu == (0 if touched else nbytes // PAGE)
    assert faulted[0] == faulted[1] >= 21
    assert rig.counters.evictions == rig.counters.bytes_dtoh == 0
    assert_sound(rig)


def test_a_cyclic_sweep_over_more_than_the_memory_misses_on_every_block_every_time(uvm):
    rig = uvm(small(40))
    nbytes, rounds = 44 * BLOCK, 4
    address = rig.array(nbytes, touched=True)

    async def main():
        for _ in range(rounds):
            await rig.kernel(sweep(nbytes), ManagedAccess(address, nbytes))

    rig.run(main)
    assert rig.counters.bytes_htod == rounds * nbytes
    assert rig.counters.evictions == rounds * 44 - 40
    assert_sound(rig)


@examples(40, HealthCheck.function_scoped_fixture)
@given(
    st.lists(
        st.tuples(st.integers(0, 11), st.integers(1, 12 * 32), st.sampled_from(["sweep", "scatter", "host", "prefetch",
            "prefer_host", "accessed_by", "prefer_nothing", "back"])),
        min_size=1, max_size=12,
    ),
    st.integers(2, 14),
    st.integers(1, 3),
)  # fmt: skip
def test_whatever_happens_at_once_a_page_has_one_owner_and_memory_suffices(uvm, operations, blocks, threads):
    rig = uvm(small(blocks))
    address = rig.array(12 * BLOCK, touched=True)
    fresh = rig.array(12 * BLOCK)

    async def thread(number):
        stream = await rig.driver.streams.create()
        for place, pages, what in operations[number::threads]:
            begin = (fresh if pages % 2 else address) + place * BLOCK
            nbytes = min(pages * PAGE, (12 - place) * BLOCK)
            if what == "sweep":
                await rig.kernel(sweep(nbytes), ManagedAccess(begin, nbytes), ManagedAccess(address, BLOCK, 1))
            elif what == "scatter":
                await rig.kernel(
                    sweep(nbytes), ManagedAccess(begin, nbytes, 0, nbytes / 8), ManagedAccess(address, BLOCK, 1)
                )
            elif what == "host":
                await rig.uvm.host_access(begin, nbytes)
            elif what in ("prefetch", "back"):
                await rig.driver.managed.prefetch(begin, nbytes, stream, what == "back")
                await rig.driver.streams.synchronize(stream)
            else:
                await rig.driver.managed.advise(begin, nbytes, what)
            assert_capacity(rig)

    rig.together(*[lambda number=number: thread(number) for number in range(threads)])
    assert_sound(rig)


def assert_capacity(rig):
    memory = rig.machine.devices[0].memory
    assert memory.managed + memory.used <= memory.capacity


def test_two_kernels_share_the_faults_of_one_array(uvm):
    rig = uvm()
    nbytes = 10 * BLOCK
    address = rig.array(nbytes, touched=True)
    rig.together(*[lambda: rig.kernel(sweep(nbytes), ManagedAccess(address, nbytes))] * 2)
    assert rig.counters.bytes_htod == nbytes
    assert rig.counters.duplicates > 0
    assert_sound(rig)


def test_a_batch_has_at_most_so_many_faults_and_the_rest_is_asked_for_again(uvm):
    rig = uvm({"fault.batch_max": 10, "prefetch.tree": False, "page.gpu_fault": PAGE})
    address = rig.array(BLOCK, touched=True)
    rig.run(lambda: rig.kernel(SWEEP.launch(1, 128, 1), ManagedAccess(address, BLOCK)))
    assert rig.counters.faults == 32
    assert rig.counters.batches == 4
    assert_sound(rig)


def test_levels_are_asked_for_one_after_the_other(uvm):
    rig = uvm()
    arrays = [rig.array(PAGE, touched=True) for _ in range(3)]
    rig.run(
        lambda: rig.kernel(
            SWEEP.launch(1, 128, 1), *[ManagedAccess(one, PAGE, level) for level, one in enumerate(arrays)]
        )
    )
    assert rig.counters.batches == 3


@pytest.mark.parametrize("further", [{"picked": ByteRuns(200.0, 8.0)}, {"scattered": 200.0}])
def test_teams_that_only_read_device_memory_make_room_as_those_that_find_their_pages(uvm, further):
    """A kernel whose first accesses are to a device block is one whose first accesses are to pages that it has."""
    count = 1 << 24
    launch = SWEEP.launch(count // 128, 128, count)

    def batches(mask_is_managed):
        rig = uvm()
        mask = ManagedAccess(rig.array(count, touched=True), count)
        nodes = ManagedAccess(rig.array(8 * count, touched=True), 8 * count, 1, **further)

        async def main():
            await rig.kernel(launch, mask)
            before = rig.counters.batches
            await rig.kernel(launch, *([mask] if mask_is_managed else []), nodes)
            return rig.counters.batches - before

        return rig.run(main)

    assert batches(False) == batches(True) <= 8  # 200 faults, of which each look of the handler finds some


@pytest.mark.parametrize("touched", [0, PAGE, BLOCK])
def test_what_a_fault_takes_alone_is_the_sum_of_its_parts(uvm, touched):
    rig = uvm({"prefetch.threshold": 0.0})  # a fault brings all of its block, of the host as of the GPU
    address, value = rig.array(BLOCK, touched=False), rig.machine.spec.value

    async def main():
        await rig.uvm.host_access(address, touched)
        begin = rig.sim.now
        await rig.kernel(Kernel("one").launch(1), ManagedAccess(address, PAGE))
        return rig.sim.now - begin

    costs = ["launch.latency", "fault.interrupt", "fault.fetch_base", "fault.per_vablock"]
    expected = sum(value(key) for key in costs)
    entries = PAGE / value("page.gpu_fault")  # the GPU reports 4 KiB at a time, which the fetch makes one entry
    expected += entries * value("fault.fetch") + value("fault.preprocess") + value("fault.service")
    expected += value("block.dma_map") + value("block.unmap") if touched else 0.0
    copy = (value("copy.latency") + BLOCK / value("link.h2d_pinned")) if touched else 0.0
    expected += max(copy, value("fault.replay"))  # the copy goes on meanwhile
    assert rig.run(main) == pytest.approx(expected)


def test_the_block_whose_last_fault_is_the_longest_ago_is_evicted(uvm):
    rig = uvm(small(3) | {"prefetch.tree": False})
    blocks = [rig.array(BLOCK, touched=True) for _ in range(4)]

    async def main():
        for which, page in ((0, 0), (1, 0), (2, 0), (0, 0), (0, 1), (1, 0), (3, 0)):
            await rig.kernel(SWEEP.launch(1, 128, 1), ManagedAccess(blocks[which] + page * PAGE, PAGE))

    rig.run(main)
    assert [rig.uvm.pages.block(one // BLOCK).resident for one in blocks] == [0b11, 0, 0b1, 0b1]


def test_scattered_accesses_bring_every_page_in_the_end(uvm):
    rig = uvm()
    address = rig.array(8 * BLOCK, touched=True)
    rig.run(lambda: rig.kernel(sweep(64 * BLOCK), ManagedAccess(address, 8 * BLOCK, scattered=1e6)))
    assert rig.counters.bytes_htod == 8 * BLOCK
    assert_sound(rig)


def test_a_kernel_notices_what_is_evicted_while_it_runs(uvm):
    slow = Kernel("slow", flops_per_iteration=1e6).launch(8 * BLOCK // 1024, 128, 8 * BLOCK // 8)
    rig = uvm({"launch.latency": 0})
    address = rig.array(8 * BLOCK, touched=True)

    async def main():
        stream = await rig.driver.streams.create()
        await rig.driver.managed.prefetch(address, 8 * BLOCK, stream)
        await rig.driver.streams.synchronize(stream)
        async with rig.sim.open_nursery() as nursery:
            nursery.spawn(rig.kernel, slow, ManagedAccess(address, 8 * BLOCK))
            await rig.sim.sleep(1e-3)
            await rig.uvm.host_access(address + 4 * BLOCK, 2 * BLOCK)

    rig.run(main)
    assert rig.counters.bytes_htod == 10 * BLOCK
    assert_sound(rig)


def test_both_gears_give_the_same_hash(uvm):
    def hash_of(gear):
        rig = uvm(small(20), gear=gear, record=True)
        address = rig.array(24 * BLOCK, touched=True)

        async def thread(number):
            await rig.kernel(sweep(24 * BLOCK), ManagedAccess(address, 24 * BLOCK, 0, 1e4 * number))
            await rig.uvm.host_access(address, BLOCK)

        rig.together(*[lambda number=number: thread(number) for number in range(3)])
        return rig.trace.hash()

    assert hash_of("native") == hash_of("turbo")


def busy_in_short_windows(rig, kernel, statistics):
    """Of a fault handler, window by window of 7 us, while a kernel runs: the fraction of each in which it was busy."""
    begin_and_end = []

    async def look():
        while True:
            begin_and_end.append((rig.sim.now, statistics()))
            await rig.sim.sleep(7e-6)

    async def main():
        rig.sim.spawn(look, daemon=True)
        await kernel()

    rig.run(main)
    windows = itertools.pairwise(begin_and_end)
    for now, one in begin_and_end:
        assert one.busy_s + one.idle_s == pytest.approx(now, abs=1e-12)
    return [(after.busy_s - before.busy_s) / (end - begin) for (begin, before), (end, after) in windows]


def test_a_handler_is_never_busier_than_all_the_time_in_any_window(uvm, apu):
    rig = uvm()
    array = rig.array(4 * BLOCK, touched=True)
    access = ManagedAccess(array, 4 * BLOCK)
    managed = busy_in_short_windows(rig, lambda: rig.kernel(sweep(4 * BLOCK), access), rig.uvm.handler.statistics)
    rig = apu()
    there = rig.array(4 * BLOCK)
    unified = busy_in_short_windows(rig, lambda: rig.kernel(sweep(4 * BLOCK), there), lambda: rig.faults)
    for busy in (managed, unified):
        assert min(busy) >= 0.0 and max(busy) == pytest.approx(1.0)
