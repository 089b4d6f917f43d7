"""What a sweep that leaves some of an array out touches of it, counted place by place."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offloadrt.machine.managed.sweep import ByteRuns, ManagedAccess


@pytest.mark.parametrize("size", [32, 4096])
@pytest.mark.parametrize("alignment", [1, 4, 8, 12, 32, 96])
@pytest.mark.parametrize("elements", [1, 2, 7])
@pytest.mark.parametrize("density", [0.05, 0.5])
def test_the_part_of_the_pieces_is_what_random_places_touch(
    size: int, alignment: int, elements: int, density: float
) -> None:
    rng = np.random.default_rng(1)
    pieces, run = 3 * 20_000, elements * alignment
    nbytes = pieces * size
    picked = int(density * nbytes / (size + run))
    begins = rng.integers(0, nbytes // alignment, picked) * alignment
    touched = np.zeros(pieces, bool)
    for piece in range(-(-run // size) + 1):
        met = begins // size + piece
        touched[met[met * size < begins + run] % pieces] = True
    expected = ManagedAccess(0, nbytes, picked=ByteRuns(picked, run, alignment)).part_of_pages(size)
    assert touched.mean() == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("distance", [8, 24, 512, 4096, 5000, 3 * 4096])
@pytest.mark.parametrize("chosen", [0.03, 0.5, 0.97, 1.0])
def test_of_places_at_even_distances_each_is_chosen_once(distance: int, chosen: float) -> None:
    rng = np.random.default_rng(1)
    size, pieces = 4096, 3 * 4000
    begins = np.arange(0, size * pieces, distance)
    touched = np.zeros(pieces, bool)
    touched[begins[rng.random(len(begins)) < chosen] // size] = True
    picked = ByteRuns(chosen * len(begins), 8.0, 8, among=len(begins))
    assert touched.mean() == pytest.approx(ManagedAccess(0, size * pieces, picked=picked).part_of_pages(size), rel=0.07)


@given(st.integers(1, 10**6), st.sampled_from([1, 2, 4, 8, 16, 32]))
def test_places_that_are_far_apart_and_aligned_to_their_length_touch_one_piece_each(picked: int, run: int) -> None:
    nbytes = 1 << 50
    part = ManagedAccess(0, nbytes, picked=ByteRuns(picked, run, run)).part_of_pages(32)
    assert part * nbytes / 32 == pytest.approx(picked, rel=1e-3)


def test_no_place_touches_nothing() -> None:
    assert ManagedAccess(0, 1 << 20, picked=ByteRuns(0.0, 8.0, among=64)).part_of_pages(4096) == 0.0


def test_a_sweep_that_leaves_nothing_out_touches_everything() -> None:
    assert ManagedAccess(0, 1 << 20).part_of_pages(32) == 1.0
