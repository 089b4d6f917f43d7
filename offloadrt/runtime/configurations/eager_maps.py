"""Eager Maps: zero-copy that needs no page faults, because each map fills the device's page table.

The call comes after the item's look-up, when the table is free again: one for every item with bytes that the device
uses in place, at the begin of every construct, also when the pages have long been there.
"""

from __future__ import annotations

from typing import ClassVar

from offloadrt.runtime.configurations.implicit_zero_copy import ImplicitZeroCopy


class EagerMaps(ImplicitZeroCopy):
    """As `implicit_zero_copy`, with a prefault for each map."""

    name: ClassVar[str] = "eager_maps"
    prefaults: ClassVar[bool] = True
