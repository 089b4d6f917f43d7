"""What the recorder has seen: races of a kernel's threads, kernels and maps that leave their arrays, and constants."""

from __future__ import annotations

import attrs

from offloadrt.checking.mistakes import Mistakes, Story
from offloadrt.checking.strands import Strands
from offloadrt.machine.memory.address_map import AddressMap
from offloadrt.runtime.program_events import ConstantKnown, KernelAccess, KernelRaced, KernelStrayed, MapStrayed
from offloadrt.trace.events import plain_kernel


@attrs.define(eq=False)
class RecordedFaults:
    """Tells of them in the words of a report."""

    strands: Strands
    mistakes: Mistakes
    _constants: AddressMap[ConstantKnown] = attrs.field(factory=AddressMap)

    def raced(self, event: KernelRaced) -> None:
        """Report two accesses of threads that nothing orders."""
        first, second = event.accesses
        stories = [_story(event.kernel, event.name, access, self.strands.sim.now) for access in event.accesses]
        subject = f"{event.name} on device {event.device}"
        if first.team != second.team:
            advice = (
                "Nothing orders threads of different teams: `atomic` on both would. A critical section or a lock "
                "excludes threads of one team only."
            )
        else:
            advice = "Nothing orders the two threads: `atomic` on both would, a critical section or lock, or a barrier."
        group = event.kernel, subject
        self.mistakes.add("race", subject, sorted(stories, key=str), advice, subject, group, event.name)

    def strayed(self, event: KernelStrayed) -> None:
        """Report an access outside of what the kernel may use."""
        name = event.name or "memory"
        told = _story(
            event.kernel, f"{name} {event.how}" if event.name else event.how, event.access, self.strands.sim.now
        )
        advice = f"The kernel reaches beyond what is mapped: map the whole section of {name} that it uses."
        if not event.name:
            advice = "Map what the kernel uses."
        self.mistakes.add("outside of what is mapped", name, (told,), advice, name, (event.kernel, name))

    def map_strayed(self, event: MapStrayed) -> None:
        """Report a map of more than an array has."""
        strand, name = self.strands.current(), event.name
        did = f"maps {event.nbytes} bytes of {name}, which has {max(0, event.there)} there"
        told = Story(strand.name, did, strand.source, self.strands.sim.now)
        self.mistakes.add("map beyond the array", name, (told,), "The copy reads or writes what lies behind it.", name)

    def constant_known(self, event: ConstantKnown) -> None:
        """Remember a constant."""
        if self._constants.get(event.address) is None:  # a library may have been loaded again
            self._constants[event.address] = event

    def copied_back(self, told: Story, begin: int) -> None:
        """Report a copy from the device that writes a constant."""
        found = self._constants.before(begin)
        if found is None or begin >= found[0] + found[1].nbytes:
            return
        name = found[1].name
        advice = (
            f"Nothing can be written there, and the program may crash: map {name} `to`. Where no clause names "
            "an array, it is mapped `tofrom`."
        )
        self.mistakes.add("write to a constant", name, (told,), advice, name)


def _story(kernel: str, what: str, access: KernelAccess, now: float) -> Story:
    verb = "writes" if access.writes else "reads"
    atomically = " atomically" if access.atomic else ""
    who = f"thread {access.thread} of team {access.team}"
    return Story(who, f"{verb} {what}{atomically} in kernel {plain_kernel(kernel)!r}", access.where, now)
