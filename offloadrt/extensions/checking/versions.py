"""Which copy of mapped data is the newest: finds stale data, and device memory that nothing has written.

Each write makes a new version of its bytes, on the side (host or device) where it happens; a copy carries the version
of its source. A read is wrong if a newer version exists, or existed on a device whose mapping ended without a copy.
Bytes that were never written have no version, even after they were copied. Copies are not reads: what they carry is
judged when it is used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from offloadrt.extensions.checking.accesses import Access, Cell, Intervals
from offloadrt.extensions.checking.mistakes import Mistakes, Story
from offloadrt.extensions.checking.recorded import DEVICE_MEMORY, KernelCopied
from offloadrt.extensions.checking.strands import Strand
from offloadrt.runtime.events import HOST
from offloadrt.runtime.mapping.present_table import INFINITE, Entry

NEVER: Final = -1
"""The version of bytes that nothing has written."""
NEW: Final = -2
"""The version of bytes of the host that nothing has written since they were allocated, and of their copies. Only a
kernel that reads them is reported: what the host does with its own memory is no matter of offloading.
"""


@attrs.define(eq=False)
class Doubt:
    """Reports a read of bytes whose value depends on the order of two things that the program does not order.

    The two are the release of a reference to a mapping, and another map of the same bytes. mistakes: collects the
    reports. advice: what would order them. since: the time of the other map as (index of the entry in a vector clock,
    value of the entry); reads that come after it are reported. released: the report line on the release, None until it
    happens.
    """

    mistakes: Mistakes
    advice: str
    since: tuple[int, int]
    released: Story | None = None
    _read: Access | None = None

    def read(self, access: Access) -> bool:
        """Record a read of the bytes whose value is doubtful; return whether it is reported as a race now."""
        if not access.strand.comes_after(*self.since):
            return False
        self._read = self._read or access
        return self.release(self.released)

    def release(self, story: Story | None) -> bool:
        """Record that the reference is released, in no order with the map; return whether a race is reported.

        story: the report line on the release; None if it has not happened yet.
        """
        self.released, access = story, self._read
        if story is None or access is None:
            return False
        subject = f"{access.name} {access.place}"
        self.mistakes.add("race", subject, (story, access.story), self.advice, subject, data=access.name)
        return True


@attrs.define(eq=False)
class _HostCell(Cell):
    """Host memory: the version that it has, the newest version on any side, and the access that wrote the newest one.

    extent: if that write touched some bytes of a range only, the range. copied: the last copy from a device. left: the
    `value` of the device's copy when the last mapping ended. doubt: the value depends on who is a mapping's last user.
    changed: the last copy from a device that brought another value than the host had; None if the host wrote since.
    """

    version: int = 0
    newest: int = 0
    writer: Access | None = None
    extent: tuple[int, int] | None = None
    copied: Access | None = None
    left: int | None = None
    doubt: Doubt | None = None
    changed: Access | None = None

    def part(self, begin: int, end: int) -> _HostCell:
        return _HostCell(
            begin, end, self.version, self.newest, self.writer, self.extent, self.copied, self.left, self.doubt,
            self.changed,
        )  # fmt: skip

    @property
    def value(self) -> int | None:
        """Return the version that tells the bytes from others; None if some of them may be older."""
        return None if self.extent is not None else 0 if self.version == NEW else self.version


@attrs.define(eq=False)
class _DeviceCell(Cell):
    """Device memory and the version that it has.

    value: the version of the host that a copy has brought, or that of a kernel's write; None: it is not known whether
    the bytes differ from the host's. doubt: the value depends on whether a map has found an earlier mapping.
    """

    version: int = NEVER
    value: int | None = NEVER
    doubt: Doubt | None = None

    def part(self, begin: int, end: int) -> _DeviceCell:
        return _DeviceCell(begin, end, self.version, self.value, self.doubt)


@attrs.define(eq=False)
class Versions:
    """Follows for each byte on host and devices which copy has the newest value, to report reads of stale data.

    In its methods: begin, end: addresses [begin, end), of host memory if no device is given. entry: the mapping of a
    range of device memory, if it has one. access: the read or write that is recorded or judged. host_begin: the host
    address of the first byte that a copy moves. mistakes: collects the reports.
    """

    mistakes: Mistakes
    _host: Intervals[_HostCell] = attrs.field(factory=lambda: Intervals(_HostCell))
    _devices: dict[int, Intervals[_DeviceCell]] = attrs.field(factory=dict)
    _last: int = 0
    _of_devices: set[int] = attrs.field(factory=set)
    """The versions that kernels wrote."""
    _some_new: bool = False

    def _device(self, number: int) -> Intervals[_DeviceCell]:
        cells = self._devices.get(number)
        if cells is None:
            cells = self._devices[number] = Intervals(_DeviceCell)
        return cells

    # memory comes and goes

    def array_made(self, begin: int, end: int) -> None:
        """Forget what was known of the host memory [begin, end), in which a new array begins to exist."""
        self._host.forget(begin, end)

    def host_new(self, begin: int, end: int) -> None:
        """Record that host memory [begin, end) was just allocated, not written; all writes to it will be reported."""
        cell = self._host.replace(begin, end)
        cell.version = cell.newest = NEW
        self._some_new = True

    def host_shown(self, begin: int, end: int) -> None:
        """Record that code whose accesses are not reported can reach this host memory, and may have written to it."""
        for cell in self._host.cut(begin, end) if self._some_new else ():
            if cell.newest == NEW:
                cell.version = cell.newest = 0

    def block_made(self, device: int, begin: int, end: int) -> None:
        """Forget what was known of the device memory [begin, end), in which a new block begins to exist."""
        self._device(device).forget(begin, end)

    def entered(self, device: int, entry: Entry) -> None:
        """Record that a global variable was mapped (`entry`); the device has its values in the program's image."""
        cell = self._device(device).replace(entry.device_begin, entry.device_begin + entry.size)
        cell.version, cell.value = 0, None

    def left(self, device: int, entry: Entry) -> None:
        """Remember which values the device has in the mapping `entry`, which ends."""
        for host, mine in self._pairs(device, entry, entry.host_begin, entry.size):
            host.left = mine.value

    def not_brought(self, device: int, host_begin: int, nbytes: int, entry: Entry, doubt: Doubt) -> bool:
        """Let `doubt` report later reads of device bytes that a map did not copy, if they differ on the host.

        The map found them mapped, but in another order might have copied them. entry: the mapping. Returns whether any
        bytes differ.
        """
        differ = [mine for host, mine in self._pairs(device, entry, host_begin, nbytes) if _differ(mine.value, host)]
        for mine in differ:
            mine.doubt = mine.doubt or doubt
        return any(mine.doubt is doubt for mine in differ)

    def not_returned(
        self, device: int, host_begin: int, nbytes: int, entry: Entry, strand: Strand, doubt: Doubt
    ) -> None:
        """Record that a mapping's last user copies nothing back, where another user would if it were the last.

        Which of them is the last is a matter of order. strand: the last user in this run (a thread, task or queue).
        doubt: is attached to the host bytes whose value depends on that, to report later reads. These are the bytes
        that differ on the device, and those that another user has copied back in no order with `strand`.
        """
        for host, mine in self._pairs(device, entry, host_begin, nbytes):
            earlier = host.changed
            if _differ(mine.value, host) or (
                earlier is not None and not strand.comes_after(earlier.strand.chain, earlier.epoch)
            ):
                host.doubt = doubt

    def _pairs(
        self, device: int, entry: Entry, host_begin: int, nbytes: int
    ) -> Iterator[tuple[_HostCell, _DeviceCell]]:  # fmt: skip
        """Yield the cells of a section of a mapping on the host, each with that on the device."""
        shift = entry.device_begin - entry.host_begin
        for cell in self._device(device).cut(host_begin + shift, host_begin + shift + nbytes):
            for host in self._host.cut(cell.begin - shift, cell.end - shift):
                (mine,) = self._device(device).cut(host.begin + shift, host.end + shift)
                yield host, mine

    # writes

    def host_written(self, access: Access) -> None:
        """Record a write by the host, or a kernel in host memory: the bytes of `access` are the newest from now on."""
        self._last += 1
        extent = None if access.exact else (access.begin, access.end)
        for cell in self._host.cut(access.begin, access.end):
            cell.version = cell.newest = self._last
            cell.writer, cell.extent, cell.doubt, cell.changed = access, extent, None, None

    def host_maybe_written(self, begin: int, end: int) -> None:
        """Treat the host's copy of [begin, end) as the newest, because unknown code may have written to it."""
        for cell in self._host.cut(begin, end):
            cell.version = cell.newest = max(cell.newest, 0)
            cell.doubt = cell.changed = None

    def device_written(self, access: Access, entry: Entry | None) -> None:
        """Record a kernel's write to device memory: the bytes of `access` are the newest from now on.

        entry: the mapping of these bytes, if any.
        """
        self._last += 1
        self._of_devices.add(self._last)
        written = self._device(access.memory).replace(access.begin, access.end)
        written.version, written.value = self._last, self._last if access.exact else None
        if entry is not None:
            shift = entry.host_begin - entry.device_begin
            extent = None if access.exact else (access.begin + shift, access.end + shift)
            for cell in self._host.cut(access.begin + shift, access.end + shift):
                cell.newest, cell.writer, cell.extent = self._last, access, extent
                if cell.copied is not None and not access.follows(cell.copied):
                    cell.version = self._last  # a race: the copy could also have come later

    def device_maybe_written(self, device: int, begin: int, end: int, entry: Entry | None) -> None:
        """Treat the host's and the device's copy as equally new, as an unknown kernel may have written to either.

        entry: the mapping of the bytes; None if they are not mapped.
        """
        if entry is None:
            written = self._device(device).replace(begin, end)
            written.version, written.value = 0, None
            return
        shift = entry.host_begin - entry.device_begin
        for cell in self._host.cut(begin + shift, end + shift):
            for mine in self._device(device).cut(cell.begin - shift, cell.end - shift):
                mine.version, mine.value, mine.doubt = max(cell.newest, 0), None, None
            cell.version = max(cell.version, cell.newest, 0)

    # copies

    def to_device(
        self, device: int, host_begin: int, begin: int, nbytes: int, doubt: Doubt | None = None
    ) -> None:  # fmt: skip
        """Record a copy from the host to a device: the device's bytes are now as new as the host's.

        If the newest values were written by a kernel in this device's memory or in a mapping that has ended, the copy
        counts as the newest from now on: it may be meant to undo what the kernel wrote. begin: the device address.
        doubt: reports later reads of the bytes that the copy changes, if another order of the program would not make
        the copy.
        """
        shift, into = begin - host_begin, self._device(device)
        last = into.replace(begin, begin + nbytes)
        for cell in self._host.cut(host_begin, host_begin + nbytes):
            version, writer = cell.version, cell.writer
            if version != NEVER and writer is not None and writer.memory != HOST:
                is_gone = writer.memory == device or (writer.block is not None and writer.block.is_freed)
                version = max(version, cell.newest) if is_gone else version
            doubtful = doubt if doubt is not None and _differ(cell.left, cell) else None
            if (last.version, last.value, last.doubt) != (version, cell.value, doubtful):
                last = last if last.begin == cell.begin + shift else into.cut(cell.begin + shift, begin + nbytes)[-1]
                last.version, last.value, last.doubt = version, cell.value, doubtful

    def to_host(
        self, device: int, host_begin: int, begin: int, nbytes: int, copy: Access, is_counterpart: bool,
        doubt: Doubt | None = None,
    ) -> None:  # fmt: skip
        """Record a copy from a device to the host: the host's bytes are now as new as the device's.

        begin: the device address. copy: the copy's access to the host. is_counterpart: whether the device's bytes are
        the mapped copy of just these host bytes. If they are other data, the copy counts as a write by the host. doubt:
        reports later reads of the bytes that the copy changes, if another order of the program would not make the copy.
        """
        self._last += 1
        shift = host_begin - begin
        for cell in self._device(device).cut(begin, begin + nbytes):
            for mine in self._host.cut(cell.begin + shift, cell.end + shift):
                changes = _differ(cell.value, mine)
                mine.doubt = doubt if changes else None
                mine.changed = copy if changes else mine.changed
                mine.version, mine.copied = cell.version, copy
                if not is_counterpart and cell.version < 0:
                    mine.version = NEVER
                elif not is_counterpart:
                    mine.version = mine.newest = self._last
                    mine.writer, mine.extent = attrs.evolve(copy, memory=HOST, writes=True), None
                elif cell.version in self._of_devices and mine.writer is not None and mine.writer.memory == HOST:
                    mine.newest = mine.version  # the host replaces its own data by the kernel's

    def between_devices(self, source: int, source_begin: int, access: Access, entry: Entry | None) -> None:
        """Record a copy from one block of device memory to another; if the target is mapped, it counts as a write.

        source, source_begin: the device and address of the source. access: the write to the target. entry: the target's
        mapping, if any.
        """
        if entry is not None:
            self.device_written(access, entry)
            return
        shift = access.begin - source_begin
        into = self._device(access.memory)
        for cell in self._device(source).cut(source_begin, source_begin + access.end - access.begin):
            copied = into.replace(cell.begin + shift, cell.end + shift)
            copied.version, copied.value = cell.version, None

    # reads

    def host_read(self, access: Access, mapped: bool, copied: Sequence[KernelCopied] | None = None) -> None:
        """Report stale or uninitialised data where the host, or a kernel in host memory, reads such data.

        mapped: whether a device has a copy of the data. copied: for a read by a kernel, the bytes that it reads only to
        copy whole objects; None for a read by the host.
        """
        stale: list[_HostCell] = []
        unset: list[_HostCell] = []
        for cell in self._host.cut(access.begin, access.end):
            if cell.doubt is not None and access.exact and cell.doubt.read(access):
                continue
            if cell.version == NEVER or (copied is not None and cell.newest == NEW):
                unset.append(cell)
            elif max(cell.version, 0) < cell.newest and _surely_later(access, cell, cell.extent):
                stale.append(cell)
        if _surely_unset(access, unset, copied or (), 0):
            advice = (
                f"It was copied back from device memory that nothing had written: map {access.name} `to` the device, "
                "or write all of it there."
            )
            if unset[0].version == NEW:
                advice = f"Nothing has written it: write {access.name} before the kernel reads it."
            self.mistakes.add("uninitialised data", access.name, (access.story,), advice, access.name)
        stale = _surely_stale(stale)
        if stale and (access.exact or _length(stale) == access.end - access.begin):
            newer = stale[0].writer
            if newer is None or newer.memory == HOST:
                advice = (
                    f"A copy from the device has overwritten it: `target update to({access.name})` after the write."
                )
            elif mapped:
                advice = f"The device's copy is newer: `target update from({access.name})` before the read."
            elif newer.block is not None and newer.block.by_routine:
                advice = (
                    f"No map copies what is associated with device memory: `target update from({access.name})` before "
                    "the association ends."
                )
            else:
                advice = f"The mapping ended without a copy back: map {access.name} `from` or `tofrom`."
            stories = (access.story,) if newer is None else (newer.story, access.story)
            self.mistakes.add("stale data", access.name, stories, advice, access.name)

    def device_read(self, access: Access, entry: Entry | None, copied: Sequence[KernelCopied]) -> None:
        """Report stale or uninitialised data where a kernel reads such data in device memory.

        entry: the mapping that the bytes belong to, if any. copied: the bytes that the kernel reads only to copy whole
        objects; some of them may be unused parts of an object, which nobody ever writes.
        """
        stale: list[_HostCell] = []
        unset: list[_DeviceCell] = []
        old = 0
        for cell in self._device(access.memory).cut(access.begin, access.end):
            if cell.doubt is not None and access.exact and cell.doubt.read(access):
                continue
            newer_ones = [] if entry is None or cell.version == NEVER else list(self._newer(cell, entry))
            for newer in newer_ones:
                if entry is not None and _surely_later(access, newer, _shifted(newer.extent, entry)):
                    stale.append(newer)
                    old += newer.end - newer.begin
            if cell.version < 0 and not newer_ones:
                unset.append(cell)
        shift = 0 if entry is None else entry.host_begin - entry.device_begin
        if _surely_unset(access, unset, copied, shift):
            is_associated = entry is not None and entry.total == INFINITE  # which no map copies
            name = entry.name if entry is not None and is_associated else access.name
            mapped = "" if is_associated else f"map {name} `to` or `tofrom`, "
            copies = f"{mapped}`target update to({name})`"
            if name == DEVICE_MEMORY:
                copies = "copy to it (`omp_target_memcpy`)"
            advice = f"Nothing has written it there: {copies}, or let a kernel write it first."
            if unset[0].version == NEW:
                advice = f"The host had not written it when it was copied there: write {name} before."
            self.mistakes.add("uninitialised data", name, (access.story,), advice, name)
        stale = _surely_stale(stale)
        if stale and (access.exact or old == access.end - access.begin):
            newer_write = stale[0].writer
            stories = (access.story,) if newer_write is None else (newer_write.story, access.story)
            advice = _mend(access, stale[0])
            self.mistakes.add("stale data", access.name, stories, advice, access.name)

    def _newer(self, cell: _DeviceCell, entry: Entry) -> Iterator[_HostCell]:
        """Yield the host cells for which a newer version exists than the one of this device cell."""
        shift = entry.host_begin - entry.device_begin
        for host in self._host.cut(cell.begin + shift, cell.end + shift):
            if max(cell.version, 0) < host.newest:
                yield host


def _differ(value: int | None, host: _HostCell) -> bool:
    """Tell whether bytes of a device surely differ from the host's. value: what is known of them (`_DeviceCell`)."""
    known = host.value
    return value is not None and known is not None and value != known


def _mend(access: Access, cell: _HostCell) -> str:
    name, newer = access.name, cell.writer
    if newer is None or newer.memory == HOST:
        if cell.version < cell.newest:
            return f"A copy from the device has overwritten it: `target update to({name})` after the write."
        return f"The host's copy is newer: `target update to({name})` after the write."
    return f"The copy of device {newer.memory} is newer: `target update from({name})` there, then `to({name})` here."


def _surely_stale(cells: list[_HostCell]) -> list[_HostCell]:
    """Leave out cells of a range that was written only in part if some other part of the range is not stale.

    A copy may have moved just the written bytes, as an update of a section with gaps does.
    """
    lengths: Counter[tuple[int, int]] = Counter()
    for cell in cells:
        if cell.extent is not None:
            lengths[cell.extent] += cell.end - cell.begin
    return [cell for cell in cells if cell.extent is None or lengths[cell.extent] >= cell.extent[1] - cell.extent[0]]


def _length(cells: Sequence[Cell]) -> int:
    return sum([cell.end - cell.begin for cell in cells])


def _surely_unset(access: Access, unset: Sequence[Cell], copied: Sequence[KernelCopied], shift: int) -> bool:
    """Tell whether a read certainly uses some of the bytes in `unset`, which nobody has written.

    copied: what the kernel reads only as it copies whole objects, some bytes of which may belong to no member, at
    host addresses, which are `shift` more than the device's, or at addresses of the device.
    """
    never = _length(unset)
    if never == access.end - access.begin:
        return True
    within = [
        min(cell.end, one.end - moved) - max(cell.begin, one.begin - moved)
        for cell in unset
        for one in copied
        for moved in (shift if one.memory == HOST else 0,)
    ]
    return access.exact and never > sum([nbytes for nbytes in within if nbytes > 0])


def _surely_later(access: Access, newer: _HostCell, extent: tuple[int, int] | None) -> bool:
    """Tell whether a read comes after the newest write and surely touches its bytes.

    extent: the range of which that write touched only some bytes; None if it wrote all. Accesses that are not ordered
    are a race, and reported as that, whoever came first.
    """
    if newer.writer is not None and not access.follows(newer.writer):
        return False
    return extent is None or (access.exact and access.begin <= extent[0] and extent[1] <= access.end)


def _shifted(extent: tuple[int, int] | None, entry: Entry) -> tuple[int, int] | None:
    if extent is None:
        return None
    shift = entry.device_begin - entry.host_begin
    return extent[0] + shift, extent[1] + shift
