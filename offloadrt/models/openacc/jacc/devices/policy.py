"""What `Jacc` asks before each push: how the kernel is to run on the devices of the program."""

from __future__ import annotations

import enum
from typing import ClassVar, Protocol

import attrs


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
