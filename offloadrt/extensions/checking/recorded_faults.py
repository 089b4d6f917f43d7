"""What a recorder saw inside a program: strays and races of its kernels, maps beyond an array, copies to constants."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable

import attrs

from offloadrt.address_map import AddressMap
from offloadrt.extensions.checking.accesses import WatchedBlock
from offloadrt.extensions.checking.mistakes import UNKNOWN, Mistakes, Story
from offloadrt.extensions.checking.recorded import (
    DEVICE_MEMORY,
    ConstantKnown,
    DeviceMemoryUsed,
    KernelAccess,
    KernelRaced,
    KernelStrayed,
    MapStrayed,
)
from offloadrt.extensions.checking.strands import Clock, Strand, Strands
from offloadrt.runtime.mapping.present_table import Entry
from offloadrt.trace.events import plain_kernel


@attrs.frozen
class _FreedBlock:
    """A block of device memory that was freed: the address of its end, and the chain and epoch of the free."""

    end: int
    name: str
    story: Story
    chain: int
    epoch: int


@attrs.define(eq=False)
class RecordedFaults:
    """Reports mistakes that the recorder saw inside the kernels of a program, and copies to the program's constants.

    In its methods, `entry` is a mapping (an entry of a present table). strands: tells which host thread, task or queue
    runs, and what orders them. mistakes: collects the reports.
    """

    strands: Strands
    mistakes: Mistakes
    mapping_at: Callable[[int, int], tuple[Entry, Story] | None]
    """Returns the mapping that covers a device's host address now, and who made it; None if there is none."""
    _constants: AddressMap[ConstantKnown] = attrs.field(factory=AddressMap)
    _freed: dict[int, AddressMap[_FreedBlock]] = attrs.field(factory=lambda: defaultdict(AddressMap))
    """By device and device address: the blocks that were freed."""
    _unmapped: dict[int, AddressMap[_FreedBlock]] = attrs.field(factory=lambda: defaultdict(AddressMap))
    """By device and host address: the freed blocks that were copies of host memory."""
    _strayed: dict[tuple[str, str, str], bool] = attrs.field(factory=dict)
    """By (kernel, array, line): whether the access that was reported first was a write. `a[i] += 1` reads and writes,
    and is one mistake.
    """
    _unnamed: dict[tuple[str, str], str] = attrs.field(factory=dict)
    """By (kernel, line): how it first reached memory of which only the address is known. Other addresses, and such
    beside one that lies beyond an array, which makes this an empty text, are the same mistake."""
    _kept: dict[Strand, list[KernelStrayed]] = attrs.field(factory=dict)
    """By strand: the strays of the kernel that it launches next."""
    _beside: dict[Entry, list[tuple[str, int, int, Story, Story]]] = attrs.field(factory=dict)
    """By mapping: the kernels that used the host's addresses instead of the device's, with their chain and epoch, who
    mapped it, and the access.
    """

    def raced(self, event: KernelRaced) -> None:
        """Report two unordered accesses to the same bytes by different threads of one kernel."""
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

    def block_freed(self, block: WatchedBlock, host_address: int, story: Story) -> None:
        """Remember who freed a block of device memory, directly or by ending its mapping.

        host_address: the host memory of which the block was a copy. story: the report line on who freed it.
        """
        strand, nbytes = self.strands.current(), block.end - block.begin
        for freed, begin in ((self._freed[block.device], block.begin), (self._unmapped[block.device], host_address)):
            if begin:
                freed.pop(begin)
                freed[begin] = _FreedBlock(begin + nbytes, block.name, story, strand.chain, strand.epoch)

    def _use_after_free(self, event: KernelStrayed, device: int, address: int, host_address: int) -> None:
        freed = self._freed[device] if address else self._unmapped[device]
        near = freed.before(address or host_address)
        by = near[1].story if near is not None and (address or host_address) < near[1].end else None
        if by is None and host_address:
            return  # in this run its mapping ends later, so this is an ordinary use
        name = event.name or DEVICE_MEMORY
        told = _story(event.kernel, name, event.access, self.strands.sim.now)
        advice = (
            f"The device address of {name} is good only while it is mapped: keep it mapped until the kernel has ended."
            if host_address
            else "Free the block when the kernels that use it have ended."
        )
        stories = (told,) if by is None else (by, told)
        self.mistakes.add("use after free", name, stories, advice, name, (event.kernel, name))

    def strayed(self, event: KernelStrayed) -> None:
        """Keep an access outside of a recorded kernel's memory, until the kernel's directive has mapped its data."""
        self._kept.setdefault(self.strands.current(), []).append(event)

    def leave_out_strays(self, strand: Strand) -> None:
        """Forget the stray accesses of the kernel that a thread or task launches next.

        It is called when the runtime gives the kernel wrong addresses. A stray access is one outside the memory that
        the kernel may use. strand: the host thread or task.
        """
        self._kept.pop(strand, None)

    def judge_strays(self, strand: Strand) -> None:
        """Report the stray accesses (outside the memory it may use) of the kernel that a strand launches now.

        A strand is a host thread or a task.
        """
        for event in sorted(self._kept.pop(strand, ()), key=lambda one: not one.name):
            self._stray(event, strand)

    def _stray(self, event: KernelStrayed, strand: Strand) -> None:
        """Report an access of a recorded kernel, which `strand` launches, outside of the memory that it may use.

        What maps the accessed host address in this run did so in the recorded run, too, if its end is ordered behind
        the kernel (`left`), for a replay keeps every order that the program asks for.
        """
        place = event.kernel, event.name, event.access.where
        if self._strayed.setdefault(place, event.access.writes) != event.access.writes:
            return
        if event.freed is not None:
            self._use_after_free(event, *event.freed)
            return
        name, now = event.name or UNKNOWN, self.strands.sim.now
        how = event.how if event.name else self._unnamed.setdefault((event.kernel, event.access.where), event.how)
        told = _story(event.kernel, f"{name} {how}" if event.name else how, event.access, now)
        mapping = self.mapping_at(event.device, event.host_address)
        if mapping is not None:
            told = _story(event.kernel, f"{mapping[0].name or 'data'} by the host's address", event.access, now)
            self._beside.setdefault(mapping[0], []).append((event.kernel, strand.chain, strand.epoch, mapping[1], told))
        elif (freed := self._ended_beside(event.host_address, strand)) is not None:
            self._raced_with_end(event.kernel, freed.name, freed.story, told)
        elif event.of_host:
            name = event.of_host
            told = _story(event.kernel, f"{name} in the host's memory", event.access, now)
            advice = f"Nothing maps {name} to device {event.device} while the kernel runs: map it around the kernel."
            self.mistakes.add("outside of what is mapped", name, (told,), advice, name, (event.kernel, name))
        elif how:
            advice = "Map what the kernel uses."
            if event.name:
                self._unnamed[event.kernel, event.access.where] = ""
                more = f"the whole section of {name} that it uses"
                if re.search(r"->|\.|%", name):
                    more += ", and the other members of the structure, pointers as well"
                advice = f"The kernel reaches {event.section}: map {more}."
            if event.is_shared:
                advice = f"The kernel reaches beyond the memory of {name}."
            self.mistakes.add("outside of what is mapped", name, (told,), advice, name, (event.kernel, name))

    def _raced_with_end(self, kernel: str, name: str, mapped: Story, told: Story) -> None:
        advice = f"Nothing orders the kernel before the end of the mapping: wait for it, then unmap {name}."
        self.mistakes.add("race", name, (mapped, told), advice, name, (kernel, name), name)

    def left(self, entry: Entry, known: Clock | None) -> None:
        """Report kernels that used a mapped array by its host address, now that the array's mapping ends.

        They should have used the device's address. known: the vector clock of the directive that ended the mapping;
        None if the program did not end it.
        """
        name = entry.name or "data"
        for kernel, chain, epoch, mapped, told in self._beside.pop(entry, ()):
            if known is not None and known[chain] < epoch:
                self._raced_with_end(kernel, name, mapped, told)
                continue
            advice = (
                f"It is the host's address of {name}, which is mapped: give the kernel the device's "
                "(`use_device_ptr`, `use_device_addr`), or map what holds the address."
            )
            self.mistakes.add("outside of what is mapped", name, (mapped, told), advice, name, (kernel, name))

    def finish(self) -> None:
        """Report, at the end of the program, kernels that used a still mapped array by its host address."""
        for strand in [*self._kept]:  # of directives that failed before they began
            self.judge_strays(strand)
        for entry in [*self._beside]:
            self.left(entry, None)

    def _ended_beside(self, address: int, strand: Strand) -> _FreedBlock | None:
        """Return the freed device copy of a host address, if the free is not ordered before the strand."""
        for blocks in self._unmapped.values() if address else ():
            near = blocks.before(address)
            if near is not None and address < near[1].end and not strand.comes_after(near[1].chain, near[1].epoch):
                return near[1]
        return None

    def map_strayed(self, event: MapStrayed) -> None:
        """Report a map of more bytes than the array has."""
        strand, name = self.strands.current(), event.name
        did = f"{event.did} {event.nbytes} bytes of {name}, which has {max(0, event.there)} there"
        told = Story(strand.name, did, strand.source, self.strands.sim.now)
        copied = "The copy reads or writes what lies behind it."
        advice = copied if event.copies else "OpenMP allows no section beyond the end of an array."
        self.mistakes.add("map beyond the array", name, (told,), advice, name)

    def device_memory_used(self, event: DeviceMemoryUsed) -> None:
        """Report that host code reads or writes device memory."""
        name = event.name or DEVICE_MEMORY
        what = f"the device's copy of {name}" if event.name else name
        told = Story(
            event.who, f"{'writes' if event.writes else 'reads'} {what} on the host", event.where, self.strands.sim.now
        )
        advice = "Only kernels can use it: copy it by `omp_target_memcpy`, or give it to a region by `is_device_ptr`."
        if event.name:
            advice = f"Only kernels can use its address: use the host's of {name}, and `target update` for the values."
        self.mistakes.add("host use of device memory", name, (told,), advice, name)

    def constant_known(self, event: ConstantKnown) -> None:
        """Remember a constant of the program; a copy to it is a mistake (`copied_back`)."""
        if self._constants.get(event.address) is None:  # a library may have been loaded again
            self._constants[event.address] = event

    def copied_back(self, told: Story, begin: int) -> None:
        """Report a copy from the device that writes to a constant of the program.

        told: the report line on the copy. begin: the host address to which it copies.
        """
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
