"""Launches of an algorithm's kernel, made once for the same kernel and the same shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from offloadrt.kernels import Kernel, Launch
from offloadrt.kernels.memo import Memo
from offloadrt.models.host.launch import launch_of
from offloadrt.runtime.host_array import HostArray


class Launches:
    """`factor`: how long the compiler's kernels take, where the machine's own compiler's take 1."""

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self._known: Memo[tuple[object, ...], tuple[Kernel, Launch, Launch]] = Memo()

    def of(self, kernel: Kernel, arguments: Sequence[Any], iterations: int | None) -> tuple[Launch, Launch]:
        """Return the launch as the program wrote it, and as this compiler's code executes on the device.

        iterations: of a kernel that is declared by its costs; without, one for each element of its first array.
        KernelError when a loop nest needs what is not known.
        """
        nest = kernel.analysis is not None
        if not nest and iterations is None:
            iterations = next(
                (array.nbytes // array.itemsize for array in arguments if isinstance(array, HostArray)), 1
            )
        looked_at = tuple(_key(argument) for argument in arguments) if nest else ()
        key = (id(kernel), iterations, looked_at)
        entry = self._known.get(key)
        if entry is None:
            written = launch_of(kernel, arguments, iterations=iterations)
            entry = self._known[key] = (kernel, written, written.slower(self._factor))
        return entry[1], entry[2]


def _key(argument: Any) -> object:
    return (argument.shape, argument.dtype.str) if isinstance(argument, HostArray) else argument
