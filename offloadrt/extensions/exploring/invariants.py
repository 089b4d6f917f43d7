"""Invariants of the runtime's state while no directive is in progress, whatever went wrong before.

`violations` checks one device: reference counts of the present table, device memory, streams and signals of the plugin,
locks. For a device that a fatal error has ended, only its locks are checked: the program is over.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from offloadrt.runtime.device import FAILED_FREE, OffloadDevice
from offloadrt.sim import Actor, Simulation


def violations(device: OffloadDevice) -> list[str]:
    """Return the invariants that a device violates, one line each; no directive may be in progress on the device."""
    found = [f"device {device.number}: {line}" for line in _locks(device)]
    if device.ended is None:
        lines = itertools.chain(_entries(device), _blocks(device), _in_use(device))
        found += [f"device {device.number}: {line}" for line in lines]
    return found


def unreturned(device: OffloadDevice) -> list[str]:
    """Describe the device blocks that nobody owns at a program's exit: not freed, not mapped, not the program's own.

    The program must be one for which only the runtime allocates device memory. Returns an empty list after a failed
    free or a fatal error: the driver takes such blocks back at the process's end.
    """
    if device.ended is not None or any(FAILED_FREE in message for message in device.messages):
        return []
    known = device.blocks | {entry.block for entry in device.table}
    return [
        f"device {device.number}: the block at {block.address:#x} ({block.size} bytes) was not returned to the driver"
        for block in device.memory.blocks()
        if block.address not in known
    ]


def held(sim: Simulation) -> list[str]:
    """Describe the locks that are still held at the end of a program, except by a part of the hardware."""
    return [
        f"{primitive.name} is held by {owner.name}" + (", which has ended" if owner.finished else "")
        for primitive in sim.primitives
        if hasattr(primitive, "holders")
        for owner in _owners(primitive)
        if owner.finished or not owner.daemon
    ]


def _owners(primitive: object) -> list[Actor]:
    holders: list[Actor] = getattr(primitive, "holders")()  # noqa: B009  # primitives have no common class
    return holders


def _locks(device: OffloadDevice) -> Iterator[str]:
    daemons = {actor.name for actor in device.sim.actors.values() if actor.daemon}  # threads of the library go on
    at_locks = [
        (primitive.name, request.thread.daemon)
        for primitive in device.sim.primitives
        for request in getattr(primitive, "waiting", ())
        if hasattr(request, "thread")
    ]
    for name, lock in {**device.locks(), **device.driver.locks()}.items():
        if lock.owner is not None and lock.owner not in daemons:
            yield f"{name} is held by {lock.owner}"
        if waiting := lock.tasks_waiting - at_locks.count((name, True)):
            yield f"{waiting} wait for {name}"
    for entry in device.locked_entries:
        yield f"the entry of {entry.name} is locked"


def _entries(device: OffloadDevice) -> Iterator[str]:
    end, before = 0, ""
    for entry in device.table:
        if entry.dynamic < 0 or entry.hold < 0 or not entry.total:
            yield f"the entry of {entry.name} has the counts {entry.dynamic} and {entry.hold}"
        if entry.data_end_users:
            users = "1 directive has" if entry.data_end_users == 1 else f"{entry.data_end_users} directives have"
            yield f"{users} yet to end the mapping of {entry.name}"
        if entry.is_erased:
            yield f"the entry of {entry.name} is erased and still in the table"
        if entry.owned and device.block_size(entry.block) is None:
            yield f"the entry of {entry.name} has no block of device memory"
        if entry.host_begin < end:
            yield f"the entries of {before} and {entry.name} overlap"
        end, before = entry.host_end, entry.name


def _blocks(device: OffloadDevice) -> Iterator[str]:
    known = {entry.block for entry in device.table if entry.owned} | device.requested
    for address in sorted(device.blocks - known):
        yield f"the block at {address:#x} ({device.block_size(address)} bytes) belongs to nobody"
    for address in sorted(device.blocks):
        if not device.memory.begins(address) and not device.uses_system_memory:
            yield f"the block at {address:#x} is not there any more"


def _in_use(device: OffloadDevice) -> Iterator[str]:
    for what, number in device.plugin.in_use().items():
        if number:
            yield f"{number} {what} were not given back"
