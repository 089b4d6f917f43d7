"""Divided kernels run on private copies of their arrays, one set for each device, and exchanged as told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from offloadrt.compilers.multi_device.divided import DividedKernel, Holders, Transfer
from offloadrt.kernels import Kernel

Memory = dict[str, Any]
"""Arrays and numbers by the names that kernels' parameters have."""


def copied(memory: Mapping[str, Any]) -> Memory:
    return {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in memory.items()}


def arguments_of(kernel: Kernel, memory: Mapping[str, Any]) -> list[Any]:
    assert kernel.analysis is not None
    return [memory[name] for name in kernel.analysis.parameters]


def on_one_device(kernel: Kernel, memory: Mapping[str, Any]) -> Memory:
    """What is in memory after a kernel."""
    after = copied(memory)
    kernel.body.interpret(*arguments_of(kernel, after))  # type: ignore[union-attr]
    return after


def raw(array: Any) -> Any:
    return array.reshape(-1).view(np.uint8)


class Devices:
    """Some devices, each with a memory of its own."""

    def __init__(self, count: int, memory: Mapping[str, Any]) -> None:
        self.memories = [copied(memory) for _ in range(count)]
        self.holders = Holders()
        self.sent = 0

    def send(self, name: str, transfers: Sequence[Transfer]) -> None:
        for one in transfers:
            place = slice(one.offset, one.offset + one.nbytes)
            raw(self.memories[one.target][name])[place] = raw(self.memories[one.source][name])[place]
            self.sent += one.nbytes

    def run(self, divided: DividedKernel, way: str = "interpret") -> None:
        """The kernel on all devices, then every owned piece to everyone."""
        for name, segments in self._run(divided, way).items():
            for source, pieces in enumerate(segments):
                for target in range(len(segments)):
                    if target != source:
                        self.send(name, [Transfer(source, target, *piece) for piece in pieces])

    def run_lazily(self, divided: DividedKernel, way: str = "interpret") -> None:
        """What is read comes first; what others own is spoilt afterwards, so that nobody can live on it."""
        given = arguments_of(divided.original, self.memories[0])
        for part in divided.parts(len(self.memories), given):
            for name, needed in part.reads.items():
                self.send(name, self.holders.fetch(name, part.share.device, needed))
        for name, segments in self._run(divided, way).items():
            self.holders.wrote(name, segments)
            for device, memory in enumerate(self.memories):
                for owner, pieces in enumerate(segments):
                    for offset, nbytes in pieces if owner != device else ():
                        raw(memory[name])[offset : offset + nbytes] = 0x41

    def _run(self, divided: DividedKernel, way: str) -> dict[str, list[Any]]:
        given = arguments_of(divided.original, self.memories[0])
        parts = divided.parts(len(self.memories), given)
        types = () if divided.combination is None else divided.combination.types(given)
        values = [[np.full(len(parts), 77, one) for one in types] for _ in parts]
        for part, memory, mine in zip(parts, self.memories, values, strict=True):
            changed = divided.arguments(part.share, arguments_of(divided.original, memory), mine)
            getattr(divided.kernel.body, way)(*changed)
        if divided.combination is not None:
            whole = [np.array([mine[k][device] for device, mine in enumerate(values)]) for k in range(len(types))]
            for memory in self.memories:
                combined = divided.combination.arguments(arguments_of(divided.original, memory), whole)
                getattr(divided.combination.kernel.body, way)(*combined)
        return {name: [part.segments[name] for part in parts] for name in parts[0].segments}

    def gather(self) -> None:
        """Everything to everyone."""
        for device in range(len(self.memories)):
            for name, value in self.memories[0].items():
                if isinstance(value, np.ndarray):
                    self.send(name, self.holders.fetch(name, device, None))


def same_bits(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Are all arrays equal, bit by bit?"""
    return all(
        np.array_equal(raw(value), raw(other[name])) for name, value in one.items() if isinstance(value, np.ndarray)
    )


def same_values(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Are all arrays and numbers equal?"""
    return all(np.array_equal(value, other[name]) for name, value in one.items())
