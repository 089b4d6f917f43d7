"""Strategies for several devices, by name.

``single``      one device, whatever the program has
``duplicated``  every device runs everything
``adaptive``    JACC: kernels divided by predicates, each while the controller says so
``always``      the same, every kernel that can be divided, always
``macc``        MACC: the outermost distributed loop split, every kernel where that is proven to be right, always
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, Literal, Protocol, get_args, get_type_hints

import attrs

from offloadrt.extensions.openacc.multi_device import DividedKernel
from offloadrt.kernels import Kernel
from offloadrt.kernels.integers import is_integer


class Mode(enum.Enum):
    """How a kernel runs on several devices; with one device both are the same.

    DUPLICATED: whole, on every device. DIVIDED: each device does its part, then the parts are exchanged.
    """

    DUPLICATED = "duplicated"
    DIVIDED = "divided"


@attrs.frozen
class Execution:
    """What was measured of one execution of a kernel.

    Seconds of the kernel, from its start to its end on the device where that takes longest, and of the exchange, from
    the host's first call to the end of its wait; and the bytes that a device sends, or would send, to each other one.
    """

    kernel_s: float
    communication_s: float = 0.0
    write_bytes: float = 0.0


class PushPolicy(Protocol):
    """A policy that decides before each push whether the kernel is divided."""

    measures: ClassVar[bool]
    """Whether it has to know what each execution took; the host then waits for each one."""

    def before(self, kernel: str) -> Mode:
        """Say how the kernel of this name runs next."""

    def after(self, kernel: str, execution: Execution) -> None:
        """Take account of one execution of the kernel."""


@attrs.frozen
class Fixed:
    """The policy that runs every kernel in the same mode, always."""

    measures: ClassVar[bool] = False
    mode: Mode = Mode.DUPLICATED

    def before(self, kernel: str) -> Mode:
        return self.mode

    def after(self, kernel: str, execution: Execution) -> None:
        """Ignore what the execution took."""


def _positive(rules: Rules, attribute: attrs.Attribute[Any], value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise ValueError(f"Rules: {attribute.name} is {value!r}, but must be a positive number")


def _count(rules: Rules, attribute: attrs.Attribute[Any], value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"Rules: {attribute.name} is {value!r}, but must be a whole number from 1")


def _one_of(rules: Rules, attribute: attrs.Attribute[Any], value: object) -> None:
    """Check that a field has one of the values that its annotation names."""
    allowed = get_args(get_type_hints(Rules)[attribute.name]) or (False, True)
    if not any(value is choice or (isinstance(value, str) and value == choice) for choice in allowed):
        raise ValueError(f"Rules: {attribute.name} is {value!r}; there are: {', '.join(map(str, allowed))}")


@attrs.frozen
class Rules:
    """The rules, and how they are read.

    devices: n. peak_p2p: bytes per second of one link, one way (the paper's machine has 25 GB/s). times: how often an
    inequality has to hold. ValueError for a field with a value that it cannot have.
    """

    devices: int = attrs.field(validator=_count)
    peak_p2p: float = attrs.field(default=25e9, validator=_positive)
    times: int = attrs.field(default=5, validator=_count)
    consecutive: bool = attrs.field(default=False, validator=_one_of)
    """Whether an execution for which the inequality does not hold starts the count again. Default: five in all."""
    divided_time: Literal["divided", "duplicated"] = attrs.field(default="divided", validator=_one_of)
    """What t_K is in the rules of a divided kernel: the time of this divided execution, so that t_K · n estimates one
    device's, or the mean of its duplicated executions.
    """
    eff_dup: Literal["infinite", "measured"] = attrs.field(default="infinite", validator=_one_of)
    """What eff_dup is, which the paper does not define.

    infinite: its rule never holds, and a kernel is compared with t_K · n only. So one that division does not make
    faster, because it computes and does not wait for memory, stays divided: the paper has all 3 kernels of EP enabled
    at the end. measured: seconds of duplicated executions for each byte that a device would have sent, so that the
    right side is the time that the execution would take duplicated. For EP left minus right is then the exchange and
    what division adds, above zero each time and not by noise: it is duplicated after `times` executions.
    """
    counting: Literal["joint", "separate"] = attrs.field(default="joint", validator=_one_of)
    """One count and one mean for both rules of a divided kernel (the right side is then the lesser of the two), or one
    for each.
    """


@attrs.frozen
class Tally:
    """How often an inequality held since the mode changed, and the mean of left minus right side."""

    held: int = 0
    executions: int = 0
    difference: float = 0.0
    """Left minus right, added up."""

    @property
    def mean(self) -> float:
        return self.difference / self.executions if self.executions else 0.0

    def after(self, difference: float, consecutive: bool) -> Tally:
        """Return the tally with one execution more."""
        held = self.held + 1 if difference > 0 else 0 if consecutive else self.held
        return Tally(held, self.executions + 1, self.difference + difference)


@attrs.frozen
class KernelState:
    """One kernel: its mode, what was counted in it, and what its duplicated executions took."""

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
        """Return the seconds of duplicated executions for each byte that a device would have sent, or infinity."""
        return self.duplicated_s / self.duplicated_bytes if self.duplicated_bytes else math.inf

    @property
    def duplicated_mean_s(self) -> float:
        return self.duplicated_s / self.duplicated if self.duplicated else 0.0


def after_execution(rules: Rules, state: KernelState, execution: Execution) -> KernelState:
    """Return the state of a kernel after one more execution in its present mode."""
    if state.mode is Mode.DUPLICATED:
        return _after_duplicated(rules, state, execution)
    return _after_divided(rules, state, execution)


def _after_duplicated(rules: Rules, state: KernelState, execution: Execution) -> KernelState:
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
    expected = _expected(state, execution) if rules.eff_dup == "measured" else math.inf
    rights = [kernel_s * rules.devices, expected]
    if rules.counting == "joint":
        rights = [min(rights)]
    tallies = state.disable or (Tally(),) * len(rights)
    disable = tuple(tally.after(left - right, rules.consecutive) for tally, right in zip(tallies, rights, strict=True))
    if not any(tally.held >= rules.times and tally.mean > 0 for tally in disable):
        return attrs.evolve(state, disable=disable)
    return attrs.evolve(state, mode=Mode.DUPLICATED, disable=(), changes=state.changes + 1)


def _expected(state: KernelState, execution: Execution) -> float:
    """Return eff_dup · WriteSize; a kernel that sends nothing is expected to take what it took on average."""
    if not execution.write_bytes or not state.duplicated_bytes:
        return state.duplicated_mean_s
    return state.eff_dup * execution.write_bytes


@attrs.define
class AdaptiveController:
    """A policy for `Jacc`: each kernel by the rules."""

    measures: ClassVar[bool] = True
    rules: Rules
    _states: dict[str, KernelState] = attrs.field(factory=dict)

    def before(self, kernel: str) -> Mode:
        """Say how the kernel runs next."""
        return self.state(kernel).mode

    def after(self, kernel: str, execution: Execution) -> None:
        """Take account of one execution of the kernel."""
        self._states[kernel] = after_execution(self.rules, self.state(kernel), execution)

    def state(self, kernel: str) -> KernelState:
        """Return what is known of a kernel."""
        return self._states.get(kernel, KernelState())

    @property
    def states(self) -> Mapping[str, KernelState]:
        """Return the states by kernel, in the order of their first execution."""
        return dict(self._states)


STRATEGIES: Final = ("single", "duplicated", "adaptive", "always", "macc")


@attrs.frozen
class DeviceStrategy:
    """A strategy for several devices.

    policy: when kernels are divided; divide: how, raising KernelError for one that cannot be. devices: how many of the
    program's are used, all for None. Raises ValueError for less than one.
    """

    policy: PushPolicy = attrs.field(factory=Fixed)
    divide: Callable[[Kernel], DividedKernel] | None = None
    devices: int | None = attrs.field(default=None)

    @devices.validator
    def _check_devices(self, attribute: attrs.Attribute[int | None], value: int | None) -> None:
        if value is not None and (not is_integer(value) or value < 1):
            raise ValueError(f"DeviceStrategy: devices is {value!r}, but must be a whole number from 1")


def strategy_named(name: str, devices: int) -> DeviceStrategy:
    """Make the strategy of that name for so many devices, with the default `Rules`.

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
