"""Kernels whose indices are data, in managed memory: they move the pages that their lists name, and no others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from offloadrt import Run
from offloadrt.kernels import kernel
from offloadrt.models.cuda import CUDAOptions

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
PAGE, WORDS = 4096, 1024
EXACT = {"prefetch.tree": False}


@kernel(threads_per_team=256, precision="single")
def increment(data: Floats, pages: Ints, words: int) -> None:
    for k in range(len(pages)):
        data[pages[k] * words] = data[pages[k] * words] + 1.0


@kernel(threads_per_team=128)
def multiply(rows: Ints, columns: Ints, x: Floats, y: Floats) -> None:
    for i in range(len(y)):
        total = 0.0
        for e in range(rows[i], rows[i + 1]):
            total += x[columns[e]]
        y[i] = total


@kernel(threads_per_team=256, precision="single")
def walk(data: Floats, each: int, words: int) -> None:
    for thread in range(256):
        for page in range(each):
            data[(thread * each + page) * words] = 1.0


def bytes_of(nest, launches, *arguments, phantom=False, settings=EXACT):
    """Bytes to the device after each launch of a kernel on managed arrays that the host has written, and the run.

    arguments: arrays of numbers, (elements, type) of others, and numbers
    """
    moved = []

    async def main(t):
        made = []
        for number, argument in enumerate(arguments):
            if isinstance(argument, int):
                made.append(argument)
                continue
            known = isinstance(argument, np.ndarray)
            size, kind = (argument.size, argument.dtype) if known else argument
            array = await t.malloc_managed(f"a{number}", size, kind, written=True)
            if known and not phantom:
                array[:] = argument
            made.append(array)
        for _ in range(launches):
            await t.launch(nest, *made, grid=64, block=256)
            await t.device_synchronize()
            moved.append(int(run.statistics.faults["bytes_transfer_htod"]))

    run = Run(machine="t4")
    run.options = CUDAOptions(phantom=phantom)
    for name, value in settings.items():
        run.set(name, value)
    run.sim.run(lambda: run.parallel(main))
    return moved, run


def pages_of(elements, itemsize):
    return np.unique(np.asarray(elements) * itemsize // PAGE).size


@given(st.lists(st.integers(0, 511), min_size=1, max_size=64), st.integers(1, 3))
def test_the_pages_of_a_list_come_once_and_no_others(listed, launches):
    pages = np.array(listed, np.int64)
    moved, _ = bytes_of(increment, launches, (512 * WORDS, np.float32), pages, WORDS)
    assert moved == [(pages_of(pages * WORDS, 4) + pages_of(np.arange(pages.size), 8)) * PAGE] * launches


def test_a_sparse_product_moves_the_pages_that_its_columns_name():
    rng = np.random.default_rng(5)
    rows = np.concatenate([[0], np.cumsum(rng.integers(0, 7, 3000))])
    columns = rng.choice([0, 5000, 90_000, 400_001], rows[-1]) + rng.integers(0, 16, rows[-1])
    moved, _ = bytes_of(multiply, 1, rows, columns, (1 << 20, np.float32), (3000, np.float32))
    parts = pages_of(np.arange(rows.size), 8), pages_of(np.arange(columns.size), 8), pages_of(columns, 4)
    assert moved == [(sum(parts) + pages_of(np.arange(3000), 4)) * PAGE]


def test_other_numbers_in_the_list_are_other_pages():
    first, second = (bytes_of(increment, 1, (512 * WORDS, np.float32), np.arange(n), WORDS)[0] for n in (10, 200))
    assert second[0] - first[0] == 190 * PAGE


def test_a_list_without_numbers_names_the_same_pages_at_each_launch_and_the_run_says_that_it_is_drawn():
    arguments = (4096 * WORDS, np.float32), (200, np.int64), WORDS
    moved, run = bytes_of(increment, 3, *arguments, phantom=True)
    assert moved[0] == moved[1] == moved[2] > 150 * PAGE
    assert run.statistics.kernels_of_drawn_uses == ("increment",)
    _, exact = bytes_of(increment, 1, (512 * WORDS, np.float32), np.arange(200), WORDS)
    assert exact.statistics.kernels_of_drawn_uses == ()


@pytest.mark.parametrize("phantom", [False, True])
def test_threads_that_walk_meet_pages_of_all_blocks_at_one_time(phantom):
    """256 threads of one SM, each in 64 pages of its own, of which 512 are a block. Their uTLB holds back the faults of
    56 threads, which lie in 7 blocks; a sweep has those of one.
    """
    moved, run = bytes_of(walk, 2, (256 * 64 * WORDS, np.float32), 64, WORDS, phantom=phantom)
    assert moved == [256 * 64 * PAGE] * 2
    blocks = [batch.blocks for batch in run.statistics.fault_batches]
    assert max(blocks) == 7 and np.median(blocks) >= 4


def test_a_walk_through_a_little_too_much_memory_brings_all_of_it_back_in_each_pass():
    """Pages that are there wait behind missing ones and are evicted meanwhile, as an RTX 5070 Ti was measured to do."""
    blocks, room = 64, 60
    size = {"mem.size": f"{room * 2 << 20} B", "mem.reserved": 0}
    moved, _ = bytes_of(walk, 3, (blocks * 512 * WORDS, np.float32), blocks * 2, WORDS, phantom=True, settings=size)
    first, second, third = np.diff([0, *moved])
    assert first >= blocks * 2 << 20
    assert second >= blocks * 2 << 20 and third >= blocks * 2 << 20
