"""The blocks of device memory and the mappings of host memory to them, by device address."""

from __future__ import annotations

import attrs

from offloadrt.checking.accesses import WatchedBlock
from offloadrt.machine.memory.address_map import AddressMap
from offloadrt.runtime.mapping.present_table import Entry


@attrs.define(eq=False)
class Memories:
    """What lies in the memory of each device now."""

    _blocks: dict[int, AddressMap[WatchedBlock]] = attrs.field(factory=dict)
    _entries: dict[int, AddressMap[Entry]] = attrs.field(factory=dict)

    def add_block(self, block: WatchedBlock) -> None:
        blocks = self._blocks.setdefault(block.device, AddressMap())
        blocks.pop(block.begin)
        blocks[block.begin] = block

    def pop_block(self, device: int, begin: int) -> WatchedBlock | None:
        """Remove the block that begins at an address, and return it; None if there is none."""
        blocks = self._blocks.get(device)
        return None if blocks is None else blocks.pop(begin)

    def block_at(self, device: int, address: int) -> WatchedBlock | None:
        """Return the block that holds an address."""
        blocks = self._blocks.get(device)
        near = None if blocks is None else blocks.before(address)
        return near[1] if near is not None and address < near[1].end else None

    @property
    def leaked(self) -> list[WatchedBlock]:
        """Return the blocks of `omp_target_alloc` that are there still."""
        return [block for blocks in self._blocks.values() for block in blocks if block.by_routine]

    def add_entry(self, device: int, entry: Entry) -> None:
        entries = self._entries.setdefault(device, AddressMap())
        entries.pop(entry.device_begin)
        if entry.size:
            entries[entry.device_begin] = entry

    def pop_entry(self, device: int, entry: Entry) -> None:
        self._entries[device].pop(entry.device_begin)

    def entry_at(self, device: int, address: int) -> Entry | None:
        """Return the mapping whose device memory holds an address."""
        entries = self._entries.get(device)
        near = None if entries is None else entries.before(address)
        return near[1] if near is not None and address < near[0] + near[1].size else None

    def is_mapped(self, host_address: int) -> bool:
        """Tell whether some device has a copy of what lies at an address of the host."""
        return any(
            entry.host_begin <= host_address < entry.host_end for entries in self._entries.values() for entry in entries
        )
