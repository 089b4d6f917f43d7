"""What the notes of a call and of a directive say: bytes, addresses, arrays, kernels, mapped variables."""

from __future__ import annotations

import bisect

import attrs

from offloadrt.trace import events
from offloadrt.trace.event import Event
from offloadrt.trace.kernel_names import plain_kernel

MOST_NAMES = 16
"""A directive with more mapped variables names these, and how many more there are."""


@attrs.define
class _Blocks:
    """The entries of one device's table, in order of their device addresses, those included that have been removed."""

    begins: list[int] = attrs.field(factory=list)
    entries: dict[int, tuple[int, str]] = attrs.field(factory=dict)
    """Size and array by address."""

    def insert(self, address: int, size: int, array: str) -> None:
        if address not in self.entries:
            bisect.insort(self.begins, address)
        self.entries[address] = size, array

    def array_at(self, address: int) -> str:
        """Return the array of the entry in which an address lies, empty if there is none."""
        place = bisect.bisect_right(self.begins, address) - 1
        if place < 0:
            return ""
        begin = self.begins[place]
        size, array = self.entries[begin]
        return array if address < begin + max(size, 1) else ""


class CallNotes:
    """Follows the events of a trace in their order, and has notes when a call or a directive ends."""

    def __init__(self) -> None:
        self._blocks: dict[int, _Blocks] = {}
        self._missing: dict[int, tuple[int, str]] = {}
        """Size and array of the section that each thread has looked up last, when it was not mapped."""
        self._calls: dict[int, dict[str, int | str]] = {}
        """What is known of the call that each thread is in."""
        self._maps: dict[int, dict[str, None]] = {}
        """What each directive has mapped or looked up, in order."""

    def follow(self, event: Event) -> None:
        """Take an event."""
        match event:
            case events.CallBegin():
                self._calls[event.actor] = {}
            case events.Allocate() | events.Free():
                self._memory(event)
            case events.KernelSubmit():
                self.tell(event.actor, event.device, {"kernel": plain_kernel(event.name)})
            case events.MapLookup():
                self._maps.setdefault(event.cause, {}).setdefault(event.array)
                if event.found:
                    self._missing.pop(event.actor, None)
                else:
                    self._missing[event.actor] = event.size, event.array
            case events.MapInsert():
                self._maps.setdefault(event.cause, {}).setdefault(event.array)
                self._missing.pop(event.actor, None)
                self._blocks.setdefault(event.device, _Blocks()).insert(event.device_address, event.size, event.array)
            case _:
                pass

    def tell(self, actor: int, device: int, notes: dict[str, int | str]) -> None:
        """Note arguments of the call that a thread is in; an address that is mapped there has its array's name."""
        call = self._calls.get(actor)
        if call is None:
            return
        call.update(notes)
        address = notes.get("address")
        blocks = self._blocks.get(device)
        if isinstance(address, int) and blocks is not None and (array := blocks.array_at(address)):
            call["array"] = array

    def of_call(self, actor: int) -> dict[str, int | str]:
        """Return the notes of the call that a thread ends; addresses are hexadecimal."""
        notes = self._calls.pop(actor, {})
        if "address" in notes:
            notes["address"] = f"{notes['address']:#x}"
        return notes

    def of_directive(self, directive: int) -> dict[str, int | str]:
        """Return the notes of a directive that ends."""
        names = [name for name in self._maps.pop(directive, {}) if name]
        if not names:
            return {}
        more = f", and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        return {"maps": ", ".join(names[:MOST_NAMES]) + more}

    def _memory(self, event: events.Allocate | events.Free) -> None:
        if isinstance(event, events.Free):
            self.tell(event.actor, event.device, {"bytes": event.size, "address": event.address})
            return
        call = self._calls.get(event.actor)
        if call is None:
            return
        call.update({"bytes": event.size, "address": event.address})
        # The runtime allocates a section that it has looked up in vain; what is larger is a block of a pool.
        size, array = self._missing.get(event.actor, (0, ""))
        if array and size == event.size:
            call["array"] = array
