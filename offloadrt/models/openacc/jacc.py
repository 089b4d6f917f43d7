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
from typing import Final, Literal, get_args

from offloadrt.kernels import Kernel
from offloadrt.models.host.directive import Work
from offloadrt.models.openacc.arguments import Argument, is_whole
from offloadrt.models.openacc.clauses import UpdateClause, copyin, copyout, create, delete, device, host
from offloadrt.models.openacc.dependences import Dependences, Range
from offloadrt.models.openacc.division import Divider, Division
from offloadrt.models.openacc.errors import AliasedArgument, LeftEarly, OverlappingWrites
from offloadrt.models.openacc.exchange import Communication, Exchange
from offloadrt.models.openacc.generation import PushFlags
from offloadrt.models.openacc.host_thread import HostThread
from offloadrt.models.openacc.kernel_times import InFlight, KernelTimes
from offloadrt.models.openacc.lowering import lower_data, lower_update
from offloadrt.models.openacc.partial_values import PartialValues
from offloadrt.models.openacc.policy import Execution, Mode
from offloadrt.models.openacc.pushes import Effects, Push, Stage, factor_of, ready
from offloadrt.models.openacc.strategies import Strategy, strategy_named
from offloadrt.runtime.data_environment import target_data_begin, target_data_end, target_data_update
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


class Jacc:
    """The runtime of one host thread.

    execution: see `ExecutionStep`. queues: how many activity queues `overlap` uses (the paper does not say). devices:
    of the program, from 0; every one gets all data. strategy: how they share kernels, a `Strategy` or its name.
    communication: see `Communication`. effects: by kernel name. ValueError for what does not exist, and for a strategy
    that divides kernels among devices which cannot copy to one another; InvalidDevice when the program has fewer
    devices.

    times: what the executions of each kernel that have ended took on the devices, by the kernel's name in reports.
    """

    def __init__(
        self,
        thread: HostThread,
        *,
        execution: ExecutionStep = "async",
        queues: int = 8,
        devices: int = 1,
        strategy: str | Strategy = "duplicated",
        communication: Communication = "all-to-all",
        effects: Mapping[str, Effects] | None = None,
    ) -> None:
        if execution not in get_args(ExecutionStep):
            raise ValueError(f"no execution {execution!r}; there are: {', '.join(get_args(ExecutionStep))}")
        if communication not in get_args(Communication):
            raise ValueError(f"no communication {communication!r}; there are: {', '.join(get_args(Communication))}")
        if not is_whole(devices) or devices < 1:
            raise ValueError(f"Jacc: devices is {devices!r}, but must be a whole number from 1")
        if not is_whole(queues) or queues < 1:
            raise ValueError(f"Jacc: queues is {queues!r}, but must be a whole number from 1")
        if isinstance(strategy, str):
            strategy = strategy_named(strategy, devices)
        if strategy.devices is not None and strategy.devices > devices:
            raise ValueError(f"Jacc: the strategy uses {strategy.devices} devices, but devices is {devices}")
        self.thread = thread
        self.program = thread.program
        self.execution = execution
        self.communication = communication
        self.policy = strategy.policy
        self.effects = effects or {}
        self._records = self.program.records
        self.times: dict[str, KernelTimes] = {}
        self.program.device(devices - 1, "jacc_init")
        self._devices = range(devices if strategy.devices is None else strategy.devices)
        thread.spread = max(thread.spread, len(self._devices))
        self._dependences = Dependences(queues if execution == "overlap" else 1)
        self._exchange = Exchange(self.program, len(self._devices), queues, self._run)
        self._partial_values = PartialValues(len(self._devices), thread.array)
        self._divider: Divider | None = None
        if strategy.divide is not None and len(self._devices) > 1:
            if not self.program.devices[0].plugin.exchanges_with(1):
                machine = self.program.machine.spec.name
                raise ValueError(f"a strategy that divides kernels needs links between devices, and {machine} has none")
            self._divider = Divider(strategy.divide, len(self._devices), self._partial_values)
        self._left_early = ""
        """The name of the directive that was."""
        self._pushes: dict[tuple[int, tuple[Argument, ...], PushFlags, int | None], Push] = {}

    @property
    def communication_s(self) -> float:
        """Seconds of all exchanges between devices, also of those for the host, and of combining partial values."""
        return self._exchange.seconds

    @property
    def refused(self) -> Mapping[str, str]:
        """By kernel name, why a strategy that would divide a kernel cannot: every device runs all of it."""
        return {} if self._divider is None else dict(self._divider.refused)

    # data

    async def jacc_create(self, *arrays: HostArray) -> None:
        """Device memory for these arrays; one reference more."""
        _check_arrays("jacc_create", arrays)
        await self._begin("jacc_create", lower_data([create(*arrays)], "enter data"))

    async def jacc_copyin(self, *arrays: HostArray) -> None:
        """The same, with the host's values when they are new on the device. Behind pushes that use the arrays."""
        _check_arrays("jacc_copyin", arrays)
        items = lower_data([copyin(*arrays)], "enter data")

        async def begin(where: OffloadDevice, queue: DirectiveQueue) -> None:
            await target_data_begin(where, items, queue, "jacc_copyin")

        await self._submit("jacc_copyin", begin, (), _ranges(arrays))

    async def jacc_copyout(self, *arrays: HostArray) -> None:
        """One reference less; the last one copies the values to the host. Waits for the queues that use the arrays, and
        no others. The values are those of device 0.
        """
        _check_arrays("jacc_copyout", arrays)
        await self._gather(arrays, self._devices[:1])
        await self._end("jacc_copyout", lower_data([copyout(*arrays)], "exit data"), arrays)

    async def jacc_delete(self, *arrays: HostArray) -> None:
        """One reference less, without a copy."""
        _check_arrays("jacc_delete", arrays)
        await self._end("jacc_delete", lower_data([delete(*arrays)], "exit data"), arrays)

    async def jacc_host_access(self, *arrays: HostArray, write: bool = False) -> None:
        """Before the host uses arrays, or updates them: wait for the queues in which their values are made; before it
        writes them, also for those in which they are read. What it writes is not on the devices: `jacc_update_device`.
        """
        _check_arrays("jacc_host_access", arrays)
        ranges = _ranges(arrays)
        await self._gather(arrays, self._devices if write else self._devices[:1])
        await self._drain(self._dependences.synchronize(ranges, ranges if write else ()))

    async def jacc_update_host(self, *arrays: HostArray) -> None:
        """``update host(…)``: wait for the queues in which the values are made, then copy those of device 0. Raises
        NotPresent.
        """
        _check_arrays("jacc_update_host", arrays)
        await self.jacc_host_access(*arrays)
        await self._run("jacc_update_host", self._update([host(*arrays)], "jacc_update_host"), self._devices[0])

    async def jacc_update_device(self, *arrays: HostArray) -> None:
        """``update device(…)``: the host's values to all devices, behind pushes that use them. Raises NotPresent."""
        _check_arrays("jacc_update_device", arrays)
        update = self._update([device(*arrays)], "jacc_update_device")
        await self._submit("jacc_update_device", update, (), _ranges(arrays))
        for array in arrays:
            self._exchange.forget(array)

    def _update(self, clauses: Sequence[UpdateClause], name: str) -> Work:
        items = lower_update(clauses, if_present=False)

        async def update(where: OffloadDevice, queue: DirectiveQueue) -> None:
            await target_data_update(where, items, queue, name)

        return update

    async def jacc_wait(self) -> None:
        """Wait for everything that was pushed. Raises what a kernel did wrong."""
        await self._drain(self._dependences.synchronize_all())

    async def _begin(self, name: str, items: list[MapItem]) -> None:
        async def begin(where: OffloadDevice, queue: DirectiveQueue) -> None:
            await target_data_begin(where, items, queue, name)

        for number in self._devices:
            await self._run(name, begin, number)

    async def _end(self, name: str, items: list[MapItem], arrays: Sequence[HostArray]) -> None:
        ranges = _ranges(arrays)
        await self._drain(self._dependences.synchronize((), ranges))
        elsewhere = lower_data([delete(*arrays)], "exit data")

        async def end(where: OffloadDevice, queue: DirectiveQueue) -> None:
            await target_data_end(where, elsewhere if where.number else items, queue, name)

        for number in self._devices:
            await self._run(name, end, number)
        gone = []
        for array, range_ in zip(arrays, ranges, strict=True):
            if not self.program.devices[0].table.lookup(array.address, array.nbytes).contained:
                self._dependences.forget(range_)
                self._exchange.forget(array)
                gone.append(array)
        if values := self._partial_values.to_delete(gone):
            await self._end(name, lower_data([delete(*values)], "exit data"), values)

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
        kernel does wrong is raised when its queue is waited for; KernelError for a source that cannot be read;
        TypeError for what is no kernel or no tuple of argument descriptors.
        """
        if type(args) is not tuple:
            raise TypeError(f"jacc_kernel_push: {args!r} is no tuple of arguments; build one with jacc_args")
        key = (id(kernel), args, flags, iterations)
        push = self._pushes.get(key)
        if push is None:
            if len(self._pushes) >= _KEPT:
                self._pushes.clear()
            _check_push(kernel, args, flags, iterations)
            self._check(kernel, args, flags)
            cache = self.program.code
            code = cache.known(kernel, args, flags) or await cache.get(kernel, args, flags)
            factor = factor_of(self.effects, kernel, flags)
            name = self._records.name(kernel, code)
            push = self._pushes[key] = ready(name, code, kernel, args, iterations, factor, self._divider)
            self.times.setdefault(name, KernelTimes())
        divided = self.policy.before(push.name) is Mode.DIVIDED
        if push.division is not None and (divided or self.policy.measures):
            await self._measure(push, push.division, divided)
        else:
            await self._duplicate(push)

    async def _duplicate(self, push: Push) -> None:
        """Every device runs all of it; the host waits only as the execution step says."""
        times, exchange = self.times[push.name], self._exchange
        used = [*push.present, *push.absent]
        if exchange.is_due(used):
            await self._drain(self._dependences.synchronize_all())
            seconds, sent = exchange.seconds, exchange.bytes
            await exchange.gather(used, self._devices)
            times.communication_s += exchange.seconds - seconds
            times.sent_bytes += exchange.bytes - sent
        execution = InFlight(times, False, len(self._devices))

        async def launch(where: OffloadDevice, queue: DirectiveQueue) -> None:
            self._records.expect(where.number, queue.cause, execution)
            await self._launch(push, "whole", where, queue)

        if push.items:
            await self._drain(self._dependences.synchronize(push.reads, push.writes))
            for number in self._devices:
                await self._run("jacc_kernel_push", launch, number)
        else:
            await self._submit("jacc_kernel_push", launch, push.reads, push.writes)

    async def _measure(self, push: Push, division: Division, divided: bool) -> None:
        """Run it alone, in its mode, with its exchange, and wait for each; tell the policy what they took."""
        code, sim, exchange = self.program.code, self.thread.sim, self._exchange
        if divided:
            await code.compiled(f"{push.code.text}{division.source}", push.kernel.name)
            if values := self._partial_values.to_create(division.partial_values):
                await self._begin("jacc_create", lower_data([create(*values)], "enter data"))
        await exchange.open()
        await self._drain(self._dependences.synchronize_all())
        times, seconds, sent = self.times[push.name], exchange.seconds, exchange.bytes
        if divided:
            await exchange.before(division)
        elif exchange.is_due(push.present):
            await exchange.gather(push.present, self._devices)
        begin = sim.now
        execution = InFlight(times, divided, len(self._devices))

        async def launch(where: OffloadDevice, queue: DirectiveQueue) -> None:
            self._records.expect(where.number, queue.cause, execution)
            await self._launch(push, "part" if divided else "whole", where, queue)

        await self._submit("jacc_kernel_push", launch, push.reads, push.writes)
        await self._drain(self._dependences.synchronize_all())
        kernel_s = sim.now - begin
        if divided:
            exchange.wrote(division)
            everything = self.communication == "all-to-all"
            await exchange.gather(division.owned if everything else division.partial_values, self._devices)
            if division.combining is not None:
                await self._combine(push)
        communication_s = exchange.seconds - seconds
        self.policy.after(push.name, Execution(kernel_s, communication_s, division.write_bytes))
        times.communication_s += communication_s
        times.sent_bytes += exchange.bytes - sent

    async def _combine(self, push: Push) -> None:
        """Every device makes the result of a reduction from the partial values of all; that is part of the exchange."""

        async def launch(where: OffloadDevice, queue: DirectiveQueue) -> None:
            await self._launch(push, "combination", where, queue)

        begin = self.thread.sim.now
        await self._submit("jacc_combine", launch, push.reads, push.writes)
        await self._drain(self._dependences.synchronize_all())
        self._exchange.seconds += self.thread.sim.now - begin

    async def _launch(self, push: Push, stage: Stage, where: OffloadDevice, queue: DirectiveQueue) -> None:
        """On one device."""
        here = push.on_device(where.number, stage)
        here.lies_at(await device_pointers(where, here.arrays, queue, "jacc_kernel_push", here.known))
        assert here.known is not None
        if stage == "part":
            for array, pointer in zip(here.arrays, here.known.pointers, strict=True):
                self._exchange.placed(where.number, array, pointer)
        items = push.items if stage == "whole" else []
        await target(where, here.launch, items, here.arguments, queue, "jacc_kernel_push", lambda array: None)

    async def _gather(self, arrays: Sequence[HostArray], devices: Sequence[int]) -> None:
        """What others have of arrays to these devices, before something else than a divided kernel uses them."""
        if self._exchange.is_due(arrays):
            await self._drain(self._dependences.synchronize_all())
            await self._exchange.gather(arrays, devices)

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
        where = self.program.device(self._devices[0])
        raise where.error(kind, message, "jacc_kernel_push", argument.value.name)

    # order

    async def _submit(self, name: str, work: Work, reads: Sequence[Range], writes: Sequence[Range]) -> None:
        """Do `work` on every device, in the order that the execution step allows."""
        if self.execution == "sync" and len(self._devices) == 1:
            await self._run(name, work, self._devices[0])
            return
        placement = self._dependences.place(reads, writes)
        for number in self._devices:
            await self._run(name, work, number, placement.queue, placement.waits)
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

    async def _drain(self, queues: Sequence[int]) -> None:
        """Wait for these queues of all devices, in one call of the runtime."""

        async def drain(where: OffloadDevice, own: DirectiveQueue) -> None:
            for queue in queues:
                for number in self._devices:
                    await self.program.queue(number, queue).drain(self.program.devices[number], own.cause)

        if queues:
            await self._run("jacc_wait", drain, self._devices[0])


def _check_arrays(name: str, arrays: Sequence[HostArray]) -> None:
    for array in arrays:
        if not isinstance(array, HostArray):
            raise TypeError(f"{name}: {array!s} is no array; JACC's routines take whole arrays")


def _check_push(kernel: Kernel, args: Sequence[Argument], flags: PushFlags, iterations: int | None) -> None:
    if not isinstance(kernel, Kernel):
        raise TypeError(f"jacc_kernel_push: {kernel!r} is no kernel")
    for position, one in enumerate(args):
        if not isinstance(one, Argument):
            raise TypeError(f"kernel {kernel.name!r}: argument {position} is {one!r}; build it with jacc_args")
    if not isinstance(flags, PushFlags):
        raise TypeError(f"kernel {kernel.name!r}: flags are {flags!r}, which are no PushFlags")
    if iterations is not None and (not is_whole(iterations) or iterations < 0):
        raise ValueError(f"kernel {kernel.name!r}: iterations is {iterations!r}, but must be a whole number from 0")


def _ranges(arrays: Iterable[HostArray]) -> tuple[Range, ...]:
    return tuple((array.address, array.address + array.nbytes) for array in arrays)


def _share_bytes(one: Range, other: Range) -> bool:
    return one[0] < other[1] and other[0] < one[1]
