"""Matching against a reference: one list of what happened, searched from its begin each time."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from property_examples import examples
from rank_runs import finished, run_of

from offloadrt.extensions import mpi
from offloadrt.extensions.mpi.matching import MatchQueues

SOURCES, TAGS = st.integers(0, 3), st.integers(0, 2)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("message"), SOURCES, TAGS),
        st.tuples(
            st.just("receive"),
            st.one_of(SOURCES, st.just(mpi.ANY_SOURCE)),
            st.one_of(TAGS, st.just(mpi.ANY_TAG)),
        ),
    ),
    max_size=40,
)


def reference(steps: list[tuple[str, int, int]]) -> dict[int, int]:
    """Which message each receive gets, both by their numbers among all steps."""
    open_messages: list[int] = []
    open_receives: list[int] = []
    pairs: dict[int, int] = {}

    def fits(receive: int, message: int) -> bool:
        (_, source, tag), (_, sender, sent) = steps[receive], steps[message]
        return (source == mpi.ANY_SOURCE or source == sender) and (tag == mpi.ANY_TAG or tag == sent)

    for number, (kind, _, _) in enumerate(steps):
        mine, others = (open_messages, open_receives) if kind == "message" else (open_receives, open_messages)
        for other in others:
            receive, message = (other, number) if kind == "message" else (number, other)
            if fits(receive, message):
                others.remove(other)
                pairs[receive] = message
                break
        else:
            mine.append(number)
    return pairs


@examples(300)
@given(STEPS)
def test_queues_pair_as_the_reference_does(steps: list[tuple[str, int, int]]) -> None:
    queues, pairs = MatchQueues[int, int](), {}
    for number, (kind, source, tag) in enumerate(steps):
        if kind == "message":
            if (receive := queues.arrive(source, tag, number)) is not None:
                pairs[receive] = number
        elif (message := queues.post(source, tag, number)) is not None:
            pairs[number] = message
    assert pairs == reference(steps)


PROGRAMS = st.lists(st.tuples(st.integers(0, 2), TAGS, st.sampled_from([8, 3000, 100_000])), min_size=1, max_size=12)


@examples(25)
@given(PROGRAMS, st.randoms(use_true_random=False), st.sampled_from([1, 2]))
def test_messages_of_one_sender_and_tag_do_not_overtake(program: Any, random: Any, nodes: int) -> None:
    """Ranks 1 to 3 send to rank 0 what a random program says, short and long; receives are in random order."""
    wanted: dict[tuple[int, int], list[int]] = {}
    for number, (sender, tag, _) in enumerate(program):
        wanted.setdefault((sender + 1, tag), []).append(number)
    order = [(sender + 1, tag) for sender, tag, _ in program]
    random.shuffle(order)
    got: dict[tuple[int, int], list[int]] = {}

    async def main(process: Any) -> None:
        t, world = process.program.host_thread(0), process.world
        if process.rank:
            requests = []
            for number, (sender, tag, nbytes) in enumerate(program):
                if sender + 1 == process.rank:
                    a = t.array("a", nbytes // 8, np.int64, fill=number)
                    requests.append(await world.Isend(a, 0, tag))
            await mpi.Request.Waitall(requests)
            return
        for sender, tag in order:
            b = t.array("b", 100_000 // 8, np.int64)
            await world.Recv(b, sender, tag)
            got.setdefault((sender, tag), []).append(int(b[0]))

    run = run_of(4)
    run.configure(num_nodes=nodes)
    finished(run, main)
    assert got == wanted


def test_wildcards_take_messages_in_the_order_of_their_arrival() -> None:
    async def main(process: Any) -> list[tuple[int, int]]:
        a, world = process.program.host_thread(0).array("a", 1), process.world
        if process.rank:
            await process.program.sim.sleep(1e-3 / process.rank)
            await world.Send(a, 0, tag=process.rank)
            return []
        seen = []
        for _ in range(3):
            status = mpi.Status()
            await world.Recv(a, mpi.ANY_SOURCE, mpi.ANY_TAG, status)
            seen.append((status.source, status.tag))
        return seen

    assert finished(run_of(4), main)[0] == [(3, 3), (2, 2), (1, 1)]
