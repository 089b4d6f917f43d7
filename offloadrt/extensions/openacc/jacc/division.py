"""A pushed kernel divided among devices: what each device launches, needs before the kernel and owns after it.

A strategy for several devices decides whether a kernel is divided, and how. The strategies have names:

``single`` one device, whatever the program has ``duplicated`` every device runs everything ``adaptive`` JACC: kernels
divided by predicates, each while the controller says so ``always`` like ``adaptive``, but every kernel that can be
divided always is ``macc`` MACC: the outermost distributed loop split, every kernel where that is proven to be right,
always
"""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, Literal, Protocol, get_args, get_type_hints

import attrs
import numpy as np

from offloadrt.extensions.openacc.jacc.generation import GeneratedKernel
from offloadrt.extensions.openacc.multi_device import DividedKernel, Holders, Part, Transfer
from offloadrt.extensions.openacc.runtime_library import AsyncQueues, ResolvedArrays
from offloadrt.kernels import Kernel, KernelError, Launch
from offloadrt.kernels.integers import check_integers
from offloadrt.kernels.memo import Memo
from offloadrt.kernels.ranges import Ranges
from offloadrt.models.host.directive import Work, launch_of
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.mapping.map_item import DirectiveQueue


class Mode(enum.Enum):
    """How a kernel runs on several devices: as a whole on each, or divided. With one device both are the same.

    DUPLICATED: whole, on every device. DIVIDED: each device does its part, then the parts are exchanged.
    """

    DUPLICATED = "duplicated"
    DIVIDED = "divided"


@attrs.frozen
class Execution:
    """The measurements of one execution of a kernel, by which a policy decides whether to divide it among devices.

    kernel_s: virtual seconds from the host's first call for the kernel to the end of its wait for all devices.
    communication_s: virtual seconds that the host spent on the exchange of data between devices. write_bytes: the bytes
    that a device sends to each other device, or would send if the kernel were divided.
    """

    kernel_s: float
    communication_s: float = 0.0
    write_bytes: float = 0.0


class PushPolicy(Protocol):
    """Decides before each launch of a kernel (a push of JACC's) whether the kernel is divided among the devices."""

    measures: ClassVar[bool]
    """Whether the policy needs measurements of each execution. The host then waits for each one."""

    def before(self, kernel: str) -> Mode:
        """Return how the kernel of this name runs next: as a whole on every device, or divided."""

    def after(self, kernel: str, execution: Execution) -> None:
        """Take the measurements of one execution of the kernel into account."""


@attrs.frozen
class Fixed:
    """A policy that runs every kernel in the same mode, always.

    `measures` tells that no kernel's time has to be measured for it. `mode` says whether kernels run whole on every
    device or divided.
    """

    measures: ClassVar[bool] = False
    mode: Mode = Mode.DUPLICATED

    def before(self, kernel: str) -> Mode:
        """Return the one mode in which this policy runs every kernel."""
        return self.mode

    def after(self, kernel: str, execution: Execution) -> None:
        """Do nothing: the policy uses no measurements."""


def _positive(rules: Rules, attribute: attrs.Attribute[Any], value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise ValueError(f"Rules: {attribute.name} is {value!r}, but must be a positive number")


def _count(rules: Rules, attribute: attrs.Attribute[Any], value: int) -> None:
    check_integers("Rules", [(attribute.name, value, 1)])


def _one_of(rules: Rules, attribute: attrs.Attribute[Any], value: object) -> None:
    """Check that a field has one of the values that its annotation names."""
    allowed = get_args(get_type_hints(Rules)[attribute.name]) or (False, True)
    if not any(value is choice or (isinstance(value, str) and value == choice) for choice in allowed):
        raise ValueError(f"Rules: {attribute.name} is {value!r}; there are: {', '.join(map(str, allowed))}")


@attrs.frozen
class Rules:
    """The JACC paper's rules for when a kernel is divided among devices; fields choose what the paper leaves open.

    Each rule is an inequality between measured times. On its left is the kernel's time in its present mode (whole on
    every device, or divided), on its right an estimate for the other mode. devices: their number, n. peak_p2p: bytes
    per second of one link, one way (the paper's machine has 25 GB/s). times: how often an inequality has to hold before
    the mode changes. The paper does not say what `consecutive`, `divided_time` and `eff_dup` say. Raises ValueError for
    a field with a value that it cannot have.
    """

    devices: int = attrs.field(validator=_count)
    peak_p2p: float = attrs.field(default=25e9, validator=_positive)
    times: int = attrs.field(default=5, validator=_count)
    consecutive: bool = attrs.field(default=False, validator=_one_of)
    """Whether an execution for which the inequality does not hold resets the count. By default it does not: the rule
    needs `times` executions in all.
    """
    divided_time: Literal["divided", "duplicated"] = attrs.field(default="divided", validator=_one_of)
    """The meaning of the kernel's time t_K in the rules of a divided kernel. divided: the time of this divided
    execution, so that t_K · n estimates one device's time. duplicated: the mean time of the executions whole on every
    device.
    """
    eff_dup: Literal["infinite", "measured"] = attrs.field(default="measured", validator=_one_of)
    """The meaning of the paper's eff_dup, which the paper does not define.

    measured: the seconds of duplicated executions (whole on every device) per byte that a device would have sent. The
    right side is then the time that a duplicated execution would take: ``exec_to_writesize`` of JACC's source
    (``jacc_perform_kernel``). infinite: the rule with eff_dup never holds, and a divided kernel is compared with
    t_K · n only. So a kernel that computes and does not wait for memory stays divided, although division does not make
    it faster, as the paper has all 3 kernels of its benchmark EP.
    """
    counting: Literal["joint", "separate"] = attrs.field(default="joint", validator=_one_of)
    """joint: one count and one mean for both rules of a divided kernel, whose right side is the lesser of the two.
    separate: one count and one mean for each rule.
    """


@attrs.frozen
class Tally:
    """Counts how often one inequality of `Rules` held since the kernel's mode (whole or divided) last changed.

    held: how often it held. executions: how often the kernel ran since then. `mean`: the mean of left minus right side
    over these executions, in seconds.
    """

    held: int = 0
    executions: int = 0
    difference: float = 0.0
    """The sum of left minus right side, in seconds."""

    @property
    def mean(self) -> float:
        return self.difference / self.executions if self.executions else 0.0

    def after(self, difference: float, consecutive: bool) -> Tally:
        """Return the tally after one more execution of the kernel.

        difference: the inequality's left minus right side, in seconds; it holds if this is positive. consecutive:
        whether an execution for which it does not hold resets the count.
        """
        held = self.held + 1 if difference > 0 else 0 if consecutive else self.held
        return Tally(held, self.executions + 1, self.difference + difference)


@attrs.frozen
class KernelState:
    """What the adaptive controller knows of one kernel: whether it is divided now, and the measurements so far.

    mode: whether the kernel runs whole on every device or divided. enable, disable: how often the inequalities that
    would start or stop dividing it have held. duplicated, duplicated_s, duplicated_bytes: its executions as a whole on
    every device: how many, their seconds, and the bytes that a device would have sent if they had been divided.
    """

    mode: Mode = Mode.DUPLICATED
    enable: Tally = Tally()
    disable: tuple[Tally, ...] = ()
    changes: int = 0
    """How often the mode has changed."""
    duplicated_s: float = 0.0
    duplicated_bytes: float = 0.0
    duplicated: int = 0

    @property
    def eff_dup(self) -> float:
        """Return the paper's eff_dup: seconds of duplicated executions per byte that a device would have sent.

        Infinite if no bytes would have been sent.
        """
        return self.duplicated_s / self.duplicated_bytes if self.duplicated_bytes else math.inf

    @property
    def duplicated_mean_s(self) -> float:
        return self.duplicated_s / self.duplicated if self.duplicated else 0.0


def after_execution(rules: Rules, state: KernelState, execution: Execution) -> KernelState:
    """Return the state of a kernel after one more execution, with its mode changed if `rules` ask for it."""
    if state.mode is Mode.DUPLICATED:
        return _after_duplicated(rules, state, execution)
    return _after_divided(rules, state, execution)


def _after_duplicated(rules: Rules, state: KernelState, execution: Execution) -> KernelState:
    # Kernels that only reduce send nothing. Both public versions of JACC's source never divide them; the paper's rule
    # does, and so does the paper's table, in which benchmark MG has three divided kernels that send 0 MB.
    right = execution.kernel_s / rules.devices + execution.write_bytes / rules.peak_p2p
    enable = state.enable.after(execution.kernel_s - right, rules.consecutive)
    state = attrs.evolve(
        state,
        enable=enable,
        duplicated_s=state.duplicated_s + execution.kernel_s,
        duplicated_bytes=state.duplicated_bytes + execution.write_bytes,
        duplicated=state.duplicated + 1,
    )
    if enable.held < rules.times or state.changes:
        return state
    return attrs.evolve(state, mode=Mode.DIVIDED, enable=Tally(), changes=state.changes + 1)


def _after_divided(rules: Rules, state: KernelState, execution: Execution) -> KernelState:
    kernel_s = execution.kernel_s if rules.divided_time == "divided" else state.duplicated_mean_s
    left = kernel_s + execution.communication_s
    is_measured = rules.eff_dup == "measured" and execution.write_bytes > 0
    expected = state.eff_dup * execution.write_bytes if is_measured else math.inf
    rights = [kernel_s * rules.devices, expected]
    if rules.counting == "joint":
        rights = [min(rights)]
    tallies = state.disable or (Tally(),) * len(rights)
    disable = tuple(tally.after(left - right, rules.consecutive) for tally, right in zip(tallies, rights, strict=True))
    if not any(tally.held >= rules.times and tally.mean > 0 for tally in disable):
        return attrs.evolve(state, disable=disable)
    return attrs.evolve(state, mode=Mode.DUPLICATED, disable=(), changes=state.changes + 1)


@attrs.define
class AdaptiveController:
    """JACC's policy, which decides for each kernel by `Rules` whether it is divided among devices.

    `measures` tells that it needs the times of kernels; `rules` are the thresholds by which it decides.
    """

    measures: ClassVar[bool] = True
    rules: Rules
    _states: dict[str, KernelState] = attrs.field(factory=dict)

    def before(self, kernel: str) -> Mode:
        """Return how the kernel runs next: as a whole on every device, or divided."""
        return self.state(kernel).mode

    def after(self, kernel: str, execution: Execution) -> None:
        """Update the kernel's state (times, tallies, mode) after one execution."""
        self._states[kernel] = after_execution(self.rules, self.state(kernel), execution)

    def state(self, kernel: str) -> KernelState:
        """Return the state of a kernel; a new one for a kernel that has not run."""
        return self._states.get(kernel, KernelState())

    @property
    def states(self) -> Mapping[str, KernelState]:
        """Return the states by kernel, in the order of their first execution."""
        return dict(self._states)


STRATEGIES: Final = ("single", "duplicated", "adaptive", "always", "macc")


@attrs.frozen
class DeviceStrategy:
    """Says how a program's kernels use several devices: which devices, when kernels are divided, and by which pass.

    policy: decides when kernels are divided. divide: the pass that divides a kernel; it raises KernelError for a kernel
    that cannot be divided. devices: how many of the program's devices are used, None for all. Raises ValueError for
    less than one.
    """

    policy: PushPolicy = attrs.field(factory=Fixed)
    divide: Callable[[Kernel], DividedKernel] | None = None
    devices: int | None = attrs.field(default=None)

    @devices.validator
    def _check_devices(self, attribute: attrs.Attribute[int | None], value: int | None) -> None:
        if value is not None:
            check_integers("DeviceStrategy", [("devices", value, 1)])


def strategy_named(name: str, devices: int) -> DeviceStrategy:
    """Make the strategy of that name for a number of devices, with the default `Rules`.

    Raises ValueError for a name that does not exist.
    """
    from offloadrt.extensions.openacc.multi_device import predicate, split_loop

    if name == "single":
        return DeviceStrategy(devices=1)
    if name == "duplicated":
        return DeviceStrategy()
    if name == "adaptive":
        return DeviceStrategy(AdaptiveController(Rules(devices)), predicate)
    if name == "always":
        return DeviceStrategy(Fixed(Mode.DIVIDED), predicate)
    if name == "macc":
        return DeviceStrategy(Fixed(Mode.DIVIDED), split_loop)
    raise ValueError(f"no strategy {name!r}; there are: {', '.join(STRATEGIES)}")


@attrs.define(eq=False)
class PartialValues:
    """Makes and keeps the arrays that hold the devices' partial results of reductions, in one JACC runtime.

    devices: the number of devices. make: makes an array from its name, its number of elements and its type.
    """

    devices: int
    make: Callable[[str, int, np.dtype[np.generic]], HostArray]
    _arrays: dict[Hashable, list[HostArray]] = attrs.field(factory=dict)
    _targets: dict[HostArray, Sequence[HostArray]] = attrs.field(factory=dict)
    _present: dict[HostArray, None] = attrs.field(factory=dict)

    def of(
        self, kernel: DividedKernel, types: Sequence[np.dtype[np.generic]], targets: Sequence[HostArray]
    ) -> list[HostArray]:
        """Return the arrays for a kernel's partial results, one per reduced scalar; make them at the first call.

        types: the type of each scalar. targets: the arrays that get the final results; for other targets, the same
        kernel gets other arrays.
        """
        assert kernel.combination is not None
        key = kernel, *types, *(array.address for array in targets)
        if key not in self._arrays:
            names = [partial.parameter for partial in kernel.combination.partials]
            self._arrays[key] = [self.make(name, self.devices, kind) for name, kind in zip(names, types, strict=True)]
            self._targets.update(dict.fromkeys(self._arrays[key], targets))
        return self._arrays[key]

    def to_create(self, arrays: Sequence[HostArray]) -> list[HostArray]:
        """Return the arrays that are not on the devices yet, and count them as present from now on."""
        new = [array for array in arrays if array not in self._present]
        self._present.update(dict.fromkeys(new))
        return new

    def to_delete(self, gone: Sequence[HostArray]) -> list[HostArray]:
        """Return the arrays of partial results that belong to the arrays `gone`, which have left the devices."""
        addresses = {array.address for array in gone}
        leaving = [
            values for values in self._present if any(array.address in addresses for array in self._targets[values])
        ]
        for values in leaving:
            del self._present[values]
        return leaving


Copies = Mapping[tuple[int, int, HostArray], Sequence[Transfer]]
"""The transfers by (sender, receiver, array), in the order in which they begin."""


@attrs.frozen(eq=False)
class Combining:
    """The kernel that every device runs to combine the partial results of all devices, with its arguments.

    The host has collected the partial results before. `launch` is the kernel's launch.
    """

    launch: Launch
    arguments: Sequence[Any]
    values: Sequence[HostArray]
    """The arrays of partial values. They belong to the runtime, and the program does not know of them."""


@attrs.frozen(eq=False)
class Division:
    """Says how one launch of a kernel is divided among devices, with each device's arguments and bytes.

    code: the kernel as it is changed for several devices. Sequences have an element for each device. combining: the
    kernel to run afterwards; None when nothing is reduced.
    """

    code: DividedKernel
    arguments: Sequence[Sequence[Any]]
    owned: dict[HostArray, Sequence[Ranges]]
    """The bytes of each of the program's arrays that each device computes and so owns."""
    combining: Combining | None
    _parts: Sequence[Part] = attrs.field(repr=False)
    _of_name: Mapping[str, Any] = attrs.field(repr=False)
    _slower: Callable[[Launch], Launch] = attrs.field(repr=False)

    @property
    def partial_values(self) -> Sequence[HostArray]:
        """Return the arrays with the partial results of a reduction; none when nothing is reduced."""
        return () if self.combining is None else self.combining.values

    @functools.cached_property
    def source(self) -> str:
        """Return the source text of the divided kernel, and of the kernel that combines partial values."""
        combination = self.code.combination
        return self.code.source if combination is None else f"{self.code.source}{combination.source}"

    @functools.cached_property
    def write_bytes(self) -> int:
        """Return how many bytes of the program's arrays a device sends to each other one after it has computed them.

        Devices may send different amounts; this is the largest.
        """
        arrays = self.owned.values()
        return max(
            sum(nbytes for owned in arrays for _, nbytes in owned[device]) for device in range(len(self.arguments))
        )

    @functools.cached_property
    def launches(self) -> Sequence[Launch]:
        """Return the launch of each device's part of the kernel."""
        undivided = [*self._of_name.values()]
        return [
            self._slower(
                _accessing(launch_of(self.code.kernel, arguments_of_part), self.code.accessing(part.share, undivided))
            )
            for arguments_of_part, part in zip(self.arguments, self._parts, strict=True)
        ]

    @functools.cached_property
    def needed(self) -> Sequence[list[tuple[HostArray, Ranges | None]]]:
        """Return, for each device, which bytes of which arrays its part reads; None stands for all bytes."""
        return [[(self._of_name[name], ranges) for name, ranges in part.reads.items()] for part in self._parts]

    @functools.cached_property
    def to_all(self) -> Copies:
        """Return the transfers that give each device all that the other devices have computed."""
        holders = Holders()
        for array, ranges in self.owned.items():
            holders.wrote(array.address, ranges)
        devices = range(len(self.arguments))
        return grouped(
            (array, holders.fetch(array.address, device, None)) for array in self.owned for device in devices
        )


def grouped(transfers_of: Iterable[tuple[HostArray, Iterable[Transfer]]]) -> Copies:
    """Group the transfers of arrays by (sender, receiver, array), in the order in which they are given."""
    copies: dict[tuple[int, int, HostArray], list[Transfer]] = {}
    for array, transfers in transfers_of:
        for transfer in transfers:
            copies.setdefault((transfer.source, transfer.target, array), []).append(transfer)
    return copies


STREAMS: Final = 8
"""The streams of a device among which the copies of an exchange take turns (``JACC_MAX_SUBSTREAMS``)."""


_DIVIDED: Memo[tuple[int, Callable[[Kernel], DividedKernel]], tuple[Kernel, DividedKernel]] = Memo()
"""The divided kernels by the original's `id` and the pass, so that the runs of a sweep share them. The original is kept
with them, so that its `id` stays its own.
"""


class Divider:
    """Divides kernels among a number of devices, each kernel once.

    partial_values: keeps the arrays for partial results of reductions. refused: for each kernel that cannot be divided,
    by name, the reason; every device then runs all of it.
    """

    def __init__(self, divide: Callable[[Kernel], DividedKernel], devices: int, partial_values: PartialValues) -> None:
        self.refused: dict[str, str] = {}
        self._divide = divide
        self._devices = devices
        self._partial_values = partial_values

    def division(
        self, name: str, code: GeneratedKernel, arguments: Sequence[Any], slower: Callable[[Launch], Launch]
    ) -> Division | None:
        """Return the division of a kernel with these arguments; None if the kernel cannot be divided with them.

        name: the kernel's name in reports. code: the kernel that was generated at run time. slower: changes a launch to
        one that takes as long as generated code does.
        """
        try:
            key = id(code.kernel), self._divide
            if (divided := _DIVIDED.get(key)) is None:
                divided = _DIVIDED[key] = code.kernel, self._divide(code.kernel)
            return self._of(divided[1], arguments, slower)
        except KernelError as error:
            self.refused[name] = str(error)
            return None

    def _of(self, divided: DividedKernel, arguments: Sequence[Any], slower: Callable[[Launch], Launch]) -> Division:
        assert divided.original.analysis is not None
        by_address: dict[int, HostArray] = {}
        for argument in arguments:
            if isinstance(argument, HostArray) and by_address.setdefault(argument.address, argument) is not argument:
                raise KernelError(
                    f"kernel {divided.original.name!r}: array {argument.name!r} is two arguments of two types"
                )
        of_name = dict(zip(divided.original.analysis.parameters, arguments, strict=True))
        parts = divided.parts(self._devices, arguments)
        owned: dict[HostArray, Sequence[Ranges]] = {
            of_name[name]: [part.segments[name] for part in parts] for name in parts[0].segments
        }
        combining, values = None, None
        if (combination := divided.combination) is not None:
            targets = [of_name[name] for name in combination.used("write")]
            values = self._partial_values.of(divided, combination.types(arguments), targets)
            combined = combination.arguments(arguments, values)
            combining = Combining(slower(launch_of(combination.kernel, combined)), combined, values)
        given = [divided.arguments(part.share, arguments, values) for part in parts]
        return Division(
            divided,
            given,
            owned,
            combining,
            parts,
            of_name,
            slower,
        )


def _accessing(launch: Launch, part: float) -> Launch:
    """Return a launch in which only the share `part` of the iterations, between 0 and 1, accesses memory."""
    return attrs.evolve(launch, accessing=part) if 0.0 < part < 1.0 else launch


Communication = Literal["all-to-all", "needed"]
"""What devices send one another. ``all-to-all``: after a divided kernel every device sends its part to all others.
``needed``: before a kernel every device gets those bytes that the analysis says it reads (all of them where that cannot
be proven).
"""


@attrs.define(eq=False)
class Exchange:
    """The transfers between the devices of one JACC runtime, and which device has which bytes up to date.

    `queues` are the program's async queues.
    """

    of_program: Sequence[OffloadDevice]
    """All devices of the program."""
    queues: AsyncQueues
    devices: int
    """How many of the program's devices take part, from device 0 on."""
    first_queue: int
    """The async value of the first queue for transfers. Lower values are queues for kernels."""
    run: Callable[[str, Work, int], Awaitable[None]]
    """Called with a name, the work and a device number; runs a directive of that name on the device."""
    run_on_all: Callable[[str, Work], Awaitable[None]]
    """Runs a directive on all devices at the same time, each by a host thread of its own."""
    bytes: int = 0
    """The number of bytes that were sent so far."""
    seconds: float = 0.0
    """Seconds that the host's first thread, which serves device 0, spent so far on transfers and waits for them."""
    _open: bool = False
    _holders: Holders = attrs.field(factory=Holders)
    _addresses: dict[int, dict[int, int]] = attrs.field(factory=dict)
    """Device addresses of arrays, by device and then by the array's host address. The host address identifies an
    array's memory whatever its type.
    """

    async def open(self) -> None:
        """Enable access to the other devices' memory on every device. Only the first call does anything."""
        if self._open:
            return
        self._open = True

        async def reach(where: OffloadDevice, queue: DirectiveQueue) -> None:
            for other in range(self.devices):
                if other != where.number:
                    await where.plugin.reach(other)

        for number in range(self.devices):
            await self.run("jacc_init", reach, number)

    def placed(self, device: int, arrays: Iterable[HostArray], known: ResolvedArrays) -> None:
        """Record the device addresses that a look-up for a launch on a device has found, one for each of `arrays`."""
        addresses = self._addresses.setdefault(device, {})
        for array, pointer in zip(arrays, known.pointers, strict=True):
            addresses[array.address] = pointer.address

    def forget(self, array: HostArray) -> None:
        """Stop tracking an array, after it has left the devices or was copied to all of them."""
        self._holders.everywhere(array.address)

    def is_due(self, arrays: Iterable[HostArray]) -> bool:
        """Return whether some device lacks the current values of any of these arrays."""
        return any(self._holders.is_divided(array.address, self.devices) for array in arrays)

    async def before(self, division: Division) -> None:
        """Send each device the bytes that its part of a divided kernel reads and does not have.

        division: the launch of that kernel, as it is divided.
        """
        fetch = self._holders.fetch
        await self._carry(
            grouped(
                (array, fetch(array.address, device, ranges))
                for device, needed in enumerate(division.needed)
                for array, ranges in needed
            )
        )

    def after(self, division: Division, communication: Communication) -> Copies:
        """Record, after a divided kernel, which bytes each device has up to date; return what is to be sent now.

        communication: with ``all-to-all`` each part goes to all other devices; with ``needed`` nothing is sent before a
        kernel reads it. division: the kernel's launch, as it is divided.
        """
        owned, holders = division.owned, self._holders
        if communication == "all-to-all" and not any(holders.is_tracked(array.address) for array in owned):
            return division.to_all  # afterwards they are right everywhere, as they were before
        for array, ranges in owned.items():
            holders.wrote(array.address, ranges)
        return self._lacking(owned, range(self.devices)) if communication == "all-to-all" else {}

    async def gather(self, arrays: Collection[HostArray], devices: Collection[int]) -> None:
        """Send all of these arrays to these devices, except for bytes that a device has already."""
        await self._carry(self._lacking(arrays, devices))

    def _lacking(self, arrays: Collection[HostArray], devices: Collection[int]) -> Copies:
        """Return the transfers after which these devices have all of these arrays, and record them as done."""
        fetch = self._holders.fetch
        copies = grouped((array, fetch(array.address, device, None)) for array in arrays for device in devices)
        if len(devices) == self.devices:
            for array in arrays:
                self._holders.everywhere(array.address)
        return copies

    async def _carry(self, copies: Copies) -> None:
        """Have all devices send what is theirs, and wait for it. Without transfers it takes no time."""
        if not copies:
            return
        begin = self.queues.sim.now
        await self.run_on_all("jacc_exchange", self.sending(copies))
        self.seconds += self.queues.sim.now - begin

    def sending(self, copies: Copies) -> Work:
        """Return the work by which a device sends all its parts to the other devices, and then waits for them.

        The copies take turns at the device's streams, one after another, as in ``jacc_perform_kernel``.
        """

        async def send(where: OffloadDevice, queue: DirectiveQueue) -> None:
            own = [(target, array, some) for (source, target, array), some in copies.items() if source == where.number]
            streams = [self.queues.of(where.number, self.first_queue + each) for each in range(min(len(own), STREAMS))]
            for place, (target, array, transfers) in enumerate(own):
                work = self._copying(array, target, transfers)
                await streams[place % STREAMS].use(where, DirectiveQueue(queue.cause), work)
            for stream in streams:
                await stream.drain(where, queue.cause)

        return send

    def _copying(self, array: HostArray, target: int, transfers: Sequence[Transfer]) -> Work:
        async def copy(where: OffloadDevice, queue: DirectiveQueue) -> None:
            source, destination = (self._addresses[device][array.address] for device in (where.number, target))
            for transfer in transfers:
                at, nbytes = transfer.offset, transfer.nbytes
                self.bytes += nbytes
                await where.plugin.exchange_data(queue, destination + at, source + at, nbytes, device=target)

        return copy
