"""MPI's matching: which receive gets which message. Pure: it is told of both and pairs them.

A receive matches the first message, in the order in which messages arrived, whose communicator, source and tag it
names, and a message the first receive, in the order in which receives were posted, that names its own (MPI 4.1, 3.5:
messages do not overtake). A wildcard takes part in these orders as a name does, so that it is deterministic. Messages
of one sender are given in the order in which they were sent; who hands them over sees to that.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from offloadrt.extensions.mpi.buffers import ANY_SOURCE, ANY_TAG

R = TypeVar("R")
M = TypeVar("M")


def matches(wanted_source: int, wanted_tag: int, source: int, tag: int) -> bool:
    """Tell whether a receive that wants this source and tag, or any, takes a message that has these."""
    return wanted_source in (source, ANY_SOURCE) and wanted_tag in (tag, ANY_TAG)


class MatchQueues(Generic[R, M]):
    """The two queues of one communicator at one rank: receives without a message, messages without a receive."""

    __slots__ = ("posted", "unexpected")

    def __init__(self) -> None:
        self.posted: list[tuple[int, int, R]] = []
        """(source, tag, receive) in the order in which they were posted."""
        self.unexpected: list[tuple[int, int, M]] = []
        """(source, tag, message) in the order in which they arrived."""

    def post(self, source: int, tag: int, receive: R) -> M | None:
        """Post a receive; return the message that it takes, or None after it has been put into its queue."""
        if (place := self._first(source, tag)) is None:
            self.posted.append((source, tag, receive))
            return None
        return self.unexpected.pop(place)[2]

    def arrive(self, source: int, tag: int, message: M) -> R | None:
        """Let a message arrive; return the receive that takes it, or None after it has been put into its queue."""
        for place, (wanted_source, wanted_tag, receive) in enumerate(self.posted):
            if matches(wanted_source, wanted_tag, source, tag):
                del self.posted[place]
                return receive
        self.unexpected.append((source, tag, message))
        return None

    def probe(self, source: int, tag: int) -> M | None:
        """Return the message that a receive would take now, and leave it where it is; None where there is none."""
        return None if (place := self._first(source, tag)) is None else self.unexpected[place][2]

    def withdraw(self, receive: R) -> bool:
        """Take a receive off its queue; False where it is not there, because it has a message already."""
        for place, (_, _, posted) in enumerate(self.posted):
            if posted is receive:
                del self.posted[place]
                return True
        return False

    def _first(self, wanted_source: int, wanted_tag: int) -> int | None:
        for place, (source, tag, _) in enumerate(self.unexpected):
            if matches(wanted_source, wanted_tag, source, tag):
                return place
        return None
