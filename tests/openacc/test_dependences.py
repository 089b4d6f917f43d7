"""The dependence tracker: a pure structure; whatever order the queues allow, the result is the program's."""

from __future__ import annotations

import random
from collections.abc import Sequence

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_examples import examples

from offloadrt.extensions.openacc import Dependences, QueuePlacement

A, B, C = (0, 8), (8, 16), (16, 24)


def test_the_example_of_three_arrays() -> None:
    """K1(a), K2(b), K3(c = a + b), K4(c = b + c), then c on the host."""
    known = Dependences(queues=8)
    assert known.place([], [A]) == QueuePlacement(0)
    assert known.place([], [B]) == QueuePlacement(1)
    assert known.place([A, B], [C]) == QueuePlacement(1, waits=(0,))
    assert known.place([B], [C]) == QueuePlacement(1)
    assert known.synchronize([C], []) == (1,)


def test_read_after_write_write_after_read_and_write_after_write_stay_in_order() -> None:
    for first, second in ((([], [A]), ([A], [B])), (([A], [B]), ([], [A])), (([], [A]), ([], [A]))):
        known = Dependences(queues=4)
        placed = known.place(*first)
        assert known.place(*second) == QueuePlacement(placed.queue)


def test_two_readers_may_run_together() -> None:
    known = Dependences(queues=4)
    assert {known.place([A], [B]).queue, known.place([A], [C]).queue} == {0, 1}


def test_a_writer_comes_behind_all_readers() -> None:
    known = Dependences(queues=4)
    known.place([A], [B])
    known.place([A], [C])
    assert known.place([], [A]) == QueuePlacement(1, waits=(0,))


def test_ranges_that_share_one_byte_depend_on_each_other() -> None:
    known = Dependences(queues=4)
    known.place([], [(0, 10)])
    assert known.place([(9, 12)], []) == QueuePlacement(0)
    assert known.place([(10, 12)], []) == QueuePlacement(1)


def test_no_queue_waits_twice_for_the_same_thing() -> None:
    known = Dependences(queues=2)
    known.place([], [A])
    known.place([], [B])
    assert known.place([A], [B]).waits == (0,)
    assert known.place([A], [B]).waits == ()


def test_the_host_waits_only_for_queues_that_are_involved() -> None:
    known = Dependences(queues=4)
    for range_ in (A, B, C):
        known.place([], [range_])
    assert known.synchronize([B], []) == (1,)
    assert known.synchronize([B], []) == ()
    assert known.synchronize_all() == (0, 2)


def test_what_the_host_waited_for_frees_its_queue() -> None:
    known = Dependences(queues=2)
    known.place([], [A])
    known.place([], [B])
    known.synchronize([A], [])
    assert known.place([], [C]).queue == 0


def test_the_host_knows_what_came_before_the_queue_it_waited_for() -> None:
    known = Dependences(queues=4)
    known.place([], [A])
    known.place([], [B])
    known.place([A, B], [C])
    assert known.synchronize([C], []) == (1,)
    assert known.synchronize([A], []) == ()


def test_without_a_free_queue_the_longest_unused_one_is_taken() -> None:
    known = Dependences(queues=2)
    assert [known.place([], [(n, n + 1)]).queue for n in range(5)] == [0, 1, 0, 1, 0]


def test_freed_bytes_are_forgotten() -> None:
    known = Dependences(queues=2)
    known.place([], [A])
    known.forget(A)
    assert known.synchronize([A], []) == ()


def test_there_is_at_least_one_queue() -> None:
    with pytest.raises(ValueError, match="0 queues"):
        Dependences(queues=0)


# Any order that the queues allow gives the sequential result

CELLS = 6


@attrs.frozen
class Operation:
    """Folds the cells that it reads into those that it writes. host: the host does it, after it has synchronised."""

    reads: tuple[int, int]
    writes: tuple[int, int]
    host: bool = False

    def run(self, cells: list[int], number: int) -> None:
        seen = hash((number, *cells[slice(*self.reads)]))
        for cell in range(*self.writes):
            cells[cell] = hash((seen, cells[cell]))


RANGES = st.tuples(st.integers(0, CELLS), st.integers(0, 3)).map(lambda pair: (pair[0], min(CELLS, sum(pair))))
PROGRAMS = st.lists(st.builds(Operation, RANGES, RANGES, st.integers(0, 5).map(lambda n: n == 0)), max_size=14)


class Queues:
    """Queues that run their entries in order, each when all that it waits for has run; who is next, chance decides."""

    def __init__(self, count: int, chance: random.Random) -> None:
        self.entries: list[list[tuple[int, Operation, dict[int, int]]]] = [[] for _ in range(count)]
        self.done = [0] * count
        self.chance = chance

    def put(self, placement: QueuePlacement, number: int, operation: Operation) -> None:
        behind = {queue: len(self.entries[queue]) for queue in placement.waits}
        self.entries[placement.queue].append((number, operation, behind))

    def step(self, cells: list[int]) -> None:
        """One entry of some queue whose head may run."""
        ready = [queue for queue in range(len(self.entries)) if self._may_run(queue)]
        queue = self.chance.choice(ready)
        number, operation, _ = self.entries[queue][self.done[queue]]
        operation.run(cells, number)
        self.done[queue] += 1

    def _may_run(self, queue: int) -> bool:
        if self.done[queue] == len(self.entries[queue]):
            return False
        return all(self.done[other] >= count for other, count in self.entries[queue][self.done[queue]][2].items())

    def drain(self, queues: Sequence[int], cells: list[int]) -> None:
        while any(self.done[queue] < len(self.entries[queue]) for queue in queues):
            self.step(cells)


@examples(300)
@given(PROGRAMS, st.integers(1, 4), st.integers(0, 1 << 30))
def test_any_order_that_the_queues_allow_gives_the_sequential_result(
    program: list[Operation], count: int, seed: int
) -> None:
    expected, cells = [0] * CELLS, [0] * CELLS
    chance = random.Random(seed)
    known, queues = Dependences(count), Queues(count, chance)
    for number, operation in enumerate(program):
        operation.run(expected, number)
        if operation.host:
            queues.drain(known.synchronize([operation.reads], [operation.writes]), cells)
            operation.run(cells, number)
        else:
            queues.put(known.place([operation.reads], [operation.writes]), number, operation)
        while chance.random() < 0.3 and any(map(queues._may_run, range(count))):
            queues.step(cells)
    queues.drain(known.synchronize_all(), cells)
    assert cells == expected
