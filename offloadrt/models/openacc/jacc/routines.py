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
from typing import get_args

from offloadrt.kernels import Kernel
from offloadrt.kernels.integers import is_integer
from offloadrt.kernels.memo import Memo
from offloadrt.models.host.data_works import beginning, ending, updating
from offloadrt.models.openacc.clauses import copyin, copyout, create, delete, device, host
from offloadrt.models.openacc.host_thread import HostThread
from offloadrt.models.openacc.jacc.arguments import Argument
from offloadrt.models.openacc.jacc.dependences import Dependences, Range
from offloadrt.models.openacc.jacc.devices.division import Divider
from offloadrt.models.openacc.jacc.devices.exchange import Communication, Exchange
from offloadrt.models.openacc.jacc.devices.partial_values import PartialValues
from offloadrt.models.openacc.jacc.devices.strategies import DeviceStrategy, strategy_named
from offloadrt.models.openacc.jacc.errors import AliasedArgument, OverlappingWrites
from offloadrt.models.openacc.jacc.generation import PushFlags
from offloadrt.models.openacc.jacc.launching import Launching
from offloadrt.models.openacc.jacc.order import ExecutionStep, Order
from offloadrt.models.openacc.jacc.pushes import Effects, Push, factor_of, ready
from offloadrt.models.openacc.kernel_times import KernelTimes
from offloadrt.models.openacc.lowering import lower_data, lower_update
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.mapping.map_item import MapItem


class Jacc:
    """The JACC runtime of one host thread.

    execution: see `ExecutionStep`. queues: how many activity queues `overlap` uses (the paper does not say). devices:
    of the program, from 0; every one gets all data. strategy: how they share kernels, a `DeviceStrategy` or its name.
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
        strategy: str | DeviceStrategy = "duplicated",
        communication: Communication = "all-to-all",
        effects: Mapping[str, Effects] | None = None,
    ) -> None:
        if execution not in get_args(ExecutionStep):
            raise ValueError(f"no execution {execution!r}; there are: {', '.join(get_args(ExecutionStep))}")
        if communication not in get_args(Communication):
            raise ValueError(f"no communication {communication!r}; there are: {', '.join(get_args(Communication))}")
        if not is_integer(devices) or devices < 1:
            raise ValueError(f"Jacc: devices is {devices!r}, but must be a whole number from 1")
        if not is_integer(queues) or queues < 1:
            raise ValueError(f"Jacc: queues is {queues!r}, but must be a whole number from 1")
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
            self.program.devices, thread.library.queues, len(self._devices), queues, self._order.run
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
        """Return the seconds of all exchanges between devices, for the host too, and of combining partial values."""
        return self._exchange.seconds

    @property
    def refused(self) -> Mapping[str, str]:
        """Why a strategy that would divide a kernel cannot, by kernel name: every device runs all of it."""
        return {} if self._divider is None else dict(self._divider.refused)

    # data

    async def jacc_create(self, *arrays: HostArray) -> None:
        """Take device memory for these arrays; one reference more."""
        _check_arrays("jacc_create", arrays)
        await self._order.begin("jacc_create", lower_data([create(*arrays)], "enter data"))

    async def jacc_copyin(self, *arrays: HostArray) -> None:
        """Take device memory as `jacc_create` does, with the host's values when the arrays are new on the device.

        The copies come behind pushes that use the arrays.
        """
        _check_arrays("jacc_copyin", arrays)
        begin = beginning(lower_data([copyin(*arrays)], "enter data"), "jacc_copyin")
        await self._order.submit("jacc_copyin", begin, (), _ranges(arrays))

    async def jacc_copyout(self, *arrays: HostArray) -> None:
        """Drop one reference; the last one copies the values to the host.

        Waits for the queues that use the arrays, and no others. The values are those of device 0.
        """
        _check_arrays("jacc_copyout", arrays)
        await self._gather(arrays, self._devices[:1])
        await self._end("jacc_copyout", lower_data([copyout(*arrays)], "exit data"), arrays)

    async def jacc_delete(self, *arrays: HostArray) -> None:
        """Drop one reference, without a copy."""
        _check_arrays("jacc_delete", arrays)
        await self._end("jacc_delete", lower_data([delete(*arrays)], "exit data"), arrays)

    async def jacc_host_access(self, *arrays: HostArray, write: bool = False) -> None:
        """Wait for what the host's own use of arrays depends on.

        That is the queues in which their values are made, and before the host writes them also those in which they are
        read. What it writes is not on the devices: `jacc_update_device`.
        """
        _check_arrays("jacc_host_access", arrays)
        ranges = _ranges(arrays)
        await self._gather(arrays, self._devices if write else self._devices[:1])
        await self._order.drain(self._dependences.synchronize(ranges, ranges if write else ()))

    async def jacc_update_host(self, *arrays: HostArray) -> None:
        """Wait for the queues in which the values are made, then copy those of device 0: ``update host(…)``.

        Raises NotPresent.
        """
        _check_arrays("jacc_update_host", arrays)
        await self.jacc_host_access(*arrays)
        update = updating(lower_update([host(*arrays)], if_present=False), "jacc_update_host")
        await self._order.run("jacc_update_host", update, self._devices[0])

    async def jacc_update_device(self, *arrays: HostArray) -> None:
        """Copy the host's values to all devices, behind pushes that use them.

        It is ``update device(…)``. Raises NotPresent.
        """
        _check_arrays("jacc_update_device", arrays)
        update = updating(lower_update([device(*arrays)], if_present=False), "jacc_update_device")
        await self._order.submit("jacc_update_device", update, (), _ranges(arrays))
        for array in arrays:
            self._exchange.forget(array)

    async def jacc_wait(self) -> None:
        """Wait for everything that was pushed. Raises what a kernel did wrong."""
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
        """Generate and compile the kernel unless that has been done, and run it behind all that it depends on.

        iterations: of a kernel that is no loop nest. Raises AliasedArgument, OverlappingWrites and NotPresent; what a
        kernel does wrong is raised when its queue is waited for; KernelError for a source that cannot be read;
        TypeError for what is no kernel or no tuple of argument descriptors.
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
            factor = factor_of(self.effects, kernel, flags)
            name = self.thread.library.records.name(kernel, code)
            push = self._pushes[key] = ready(name, code, kernel, args, iterations, factor, self._divider)
            self.times.setdefault(name, KernelTimes())
        await self._launching.run(push)

    async def _gather(self, arrays: Sequence[HostArray], devices: Sequence[int]) -> None:
        """Send these devices what others have of arrays, before something else than a divided kernel uses them."""
        if self._exchange.is_due(arrays):
            await self._order.drain_all()
            await self._exchange.gather(arrays, devices)

    def _check(self, kernel: Kernel, args: Sequence[Argument], flags: PushFlags) -> None:
        arrays = [argument for argument in args if argument.is_array]
        for position, argument in enumerate(arrays):
            for other in arrays[position + 1 :]:
                if not (argument.writes or other.writes) or not _share_bytes(argument.range, other.range):
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
    if iterations is not None and (not is_integer(iterations) or iterations < 0):
        raise ValueError(f"kernel {kernel.name!r}: iterations is {iterations!r}, but must be a whole number from 0")


def _ranges(arrays: Iterable[HostArray]) -> tuple[Range, ...]:
    return tuple((array.address, array.address + array.nbytes) for array in arrays)


def _share_bytes(first: Range, second: Range) -> bool:
    return first[0] < second[1] and second[0] < first[1]
