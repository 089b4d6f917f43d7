"""Find out whether a program relies on host and device having copies of their own.

Watched while a recording is made, in the order of time. For each array and each stretch of 64 KiB that lies wholly in
it, it is known whether the host has written since data last went to the device (*host newer*), and whether a kernel has
(*device newer*). A kernel that loads from a stretch of a mapped array whose host copy is newer reads an old value; so
does the host that loads from one whose device copy is newer. With one memory both would see the new value: the program
relies on two. What is not seen: stretches that an array shares with its neighbours, values that happen to be equal, and
what a kernel leaves as it was in a stretch that it writes and that is copied back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

from offloadrt.recording.format.blocks import HostBlock
from offloadrt.recording.format.slots import LOADS, STORES

STRETCH: Final = 64 << 10
_MOST_FINDINGS: Final = 20
"""Findings that are kept; more say nothing new."""


@attrs.define(eq=False)
class SeparateCopies:
    """Notes what host and device do with arrays, and finds where they part."""

    findings: dict[str, None] = attrs.field(factory=dict)
    _mapped: dict[int, int] = attrs.field(factory=dict)
    """How many blocks of device memory hold a stretch."""
    _host_newer: set[int] = attrs.field(factory=set)
    _device_newer: dict[int, str] = attrs.field(factory=dict)

    def _stretches(self, block: HostBlock, address: int, nbytes: int) -> Iterable[int]:
        low = max(address, block.address)
        high = min(address + nbytes, block.address + block.nbytes)
        first, last = -(-block.address // STRETCH), (block.address + block.nbytes) // STRETCH
        return range(max(first, low // STRETCH), min(last, -(-high // STRETCH)))

    def map(self, block: HostBlock, address: int, nbytes: int) -> None:
        """Note that a block of device memory holds these bytes of an array from now on."""
        for stretch in self._stretches(block, address, nbytes):
            self._mapped[stretch] = self._mapped.get(stretch, 0) + 1
            self._host_newer.discard(stretch)
            self._device_newer.pop(stretch, None)

    def unmap(self, block: HostBlock, address: int, nbytes: int) -> None:
        """Note that the block is gone; what only it had is lost."""
        for stretch in self._stretches(block, address, nbytes):
            self._mapped.pop(stretch, None)
            self._host_newer.discard(stretch)

    def copied(self, block: HostBlock, address: int, nbytes: int) -> None:
        """Note that host and device have the same values now, whichever way they were copied."""
        for stretch in self._stretches(block, address, nbytes):
            self._host_newer.discard(stretch)
            self._device_newer.pop(stretch, None)

    def host(self, block: HostBlock, address: int, nbytes: int, kind: int) -> None:
        """Note that the host loads (1) or stores (2)."""
        for stretch in self._stretches(block, address, nbytes):
            kernel = self._device_newer.pop(stretch, None)
            if kernel is not None and kind & LOADS:
                self._find(f"the host reads {block.name!r}, which {kernel} has written on the device only")
            if kind & STORES and stretch in self._mapped:
                self._host_newer.add(stretch)

    def kernel(self, block: HostBlock, address: int, nbytes: int, kind: int, where: str) -> None:
        """Note that a kernel loads (1) or stores (2)."""
        for stretch in self._stretches(block, address, nbytes):
            if kind == LOADS and stretch in self._host_newer:
                self._host_newer.discard(stretch)
                self._find(f"the kernel at {where} uses {block.name!r}, which the host has written since it was mapped")
            if kind == STORES:
                self._device_newer[stretch] = f"the kernel at {where}"

    def _find(self, text: str) -> None:
        if len(self.findings) < _MOST_FINDINGS:
            self.findings[text] = None
