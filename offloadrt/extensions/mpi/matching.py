"""MPI's matching: which receive gets which message. It is pure: receives and messages go in, pairs come out.

A receive matches the message that arrived first among those whose communicator, source and tag it names. A message
matches the receive that was posted first among those that name its communicator, source and tag (MPI 4.1, 3.5: messages
do not overtake). Receives with wildcards take part in these orders as others do, so matching is deterministic. The
caller passes the messages of one sender in the order in which they were sent.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from offloadrt.extensions.mpi.buffers import ANY_SOURCE, ANY_TAG

R = TypeVar("R")
M = TypeVar("M")


def matches(wanted_source: int, wanted_tag: int, source: int, tag: int) -> bool:
    """Tell whether a receive with this source and tag, either of which may be a wildcard, takes this message.

    wanted_source, wanted_tag: those of the receive. source, tag: those of the message.
    """
    return wanted_source in (source, ANY_SOURCE) and wanted_tag in (tag, ANY_TAG)


class MatchQueues(Generic[R, M]):
    """The two queues of one communicator at one rank: posted receives, and messages that came before a receive."""

    __slots__ = ("posted", "unexpected")

    def __init__(self) -> None:
        self.posted: list[tuple[int, int, R]] = []
        """(source, tag, receive) in the order in which they were posted."""
        self.unexpected: list[tuple[int, int, M]] = []
        """(source, tag, message) in the order in which they arrived."""

    def post(self, source: int, tag: int, receive: R) -> M | None:
        """Post a receive; return the message that matches it, or None if the receive was put into its queue.

        source, tag: those of the receive; either may be a wildcard.
        """
        if (place := self._first(source, tag)) is None:
            self.posted.append((source, tag, receive))
            return None
        return self.unexpected.pop(place)[2]

    def arrive(self, source: int, tag: int, message: M) -> R | None:
        """Let a message arrive; return the receive that matches it, or None if the message was put into its queue.

        source, tag: those of the message.
        """
        for place, (wanted_source, wanted_tag, receive) in enumerate(self.posted):
            if matches(wanted_source, wanted_tag, source, tag):
                del self.posted[place]
                return receive
        self.unexpected.append((source, tag, message))
        return None

    def probe(self, source: int, tag: int) -> M | None:
        """Return the message that a receive with this source and tag would get now, and leave it queued; or None."""
        return None if (place := self._first(source, tag)) is None else self.unexpected[place][2]

    def withdraw(self, receive: R) -> bool:
        """Remove a receive from its queue; return False if a message has matched it already."""
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
