"""Kernels that were generated and compiled at run time, kept by their text; the count of compilations is the result.

The compiler is a process of its own on a core: it takes ``jit.compile`` of the machine's profile for each kernel. A
thread that wants a kernel which another one is compiling waits for that.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from offloadrt.kernels import Kernel
from offloadrt.machine import Machine
from offloadrt.models.openacc.jacc.arguments import Argument
from offloadrt.models.openacc.jacc.generation import GeneratedKernel, PushFlags, generate
from offloadrt.runtime.lock_wait import take
from offloadrt.sim import Lock, LockStatistics
from offloadrt.trace import Trace, events

COMPILE = "jacc_compile"
"""The compilation in the statistics of calls and in the trace."""


class CodeCache:
    """The kernels that one program has generated and compiled at run time."""

    def __init__(self, machine: Machine, trace: Trace | None = None) -> None:
        self.compilations = 0
        """Kernels compiled so far: one for each kernel and specialization that differ in their text."""
        self.compile_s = 0.0
        """Virtual seconds that the compiler ran."""
        self._machine = machine
        self._trace = trace
        self._seconds = machine.spec.value("jit.compile")
        self._asked: dict[Hashable, tuple[Kernel, GeneratedKernel]] = {}
        self._generated: dict[Hashable, GeneratedKernel] = {}
        self._compiled: set[Hashable] = set()
        self._locks: dict[Hashable, Lock] = {}
        """A lock for each text, held while the text is compiled."""

    def known(self, kernel: Kernel, arguments: Sequence[Argument], flags: PushFlags) -> GeneratedKernel | None:
        """Return the compiled kernel, None when it has yet to be compiled; takes no time."""
        entry = self._asked.get(_key(kernel, arguments, flags))
        return None if entry is None else entry[1]

    async def get(self, kernel: Kernel, arguments: Sequence[Argument], flags: PushFlags) -> GeneratedKernel:
        """Return the compiled kernel, after compiling it unless there is one of the same text.

        Raises KernelError as `generate`.
        """
        key = _key(kernel, arguments, flags)
        if key not in self._asked:
            self._asked[key] = (kernel, await self._of_text(generate(kernel, arguments, flags), kernel))
        return self._asked[key][1]

    async def _of_text(self, generated: GeneratedKernel, kernel: Kernel) -> GeneratedKernel:
        # A body over views may use anything around it, of which its text does not tell; nor does that of a phantom say
        # what it does with its arrays.
        text = generated.text
        key: Hashable = text if kernel.analysis is not None else (text, kernel)
        await self.compiled(key, kernel.name)
        return self._generated.setdefault(key, generated)

    async def compiled(self, key: Hashable, name: str) -> None:
        """Compile what `key` stands for, usually its text, unless that has been done."""
        if (lock := self._locks.get(key)) is None:
            lock = self._locks[key] = Lock(self._machine.sim, f"compilation of {name}")
        await take(lock, self._machine.host_time)
        try:
            if key not in self._compiled:
                await self._compile(name)
                self._compiled.add(key)
        finally:
            lock.release()

    def locks(self) -> dict[str, LockStatistics]:
        """Return the statistics of all compilation locks together; nothing when nothing was compiled."""
        every = [lock.statistics() for lock in self._locks.values()]
        return {"compilation locks": LockStatistics.total(every)} if every else {}

    async def _compile(self, name: str) -> None:
        machine, sim = self._machine, self._machine.sim
        begin, cause = sim.now, sim.current.cause
        if self._trace is not None:
            self._trace(events.CallBegin, 0, -1, cause, f"{COMPILE} {name}")
        # Every kernel takes the same time, however long its text: the profile's 1 to 10 s have no source, so that a
        # dependence on the text would be a guess.
        await machine.work(self._seconds, "compile")
        self.compilations += 1
        self.compile_s += sim.now - begin
        if machine.calls is not None:
            machine.calls.add(COMPILE, sim.now - begin)
        if self._trace is not None:
            self._trace(events.CallEnd, 0, -1, cause, f"{COMPILE} {name}")


def _key(kernel: Kernel, arguments: Sequence[Argument], flags: PushFlags) -> Hashable:
    """Return what the text depends on.

    Kernels are told by identity; the cache keeps them. `repr` tells 1 from 1.0.
    """
    kinds: list[Hashable] = []
    for argument in arguments:
        if argument.is_array:
            kinds.append((argument.symbol, argument.type.str, len(argument.value.shape)))
        else:
            kinds.append(
                (argument.symbol, argument.type.str, repr(argument.value) if flags & PushFlags.VAR_OPT else "")
            )
    return (id(kernel), flags, tuple(kinds))
