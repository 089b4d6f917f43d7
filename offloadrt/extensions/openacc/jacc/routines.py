"""JACC's routines, which replace a program's OpenACC directives: kernels are generated at run time and ordered by data.

    jacc = acc.Jacc(t, execution="overlap")
    await jacc.jacc_copyin(x, y)
    for step in range(100):
        await jacc.jacc_kernel_push(axpy, acc.jacc_args(axpy, 2.0, x, y), acc.PushFlags.RESTRICT)
    await jacc.jacc_copyout(y)

Source: Matsumura, Garcia De Gonzalo, Peña, "JACC: An OpenACC Runtime Framework with Kernel-Level and Multi-GPU
Parallelization".
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

import attrs

from offloadrt.extensions.openacc.host_thread import (
    HostThread,
    copy,
    copyin,
    copyout,
    create,
    delete,
    device,
    host,
    lower_compute,
    lower_data,
    lower_update,
)
from offloadrt.extensions.openacc.jacc.dependences import (
    AliasedArgument,
    Dependences,
    ExecutionStep,
    Order,
    OverlappingWrites,
    Range,
)
from offloadrt.extensions.openacc.jacc.division import (
    Communication,
    Copies,
    DeviceStrategy,
    Divider,
    Division,
    Exchange,
    Execution,
    Mode,
    PartialValues,
    PushPolicy,
    strategy_named,
)
from offloadrt.extensions.openacc.jacc.generation import Argument, Attribute, CodeCache, GeneratedKernel, PushFlags
from offloadrt.extensions.openacc.runtime_library import (
    InFlight,
    KernelRecords,
    KernelTimes,
    ResolvedArrays,
    device_pointers,
)
from offloadrt.kernels import Kernel, Launch
from offloadrt.kernels.integers import check_integers
from offloadrt.kernels.memo import Memo
from offloadrt.models.host.directive import Work, beginning, ending, launch_of, updating
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.host_array import HostArray, section
from offloadrt.runtime.launch.target import OffloadedRegion, target
from offloadrt.runtime.mapping.data_environment import target_data_update
from offloadrt.runtime.mapping.map_item import DirectiveQueue, MapItem
from offloadrt.sim import Simulation


@attrs.frozen
class Effects:
    """Factors by which a generated kernel takes longer or shorter than the original program's kernel.

    They are inputs of the program. generated: the factor of every generated kernel. restrict, var_opt: the additional
    factor of each specialisation.
    """

    generated: float = 1.0
    restrict: float = 1.0
    var_opt: float = 1.0

    def factor(self, flags: PushFlags) -> float:
        """Return the factor by which the time of a kernel changes that is pushed (launched) with these flags."""
        factor = self.generated
        if flags & PushFlags.RESTRICT:
            factor *= self.restrict
        if flags & PushFlags.VAR_OPT:
            factor *= self.var_opt
        return factor


Stage = Literal["whole", "part", "combination"]
"""What a launch runs: all of the kernel, one device's part of it, or the kernel that combines partial values."""


@attrs.define(eq=False)
class OnDevice:
    """What one device launches for a kernel that the program has launched by `jacc_kernel_push`.

    launch: the launch's geometry. given: the kernel's arguments, with arrays of the host. arrays: those of them that
    must be on the device. items: the map items of the launch. known: the arrays' device addresses as last looked up;
    None before the first look-up. region: the launch with these device addresses in place of the arrays. partial: the
    map items of the arrays with partial results of reductions. They are copied to the host after the device's part of
    the kernel, and from the host before the combining kernel.
    """

    launch: Launch
    given: Sequence[Any]
    arrays: Sequence[HostArray]
    items: Sequence[MapItem] = ()
    partial: Sequence[MapItem] = ()
    known: ResolvedArrays | None = attrs.field(default=None, init=False)
    region: OffloadedRegion = attrs.field(init=False)

    def lies_at(self, known: ResolvedArrays) -> None:
        """Take device addresses that a look-up has found, and put them in place of the arrays in `region`.

        known: these addresses, in the order of `arrays`.
        """
        self.known = known
        at = dict(zip(self.arrays, known.pointers, strict=True))
        arguments = [
            at.get(argument, argument) if isinstance(argument, HostArray) else argument for argument in self.given
        ]
        self.region = OffloadedRegion(self.launch, self.items, arguments)


@attrs.frozen(eq=False)
class Push:
    """One launch of a kernel by `jacc_kernel_push`, prepared: its code, arguments and map items, and how it is divided.

    name: the kernel's name in reports and for the policy that decides about division. kernel, code: the program's
    kernel, and the one that was generated for these arguments. present: the array arguments with the attribute PRESENT.
    reads, writes: bytes of host memory whose copies on the device the kernel reads and writes.
    """

    name: str
    kernel: Kernel
    code: GeneratedKernel
    launch: Launch
    arguments: Sequence[Any]
    present: list[HostArray]
    absent: list[HostArray]
    """The arrays without PRESENT. They may be present all the same."""
    items: list[MapItem]
    """The map items of the arrays in `absent`, which are copied in and out for the launch."""
    reads: tuple[Range, ...]
    writes: tuple[Range, ...]
    division: Division | None
    """How the kernel is divided. None when every device runs all of it: no strategy divides, the kernel cannot be
    divided, not all arrays have PRESENT, or the program states the number of iterations.
    """
    _on_device: dict[tuple[int, Stage], OnDevice] = attrs.field(factory=dict)

    def on_device(self, number: int, stage: Stage) -> OnDevice:
        """Return what the device with this number launches; it is made at the first call and kept.

        stage: ``whole`` for all of the kernel, ``part`` for the device's part of it, ``combination`` for the kernel
        that combines partial results of reductions.
        """
        launched = self._on_device.get((number, stage))
        if launched is None:
            launched = self._on_device[number, stage] = self._launched(number, stage)
        return launched

    def _launched(self, number: int, stage: Stage) -> OnDevice:
        if stage == "whole":
            return OnDevice(self.launch, self.arguments, self.present, self.items)
        assert self.division is not None
        if stage == "part":
            values = self.division.partial_values
            own = lower_update([host(*(section(array, number, 1) for array in values))], if_present=False)
            arrays = [*self.present, *values]
            return OnDevice(self.division.launches[number], self.division.arguments[number], arrays, partial=own)
        combining = self.division.combining
        assert combining is not None
        used = dict.fromkeys(argument for argument in combining.arguments if isinstance(argument, HostArray))
        of_all = lower_update([device(*combining.values)], if_present=False)
        return OnDevice(combining.launch, combining.arguments, list(used), partial=of_all)


def ready(
    name: str,
    code: GeneratedKernel,
    kernel: Kernel,
    args: tuple[Argument, ...],
    iterations: int | None,
    factor: float,
    divider: Divider | None,
) -> Push:
    """Prepare one launch of a kernel by `jacc_kernel_push`, so that it can run on the devices.

    name: the kernel's name in reports. code: the kernel generated from `kernel` for the arguments `args`. iterations:
    how many, for a kernel that is no loop nest. factor: how many times as long as the original the generated code
    takes. divider: divides the kernel among devices; None if kernels are not divided.

    Raises ValueError for an array that is an argument twice, once with PRESENT and once without.
    """
    values = code.arguments([argument.value for argument in args])
    phantom = any(argument.is_array and argument.value.phantom for argument in args)
    slower = functools.partial(_executed, name=name, factor=factor, phantom=phantom)
    arrays = [argument for argument in args if argument.is_array]
    absent = dict.fromkeys(argument.value for argument in arrays if not argument.attributes & Attribute.PRESENT)
    present = dict.fromkeys(argument.value for argument in arrays if argument.attributes & Attribute.PRESENT)
    both = next((array for array in absent if array in present), None)
    if both is not None:
        raise ValueError(f"kernel {kernel.name!r}: array {both.name!r} is an argument with PRESENT and one without")
    return Push(
        name,
        kernel,
        code,
        slower(launch_of(code.kernel, values, iterations=iterations)),
        values,
        list(present),
        list(absent),
        lower_compute("parallel", [copy(*absent)], list(absent), "none") if absent else [],
        tuple(argument.range for argument in arrays if not argument.writes),
        tuple(argument.range for argument in arrays if argument.writes),
        None if divider is None or absent or iterations is not None else divider.division(name, code, values, slower),
    )


def _executed(launch: Launch, name: str, factor: float, phantom: bool) -> Launch:
    """Return a launch under this name that takes `factor` times as long; with a phantom it computes nothing."""
    slower = launch.slower(factor)
    kernel = attrs.evolve(slower.kernel, name=name, body=None if phantom else slower.kernel.body)
    return attrs.evolve(slower, kernel=kernel)


def _no_global(device: OffloadDevice, array: HostArray) -> None:
    """Return nothing, as pushed kernels use their arguments only, no global arrays."""


@attrs.define(eq=False)
class Launching:
    """Launches the kernels that the program has passed to `jacc_kernel_push`, for one JACC runtime.

    times: the total times of executions, by the kernel's name in reports. `order` runs the directives, `exchange` sends
    bytes between devices, `policy` decides which kernels are divided, `communication` says when bytes are sent,
    `partial_values` makes the arrays of partial results, `records` measures kernels, and `code` holds the compiled
    kernels.
    """

    sim: Simulation
    order: Order
    exchange: Exchange
    policy: PushPolicy
    communication: Communication
    partial_values: PartialValues
    records: KernelRecords
    code: CodeCache
    times: Mapping[str, KernelTimes]

    async def run(self, push: Push) -> None:
        """Run a kernel on the devices, as a whole on each or divided among them, as the policy decides.

        The host waits for it if pushes run one after another (`execution` is ``sync``), if it is divided, and if the
        policy needs measurements. push: the kernel with its arguments and code.
        """
        divided = self.policy.before(push.name) is Mode.DIVIDED and push.division is not None
        if push.items or not (divided or self.policy.measures or self.order.execution == "sync"):
            await self._duplicate(push)
        else:
            await self._measure(push, push.division, divided)

    async def _duplicate(self, push: Push) -> None:
        """Run all of the kernel on every device. The host waits for it only where it copies arrays in and out."""
        order, times, exchange = self.order, self.times[push.name], self.exchange
        used = [*push.present, *push.absent]
        if exchange.is_due(used):
            await order.drain_all()
            seconds, sent = exchange.seconds, exchange.bytes
            await exchange.gather(used, order.devices)
            times.communication_s += exchange.seconds - seconds
            times.sent_bytes += exchange.bytes - sent
        launch = self._launch(push, "whole", InFlight(times, False, len(order.devices)))
        if push.items:
            await order.drain(order.dependences.synchronize(push.reads, push.writes))
            for number in order.devices:
                await order.run("jacc_kernel_push", launch, number)
        else:
            await order.submit("jacc_kernel_push", launch, push.reads, push.writes)

    async def _measure(self, push: Push, division: Division | None, divided: bool) -> None:
        """Run the kernel alone, and its exchange; wait for each, and report the times to the policy.

        divided: run it in parts rather than whole.

        The times are the host's, as in JACC's own runtime (``jacc_perform_kernel``): an OpenMP thread for each device
        reads the clock, calls the kernel's compiled code, which launches it and waits, and reads the clock again behind
        a barrier of all these threads. The times of the thread that serves the first device count.
        """
        order, exchange = self.order, self.exchange
        part = division if divided else None
        if part is not None:
            await self.code.compiled((push.code.text, part.source), push.kernel.name)
            if values := self.partial_values.to_create(part.partial_values):
                await order.begin("jacc_create", lower_data([create(*values)], "enter data"))
        if division is not None:
            await exchange.open()
        await order.drain_all()
        times, seconds, sent = self.times[push.name], exchange.seconds, exchange.bytes
        if exchange.is_due(push.present):
            await (exchange.gather(push.present, order.devices) if part is None else exchange.before(part))
        begin = self.sim.now
        if part is None:
            await order.run_on_all("jacc_kernel_push", self._launch(push, "whole", None))
            kernel_s = self.sim.now - begin
        else:
            kernel_s = await self._divide(push, part) - begin
        times.executions += 1
        times.divided += divided
        times.kernel_s += kernel_s
        communication_s = exchange.seconds - seconds
        times.communication_s += communication_s
        times.sent_bytes += exchange.bytes - sent
        if division is not None:
            self.policy.after(push.name, Execution(kernel_s, communication_s, division.write_bytes))

    async def _divide(self, push: Push, part: Division) -> float:
        """Run each device's part, and send what it has written; return when the kernel's time ended, in seconds.

        The time of a reduction is the kernel's: OpenACC copies each device's partial values to its thread, and
        behind the barrier JACC adds them up on the host, where its time ends. A program keeps the result on the devices
        here, so each device then gets all partial values from the host, and a kernel there combines them; JACC has
        neither, and neither counts as its time. After that each thread starts its device's copies to all others, and
        waits for them, without a further barrier.
        """
        order, exchange, ended = self.order, self.exchange, 0.0
        launch, combine = (self._launch(push, stage, None) for stage in ("part", "combination"))
        copies: Copies | None = None

        async def serve(number: int, meet: Callable[[], Awaitable[None]]) -> None:
            nonlocal ended, copies
            await order.run("jacc_kernel_push", launch, number)
            await meet()
            if number == order.devices[0]:
                ended = self.sim.now
            if part.combining is not None:
                await order.run("jacc_combine", combine, number)
                await meet()
            begin = self.sim.now
            if copies is None:
                copies = exchange.after(part, self.communication)
            if copies:
                await order.run("jacc_exchange", exchange.sending(copies), number)
            if number == order.devices[0]:
                exchange.seconds += self.sim.now - begin

        await order.in_team("jacc_kernel_push", serve)
        return ended

    def _launch(self, push: Push, stage: Stage, execution: InFlight | None) -> Work:
        """Return the work that launches a stage of the push, as part of an execution to measure or of none."""

        async def launch(where: OffloadDevice, queue: DirectiveQueue) -> None:
            if execution is not None:
                self.records.expect(where.number, queue.cause, execution)
            here = push.on_device(where.number, stage)
            if stage == "combination":
                await target_data_update(where, here.partial, queue, "jacc_combine")
            known = await device_pointers(where, here.arrays, queue, "jacc_kernel_push", here.known)
            if known is not here.known:
                here.lies_at(known)
                if stage == "part":
                    self.exchange.placed(where.number, here.arrays, known)
            await target(where, queue, here.region, "jacc_kernel_push", _no_global)
            if stage == "part" and here.partial:
                await target_data_update(where, here.partial, queue, "jacc_kernel_push")

        return launch


class Jacc:
    """The JACC runtime of one host thread: its routines take the place of OpenACC's directives.

    execution: how kernels are ordered. With ``sync`` the host waits for each; with ``async`` all go to one queue, and
    with ``overlap`` to several. queues: how many queues `overlap` uses (the paper does not say). devices: how many of
    the program's devices are used, from device 0 on; each gets all data. strategy: how the devices share kernels, a
    `DeviceStrategy` or its name. communication: with ``all-to-all`` each device sends its part to all others after a
    divided kernel; with ``needed`` a device gets, before a kernel, what its part of the kernel reads. effects: by
    kernel name, factors of the kernel's time.

    Raises ValueError for a name that does not exist, and for a strategy that divides kernels among devices which cannot
    copy to one another; InvalidDevice when the program has fewer devices.

    times: the total times of each kernel's executions that have ended, by the kernel's name in reports.
    """

    def __init__(
        self,
        thread: HostThread,
        *,
        execution: ExecutionStep = "async",
        queues: int = 8,
        devices: int = 1,
        strategy: str | DeviceStrategy = "duplicated",
        communication: Communication = "all-to-all",
        effects: Mapping[str, Effects] | None = None,
    ) -> None:
        if execution not in get_args(ExecutionStep):
            raise ValueError(f"no execution {execution!r}; there are: {', '.join(get_args(ExecutionStep))}")
        if communication not in get_args(Communication):
            raise ValueError(f"no communication {communication!r}; there are: {', '.join(get_args(Communication))}")
        check_integers("Jacc", [("devices", devices, 1), ("queues", queues, 1)])
        if isinstance(strategy, str):
            strategy = strategy_named(strategy, devices)
        if strategy.devices is not None and strategy.devices > devices:
            raise ValueError(f"Jacc: the strategy uses {strategy.devices} devices, but devices is {devices}")
        self.thread = thread
        self.program = thread.program
        self.policy = strategy.policy
        self.effects = effects or {}
        self.times: dict[str, KernelTimes] = {}
        self.program.device(devices - 1, "jacc_init")
        self._devices = range(devices if strategy.devices is None else strategy.devices)
        thread.spread = max(thread.spread, len(self._devices))
        self._dependences = Dependences(queues if execution == "overlap" else 1)
        self._order = Order(self.program, thread.library.queues, self._devices, execution, self._dependences)
        self._exchange = Exchange(
            self.program.devices,
            thread.library.queues,
            len(self._devices),
            queues,
            self._order.run,
            self._order.run_on_all,
        )
        self._partial_values = PartialValues(len(self._devices), thread.array)
        self._divider: Divider | None = None
        if strategy.divide is not None and len(self._devices) > 1:
            if not self.program.devices[0].plugin.exchanges_with(1):
                machine = self.program.machine.spec.name
                raise ValueError(f"a strategy that divides kernels needs links between devices, and {machine} has none")
            self._divider = Divider(strategy.divide, len(self._devices), self._partial_values)
        self._launching = Launching(
            thread.sim,
            self._order,
            self._exchange,
            strategy.policy,
            communication,
            self._partial_values,
            thread.library.records,
            thread.library.code,
            self.times,
        )
        self._pushes: Memo[tuple[int, tuple[Argument, ...], PushFlags, int | None], Push] = Memo()

    @property
    def communication_s(self) -> float:
        """Return the seconds spent so far in exchanging data between devices, by the thread that serves device 0.

        It includes what is sent to one device before the host uses the data.
        """
        return self._exchange.seconds

    @property
    def refused(self) -> Mapping[str, str]:
        """Return why the strategy could not divide a kernel, by kernel name. Every device runs all of such a kernel."""
        return {} if self._divider is None else dict(self._divider.refused)

    # data

    async def jacc_create(self, *arrays: HostArray) -> None:
        """Allocate device memory for these arrays, or count one more reference where they are present."""
        _check_arrays("jacc_create", arrays)
        await self._order.begin("jacc_create", lower_data([create(*arrays)], "enter data"))

    async def jacc_copyin(self, *arrays: HostArray) -> None:
        """Allocate device memory for these arrays, or count one more reference; those new there get the host's values.

        The copies come after earlier pushes that use the arrays.
        """
        _check_arrays("jacc_copyin", arrays)
        begin = beginning(lower_data([copyin(*arrays)], "enter data"), "jacc_copyin")
        await self._order.submit("jacc_copyin", begin, (), _ranges(arrays))

    async def jacc_copyout(self, *arrays: HostArray) -> None:
        """Drop one reference. With the last reference, the values of device 0 are copied to the host.

        Waits for the queues that use the arrays, and no others.
        """
        _check_arrays("jacc_copyout", arrays)
        await self._gather(arrays, self._devices[:1])
        await self._end("jacc_copyout", lower_data([copyout(*arrays)], "exit data"), arrays)

    async def jacc_delete(self, *arrays: HostArray) -> None:
        """Drop one reference to each array, without a copy."""
        _check_arrays("jacc_delete", arrays)
        await self._end("jacc_delete", lower_data([delete(*arrays)], "exit data"), arrays)

    async def jacc_host_access(self, *arrays: HostArray, write: bool = False) -> None:
        """Wait for the queues on which the host's own use of arrays depends.

        These are the queues that compute the arrays' values; before the host writes them (`write`), also those that
        read them. The routine copies nothing: `jacc_update_device` copies what the host has written to the devices.
        """
        _check_arrays("jacc_host_access", arrays)
        ranges = _ranges(arrays)
        await self._gather(arrays, self._devices if write else self._devices[:1])
        await self._order.drain(self._dependences.synchronize(ranges, ranges if write else ()))

    async def jacc_update_host(self, *arrays: HostArray) -> None:
        """Wait for the queues that compute the values, then copy those of device 0 to the host: ``update host(…)``.

        Raises NotPresent for an array that is not on the devices.
        """
        _check_arrays("jacc_update_host", arrays)
        await self.jacc_host_access(*arrays)
        update = updating(lower_update([host(*arrays)], if_present=False), "jacc_update_host")
        await self._order.run("jacc_update_host", update, self._devices[0])

    async def jacc_update_device(self, *arrays: HostArray) -> None:
        """Copy the host's values to all devices, after earlier pushes that use the arrays: ``update device(…)``.

        Raises NotPresent for an array that is not on the devices.
        """
        _check_arrays("jacc_update_device", arrays)
        update = updating(lower_update([device(*arrays)], if_present=False), "jacc_update_device")
        await self._order.submit("jacc_update_device", update, (), _ranges(arrays))
        for array in arrays:
            self._exchange.forget(array)

    async def jacc_wait(self) -> None:
        """Wait for all kernels that `jacc_kernel_push` has launched. Raises the error of a kernel."""
        await self._order.drain_all()

    async def _end(self, name: str, items: list[MapItem], arrays: Sequence[HostArray]) -> None:
        ranges = _ranges(arrays)
        await self._order.drain(self._dependences.synchronize((), ranges))
        elsewhere = lower_data([delete(*arrays)], "exit data")
        for number in self._devices:
            await self._order.run(name, ending(elsewhere if number else items, name), number)
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
        """Run the kernel after all that it depends on; generate and compile it first, unless that has been done.

        iterations: how many, for a kernel that is no loop nest. flags: how the code is specialised for the arguments
        (`PushFlags`). Raises AliasedArgument, OverlappingWrites and NotPresent; KernelError for a source that cannot be
        read; TypeError if `kernel` is no kernel or `args` no tuple of argument descriptors. An error in the kernel
        itself is raised when its queue is waited for.
        """
        if type(args) is not tuple:
            raise TypeError(
                f"jacc_kernel_push: a {type(args).__name__} is no tuple of arguments; build one with jacc_args"
            )
        key = (id(kernel), args, flags, iterations)
        push = self._pushes.get(key)
        if push is None:
            _check_push(kernel, args, flags, iterations)
            self._check(kernel, args, flags)
            cache = self.thread.library.code
            code = cache.known(kernel, args, flags) or await cache.get(kernel, args, flags)
            factor = self.effects.get(kernel.name, Effects()).factor(flags)
            name = self.thread.library.records.name(kernel, code)
            push = self._pushes[key] = ready(name, code, kernel, args, iterations, factor, self._divider)
            self.times.setdefault(name, KernelTimes())
        await self._launching.run(push)

    async def _gather(self, arrays: Sequence[HostArray], devices: Sequence[int]) -> None:
        """Send these devices the bytes of arrays that they lack. Divided kernels do not need this call."""
        if self._exchange.is_due(arrays):
            await self._order.drain_all()
            await self._exchange.gather(arrays, devices)

    def _check(self, kernel: Kernel, args: Sequence[Argument], flags: PushFlags) -> None:
        arrays = [argument for argument in args if argument.is_array]
        for position, argument in enumerate(arrays):
            for other in arrays[position + 1 :]:
                (begin, end), (other_begin, other_end) = argument.range, other.range
                if not (argument.writes or other.writes) or begin >= other_end or other_begin >= end:
                    continue
                what = f"kernel {kernel.name!r}: arguments {argument.symbol!r} and {other.symbol!r}"
                if flags & PushFlags.RESTRICT:
                    self._refuse(AliasedArgument, f"{what} share bytes, and it is specialised with restrict", other)
                if argument.writes and other.writes:
                    self._refuse(OverlappingWrites, f"{what} are both written, and share bytes", other)

    def _refuse(self, kind: type[AliasedArgument | OverlappingWrites], message: str, argument: Argument) -> None:
        where = self.program.device(self._devices[0])
        raise where.error(kind, message, "jacc_kernel_push", argument.value.name)


def _check_arrays(name: str, arrays: Sequence[HostArray]) -> None:
    for array in arrays:
        if not isinstance(array, HostArray):
            raise TypeError(f"{name}: {array!s} is no array; JACC's routines take whole arrays")


def _check_push(kernel: Kernel, args: Sequence[Argument], flags: PushFlags, iterations: int | None) -> None:
    if not isinstance(kernel, Kernel):
        raise TypeError(f"jacc_kernel_push: {kernel!r} is no kernel")
    for position, argument in enumerate(args):
        if not isinstance(argument, Argument):
            raise TypeError(f"kernel {kernel.name!r}: argument {position} is {argument!r}; build it with jacc_args")
    if not isinstance(flags, PushFlags):
        raise TypeError(f"kernel {kernel.name!r}: flags are {flags!r}, which are no PushFlags")
    if iterations is not None:
        check_integers(f"kernel {kernel.name!r}", [("iterations", iterations, 0)])


def _ranges(arrays: Iterable[HostArray]) -> tuple[Range, ...]:
    return tuple((array.address, array.address + array.nbytes) for array in arrays)
