"""Random programs with queues and streams: a race is reported exactly where an order of one's own has none."""

from __future__ import annotations

import attrs
from checked_programs import double
from hypothesis import given
from hypothesis import strategies as st
from property_examples import examples
from test_cuda import found as found_in_cuda
from test_openacc import found as found_in_openacc

from offloadrt import cuda
from offloadrt.extensions import openacc as acc
from offloadrt.extensions.checking.strands import Clock

N = 64
HOST = -1


@attrs.define
class Order:
    """What comes before each access of a program: sets of accesses, one for the host and one for each queue."""

    before: dict[int, frozenset[int]] = attrs.field(factory=dict)
    marks: dict[int, frozenset[int]] = attrs.field(factory=dict)
    accesses: list[tuple[str, bool, frozenset[int]]] = attrs.field(factory=list)

    def known(self, queue: int) -> frozenset[int]:
        return self.before.get(queue, frozenset())

    def put(self, queue: int, *uses: tuple[str, bool]) -> None:
        """Add an operation that uses places, each read or written, to a queue or to the host."""
        earlier = self.known(queue) | self.known(HOST)
        numbers = range(len(self.accesses), len(self.accesses) + len(uses))
        self.accesses += [(place, writes, earlier) for place, writes in uses]
        self.before[queue] = earlier | {*numbers}

    def wait(self, queue: int, by: int = HOST) -> None:
        self.before[by] = self.known(by) | self.known(queue)

    @property
    def races(self) -> bool:
        pairs = [(one, other) for other in range(len(self.accesses)) for one in range(other)]
        return any(
            self.accesses[one][0] == self.accesses[other][0]
            and (self.accesses[one][1] or self.accesses[other][1])
            and one not in self.accesses[other][2]
            and not self._together(one, other)
            for one, other in pairs
        )

    def _together(self, one: int, other: int) -> bool:
        return self.accesses[one][2] is self.accesses[other][2]  # of one operation


QUEUES = st.integers(0, 2)
WHERE = st.integers(HOST, 2)
OPENACC = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["kernel", "to host", "to device"]), WHERE, st.just(0)),
        st.tuples(st.sampled_from(["read", "write"]), st.just(HOST), st.just(0)),
        st.tuples(st.sampled_from(["wait"]), QUEUES, st.just(0)),
        st.tuples(st.sampled_from(["order"]), QUEUES, QUEUES),
        st.tuples(st.sampled_from(["clause"]), QUEUES, QUEUES),
    ),
    min_size=1,
    max_size=8,
)


def order_of(program: list[tuple[str, int, int]]) -> Order:
    order = Order()
    for what, queue, other in program:
        match what:
            case "kernel":
                order.put(queue, ("device", True))
            case "to host":
                order.put(queue, ("device", False), ("host", True))
            case "to device":
                order.put(queue, ("host", False), ("device", True))
            case "read" | "write":
                order.put(HOST, ("host", what == "write"))
            case "wait":
                order.wait(queue)
            case "order":
                order.wait(queue, by=other)
            case "clause":
                order.wait(queue, by=other)
                order.put(other, ("device", True))
    return order


@examples(40)
@given(OPENACC)
def test_queues_of_openacc(program: list[tuple[str, int, int]]) -> None:
    async def body(t: acc.HostThread) -> None:
        a = t.array("a", N, fill=1.0)
        await t.enter_data(acc.copyin(a))
        for what, queue, other in program:
            async_ = None if queue == HOST else queue
            match what:
                case "kernel":
                    await t.parallel(double, a, N, async_=async_)
                case "to host":
                    await t.update(acc.host(a), async_=async_)
                case "to device":
                    await t.update(acc.device(a), async_=async_)
                case "read":
                    a[:].sum()
                case "write":
                    a[:] = 3.0
                case "wait":
                    await t.wait(queue)
                case "order":
                    await t.wait(queue, async_=other)
                case "clause":
                    await t.parallel(double, a, N, async_=other, wait=queue)
        await t.wait()
        await t.exit_data(acc.delete(a))

    kinds = {kind for kind, _ in found_in_openacc(body)}
    assert ("race" in kinds) == order_of(program).races
    assert kinds <= {"race", "stale data"}


CUDA = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["kernel", "to host", "to device"]), st.integers(0, 3), st.just(0)),
        st.tuples(st.sampled_from(["read", "write"]), st.just(HOST), st.just(0)),
        st.tuples(st.sampled_from(["wait", "record"]), st.integers(0, 3), st.integers(0, 1)),
        st.tuples(st.sampled_from(["follow"]), st.integers(0, 3), st.integers(0, 1)),
        st.tuples(st.sampled_from(["event"]), st.just(0), st.integers(0, 1)),
    ),
    min_size=1,
    max_size=8,
)
LEGACY, BLOCKING = 0, (1, 2)
"""Stream 0 is the legacy default stream; 3 does not block with it."""


def order_of_streams(program: list[tuple[str, int, int]]) -> Order:
    order = Order()
    for what, stream, event in program:
        if what == "follow" and event not in order.marks:
            continue  # a wait for an event that was never recorded is no command
        implicit = BLOCKING if stream == LEGACY else (LEGACY,) if stream in BLOCKING else ()
        if what in ("kernel", "to host", "to device", "record", "follow"):
            for other in implicit:
                order.wait(other, by=stream)
        match what:
            case "kernel":
                order.put(stream, ("device", True))
            case "to host":
                order.put(stream, ("device", False), ("host", True))
            case "to device":
                order.put(stream, ("host", False), ("device", True))
            case "read" | "write":
                order.put(HOST, ("host", what == "write"))
            case "wait":
                for other in (stream, *(BLOCKING if stream == LEGACY else ())):
                    order.wait(other)
            case "record":
                order.marks[event] = order.known(stream) | order.known(HOST)
            case "follow":
                order.before[stream] = order.known(stream) | order.marks.get(event, frozenset())
            case "event":
                order.before[HOST] = order.known(HOST) | order.marks.get(event, frozenset())
    return order


@examples(40)
@given(CUDA)
def test_streams_of_cuda(program: list[tuple[str, int, int]]) -> None:
    async def body(t: cuda.HostThread) -> None:
        a, there = await t.host_alloc("a", N, fill=1.0), await t.malloc(N, "f4")
        await t.memcpy(there, a)
        streams = [None, await t.stream_create(), await t.stream_create(), await t.stream_create(non_blocking=True)]
        events = [await t.event_create(), await t.event_create()]
        for what, stream, event in program:
            match what:
                case "kernel":
                    await t.launch(double, there, N, grid=1, block=64, stream=streams[stream])
                case "to host":
                    await t.memcpy_async(a, there, stream=streams[stream])
                case "to device":
                    await t.memcpy_async(there, a, stream=streams[stream])
                case "read":
                    a[:].sum()
                case "write":
                    a[:] = 3.0
                case "wait":
                    await t.stream_synchronize(streams[stream])
                case "record":
                    await t.event_record(events[event], streams[stream])
                case "follow":
                    await t.stream_wait_event(streams[stream], events[event])
                case "event":
                    await t.event_synchronize(events[event])
        await t.device_synchronize()

    kinds = {kind for kind, _ in found_in_cuda(body)}
    assert kinds == ({"race"} if order_of_streams(program).races else set())


CLOCKS = st.integers(0, 2)
CHAINS = st.sampled_from([0, 1, 15, 16, 17, 300, 5000])


@given(st.lists(st.tuples(st.sampled_from(["begin", "join", "meet", "copy"]), CLOCKS, CLOCKS, CHAINS), max_size=40))
@examples(200)
def test_clocks_know_the_last_epoch_of_each_chain(steps: list[tuple[str, int, int, int]]) -> None:
    clocks = [Clock() for _ in range(3)]
    expected: list[dict[int, int]] = [{} for _ in clocks]
    for what, one, other, chain in steps:
        mine, others = expected[one], expected[other]
        if what == "begin":
            clocks[one].begin_epoch(chain)
            mine[chain] = mine.get(chain, 0) + 1
        elif what == "copy":
            clocks[one], expected[one] = Clock(clocks[other]), dict(others)
        else:
            getattr(clocks[one], what)(clocks[other])
            keep = max if what == "join" else min
            expected[one] = {key: keep(mine.get(key, 0), others.get(key, 0)) for key in {*mine, *others}}
        for clock, epochs in zip(clocks, expected, strict=True):
            assert [clock[key] for key in (*range(20), 300, 5000)] == [
                epochs.get(key, 0) for key in (*range(20), 300, 5000)
            ]
