"""Waste beside two oracles of its own: what is wasted by the bytes themselves, and what a tool of digests would find.

The first one follows an array's values and says of each copy whether its place has the same bytes already, from the
same writer. The second one has the definitions of OMPDataPerf (PPoPP 2026): it knows the order of operations and the
digests of the bytes, and nothing of what kernels do with them. What it finds rightly must be found, what it finds
wrongly must not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import attrs
import pytest
from checked_programs import Body, N, add, double, fill, finished
from hypothesis import example, given
from hypothesis import strategies as st

from offloadrt import openmp as omp
from offloadrt.extensions.checking.repairs import repairs_of
from offloadrt.extensions.checking.waste import DataOperation

Step = Literal[
    "write 5", "write 6", "enter to", "enter alloc", "exit from", "exit release", "update to", "update from",
    "read to", "read tofrom", "change to", "change tofrom", "fill from",
]  # fmt: skip
STEPS: tuple[Step, ...] = Step.__args__  # type: ignore[attr-defined]


@attrs.frozen
class Copied:
    """A copy of the array: its direction, the bytes as a digest would tell them, and whether it is for nothing.

    wasted: None where it brings what nothing has written, a mistake of another kind: what lies there is chance.
    """

    op: str
    digest: float | None
    wasted: bool | None


@attrs.define
class Truth:
    """Follows one array. A content is a value and who has written it: each run of a kernel is a writer of its own."""

    events: list[Copied | str] = attrs.field(factory=list)
    """Copies, ``alloc``, ``free``, and ``kernel`` or ``kernel reads``."""
    host: tuple[float | None, object] = (1.0, "host")
    device: tuple[float | None, object] = (None, "nobody")
    is_there: bool = False
    """Whether the device has the content now, and not only had it in a block before."""
    count: int = 0
    writers: int = 0

    def writer(self) -> int:
        self.writers += 1
        return self.writers

    def enter(self, to: bool) -> None:
        self.count += 1
        if self.count == 1:
            self.events.append("alloc")
            if to:
                self.send()

    def exit(self, back: bool) -> None:
        if self.count == 1:
            if back:
                self.fetch()
            self.events.append("free")
            self.is_there = False
        self.count = max(0, self.count - 1)

    def send(self) -> None:
        self.events.append(Copied("h2d", self.host[0], None if self.host[0] is None else self.device == self.host))
        self.device, self.is_there = self.host, True

    def fetch(self) -> None:
        content = self.device if self.is_there else (None, self.writer())
        self.events.append(Copied("d2h", content[0], content == self.host if self.is_there else None))
        self.host = content

    def kernel(self, reads: bool, value: float | None = None) -> None:
        self.events.append("kernel reads" if reads else "kernel")
        if value is not None:
            self.device, self.is_there = (value, self.writer()), True

    def take(self, step: Step) -> None:
        what, _, how = step.partition(" ")
        if what == "write":
            self.host = float(how), "host"
        elif what == "enter":
            self.enter(how == "to")
        elif what == "exit":
            self.exit(how == "from")
        elif what == "update":
            if self.count:
                self.send() if how == "to" else self.fetch()
        else:
            self.enter(how.startswith("to"))
            value = self.device[0] if self.is_there else None
            changed = {"read": None, "fill": 1.0}.get(what, 2.0 * value if value is not None else -1.0)
            self.kernel(what != "fill", changed)
            self.exit(how.endswith("from"))


def digest_tool(events: Sequence[Copied | str]) -> set[int]:
    """Return the places of the copies that OMPDataPerf's definitions call waste.

    A duplicate brings a device what it has received before; a round trip brings bytes back to where they came from, and
    has two legs; an unused transfer is overwritten, or its block freed, before any kernel has run.
    """
    found: set[int] = set()
    sent: dict[object, int] = {}
    returned: dict[object, int] = {}
    last: int | None = None
    for place, event in enumerate(events):
        if isinstance(event, Copied):
            if event.op == "h2d":
                found |= {place} if event.digest in sent else set()
                found |= {place, returned[event.digest]} if event.digest in returned else set()
                found |= {last} if last is not None else set()
                sent[event.digest] = last = place
            else:
                found |= {place} if event.digest in sent else set()
                returned[event.digest] = place
        elif event == "free":
            found |= {last} if last is not None else set()
            last = None
        elif event != "alloc":
            last = None
    return found


def program_of(steps: Sequence[Step]) -> tuple[Body, Truth]:
    """Return a program of these steps, and what is true of it; what is still mapped is unmapped at the end."""
    truth = Truth()
    for step in steps:
        truth.take(step)
    left = truth.count
    for _ in range(left):
        truth.take("exit release")

    async def body(t: omp.HostThread) -> None:
        a, b = t.array("a", N, fill=1.0), t.array("b", N, fill=0.0)
        await t.target_enter_data(omp.map(alloc=b))
        for step in [*steps, *["exit release"] * left]:
            what, _, how = step.partition(" ")
            if what == "write":
                a[:] = float(how)
            elif what == "enter":
                await t.target_enter_data(omp.map(**{how: a}))
            elif what == "exit":
                await t.target_exit_data(omp.map(**{"from_" if how == "from" else how: a}))
            elif what == "update":
                await t.target_update(omp.to(a) if how == "to" else omp.from_(a))
            else:
                maps = omp.map(**{"from_" if how == "from" else how: a})
                if what == "read":
                    await t.target(add, b, a, N, maps=maps)
                else:
                    await t.target(double if what == "change" else fill, a, N, maps=maps)
        await t.target_exit_data(omp.map(release=b))

    return body, truth


def operations_of(body: Body) -> list[DataOperation]:
    """Run a program, and return the operations on its array, judged."""
    checker, costs = finished(body)
    operations = checker.operations
    repairs_of(operations, costs, ended=True)
    return [operation for operation in operations if operation.name == "a"]


@given(st.lists(st.sampled_from(STEPS), max_size=14))
@example(["enter alloc", "update from", "exit from"])
@example(["change to", "change to", "change to"])
@example(["write 5", "read to", "write 6", "write 5", "read to"])
@example(["enter to", "change to", "update from", "write 5", "update to", "read to", "update to", "exit from"])
@example(["change tofrom", "change tofrom", "read tofrom", "read to"])
@example(["enter alloc", "update to", "update to", "fill from", "update to", "read to", "exit release"])
def test_a_copy_is_waste_if_its_place_has_the_same_bytes_from_the_same_writer(steps: list[Step]) -> None:
    body, truth = program_of(steps)
    operations = operations_of(body)
    copies = [one for one in operations if one.op in ("h2d", "d2h")]
    expected = [event for event in truth.events if isinstance(event, Copied)]
    assert [one.op for one in copies] == [one.op for one in expected]
    same = ("duplicate transfer", "round trip")
    judged = [(one.kind in same, known.wasted) for one, known in zip(copies, expected, strict=True)]
    assert all(found == wasted for found, wasted in judged if wasted is not None)
    places = [place for place, event in enumerate(truth.events) if isinstance(event, Copied)]
    of_tool = digest_tool(truth.events)
    for place, copy, event in zip(places, copies, expected, strict=True):
        if copy.kind is None and place in of_tool:  # then the tool is wrong: what the copy brings is used, or a result
            assert not event.wasted and (copy.read or (copy.op == "d2h" and copy.left))


@given(st.lists(st.sampled_from(STEPS), max_size=14))
@example(["enter to", "write 5", "update from"])
def test_a_block_is_unused_or_repeated_as_the_order_of_operations_says(steps: list[Step]) -> None:
    body, truth = program_of(steps)
    kinds: list[str | None] = []
    used = False
    spare = 0
    for event in truth.events:
        if event == "alloc":
            used = False
        elif event == "free":
            kinds.append("repeated allocation" if used and spare else None if used else "unused allocation")
            spare += used - (used and spare > 0)
        elif not isinstance(event, Copied) or (event.op == "d2h" and event.wasted is False):
            used = True  # by a kernel, or by the program, which takes back what it has stored there
    assert [one.kind for one in operations_of(body) if one.op == "alloc"] == kinds


@pytest.mark.parametrize(
    ("steps", "found", "by_tool"),
    [
        (["enter to", "change to", "update to", "change to", "exit release"], 0, 1),  # a reset
        (["change to", "change to", "change to"], 0, 2),  # each time on a fresh copy
        (["write 5", "read to", "write 6", "read to", "write 5", "read to"], 0, 1),  # values in turn
        (["read to", "read to", "read to"], 2, 2),
        (["change tofrom", "change tofrom", "read to"], 2, 4),  # the legs back are results that nobody reads
    ],
)
def test_where_digests_alone_are_wrong(steps: list[Step], found: int, by_tool: int) -> None:
    body, truth = program_of(steps)
    same = ("duplicate transfer", "round trip")
    assert sum([one.kind in same for one in operations_of(body)]) == found
    assert len(digest_tool(truth.events)) == by_tool
