"""What an observer of a replayed program is told beside what every program tells: its lines, and the host's touches.

Touches are recorded in stretches of 64 KiB. One that several arrays share says of none of them that it was touched, so
it is not told of. How threads that OpenMP did not make are ordered is not recorded: in a program that has some, every
directive comes after those that began before it.
"""

from __future__ import annotations

from collections import Counter

from offloadrt.recording.format.recording import Recording
from offloadrt.recording.format.separate_copies import STRETCH
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.program_events import Awaited, HostUsed, ProgramObserver, Signalled, SourceNamed

_LOADS, _STORES = 1, 2


class ObservedReplay:
    """Tells the observer of one replay."""

    def __init__(self, observer: ProgramObserver, recording: Recording) -> None:
        self.in_run_order = False
        """Whether directives are ordered as they ran."""
        self._observer = observer
        self._shared: Counter[int] = Counter()
        """By stretch: how many arrays begin or end there."""
        for array in recording.dictionaries.arrays:
            self._shared.update(_ends(array.address, array.address + array.nbytes))

    def comes_to(self, where: str) -> None:
        """Tell that the running thread comes to a directive."""
        if self.in_run_order:
            self._observer.handle(Awaited(self))
        self._observer.handle(SourceNamed(where))

    def leaves(self) -> None:
        """Tell that the directive is over."""
        if self.in_run_order:
            self._observer.handle(Signalled(self))

    def touched(self, array: HostArray, begin: int, nbytes: int, kind: int) -> None:
        """Tell of a touch of the running thread, where it is certainly one of this array."""
        end = begin + nbytes
        first, last = begin // STRETCH, (end - 1) // STRETCH
        if self._shared[first] > 1:
            begin = (first + 1) * STRETCH
        if self._shared[last] > 1:
            end = last * STRETCH
        if begin >= end:
            return
        if self.in_run_order:
            self._observer.handle(Awaited(self))
        for writes in [bool(one - 1) for one in (_LOADS, _STORES) if kind & one]:
            self._observer.handle(HostUsed(array, begin, end - begin, writes, exact=False))


def _ends(begin: int, end: int) -> set[int]:
    return {begin // STRETCH, max(begin, end - 1) // STRETCH}
