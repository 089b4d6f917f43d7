"""What a nest's source is evaluated to, thread by thread, is what plain Python loops come to."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from offloadrt.kernels import Kernel, expect, kernel
from offloadrt.kernels.element_traces import ElementTrace

Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]


def trace_of(nest: Kernel, *arguments, wanted=None, grain=8):
    """The trace of a launch with these arguments; shapes of arrays that have no numbers are given by `Shape`."""
    analysis = nest.analysis
    names = dict(zip(analysis.parameters, arguments, strict=True))
    arrays = [name for name, argument in names.items() if hasattr(argument, "shape")]
    return ElementTrace(analysis, analysis.counted_launch(arguments), names, frozenset(wanted or arrays), grain)


class Shape:
    """An array of which only the shape is known."""

    def __init__(self, *shape, dtype=np.float64):
        self.shape, self.dtype = shape, np.dtype(dtype)


def visited(trace, count):
    """Array -> [(lane, element, stored)] in each lane's order."""
    found, _ = trace.visits(np.arange(count))
    entries = {}
    for visits in found:
        rows = zip(visits.lanes.tolist(), visits.moments.tolist(), visits.elements.tolist(), strict=True)
        entries.setdefault(visits.array, []).extend(
            (lane, when, element, visits.stores) for lane, when, element in rows
        )
    return {
        name: [(lane, element, stored) for lane, _, element, stored in sorted(rows)] for name, rows in entries.items()
    }


@kernel
def gather(data: Doubles, pages: Ints, words: int, out: Doubles) -> None:
    for k in range(len(pages)):
        out[k] = data[pages[k] * words]


@kernel
def product(rows: Ints, columns: Ints, values: Doubles, x: Doubles, y: Doubles) -> None:
    for i in range(len(y)):
        total = 0.0
        for e in range(rows[i], rows[i + 1]):
            total += values[e] * x[columns[e]]
        y[i] = total


@kernel
def hinted_product(rows: Ints, columns: Ints, values: Doubles, x: Doubles, y: Doubles, each: int) -> None:
    for i in range(len(y)):
        total = 0.0
        for e in expect(range(rows[i], rows[i + 1]), trips=each):
            total += values[e] * x[columns[e]]
        y[i] = total


@kernel
def chosen_rows(chosen: Ints, rows: Ints, data: Doubles) -> None:
    for k in range(len(chosen)):
        row = chosen[k]
        for e in expect(range(rows[row], rows[row + 1]), trips=8):
            data[e] = 1.0


@kernel
def masked(mask: Ints, table: Ints, data: Doubles) -> None:
    for i in range(len(mask)):
        place = table[i]
        if mask[i] > 0 and place % 2 == 0:
            data[place] = 1.0
        else:
            place = len(data) - 1 - place
            data[place] += 2.0


@kernel
def chunks(data: Doubles, each: int) -> None:
    for thread in range(len(data) // each):
        for k in range(each):
            data[thread * each + k] = 1.0


@kernel
def computed(data: Doubles, trips: Ints) -> None:
    for i in range(len(data)):
        value = data[i]
        for k in range(trips[i]):
            value = value * 0.5 + k
        data[i] = value


@given(st.lists(st.integers(0, 15), min_size=1, max_size=40))
def test_a_computed_index_is_exact(pages):
    data, listed = np.zeros(16 * 4), np.array(pages)
    found = visited(trace_of(gather, data, listed, 4, np.zeros(len(pages))), len(pages))
    assert found["data"] == [(lane, page * 4, False) for lane, page in enumerate(pages)]
    assert found["pages"] == [(lane, lane, False) for lane in range(len(pages))]
    assert found["out"] == [(lane, lane, True) for lane in range(len(pages))]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12), st.integers(0, 2**32 - 1))
def test_a_sparse_product_comes_to_the_entries_of_its_rows(lengths, seed):
    rows = np.concatenate([[0], np.cumsum(lengths)])
    columns = np.random.default_rng(seed).integers(0, len(lengths), rows[-1])
    arguments = rows, columns, np.zeros(rows[-1]), np.zeros(len(lengths)), np.zeros(len(lengths))
    found = visited(trace_of(product, *arguments), len(lengths))
    entries = [(i, e) for i in range(len(lengths)) for e in range(rows[i], rows[i + 1])]
    assert found.get("values", []) == [(i, e, False) for i, e in entries]
    assert found.get("x", []) == [(i, columns[e], False) for i, e in entries]
    assert found["y"] == [(i, i, True) for i in range(len(lengths))]


@given(st.lists(st.tuples(st.integers(-1, 1), st.integers(0, 9)), min_size=1, max_size=30))
def test_a_branch_that_data_decide_is_taken_by_its_own_lanes(pairs):
    mask, table = (np.array(column) for column in zip(*pairs, strict=True))
    found = visited(trace_of(masked, mask, table, np.zeros(10)), len(pairs))
    expected = []
    for lane, (bit, place) in enumerate(pairs):
        if bit > 0 and place % 2 == 0:
            expected.append((lane, place, True))
        else:
            expected += [(lane, 9 - place, False), (lane, 9 - place, True)]
    assert sorted(found["data"]) == sorted(expected)


@given(st.integers(1, 40), st.integers(1, 6), st.sampled_from([8, 32, 64]))
def test_of_neighbours_within_a_grain_one_stands_for_all(each, threads, grain):
    """Every grain of a chunk is met, and each thread meets its chunk in order."""
    trace = trace_of(chunks, np.zeros(each * threads), each, grain=grain)
    found = visited(trace, threads)["data"]
    places = grain // 8
    for thread in range(threads):
        own = [element for lane, element, _ in found if lane == thread]
        assert own == sorted(own)
        assert {element // places for element in own} == {
            element // places for element in range(thread * each, (thread + 1) * each)
        }
        assert len(own) <= each // places + 2
    assert trace.walks == (each > places)


@given(st.lists(st.integers(0, 1 << 40), min_size=1, max_size=20))
def test_a_loop_without_accesses_takes_no_work_however_many_trips_it_has(trips):
    found = visited(trace_of(computed, np.zeros(len(trips)), np.array(trips)), len(trips))
    assert found["trips"] == [(lane, lane, False) for lane in range(len(trips))]
    assert found["data"] == [(lane, lane, stored) for lane in range(len(trips)) for stored in (False, True)]


def test_a_list_without_numbers_is_drawn_and_the_same_each_time():
    trace = trace_of(gather, Shape(1 << 20), Shape(1000, dtype=np.int64), 1, Shape(1000))
    first, again = visited(trace, 1000), visited(trace, 1000)
    assert first == again
    assert [*trace.assumed] == ["data"]
    places = {element for _, element, _ in first["data"]}
    assert len(places) > 950 and max(places) > 3 << 18


@given(st.integers(1, 30), st.integers(1, 9))
def test_rows_of_equal_length_lie_where_real_ones_do_also_where_their_ends_are_unknown(n, each):
    """They follow one another in the order of the array from which their ends are read."""
    shapes = Shape(n + 1, dtype=np.int64), Shape(n * each, dtype=np.int64), Shape(n * each), Shape(n), Shape(n)
    real = np.arange(n + 1) * each, np.zeros(n * each, np.int64), *shapes[2:]
    hinted, known = visited(trace_of(hinted_product, *shapes, each), n), visited(trace_of(product, *real), n)
    assert hinted["values"] == known["values"] and hinted["columns"] == known["columns"]


def test_rows_in_an_order_that_nobody_knows_begin_anywhere_and_are_walked_through():
    trace = trace_of(chosen_rows, *(Shape(1000, dtype=np.int64) for _ in range(2)), Shape(1 << 20))
    rows = np.array([element for _, element, _ in visited(trace, 1000)["data"]]).reshape(1000, 8)
    assert (np.diff(rows, axis=1) == 1).all()
    assert len({*(rows[:, 0] >> 15)}) > 30  # nearly all of 32 equal parts of the array


@kernel
def near(data: Doubles, listed: Ints) -> None:
    for k in range(len(listed)):
        data[expect(listed[k], near=1)] = 1.0


def test_what_is_declared_near_lies_in_the_iteration_s_own_part():
    trace = trace_of(near, Shape(64 * 512), Shape(64, dtype=np.int64))
    assert [element // 512 for _, element, _ in visited(trace, 64)["data"]] == [*range(64)]


@pytest.mark.parametrize("index", [[3, 1, 2], [0, 0, 0]])
def test_what_the_kernel_stores_is_not_known(index):
    """The list is an array that the kernel writes: its numbers are those of before."""

    @kernel
    def shifts(listed: Ints, data: Doubles) -> None:
        for k in range(len(data)):
            listed[k] = k
            data[listed[k]] = 1.0

    trace = trace_of(shifts, np.array(index), np.zeros(3))
    assert not trace.is_known and trace.wanted - trace.with_known_indices == {"data"}


@kernel(collapse=2)
def transposed(a: Doubles, b: Doubles, n: int) -> None:
    for i in range(n):
        for j in range(n):
            b[j, i] = a[i, j]


@given(st.integers(1, 24), st.sampled_from([8, 16, 64]))
def test_a_transposition_comes_to_every_grain_of_both_arrays(n, grain):
    """Neighbouring iterations that stay within a grain of each array are one: here none are."""
    trace = trace_of(transposed, np.zeros((n, n)), np.zeros((n, n)), n, grain=grain)
    found = visited(trace, n * n)
    assert found["a"] == [(lane, lane, False) for lane in range(n * n)]
    assert found["b"] == [(lane, lane % n * n + lane // n, True) for lane in range(n * n)]
    assert trace.strides_apart == (n > 1 and n * 8 >= grain)
    assert trace.together == 1 or n * 8 * trace.together <= grain


@kernel(collapse=2)
def filled(b: Doubles, n: int) -> None:
    for i in range(n):
        for j in range(n):
            b[i, j] = 1.0


def test_rows_in_the_order_of_the_iterations_are_swept():
    trace = trace_of(filled, np.zeros((64, 64)), 64, grain=64)
    assert not trace.strides_apart and not trace.walks
    assert trace.together == 8
