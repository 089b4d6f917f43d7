"""Any lock policy that keeps the protocol runs to the end, the same in both gears; one that breaks it is refused."""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection, Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_examples import examples
from table_rig import device_table, together

from offloadrt.machine.host_lock import HostLock, LockRequest, lock_policy
from offloadrt.sim import Simulation

HANDOVER = 0.25


class Random:
    """Admits whom a seeded generator draws, whatever they ask for; somebody, when nobody holds the lock."""

    name = "random"

    def __init__(self, seed: int, hands_over: bool, shares: bool) -> None:
        self.hands_over, self.shares = hands_over, shares
        self._draw = random.Random(seed)

    def admit(self, holders: Collection[LockRequest], waiting: Sequence[LockRequest]) -> Sequence[LockRequest]:
        assert self.shares or not holders
        most = len(waiting) if self.shares else 1
        return self._draw.sample(list(waiting), self._draw.randint(0 if holders else 1, most))


class ReadersFirst:
    """Readers share; who changes something is alone, and comes when no reader waits. Who may not enter tries again."""

    name, hands_over, shares = "readers first", False, True

    def admit(self, holders: Collection[LockRequest], waiting: Sequence[LockRequest]) -> Sequence[LockRequest]:
        if any(holder.changes for holder in holders):
            return ()
        return [request for request in waiting if not request.changes] or ([] if holders else list(waiting[:1]))


class HandingOver(ReadersFirst):
    hands_over = True


class Visits:
    """Threads that visit a lock at drawn times; each visit is noted with its beginning and its end."""

    def __init__(self, seed: int, policy: Any, gear: Any, threads: int, cores: int, impatient: bool) -> None:
        self.sim = Simulation(gear=gear, seed=seed)
        self.lock = device_table(self.sim, policy, cores)
        self.inside: list[tuple[str, bool]] = []
        self.log: list[tuple[float, str, str]] = []
        self.held_s = 0.0
        self._impatient = impatient
        draws = [random.Random(f"{seed} {number}") for number in range(threads)]
        together(self.sim, self.lock, *[lambda draw=draw: self._body(draw) for draw in draws])

    async def _body(self, draw: random.Random) -> None:
        for _ in range(6):
            await self.sim.sleep(draw.choice([0.0, 0.25, draw.random()]))
            with self.sim.move_on_after(draw.choice([0.3, 1.0])) if self._impatient else nullcontext():
                await self._visit(draw)

    async def _visit(self, draw: random.Random) -> None:
        work, changes = draw.choice([0.0, 0.25, draw.random()]), draw.random() < 0.5
        me, lock = self.sim.current, self.lock
        await lock.enter(work, changes=changes)
        try:
            assert me in lock.holders()
            assert lock.policy.shares or lock.holders() == [me]
            self._note("enters")
            await self.sim.sleep(draw.choice([0.0, 0.5]))
            self._note("leaves")
        finally:
            lock.release()

    def _note(self, what: str) -> None:
        self.log.append((self.sim.now, self.sim.current.name, what))


@examples(60)
@given(
    seed=st.integers(0, 1 << 30),
    hands_over=st.booleans(),
    shares=st.booleans(),
    threads=st.integers(1, 9),
    cores=st.sampled_from([1, 2, 64]),
    impatient=st.booleans(),
)
def test_a_random_policy_runs_to_the_end_and_every_hold_ends(
    seed: int, hands_over: bool, shares: bool, threads: int, cores: int, impatient: bool
) -> None:
    one, other = (
        Visits(seed, Random(seed, hands_over, shares), gear, threads, cores, impatient) for gear in ("native", "turbo")
    )
    assert one.log == other.log and one.sim.now == other.sim.now
    assert one.lock.statistics() == other.lock.statistics()
    statistics = one.lock.statistics()
    assert (statistics.owner, statistics.tasks_waiting) == (None, 0)
    assert one.lock.holders() == [] and not one.lock._woken
    assert statistics.acquired >= len(one.log) // 2 and statistics.hold_s <= threads * one.sim.now + 1e-9
    if not impatient:
        assert statistics.acquired == 6 * threads == len(one.log) // 2


def times(policy: Any, gear: Any, *arrivals: tuple[float, float, bool]) -> tuple[list[tuple[float, float]], HostLock]:
    """Have threads arrive, work under the lock and leave; return when each has done its work and the lock."""
    sim = Simulation(gear=gear)
    lock = device_table(sim, policy)
    spans: dict[int, tuple[float, float]] = {}

    def thread(number: int, arrival: float, work: float, changes: bool) -> Any:
        async def body() -> None:
            await sim.sleep(arrival)
            await lock.enter(work, changes=changes)
            spans[number] = sim.now - work, sim.now
            lock.release()

        return body

    together(sim, lock, *[thread(number, *arrival) for number, arrival in enumerate(arrivals)])
    return [spans[number] for number in range(len(arrivals))], lock


@pytest.mark.parametrize("gear", ["native", "turbo"])
class TestReadersAndWriters:
    """What a table of holds gives, worked out by hand: four readers and two writers, a hand-over of a quarter."""

    ARRIVALS = ((0.0, 1.0, False), (0.0, 1.0, False), (0.5, 1.0, False), (0.5, 1.0, True), (0.5, 1.0, True))

    def test_a_woken_reader_enters_beside_those_who_read(self, gear: Any) -> None:
        """The first takes the free lock; the others pay the hand-over, then enter beside it. Writers follow, alone."""
        spans, lock = times(ReadersFirst(), gear, *self.ARRIVALS)
        assert spans == [(0.0, 1.0), (0.25, 1.25), (0.75, 1.75), (2.0, 3.0), (3.25, 4.25)]
        assert lock.statistics().hold_s == 5.0
        assert lock.statistics().wait_s == 0.25 + 0.25 + 1.5 + 2.75

    def test_one_that_is_handed_the_lock_pays_while_it_holds_it(self, gear: Any) -> None:
        spans, lock = times(HandingOver(), gear, *self.ARRIVALS)
        assert spans == [(0.0, 1.0), (0.25, 1.25), (0.75, 1.75), (2.0, 3.0), (3.25, 4.25)]
        assert lock.statistics().hold_s == 5.0 + 4 * HANDOVER
        assert lock.statistics().wait_s == 0.0 + 0.0 + 1.25 + 2.5

    def test_one_that_was_woken_for_a_lock_that_is_taken_meanwhile_keeps_its_place(self, gear: Any) -> None:
        """A writer is woken at 1.0 and tries at 1.25; a reader has taken the free lock at 1.125, and a second joins."""
        spans, _ = times(
            ReadersFirst(), gear, (0.0, 1.0, True), (0.5, 1.0, True), (1.125, 1.0, False), (1.5, 1.0, False)
        )
        assert spans == [(0.0, 1.0), (3.0, 4.0), (1.125, 2.125), (1.75, 2.75)]


def answering(answer: Any, *, hands_over: bool, shares: bool) -> Any:
    class Answering:
        name = "mine"

        def admit(self, holders: Any, waiting: Any) -> Any:
            return answer(waiting)

    policy = Answering()
    policy.hands_over, policy.shares = hands_over, shares  # type: ignore[attr-defined]
    return policy


@pytest.mark.parametrize("gear", ["native", "turbo"])
@pytest.mark.parametrize("hands_over", [False, True])
@pytest.mark.parametrize("shares", [False, True])
@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (lambda waiting: (), "admits none of [12] that wait, though nobody holds the lock"),
        (lambda waiting: None, "answers None, which is no sequence of requests"),
        (lambda waiting: waiting[0], "answers the request of thread 1, which is no sequence of requests"),
        (lambda waiting: [waiting[0], waiting[0]], "admits thread 1 twice"),
        (lambda waiting: itertools.repeat(waiting[0]), "admits thread 1 twice"),
        (lambda waiting: [waiting[0].thread], "admits <actor .*>, which does not wait"),
        (lambda waiting: [SimpleNamespace()], "admits namespace.*, which does not wait"),
        (lambda waiting: "x", "admits 'x', which does not wait"),
    ],
)
def test_a_broken_promise_is_named_with_the_class(
    gear: Any, hands_over: bool, shares: bool, answer: Any, complaint: str
) -> None:
    policy = answering(answer, hands_over=hands_over, shares=shares)
    said = rf"lock policy 'mine' \(class Answering, hands_over={hands_over}, shares={shares}\) "
    with pytest.raises(RuntimeError, match=f"{said}{complaint}; asked about device table at t="):
        times(policy, gear, (0.0, 1.0, True), (0.5, 1.0, True), (0.5, 1.0, False))


@pytest.mark.parametrize("seed", range(4))
def test_what_a_policy_promises_is_asked_once(seed: int) -> None:
    class Fickle(ReadersFirst):
        @property
        def hands_over(self) -> bool:  # type: ignore[override]
            return draw.random() < 0.5

    draw = random.Random(seed)
    _, lock = times(Fickle(), "turbo", *TestReadersAndWriters.ARRIVALS)
    assert lock.statistics().acquired == 5 and lock.holders() == []


def test_what_is_no_promise_is_refused_before_the_run() -> None:
    async def admit(holders: Any, waiting: Any) -> Any: ...

    for wrong, complaint in (
        ({"shares": "no"}, "its shares is 'no', not a bool"),
        ({"hands_over": None}, "its hands_over is None"),
        ({"admit": admit}, "its admit is no plain function"),
        ({"admit": 7}, "its admit is no plain function"),
    ):
        policy = ReadersFirst()
        vars(policy).update(wrong)
        with pytest.raises(ValueError, match=f"ReadersFirst is no lock policy: {complaint}"):
            lock_policy(policy)
