"""Warps whose uTLB holds faults back: who waits for whom, against a slow model that takes one request after another."""

from __future__ import annotations

from collections import OrderedDict

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offloadrt.machine.managed.block import how_many
from offloadrt.machine.managed.pages import LOCAL, UNMAPPED, ManagedPages
from offloadrt.machine.managed.warps import Warps

Requests = list[list[int]]
"""The pages of each request of a warp."""


def memory() -> ManagedPages:
    """Blocks of one page, so that a page is evicted alone."""
    return ManagedPages(1, 1)


def warps_of(courses: list[Requests], tlbs: list[int], room: int) -> Warps:
    """Let each warp make its requests, one after the other, through its uTLB."""
    requests = [request for course in courses for request in course]
    numbers = [number for number, request in enumerate(requests) for _ in request]
    pages = np.array([page for request in requests for page in request], np.int64)
    starts = np.cumsum([0, *map(len, requests)])
    ends = np.cumsum([len(course) for course in courses])
    firsts = np.array([0, *ends[:-1]], np.int64)
    of_entries, order = np.array(numbers, np.int64), np.arange(len(courses))
    return Warps(pages, np.zeros(pages.size, bool), of_entries, starts, firsts, ends, np.array(tlbs), order, room)


def change(pages: ManagedPages, page: int, state: int) -> None:
    pages.set_state(pages.block(page), 1, state)


def fetched(courses: list[Requests], tlbs: list[int], room: int, capacity: int) -> int:
    """Serve one page after the other, the least recently fetched makes room; return how many were fetched."""
    pages, warps, there, count = memory(), warps_of(courses, tlbs, room), OrderedDict[int, None](), 0
    warps.go_on(pages, {})
    while missing := warps.missing(pages, 1.0)[0]:
        page = missing[0][0]
        if len(there) == capacity:
            change(pages, there.popitem(last=False)[0], UNMAPPED)
        change(pages, page, LOCAL)
        there[page] = None
        count += 1
        warps.go_on(pages, {page: 1})
    return count


@pytest.mark.parametrize("capacity", [1, 3, 8, 9, 12])
def test_warps_of_one_utlb_store_when_all_have_loaded(capacity: int) -> None:
    """So a page that is loaded and stored comes twice, if memory is too small for the pages of all.

    While the last load waits, the stores behind it are under way: nine places are enough.
    """
    courses = [[[page], [page]] for page in range(10)]
    assert fetched(courses, [0] * 10, 1, capacity) == (20 if capacity < 9 else 10)


def test_a_warp_alone_stores_to_the_page_that_it_has_loaded() -> None:
    assert fetched([[[page], [page]] for page in range(10)], [*range(10)], 56, 1) <= 20
    assert fetched([[[page], [page]] for page in range(10)], [*range(10)], 56, 10) == 10


def test_a_utlb_holds_back_so_many_faults_and_takes_no_more_until_all_are_served() -> None:
    pages = memory()
    warps = warps_of([[[*range(64)], [*range(64, 96)]]], [0], 56)
    batches = []
    warps.go_on(pages, {})
    while missing := warps.missing(pages, 1.0)[0]:
        batches.append(how_many(missing))
        for page, _ in missing:
            change(pages, page, LOCAL)
        warps.go_on(pages, dict(missing))
    assert batches == [56, 8, 32]


def test_what_is_there_waits_behind_what_is_not_and_may_be_gone() -> None:
    pages = memory()
    for page in (1, 2):
        change(pages, page, LOCAL)
    warps = warps_of([[[0]], [[1], [2]], [[1], [2]]], [0, 0, 1], 56)
    warps.go_on(pages, {})
    assert dict(warps.missing(pages, 1.0)[0]) == {0: 1}
    change(pages, 2, UNMAPPED)
    change(pages, 0, LOCAL)
    warps.go_on(pages, {0: 1})
    assert dict(warps.missing(pages, 1.0)[0]) == {2: 1}, (
        "the second warp waited; the third, on another uTLB, is through"
    )
    change(pages, 2, LOCAL)
    warps.go_on(pages, {2: 1})
    assert not warps.missing(pages, 1.0)[0]


@attrs.define
class SlowTlb:
    """A uTLB that takes its warps' requests turn by turn."""

    waiting: list[tuple[int, int, int]]
    """(turn in which the request was made, warp, its request)."""
    held: list[tuple[int, int]] = attrs.field(factory=list)
    """(warp, page)."""
    done: set[tuple[int, int, int]] = attrs.field(factory=set)

    def go_on(self, courses: list[Requests], there: set[int], came: set[int], room: int) -> None:
        now = {(warp, page) for warp, page in self.held if page in there or page in came}
        current = {warp: request for _, warp, request in self.waiting}
        self.done |= {(warp, current[warp], page) for warp, page in now}
        self.held = [each for each in self.held if each not in now]
        while self.waiting and not self.held:
            after, full = list[tuple[int, int, int]](), False
            for turn, warp, request in sorted(self.waiting):
                course, missing = courses[warp], list[int]()
                for page in [] if full else course[request]:
                    if page in there or (warp, request, page) in self.done:
                        self.done.add((warp, request, page))
                        continue
                    if len({held for _, held in self.held} | {*missing, page}) > room:
                        full = True
                        break
                    missing.append(page)
                if full or missing:
                    after.append((turn, warp, request))
                elif request + 1 < len(course):
                    after.append((turn + 1, warp, request + 1))
                self.held += [(warp, page) for page in missing]
            self.waiting = after


REQUEST = st.lists(st.integers(0, 7), min_size=1, max_size=3, unique=True).map(sorted)
COURSES = st.lists(st.lists(REQUEST, min_size=1, max_size=5), min_size=1, max_size=6)


@given(COURSES, st.integers(1, 3), st.integers(2, 5), st.data())
def test_it_is_what_taking_one_request_after_the_other_gives(
    courses: list[Requests], tlbs: int, room: int, data: st.DataObject
) -> None:
    pages, there, came = memory(), set[int](), set[int]()
    warps = warps_of(courses, [warp % tlbs for warp in range(len(courses))], room)
    slow = [SlowTlb([(0, warp, 0) for warp in range(len(courses)) if warp % tlbs == tlb]) for tlb in range(tlbs)]
    for _ in range(200):
        warps.go_on(pages, dict.fromkeys(came, 1))
        for tlb in slow:
            tlb.go_on(courses, there, came, room)
        expected = {page for tlb in slow for _, page in tlb.held}
        assert {page for page, _ in warps.missing(pages, 1.0)[0]} == expected
        if not expected:
            break
        came = {data.draw(st.sampled_from(sorted(expected)))}
        gone = data.draw(st.sets(st.integers(0, 7), max_size=2))
        for page in came - there:
            change(pages, page, LOCAL)
        for page in gone & (there | came):
            change(pages, page, UNMAPPED)
        there = (there | came) - gone
    else:
        pytest.fail("it does not end")
