"""Arrays of a program of C++ standard parallelism, and which unfinished commands use them.

The host must not touch data that a kernel still uses. `UnfinishedRead` fails the run when it does, also when the kernel
has ended but no thread has waited for it. That is what a wrongly elided barrier leads to.
"""

from __future__ import annotations

from typing import Any, Literal

import attrs
from numpy.typing import NDArray

from offloadrt.runtime.errors import FreedHostMemory, OffloadError
from offloadrt.runtime.host_array import HostArray
from offloadrt.sim import Simulation


class HostPointerInKernel(OffloadError):
    """Raised when a kernel got a pointer that the device cannot use; a real program crashes.

    This happens under nvcpp and rocstdpar, which do not check the pointers.
    """


class ForeignFree(OffloadError):
    """Raised when shared USM was freed with the C library's ``free``, which does not know it; real programs crash.

    The implementation (rocstdpar) replaces frees only in translation units that it compiles, and another compiler made
    the one that frees this memory.
    """


class PrefetchCrash(OffloadError):
    """Raised when a prefetch crashed, as the profile says of the machine's software (``usm.prefetch = crashes``)."""


class UnfinishedRead(OffloadError):
    """Raised when the host touched data of a kernel that has not finished: a needed barrier (wait) was elided."""


class HeuristicDatabaseError(ValueError):
    """Raised for a database of the offload heuristic that cannot be read or written; says the file and the fault."""


Memory = Literal["shared", "device", "host", "heap", "stack", "scratch"]
"""Where an array lies. ``shared``, ``device`` and ``host`` are kinds of USM. ``heap`` is the C library's heap, and
``stack`` a thread's stack: only the host can use these. ``scratch`` is memory of the runtime, in which a kernel leaves
what its algorithm returns.
"""


_HINT = "; a run does not see plain Python: the program has to say await t.read(array) or t.write(array, values)"


@attrs.define(eq=False)
class Command:
    """A kernel or a copy that a thread has submitted and not waited for.

    `queue` is its queue, `thread` the name of that thread, and `submitted_s` when it was submitted, in virtual seconds.
    """

    name: str
    queue: object
    thread: str
    submitted_s: float
    done: bool = False
    """Whether the command has ended on the device."""


@attrs.define(eq=False)
class InUse:
    """A command that uses an array: reads it, or `writes` it too."""

    command: Command
    writes: bool


@attrs.define(eq=False)
class UsmArray(HostArray):
    """An array of a program of C++ standard parallelism.

    Kernels and the host share its values. `data`, ``a[i]`` and ``a[i] = x`` are accesses of the host that take no
    virtual time. `HostThread.read` and `HostThread.write` also bring its pages back to the host, which takes time.
    `memory` is the kind of memory in which it lies (`Memory`). `sim` is the simulation, for errors. `in_use` are the
    commands that use it and have not been waited for.
    """

    memory: Memory = "heap"
    sim: Simulation | None = attrs.field(default=None, repr=False)
    in_use: list[InUse] = attrs.field(factory=list, repr=False)

    @property
    def data(self) -> NDArray[Any]:
        """Return the values of the array as the host sees them.

        Raises UnfinishedRead while a kernel writes them. Raises TypeError for device memory, and for an array without
        values (a phantom).
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
        """Raise UnfinishedRead when a command that conflicts with this access of the host has not been waited for.

        A command conflicts if it writes the array, or if the host writes (`writes`) what the command uses. within: the
        queue of a copy that makes the access; commands in that queue run before the copy anyway. hint: advice for the
        error's text.
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
        """Raise FreedHostMemory, which names the `call`, for an array that the program has given back."""
        if self.freed:
            sim = self.sim
            assert sim is not None
            message = f"{call} uses array {self.name!r}, which has been freed"
            raise FreedHostMemory.now(sim, message, call=call, array=self.name)

    def forget(self, queue: object) -> None:
        """Drop the commands of `queue` from `in_use`, after the thread has waited for that queue."""
        self.in_use[:] = [use for use in self.in_use if use.command.queue is not queue]


def adopted(array: HostArray, memory: Memory, sim: Simulation) -> UsmArray:
    """Make a `UsmArray` from an array, with the same values, in the given kind of memory."""
    fields = {field.name: getattr(array, field.name) for field in attrs.fields(HostArray) if field.init}
    return UsmArray(**fields, memory=memory, sim=sim)
