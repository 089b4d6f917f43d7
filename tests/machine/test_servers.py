"""Servers take messages in order; those that may grow in number let none wait, and are as few as that takes."""

from __future__ import annotations

import heapq
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_examples import examples

from offloadrt.machine.servers import Servers, numbered, numbered_from_the_second
from offloadrt.sim import Mailbox, Simulation

arrivals = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6).map(lambda n: n + 0.5)), min_size=1, max_size=25)
"""For each message how long after the one before it comes, and how long it takes: nothing ends when something comes."""


class Shop:
    """Servers that take as long as each message says, and when each message was begun and ended."""

    def __init__(self, grow: bool, gear: Any, announced: bool = True) -> None:
        self.sim = Simulation(gear=gear)
        self.mailbox = Mailbox(self.sim, "shop")
        self.announced = announced
        self.servers: Servers[float] = Servers(self.sim, self.mailbox, self.serve, numbered("shop"), grow=grow)
        self.spans: list[tuple[float, float]] = []

    async def serve(self) -> None:
        sim = self.sim
        while True:
            seconds = await self.mailbox.get()
            if not self.announced:
                self.servers.took_from_mailbox()
            begin = sim.now
            await sim.sleep(seconds)
            self.servers.done()
            self.spans.append((begin, sim.now))

    def run(self, number: int, messages: list[tuple[int, float]]) -> list[float]:
        """What comes at such `messages`' times is served; when each came."""
        put = self.servers.submit if self.announced else self.mailbox.put
        came = []

        async def main() -> None:
            for _ in range(number):
                self.servers.start()
            for gap, seconds in messages:
                await self.sim.sleep(gap)
                put(seconds)
                came.append(self.sim.now)
            await self.sim.sleep(1000.0)

        self.sim.run(main)
        return came


def most_at_once(spans: list[tuple[float, float]]) -> int:
    return max(sum(begin <= time < end for begin, end in spans) for time, _ in spans)


@pytest.mark.parametrize("gear", ["native", "turbo"])
@examples(25)
@given(st.integers(1, 4), arrivals)
def test_a_number_of_servers_is_a_queue_of_that_many(gear: Any, number: int, messages: list[tuple[int, float]]) -> None:
    shop = Shop(False, gear)
    came = shop.run(number, messages)
    free, expected = [0.0] * number, []
    for time, (_, seconds) in zip(came, messages, strict=True):
        begin = max(time, heapq.heappop(free))
        heapq.heappush(free, begin + seconds)
        expected.append((begin, begin + seconds))
    assert sorted(shop.spans) == sorted(expected)
    assert shop.servers.queued.total_s == sum(begin for begin, _ in expected) - sum(came)
    assert (shop.servers.number, shop.servers.idle) == (number, number)


@pytest.mark.parametrize("gear", ["native", "turbo"])
@examples(25)
@given(st.integers(0, 2), arrivals)
def test_those_that_grow_let_nobody_wait(gear: Any, number: int, messages: list[tuple[int, float]]) -> None:
    shop = Shop(True, gear)
    came = shop.run(number, messages)
    assert sorted(begin for begin, _ in shop.spans) == came and shop.servers.queued.total_s == 0.0
    assert shop.servers.number == shop.servers.idle == max(number, most_at_once(shop.spans))


@pytest.mark.parametrize("gear", ["native", "turbo"])
@examples(25)
@given(arrivals)
def test_where_senders_use_the_mailbox_one_more_is_idle(gear: Any, messages: list[tuple[int, float]]) -> None:
    shop = Shop(True, gear, announced=False)
    came = shop.run(1, messages)
    assert sorted(begin for begin, _ in shop.spans) == came
    assert shop.servers.number == shop.servers.idle == most_at_once(shop.spans) + 1


def test_names() -> None:
    assert [numbered("port")(number) for number in range(2)] == ["port 0", "port 1"]
    assert [numbered_from_the_second("ring", "server")(number) for number in range(3)] == [
        "ring",
        "ring server 1",
        "ring server 2",
    ]
