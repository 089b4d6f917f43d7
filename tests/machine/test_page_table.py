"""A page table is a set of pages: compared with a plain set, page by page."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offloadrt.machine import PageTable

PAGE = 16
RANGE = st.tuples(st.integers(0, 40 * PAGE), st.integers(0, 12 * PAGE))
STEP = st.tuples(st.sampled_from(["insert", "remove"]), RANGE)


def pages(begin, nbytes):
    return set(range(begin // PAGE, -(-(begin + nbytes) // PAGE))) if nbytes else set()


@given(st.lists(STEP, max_size=30), st.lists(RANGE, min_size=1, max_size=4))
def test_a_page_table_is_a_set_of_pages(steps, asked):
    table, model, touches = PageTable(PAGE), set(), tuple(asked)
    for what, (begin, nbytes) in steps:
        touched = pages(begin, nbytes)
        generation = table.generation
        if what == "insert":
            assert table.insert(begin, begin + nbytes) == len(touched - model)
            model |= touched
        else:
            assert table.remove(begin, begin + nbytes) == len(touched & model)
            assert (table.generation != generation) == bool(touched & model)
            model -= touched
        assert table.pages == len(model)
        for one in asked:
            gaps = table.missing(*one)
            assert {page for low, high in gaps for page in pages(low, high - low)} == pages(*one) - model
            assert all(low % PAGE == high % PAGE == 0 and low < high for low, high in gaps)
            assert all(before[1] < after[0] for before, after in pairwise(gaps)), "not merged"
            assert table.covers(*one) == (pages(*one) <= model)
        assert table.covers_all(touches) == all(pages(*one) <= model for one in asked)


def test_gigabytes_cost_no_more_than_a_page():
    table = PageTable(4096)
    assert table.insert(0, 100 << 30) == (100 << 30) // 4096
    assert table.remove(50 << 30, (50 << 30) + 1) == 1
    assert table.missing(0, 100 << 30) == [(50 << 30, (50 << 30) + 4096)]


def test_what_is_no_range_or_no_page_is_refused():
    with pytest.raises(ValueError, match="-1 bytes"):
        PageTable(PAGE).missing(0, -1)
    with pytest.raises(ValueError, match="pages of 0 bytes"):
        PageTable(0)
