"""A kernel: what a target region computes, and what one iteration of it costs.

A kernel has a body, a plain Python function over NumPy views of device memory, or none (a *phantom* kernel that has
costs only).  Its costs are counts (flops and bytes per loop iteration), never seconds: ``machine/`` turns them into
time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

import attrs

Body = Callable[..., None]


class KernelError(Exception):
    """A kernel was described or launched in a way that no device accepts; the message names the kernel."""


def _not_negative(instance: object, attribute: attrs.Attribute[Any], value: float) -> None:
    if not value >= 0:
        raise KernelError(f"kernel {_name_of(instance)!r}: {attribute.name} is {value}, but must not be negative")


def _positive(instance: object, attribute: attrs.Attribute[Any], value: float) -> None:
    if not value > 0:
        raise KernelError(f"kernel {_name_of(instance)!r}: {attribute.name} is {value}, but must be positive")


def _fraction(instance: object, attribute: attrs.Attribute[Any], value: float) -> None:
    if not 0 < value <= 1:
        raise KernelError(f"kernel {_name_of(instance)!r}: {attribute.name} is {value}, but must lie in (0, 1]")


def _name_of(instance: object) -> str:
    if isinstance(instance, Launch):
        return instance.kernel.name
    return str(getattr(instance, "name", "?"))


@attrs.frozen
class Kernel:
    """The body of a target region and its costs per iteration of the distributed loop.

    Called as ``kernel(*args)`` it runs its body on the host, which gives reference results.
    """

    name: str
    body: Body | None = None
    """Called as ``body(*args)`` when the kernel ends; None for a phantom kernel."""
    flops_per_iteration: float = attrs.field(default=0.0, validator=_not_negative)
    """Double-precision operations of one iteration."""
    bytes_per_iteration: float = attrs.field(default=0.0, validator=_not_negative)
    """Bytes that one iteration moves between the device's memory and its compute units."""
    threads_per_team: int = attrs.field(default=128, validator=_positive)
    registers_per_thread: int = attrs.field(default=32, validator=_positive)
    efficiency: float = attrs.field(default=1.0, validator=_fraction)
    """Fraction of the peak arithmetic rate that the code reaches on a full device (register spilling lowers it)."""

    def __call__(self, *args: Any) -> None:
        """Run the body on the host.  Raises KernelError for a phantom kernel."""
        if self.body is None:
            raise KernelError(f"kernel {self.name!r} is a phantom: it has costs but no body to run")
        self.body(*args)

    def launch(self, teams: int, threads: int | None = None, iterations: int | None = None) -> Launch:
        """This kernel with a launch configuration; without ``iterations`` every thread does one."""
        threads = self.threads_per_team if threads is None else threads
        return Launch(self, teams, threads, teams * threads if iterations is None else iterations)


@attrs.frozen
class Launch:
    """One execution of a kernel: ``teams`` teams of ``threads`` threads share ``iterations`` iterations."""

    kernel: Kernel
    teams: int = attrs.field(validator=_positive)
    threads: int = attrs.field(validator=_positive)
    iterations: int = attrs.field(validator=_not_negative)

    @property
    def flops(self) -> float:
        """Double-precision operations of the whole launch."""
        return self.iterations * self.kernel.flops_per_iteration

    @property
    def bytes(self) -> float:
        """Bytes that the whole launch moves to and from the device's memory."""
        return self.iterations * self.kernel.bytes_per_iteration


@overload
def kernel(body: Body, /) -> Kernel: ...


@overload
def kernel(
    *,
    name: str | None = None,
    flops_per_iteration: float = 0.0,
    bytes_per_iteration: float = 0.0,
    threads_per_team: int = 128,
    registers_per_thread: int = 32,
    efficiency: float = 1.0,
) -> Callable[[Body], Kernel]: ...


def kernel(
    body: Body | None = None,
    /,
    *,
    name: str | None = None,
    flops_per_iteration: float = 0.0,
    bytes_per_iteration: float = 0.0,
    threads_per_team: int = 128,
    registers_per_thread: int = 32,
    efficiency: float = 1.0,
) -> Kernel | Callable[[Body], Kernel]:
    """Make a kernel of a Python function, with or without costs.

    >>> @kernel(flops_per_iteration=2, bytes_per_iteration=24)
    ... def axpy(a, x, y):
    ...     y += a * x
    >>> axpy.launch(teams=108, iterations=1 << 20).flops
    2097152
    """

    def make(function: Body) -> Kernel:
        return Kernel(
            name=name or function.__name__,
            body=function,
            flops_per_iteration=flops_per_iteration,
            bytes_per_iteration=bytes_per_iteration,
            threads_per_team=threads_per_team,
            registers_per_thread=registers_per_thread,
            efficiency=efficiency,
        )

    return make if body is None else make(body)
