"""Seeded concurrency bugs: copies of runtime components in which a line is wrong."""

from __future__ import annotations
import __future__

import inspect
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
from mutant_programs import (
    Main,
    allocating,
    attaching,
    evicting,
    meeting,
    neighbours,
    pooled,
    privatizing,
    sharing,
    taking_over,
)

from offloadrt.models.host.program import Barrier
from offloadrt.papers.exahype import memory_manager
from offloadrt.runtime.allocators import llvm
from offloadrt.runtime.launch import target
from offloadrt.runtime.mapping import data_environment, present_table


def patched(owner: Any, name: str, *changes: tuple[str, str]) -> Callable[[pytest.MonkeyPatch], None]:
    """Replace text in the source of a function; a text that is not there any more is an error."""

    def apply(monkeypatch: pytest.MonkeyPatch) -> None:
        function = getattr(owner, name)
        source = textwrap.dedent(inspect.getsource(function))
        for old, new in changes:
            assert source.count(old) == 1, f"{name} has no longer exactly one {old!r}"
            source = source.replace(old, new)
        scope = dict(inspect.unwrap(function).__globals__)
        exec(compile(source, f"<mutant of {name}>", "exec", dont_inherit=True, flags=_ANNOTATIONS), scope)
        monkeypatch.setattr(owner, name, scope[name])
        for module in [module for key, module in sys.modules.items() if key.startswith("offloadrt.")]:
            if vars(module).get(name) is function:  # they import functions by name
                monkeypatch.setattr(module, name, scope[name])

    return apply


_ANNOTATIONS = __future__.annotations.compiler_flag


async def losing_wait(self: Any, number: int) -> None:
    """Wait at a barrier whose gate is looked up only after a step in which it may open."""
    gate = self._open
    gate.arrived.append(number)
    if len(gate.arrived) == self.parties:
        self._open = type(gate)(self.sim, self.parties)
        gate.set()
    else:
        await self.sim.sleep(0.2e-6)
        await self._open.wait()


def lost_wake_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Barrier, "wait", losing_wait)


def nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Change no component: the program itself is wrong."""


def handed_out_unguarded(monkeypatch: pytest.MonkeyPatch) -> None:
    patched(
        memory_manager.BlockManager,
        "allocate",
        (
            (
                "    async with self._guard():\n        block = next((held for held in blocks if not held.in_use and "
                "held.memory is not None), None)\n"
            ),
            (
                "    block = next((held for held in blocks if not held.in_use and held.memory is not None), None)\n"
                "    async with self._guard():\n"
            ),
        ),
    )(monkeypatch)


def opposite_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    """One way takes the bucket and then the map, the other way the map and then the bucket."""
    patched(
        llvm.LlvmMemoryManager,
        "_allocate_pooled",
        (
            "        await self._site.work(self._site.hand_out_s)\n",
            (
                "        await self._site.work(self._site.hand_out_s)\n"
                "        await self._take(self._table_lock)\n        self._release(self._table_lock)\n"
            ),
        ),
    )(monkeypatch)
    patched(
        llvm.LlvmMemoryManager,
        "free",
        ("    self._release(self._table_lock)\n    if block is None:", "    if block is None:"),
        (
            "        self._release(bucket.lock)\n",
            "        self._release(bucket.lock)\n        self._release(self._table_lock)\n",
        ),
    )(monkeypatch)


MUTANTS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], Main]] = {
    "a count decremented twice": (
        patched(
            data_environment,
            "count_down",
            (
                "        entry.decrement(hold)\n",
                "        for _ in range(entry.data_end_users):\n            entry.decrement(hold)\n",
            ),
        ),
        sharing,
    ),
    "a missing wait": (
        patched(
            data_environment,
            "_transfer_to",
            ("            await device.plugin.wait_event(queue, entry.event)\n", "            pass\n"),
        ),
        sharing,
    ),
    "a lock released too early": (
        patched(
            data_environment,
            "_create",
            (
                "    return TargetPointer(address, entry, is_locked=True, is_new=True)\n",
                (
                    "    device.release(TargetPointer(address, entry, is_locked=True, is_new=True))\n"
                    "    return TargetPointer(address, entry, is_new=True)\n"
                ),
            ),
        ),
        taking_over,
    ),
    "a stale shadow pointer": (
        patched(
            present_table.Entry,
            "attach",
            (
                (
                    "    return known is None or (known.device_value, known.descriptor) != "
                    "(shadow.device_value, shadow.descriptor)\n"
                ),
                "    return known is None\n",
            ),
        ),
        attaching,
    ),
    "a callback after free": (
        patched(
            target,
            "target",
            (
                "    if private.blocks:\n        queue.post_processing.append(private.free)\n",
                "    await private.free()\n",
            ),
        ),
        privatizing,
    ),
    "an event recorded before the copy": (
        patched(
            data_environment,
            "_transfer_to",
            (
                (
                    "            await device.submit(queue, pointer.address, "
                    "item.array.span(begin, size), item.array)\n"
                    "            await device.add_event(entry, queue)\n"
                ),
                (
                    "            await device.add_event(entry, queue)\n"
                    "            await device.submit(queue, pointer.address, "
                    "item.array.span(begin, size), item.array)\n"
                ),
            ),
        ),
        sharing,
    ),
    "a pool block handed out twice": (handed_out_unguarded, pooled),
    "an eviction of a block in use": (
        patched(
            memory_manager.BlockManager,
            "release_all",
            ("    if any(block.in_use for block in self._by_address.values()):\n", "    if False:\n"),
        ),
        evicting,
    ),
    "a lock-order inversion": (opposite_orders, allocating),
    "a lost wake-up": (lost_wake_up, meeting),
    "a wrong neighbour": (nothing, neighbours(distance=0)),
    "a barrier in the wrong place": (nothing, neighbours(early=True)),
}
