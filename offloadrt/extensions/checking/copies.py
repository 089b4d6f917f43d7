"""Copies between host and devices, passed on to the state machines of races, versions, lifetimes and waste."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import attrs

from offloadrt.extensions.checking.accesses import Directive, Memories, Role, WatchedBlock
from offloadrt.extensions.checking.lifetimes import Lifetimes
from offloadrt.extensions.checking.orders import References
from offloadrt.extensions.checking.races import Races
from offloadrt.extensions.checking.recorded import DEVICE_MEMORY
from offloadrt.extensions.checking.recorded_faults import RecordedFaults
from offloadrt.extensions.checking.versions import Versions
from offloadrt.extensions.checking.waste import Brought, DataOperation, Wastes
from offloadrt.runtime.events import HOST, DataCopied, ItemEnded, ItemFound
from offloadrt.runtime.host_array import POINTER_BYTES
from offloadrt.runtime.mapping.present_table import Entry, ShadowPointer
from offloadrt.sim import Simulation


def _changed(entry: Entry | None, begin: int, end: int) -> list[tuple[int, int]]:
    """Return the host's byte ranges that a copy back changes: all but attached pointers, which the runtime restores."""
    pieces = []
    for shadow in sorted(entry.shadow_pointers.values(), key=lambda one: one.host_address) if entry is not None else ():
        first, last = max(begin, shadow.host_address), min(end, shadow.host_address + shadow.nbytes)
        if first < last:
            pieces.append((begin, first))
            begin = last
    return [(first, last) for first, last in (*pieces, (begin, end)) if first < last]


def is_rest_of_descriptor(nbytes: int) -> bool:
    """Tell whether a Fortran array descriptor can have `nbytes` bytes after the array's address.

    These are 16 bytes about the element, 24 for each of up to 15 dimensions, and another 16 about a derived type.
    """
    dimensions, of_type = divmod(nbytes - 16, 24)
    return 0 <= dimensions <= 15 and of_type in (0, 16)


def _may_be_of_descriptor(nbytes: int) -> bool:
    return nbytes == POINTER_BYTES or is_rest_of_descriptor(nbytes)


def _is_of_descriptor(entry: Entry, begin: int, nbytes: int) -> bool:
    """Tell whether a range of the host is the address in a descriptor that is mapped, or what stands behind it."""
    before = POINTER_BYTES if is_rest_of_descriptor(nbytes) else 0
    return _may_be_of_descriptor(nbytes) and begin - before in entry.shadow_pointers


@attrs.frozen(eq=False)
class CheckedCopies:
    """Passes each copy between host and devices on to the parts of the checker that examine copies.

    These look for races, stale or uninitialised data, uses of freed memory, and needless copies.
    """

    _sim: Simulation
    _memories: Memories
    _races: Races
    _versions: Versions
    _wastes: Wastes
    _lifetimes: Lifetimes
    _recorded: RecordedFaults
    _references: References
    _sent: WeakKeyDictionary[Entry, dict[tuple[str, int], object]] = attrs.field(factory=WeakKeyDictionary)
    """By mapping: what was sent last to an address that may be a descriptor's, and what a pointer was attached to."""

    def take(
        self,
        directive: Directive,
        event: DataCopied,
        entry: Entry | None,
        block: WatchedBlock | None,
        role: Role,
        brought: Brought | None,
        has_lines: bool,
    ) -> None:
        """Pass a copy on to the parts that examine copies, in the order of its directive's queue.

        entry, block: the mapping and the block on the device when the copy was submitted. role: what the copy does for
        its mapping, such as making it (`Role`). brought: a hash of the copied bytes, and whether the target had the
        same bytes before; None if neither is known. has_lines: the program is Python and reports every access of the
        host; a recording does not.
        """
        if not event.nbytes:
            return
        array = event.array
        name = array.name if array is not None else entry.name if entry is not None else DEVICE_MEMORY
        if event.op == "d2d":
            self._between_devices(directive, event, entry, block, name)
            return
        begin, end, device = event.device_address, event.device_address + event.nbytes, event.device
        did = f"copies {name} {'from' if event.op == 'd2h' else 'to'} the device in {directive.name}"
        told = directive.story(did, self._sim.now)
        if event.op == "attach":
            source, pointers = event.host_address, entry.shadow_pointers.values() if entry is not None else ()
            shadow = next((one for one in pointers if one.device_address == begin), None)
            pointee = self._memories.block_at(device, 0 if shadow is None else shadow.device_value)
            self._wastes.attached(told, name, entry, device, event.cause, begin, event.nbytes, source, block, pointee)
            if entry is not None and shadow is not None and self._is_moved(entry, shadow):
                did = f"lets {name} on the device point to another section in {directive.name}"
                now, maps = self._sim.now, device if directive.maps else None
                self._races.access(
                    directive.access(now, device, begin, end, True, True, did, name, "uses", block, maps=maps)
                )
            self._versions.device_maybe_written(device, begin, end, entry)
            return
        if array is not None:
            self._lifetimes.copied(entry, event.op, directive.strand, told)
        if event.op == "d2h":
            self._recorded.copied_back(told, event.host_address)
        host = event.host_address if array is not None else 0
        copy = DataOperation(
            event.op, told, name, device, event.cause, begin, event.nbytes, None, host, event.host_address, role
        )
        host_known = array is not None and not array.phantom and has_lines
        self._wastes.copied(copy, entry, block, brought, host_known)
        self._with_host(directive, event, entry, block, copy, brought)

    def _with_host(
        self,
        directive: Directive,
        event: DataCopied,
        entry: Entry | None,
        block: WatchedBlock | None,
        copy: DataOperation,
        brought: Brought | None,
    ) -> None:
        """Pass on a copy between host and device: an access on both sides, and the target gets the source's version."""
        begin, host, nbytes, device = event.device_address, event.host_address, event.nbytes, event.device
        to_device, now = event.op == "h2d", self._sim.now
        did, name = copy.story.did, copy.name
        maps = device if entry is not None and directive.maps else None
        changes = brought is not None and brought.nothing is False
        if (
            entry is not None
            and maps is not None
            and not (to_device or changes)
            and _is_of_descriptor(entry, host, nbytes)
        ):
            return  # the program asks for no copy of a descriptor
        if event.array is not None:
            for first, last in [(host, host + nbytes)] if to_device else _changed(entry, host, host + nbytes):
                here = directive.access(now, HOST, first, last, not to_device, True, did, name, maps=maps)
                self._races.access(here)
        there = directive.access(
            now, device, begin, begin + nbytes, to_device, True, did, name, copy.role, block, maps=maps
        )  # fmt: skip
        is_update = directive.name.startswith("target update") and not directive.strand.is_queue
        if is_update and entry is not None and block is not None and block.entry is entry:
            there = attrs.evolve(there, role="updates", is_kept=self._references.keeps(there, entry))
        if maps is None or not to_device or not self._is_sent_again(entry, host, nbytes, brought):
            self._races.access(there)
        if there.role == "updates" and block is not None and block.was_used:
            self._races.mapped_use(there, host - begin)
        # A routine may copy between memory of which neither is the other's copy.
        is_counterpart = entry is not None and entry.host_begin - entry.device_begin == host - begin
        if event.array is None or (to_device and entry is not None and not is_counterpart):
            if to_device:
                self._versions.device_written(there, entry)
        elif to_device:
            is_new = copy.role == "enters"
            doubt = self._references.may_be_found(device, entry, directive) if is_new else None
            self._versions.to_device(device, host, begin, nbytes, doubt)
        elif self._lifetimes.is_told(entry):  # what is wrong with the bytes there now has been reported
            self._versions.host_maybe_written(host, host + nbytes)
        else:
            is_last = copy.role == "leaves"
            doubt = self._references.may_be_kept(device, entry, directive) if is_last else None
            self._versions.to_host(device, host, begin, nbytes, there, is_counterpart, doubt)

    def _is_sent_again(self, entry: Entry | None, begin: int, nbytes: int, brought: Brought | None) -> bool:
        """Tell whether a copy brings a part of a descriptor that the device has: flang sends it with each region."""
        if entry is None or brought is None or not _may_be_of_descriptor(nbytes):
            return False
        is_same = self._last(entry, "sent", begin, brought.value) == brought.value
        return is_same and _is_of_descriptor(entry, begin, nbytes)

    def _is_moved(self, entry: Entry, shadow: ShadowPointer) -> bool:
        """Tell whether a pointer on the device, which is attached now, has pointed to other data of the host before.

        So it does where threads map sections of one array by its descriptor, or by one structure with its address.
        """
        pointee = shadow.pointee.host_begin, shadow.pointee.host_end
        return self._last(entry, "attached", shadow.host_address, pointee) not in (None, pointee)

    def _last(self, entry: Entry, what: str, address: int, value: object) -> object:
        """Remember what was sent to an address of a mapping, and return what was sent there before."""
        known = self._sent.setdefault(entry, {})
        last, known[what, address] = known.get((what, address)), value
        return last

    def _between_devices(
        self, directive: Directive, event: DataCopied, entry: Entry | None, block: WatchedBlock | None, name: str
    ) -> None:
        """Pass on a copy from one block of device memory to another one, on the same or another device."""
        now, source, where = self._sim.now, event.source, directive.name
        begin, end = event.device_address, event.device_address + event.nbytes
        source_begin, source_end = event.host_address, event.host_address + event.nbytes
        did = f"copies {name} in {where}"
        self._races.access(directive.access(now, source, source_begin, source_end, False, True, did, name))
        did = f"copies to {name} in {where}"
        written = directive.access(now, event.device, begin, end, True, True, did, name)
        self._races.access(written)
        self._versions.between_devices(source, source_begin, written, entry)
        from_block = self._memories.block_at(source, source_begin)
        from_entry = self._memories.entry_at(source, source_begin)
        self._wastes.device_used(
            from_block, from_entry, source, source_begin, source_end, reads=True, writes=False, exact=True
        )
        self._wastes.device_used(block, entry, event.device, begin, end, reads=False, writes=True, exact=True)

    def cut_off(self, directive: Directive) -> None:
        """Report races of a region's copies to the host at its end, where the program has ended before the region."""
        for entry, device in directive.entries.items() if not directive.kernel else ():
            if entry.host_begin in directive.returned and entry.would_be_last(False, False):
                begin, end = entry.host_begin, entry.host_begin + directive.returned[entry.host_begin]
                did, now = f"copies {entry.name} from the device in {directive.name} when it ends", self._sim.now
                self._races.access(directive.access(now, HOST, begin, end, True, True, did, entry.name, maps=device))

    def may_be_made(self, event: ItemFound, directive: Directive, how: str) -> None:
        """Report races of a copy that is not made in this run, but would be in another order of the program's work.

        Only the access to host memory is checked. event: the map item, for which no copy is made here. directive: the
        directive that has the item. how: the words for the report, with {} where the directive's name goes.
        """
        entry, item, begin, end = event.entry, event.item, event.begin, event.begin + event.nbytes
        if entry is None or not entry.owned or item.array is None or _is_of_descriptor(entry, begin, event.nbytes):
            return
        back, now = isinstance(event, ItemEnded), self._sim.now
        did = f"copies {item.name} {how.format(directive.name)}"
        for first, last in _changed(entry, begin, end) if back else [(begin, end)]:
            access = directive.access(now, HOST, first, last, back, True, did, item.name, maps=event.device)
            self._races.access(access)
