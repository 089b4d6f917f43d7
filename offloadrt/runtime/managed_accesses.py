"""What a kernel does with managed memory, which its launch says: for each array, the range, the order and the way.

A loop nest's launch counts it (`kernels.streams`). Of a kernel that is declared, `ArrayUse` tells whether an array is
swept in order (``constant`` and ``affine``) or met at random (``irregular`` and ``indirect``), read or written, and
after how many loads of others. An array without one is swept once, read and written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from offloadrt.driver import NOTHING, Touching
from offloadrt.kernels import ArrayUse, Launch
from offloadrt.kernels.streams import Stream
from offloadrt.machine.managed_sweep import Access
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.kernel_arguments import Pointees
from offloadrt.runtime.map_item import MapItem, MapItems
from offloadrt.runtime.touching import sections


@attrs.frozen(eq=False)
class _Known:
    """What was found for a construct: with these arguments in these places."""

    launch: Launch
    on_host: Sequence[bool]
    touching: Touching


def accesses_of(
    device: int,
    launch: Launch,
    items: Sequence[MapItem],
    arguments: Sequence[Any],
    arrays: Sequence[HostArray],
    on_host: Sequence[bool],
) -> Touching:
    """`arrays`: the arrays among the arguments; `on_host`: whether each is managed memory, used in place. Remembered
    with a construct.
    """
    known = items.touching.get(device) if isinstance(items, MapItems) else None
    if isinstance(known, _Known) and known.on_host == on_host and known.launch is launch:
        return known.touching
    managed = {array for array, in_place in zip(arrays, on_host, strict=True) if in_place}
    uses = {use.position: use for use in launch.kernel.arrays}
    found: dict[Access, None] = {}
    for position, argument in enumerate(arguments):
        array = argument.pointers if isinstance(argument, Pointees) else argument
        if isinstance(array, HostArray) and array in managed:
            ranges = sections(items, array)
            total = 0
            for _, nbytes in ranges:
                total += nbytes
            for begin, nbytes in ranges:
                found.update(dict.fromkeys(_accesses(uses.get(position), launch, begin, nbytes, nbytes / total)))
    touching = Touching(accesses=tuple(found)) if found else NOTHING
    if isinstance(items, MapItems):
        items.touching[device] = _Known(launch, on_host, touching)
    return touching


def _accesses(use: ArrayUse | None, launch: Launch, begin: int, nbytes: int, share: float) -> list[Access]:
    """`share`: the part of the array's accesses that go to this section of it."""
    if use is None:
        return [Access(begin, nbytes)]
    if launch.counts is None:
        return [_declared(use, launch, begin, nbytes, share)]
    counts = launch.counts.array(use.name)
    return [_counted(stream, counts.element_size, begin, nbytes, share) for stream in counts.streams]


def _counted(stream: Stream, element_size: int, begin: int, nbytes: int, share: float) -> Access:
    """What a loop nest does, as its launch counts it."""
    places = 0.0 if stream.order == "swept" else stream.places * share
    scattered, picked = (places, 0.0) if stream.order == "random" else (0.0, places)
    run = max(stream.read, stream.written) * element_size / stream.places if picked else 0.0
    reads, writes = stream.read > 0, stream.written > 0
    return Access(begin, nbytes, stream.level, scattered, reads, writes, picked, run, element_size)


def _declared(use: ArrayUse, launch: Launch, begin: int, nbytes: int, share: float) -> Access:
    """What a kernel does that is declared by its costs."""
    scattered = 0.0
    if use.pattern in ("irregular", "indirect"):
        elements = use.elements_read + use.elements_written or use.laf
        scattered = elements * launch.iterations * share
    return Access(begin, nbytes, use.level, scattered, use.reads > 0 or not use.laf, use.writes > 0 or not use.laf)
