"""Sets of pages, against lists of page numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from offloadrt.machine.managed.block import begun, up_to

SETS = st.lists(st.tuples(st.integers(0, 9), st.integers(1, (1 << 64) - 1)), max_size=4, unique_by=lambda one: one[0])


def numbers(sets: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """(block, page) of each page, in order."""
    return [(index, page) for index, pages in sets for page in range(64) if pages >> page & 1]


@given(sets=SETS, count=st.integers(0, 300))
def test_the_first_pages_are_the_first_of_their_list(sets: list[tuple[int, int]], count: int) -> None:
    assert numbers([*up_to(sets, count)]) == numbers(sets)[:count]


@given(sets=SETS.filter(bool), reports=st.integers(1, 5), few=st.integers(0, 100))
def test_a_page_counts_as_soon_as_one_of_its_reports_is_among_them(
    sets: list[tuple[int, int]], reports: int, few: int
) -> None:
    listed = [page for page in numbers(sets) for _ in range(reports)]
    assert numbers([*begun(sets, len(listed), min(few, len(listed)))]) == sorted(set(listed[:few]), key=listed.index)
