"""Which frees of memory pools a stream comes after, as far as the host knows from events: a vector clock of frees."""

from __future__ import annotations

from collections.abc import Mapping

from offloadrt.machine import Stream


class FreeClock:
    """Counts the frees of each stream, and keeps for each stream how many of the others' it comes after."""

    __slots__ = ("_before", "_counts")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._before: dict[int, dict[int, int]] = {}

    def count(self, stream: Stream) -> int:
        """Count one more free in a stream; returns its number, from 1."""
        self._counts[stream.index] = self._counts.get(stream.index, 0) + 1
        return self._counts[stream.index]

    def before(self, stream: Stream) -> Mapping[int, int]:
        """Return how many frees of other streams come before what is put into a stream now, by index of theirs."""
        return self._before.get(stream.index, {})

    def at(self, stream: Stream) -> Mapping[int, int]:
        """Return which frees come before a mark that is put into a stream now, its own included."""
        own = {stream.index: frees} if (frees := self._counts.get(stream.index)) else {}
        return {**self.before(stream), **own}

    def follow(self, stream: Stream, mark: Mapping[int, int]) -> None:
        """Let a stream come after a mark."""
        before = self._before.setdefault(stream.index, {})
        for index, frees in mark.items():
            before[index] = max(before.get(index, 0), frees)
