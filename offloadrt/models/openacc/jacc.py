"""JACC: the parts of an OpenACC program as routines of a runtime that generates its kernels and orders their execution.

    jacc = acc.Jacc(t, execution="overlap")
    await jacc.jacc_copyin(x, y)
    for step in range(100):
        await jacc.jacc_kernel_push(axpy, acc.jacc_args(axpy, 2.0, x, y), acc.PushFlags.RESTRICT)
    await jacc.jacc_copyout(y)

Source: Matsumura, Garcia De Gonzalo, Peña, "JACC: An OpenACC Runtime Framework with Kernel-Level and Multi-GPU
Parallelization".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, get_args

import attrs

from offloadrt.kernels import Kernel, Launch
from offloadrt.models.host.directive import Work
from offloadrt.models.host.launch import launch_of
from offloadrt.models.openacc.arguments import Argument, Attribute
from offloadrt.models.openacc.clauses import copy, copyin, copyout, create, delete
from offloadrt.models.openacc.dependences import Dependences, Range
from offloadrt.models.openacc.errors import AliasedArgument, LeftEarly, OverlappingWrites
from offloadrt.models.openacc.generation import GeneratedKernel, PushFlags
from offloadrt.models.openacc.host_thread import HostThread
from offloadrt.models.openacc.lowering import lower_compute, lower_data
from offloadrt.models.openacc.policy import Fixed, Mode, PushPolicy
from offloadrt.runtime.data_environment import target_data_begin, target_data_end
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.directive_queue import DirectiveQueue
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.map_item import MapItem
from offloadrt.runtime.present_arrays import device_pointers
from offloadrt.runtime.target import target

ExecutionStep = Literal["sync", "async", "overlap"]
"""``sync``: the host waits for each push; ``async``: it does not, and all go to one queue; ``overlap``: to several."""

_KEPT: Final = 4096
"""Pushes that are remembered."""


@attrs.frozen
class Effects:
    """What the compiler's code for a generated kernel takes, relative to that of the original program: factors of the
    kernel's time, inputs of the program. generated: for being generated; restrict, var_opt: for each specialization.
    """

    generated: float = 1.0
    restrict: float = 1.0
    var_opt: float = 1.0

    def factor(self, flags: PushFlags) -> float:
        """Of a push with these flags."""
        factor = self.generated
        if flags & PushFlags.RESTRICT:
            factor *= self.restrict
        if flags & PushFlags.VAR_OPT:
            factor *= self.var_opt
        return factor


@attrs.frozen(eq=False)
class _Push:
    """A pushed kernel with its arguments, made ready once and pushed often."""

    kernel: Kernel
    code: GeneratedKernel
    launch: Launch
    arguments: list[Any]
    present: list[HostArray]
    items: list[MapItem]
    """For arrays that are not present: they are copied in and out for the launch."""
    reads: tuple[Range, ...]
    writes: tuple[Range, ...]


class Jacc:
    """The runtime of one host thread.

    execution: see `ExecutionStep`. queues: how many activity queues `overlap` uses (the paper does not say). devices:
    of the program, from 0; every one gets all data. policy: is asked before each push. effects: by kernel name.
    ValueError for another execution; InvalidDevice when the program has fewer devices.
    """

    def __init__(
        self,
        thread: HostThread,
        *,
        execution: ExecutionStep = "async",
        queues: int = 8,
        devices: int = 1,
        policy: PushPolicy | None = None,
        effects: Mapping[str, Effects] | None = None,
    ) -> None:
        if execution not in get_args(ExecutionStep):
            raise ValueError(f"no execution {execution!r}; there are: {', '.join(get_args(ExecutionStep))}")
        self.thread = thread
        self.program = thread.program
        self.execution = execution
        self.policy = policy or Fixed()
        self.effects = effects or {}
        self.program.device(devices - 1, "jacc_init")
        self._devices = range(devices)
        self._dependences = Dependences(queues if execution == "overlap" else 1)
        self._left_early = ""
        """The name of the directive that was."""
        self._pushes: dict[tuple[int, tuple[Argument, ...], PushFlags, int | None], _Push] = {}

    # data

    async def jacc_create(self, *arrays: HostArray) -> None:
        """Device memory for these arrays; one reference more."""
        await self._begin("jacc_create", lower_data([create(*arrays)], "enter data"))

    async def jacc_copyin(self, *arrays: HostArray) -> None:
        """The same, with the host's values when they are new on the device. Behind pushes that use the arrays."""
        items = lower_data([copyin(*arrays)], "enter data")

        async def begin(where: OffloadDevice, queue: DirectiveQueue) -> None:
            await target_data_begin(where, items, queue, "jacc_copyin")

        await self._submit("jacc_copyin", begin, (), _ranges(arrays))

    async def jacc_copyout(self, *arrays: HostArray) -> None:
        """One reference less; the last one copies the values to the host. Waits for the queues that use the arrays, and
        no others. The values are those of device 0.
        """
        await self._end("jacc_copyout", lower_data([copyout(*arrays)], "exit data"), arrays)

    async def jacc_delete(self, *arrays: HostArray) -> None:
        """One reference less, without a copy."""
        await self._end("jacc_delete", lower_data([delete(*arrays)], "exit data"), arrays)

    async def jacc_host_access(self, *arrays: HostArray, write: bool = False) -> None:
        """Before the host uses arrays, or updates them: wait for the queues in which their values are made; before it
        writes them, also for those in which they are read.
        """
        ranges = _ranges(arrays)
        await self._drain(self._dependences.synchronize(ranges, ranges if write else ()))

    async def jacc_wait(self) -> None:
        """Wait for everything that was pushed. Raises what a kernel did wrong."""
        await self._drain(self._dependences.synchronize_all())

    async def _begin(self, name: str, items: list[MapItem]) -> None:
        async def begin(where: OffloadDevice, queue: DirectiveQueue) -> None:
            await target_data_begin(where, items, queue, name)

        for device in self._devices:
            await self._run(name, begin, device)

    async def _end(self, name: str, items: list[MapItem], arrays: Sequence[HostArray]) -> None:
        ranges = _ranges(arrays)
        await self._drain(self._dependences.synchronize((), ranges))
        elsewhere = lower_data([delete(*arrays)], "exit data")

        async def end(where: OffloadDevice, queue: DirectiveQueue) -> None:
            await target_data_end(where, elsewhere if where.number else items, queue, name)

        for device in self._devices:
            await self._run(name, end, device)
        for array, range_ in zip(arrays, ranges, strict=True):
            if not self.program.devices[0].table.lookup(array.address, array.nbytes).contained:
                self._dependences.forget(range_)

    # kernels

    async def jacc_kernel_push(
        self,
        kernel: Kernel,
        args: tuple[Argument, ...],
        flags: PushFlags = PushFlags.NONE,
        iterations: int | None = None,
    ) -> None:
        """Generate and compile the kernel unless that has been done, and run it behind all that it depends on.

        iterations: of a kernel that is no loop nest. Raises AliasedArgument, OverlappingWrites and NotPresent; what a
        kernel does wrong is raised when its queue is waited for; KernelError for a source that cannot be read.
        """
        key = (id(kernel), args, flags, iterations)
        push = self._pushes.get(key)
        if push is None:
            if len(self._pushes) >= _KEPT:
                self._pushes.clear()
            push = self._pushes[key] = await self._ready(kernel, args, flags, iterations)
        if self.policy.before(kernel.name) is Mode.DIVIDED and len(self._devices) > 1:
            raise ValueError(f"kernel {kernel.name!r}: the policy divides it, but it has no predicated form")

        async def launch(where: OffloadDevice, queue: DirectiveQueue) -> None:
            await self._launch(push, where, queue)

        if push.items:
            await self._drain(self._dependences.synchronize(push.reads, push.writes))
            for device in self._devices:
                await self._run("jacc_kernel_push", launch, device)
        else:
            await self._submit("jacc_kernel_push", launch, push.reads, push.writes)

    async def _ready(
        self, kernel: Kernel, args: tuple[Argument, ...], flags: PushFlags, iterations: int | None
    ) -> _Push:
        self._check(kernel, args, flags)
        cache = self.program.code
        code = cache.known(kernel, args, flags) or await cache.get(kernel, args, flags)
        values = code.arguments([one.value for one in args])
        effects = self.effects.get(kernel.name, Effects())
        launch = _slower(launch_of(code.kernel, values, iterations=iterations), effects.factor(flags))
        arrays = [one for one in args if one.is_array]
        absent = dict.fromkeys(one.value for one in arrays if not one.attributes & Attribute.PRESENT)
        present = dict.fromkeys(one.value for one in arrays if one.attributes & Attribute.PRESENT)
        both = next((array for array in absent if array in present), None)
        if both is not None:
            raise ValueError(f"kernel {kernel.name!r}: array {both.name!r} is an argument with PRESENT and one without")
        return _Push(
            kernel,
            code,
            launch,
            values,
            list(present),
            lower_compute("parallel", [copy(*absent)], list(absent), "none") if absent else [],
            tuple(one.range for one in arrays if not one.writes),
            tuple(one.range for one in arrays if one.writes),
        )

    async def _launch(self, push: _Push, where: OffloadDevice, queue: DirectiveQueue) -> None:
        pointers = await device_pointers(where, push.present, queue, "jacc_kernel_push")
        at = dict(zip(push.present, pointers, strict=True))
        arguments = [at.get(one, one) if isinstance(one, HostArray) else one for one in push.arguments]
        await target(where, push.launch, push.items, arguments, queue, "jacc_kernel_push", lambda array: None)

    def _check(self, kernel: Kernel, args: Sequence[Argument], flags: PushFlags) -> None:
        arrays = [one for one in args if one.is_array]
        for position, one in enumerate(arrays):
            for other in arrays[position + 1 :]:
                if not (one.writes or other.writes) or not _share_bytes(one.range, other.range):
                    continue
                what = f"kernel {kernel.name!r}: arguments {one.symbol!r} and {other.symbol!r}"
                if flags & PushFlags.RESTRICT:
                    self._refuse(AliasedArgument, f"{what} share bytes, and it is specialised with restrict", other)
                if one.writes and other.writes:
                    self._refuse(OverlappingWrites, f"{what} are both written, and share bytes", other)

    def _refuse(self, kind: type[AliasedArgument | OverlappingWrites], message: str, argument: Argument) -> None:
        device = self.program.device(self._devices[0])
        raise device.error(kind, message, "jacc_kernel_push", argument.value.name)

    # order

    async def _submit(self, name: str, work: Work, reads: Sequence[Range], writes: Sequence[Range]) -> None:
        """Do `work` on every device, in the order that the execution step allows."""
        if self.execution == "sync" and len(self._devices) == 1:
            await self._run(name, work, self._devices[0])
            return
        placement = self._dependences.place(reads, writes)
        for device in self._devices:
            await self._run(name, work, device, placement.queue, placement.waits)
        if self.execution == "sync":
            await self._drain(self._dependences.synchronize_all())

    async def _run(
        self, name: str, work: Work, device: int, queue: int | None = None, waits: tuple[int, ...] = ()
    ) -> None:
        """One directive of a routine. Raises LeftEarly after one that was."""
        if self._left_early:
            where = self.program.device(device)
            raise where.error(LeftEarly, f"{self._left_early} of this JACC runtime was left early", name, "")
        try:
            await self.thread.run(name, work, queue, waits, device)
        except Exception:
            raise
        except BaseException:
            self._left_early = name
            raise

    async def _drain(self, queues: Iterable[int]) -> None:
        for queue in queues:
            for device in self._devices:
                lasting = self.program.queue(device, queue)

                async def drain(where: OffloadDevice, own: DirectiveQueue, lasting: Any = lasting) -> None:
                    await lasting.drain(where, own.cause)

                await self._run("jacc_wait", drain, device)


def _ranges(arrays: Iterable[HostArray]) -> tuple[Range, ...]:
    return tuple((array.address, array.address + array.nbytes) for array in arrays)


def _share_bytes(one: Range, other: Range) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _slower(launch: Launch, factor: float) -> Launch:
    """A launch whose kernel does so much more: its flops, bytes and dependent accesses times `factor`."""
    if factor == 1.0:
        return launch
    kernel = launch.kernel
    slower = attrs.evolve(
        kernel,
        flops_per_iteration=kernel.flops_per_iteration * factor,
        bytes_per_iteration=kernel.bytes_per_iteration * factor,
        dependent_accesses=kernel.dependent_accesses * factor,
    )
    return attrs.evolve(launch, kernel=slower)
