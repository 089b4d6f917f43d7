"""Arrays of a program of C++ standard parallelism, and which kernels have not finished with them.

What the host touches must not be in the hands of a kernel: `UnfinishedRead` fails the run, whether the kernel still
runs or has ended without anybody having waited for it. It is what a wrongly elided barrier comes to.
"""

from __future__ import annotations

from typing import Any, Literal

import attrs
from numpy.typing import NDArray

from offloadrt.runtime.errors import FreedHostMemory, OffloadError
from offloadrt.runtime.host_array import HostArray
from offloadrt.sim import Simulation


class HostPointerInKernel(OffloadError):
    """A kernel got a pointer that the device cannot use, and the program crashes.

    Under an implementation that does not look: nvcpp, rocstdpar.
    """


class ForeignFree(OffloadError):
    """Memory of the device was freed where libc gets it, and the program crashes.

    The translation unit that frees it was not compiled by the implementation, which replaces frees only in its own
    (rocstdpar).
    """


class PrefetchCrash(OffloadError):
    """A prefetch on a machine whose software stack crashes at one (a flag of its profile)."""


class UnfinishedRead(OffloadError):
    """The host touched data of a kernel that has not finished: a barrier was elided that should have been kept."""


class HeuristicDatabaseError(ValueError):
    """A file with the runtimes of earlier runs cannot be read; the message names the file and what is wrong in it."""


Memory = Literal["shared", "device", "host", "heap", "stack", "scratch"]
"""``shared``, ``device`` and ``host`` USM; ``heap`` of the C library and ``stack``, which only the host can use;
``scratch`` of the runtime, where a kernel leaves what its algorithm returns.
"""


_HINT = "; a run does not see plain Python: the program has to say await t.read(array) or t.write(array, values)"


@attrs.define(eq=False)
class Command:
    """A kernel or a copy that a thread has submitted and not waited for."""

    name: str
    queue: object
    thread: str
    submitted_s: float
    done: bool = False
    """Whether it has ended."""


@attrs.define(eq=False)
class InUse:
    """A command that uses an array: reads it, or writes it too."""

    command: Command
    writes: bool


@attrs.define(eq=False)
class UsmArray(HostArray):
    """An array of the program.

    Its values are shared with kernels; `data`, ``a[i]`` and ``a[i] = x`` are the host's, and take no time:
    `HostThread.read` and `HostThread.write` have its pages come back.
    """

    memory: Memory = "heap"
    sim: Simulation | None = attrs.field(default=None, repr=False)
    in_use: list[InUse] = attrs.field(factory=list, repr=False)

    @property
    def data(self) -> NDArray[Any]:
        """Return the values as the host sees them.

        UnfinishedRead while a kernel writes them, TypeError for a phantom and for device memory.
        """
        self.check_host_access(writes=False, hint=_HINT)
        return self._values()

    def __setitem__(self, index: Any, value: Any) -> None:
        self.check_host_access(writes=True, hint=_HINT)
        self._values()[index] = value

    def _values(self) -> NDArray[Any]:
        if self.memory == "device":
            raise TypeError(f"array {self.name!r} is device memory, which the host cannot use; copy it")
        if self.values is None:
            raise TypeError(f"array {self.name!r} is a phantom: it has a size but no values")
        return self.values

    def check_host_access(self, writes: bool, within: object = None, hint: str = "") -> None:
        """Raise UnfinishedRead when a command that writes it, or uses what the host writes, has not been waited for.

        within: the queue of a copy that is the access; what is in that queue comes before it anyway.
        """
        for use in self.in_use:
            if not (use.writes or writes) or (within is not None and use.command.queue is within):
                continue
            sim = self.sim
            assert sim is not None
            command = use.command
            state = "has ended, but nobody has waited for it" if command.done else "has not finished"
            raise UnfinishedRead.now(
                sim,
                f"the host {'writes' if writes else 'reads'} array {self.name!r}, which {command.name!r} "
                f"{'writes' if use.writes else 'reads'}; that {state} (submitted by {command.thread} at "
                f"{command.submitted_s:.9f} s){hint}",
                call=command.name,
                array=self.name,
            )

    def check_alive(self, call: str) -> None:
        """Raise FreedHostMemory for an array that the program has given back."""
        if self.freed:
            sim = self.sim
            assert sim is not None
            message = f"{call} uses array {self.name!r}, which has been freed"
            raise FreedHostMemory.now(sim, message, call=call, array=self.name)

    def forget(self, queue: object) -> None:
        """Everything in a queue has been waited for."""
        self.in_use[:] = [use for use in self.in_use if use.command.queue is not queue]


def adopted(array: HostArray, memory: Memory, sim: Simulation) -> UsmArray:
    """Make of an array one that knows which memory it is in, with the same values."""
    fields = {field.name: getattr(array, field.name) for field in attrs.fields(HostArray) if field.init}
    return UsmArray(**fields, memory=memory, sim=sim)
