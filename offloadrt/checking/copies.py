"""Copies between the host and devices, and between devices: each is an access on both sides and carries a version."""

from __future__ import annotations

import attrs

from offloadrt.checking.accesses import Directive, Role, WatchedBlock
from offloadrt.checking.lifetimes import Lifetimes
from offloadrt.checking.memories import Memories
from offloadrt.checking.races import Races
from offloadrt.checking.recorded_faults import RecordedFaults
from offloadrt.checking.versions import Versions
from offloadrt.checking.waste import DataOperation, Wastes
from offloadrt.runtime.mapping.present_table import Entry
from offloadrt.runtime.program_events import HOST, DataCopied
from offloadrt.sim import Simulation


@attrs.frozen(eq=False)
class CheckedCopies:
    """Tells the state machines of each copy."""

    _sim: Simulation
    _memories: Memories
    _races: Races
    _versions: Versions
    _wastes: Wastes
    _lifetimes: Lifetimes
    _recorded: RecordedFaults

    def take(
        self,
        directive: Directive,
        event: DataCopied,
        entry: Entry | None,
        block: WatchedBlock | None,
        role: Role,
        has_lines: bool,
    ) -> None:
        """Take a copy, in the order of its directive's queue.

        entry, block: what lay on the device when the copy was submitted. has_lines: the program tells all that the host
        does, as a recording does not.
        """
        if not event.nbytes:
            return
        array = event.array
        name = array.name if array is not None else entry.name if entry is not None else "device memory"
        if event.op == "d2d":
            self._between_devices(directive, event, entry, block, name)
            return
        begin, end, device = event.device_address, event.device_address + event.nbytes, event.device
        did = f"copies {name} {'from' if event.op == 'd2h' else 'to'} the device in {directive.name}"
        told = directive.story(did, self._sim.now)
        if event.op == "attach":
            self._wastes.attached(told, name, entry, device, event.cause, begin, event.nbytes)
            self._versions.device_maybe_written(device, begin, end, entry)
            return
        if array is not None:
            self._lifetimes.copied(entry, event.op, directive.strand, told)
        if event.op == "d2h":
            self._recorded.copied_back(told, event.host_address)
        copy = DataOperation(event.op, told, name, device, event.cause, begin, event.nbytes)
        host_known = array is not None and not array.phantom and has_lines
        self._wastes.copied(copy, entry, event.host_address if array is not None else None, host_known)
        self._with_host(directive, event, entry, block, role, name, did)

    def _with_host(
        self,
        directive: Directive,
        event: DataCopied,
        entry: Entry | None,
        block: WatchedBlock | None,
        role: Role,
        name: str,
        did: str,
    ) -> None:
        """Take a copy between host and device as an access on both sides, and let it carry the version."""
        begin, host, nbytes, device = event.device_address, event.host_address, event.nbytes, event.device
        to_device, now = event.op == "h2d", self._sim.now
        if event.array is not None:
            self._races.access(directive.access(now, HOST, host, host + nbytes, not to_device, True, did, name))
        there = directive.access(now, device, begin, begin + nbytes, to_device, True, did, name, role, block)
        self._races.access(there)
        if event.array is None:
            if to_device:
                self._versions.device_written(there, entry)
        elif to_device:
            self._versions.to_device(device, host, begin, nbytes, asked="update" in directive.name)
        else:
            self._versions.to_host(device, host, begin, nbytes, there)

    def _between_devices(
        self, directive: Directive, event: DataCopied, entry: Entry | None, block: WatchedBlock | None, name: str
    ) -> None:
        """Take a copy from one block of device memory to another, on the same device or another one."""
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
