"""The messages between the actors of a device, typed and frozen.

A *packet* is a command of a stream: host threads submit it to a hardware queue, which dispatches it in order to a copy
engine or to the compute units.  ``done`` is set at its completion; its value is (``copies`` or ``kernels``, begin, end)
in virtual seconds, or None.  The other messages go to the compute units.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from offloadrt.kernels import Launch
from offloadrt.sim import Signal


@attrs.frozen(eq=False)
class CopyPacket:
    """Transfer ``nbytes``; to a copy engine of its direction (h2d, d2h, d2d)."""

    number: int
    stream: int
    queue: int
    cause: int
    direction: str
    nbytes: int
    memory: str
    """``pinned`` or ``staged`` for the host's end; ``device`` within the device."""
    move: Callable[[], None] | None
    """Moves the bytes at the end of the transfer; None when an end is a phantom."""
    done: Signal


@attrs.frozen(eq=False)
class KernelPacket:
    """Run a kernel; to the compute units."""

    number: int
    stream: int
    queue: int
    cause: int
    launch: Launch
    run: Callable[[], None] | None
    """Computes the result at the kernel's end; None for phantoms."""
    done: Signal


@attrs.frozen(eq=False)
class WaitPacket:
    """Let nothing after it in its stream start before ``event`` is set."""

    stream: int
    event: Signal
    done: Signal


Packet = CopyPacket | KernelPacket | WaitPacket


@attrs.frozen
class Drain:
    """Start no new kernel; the reply comes when none is running.  Ends with Resume."""

    reason: str
    cause: int = 0


@attrs.frozen
class Suspend:
    """Stop all running kernels and start no new one; the reply comes when they have stopped.  Ends with Resume."""

    reason: str
    cause: int = 0


@attrs.frozen
class Resume:
    """Take back one Drain (``suspended=False``) or one Suspend."""

    reason: str
    suspended: bool
    cause: int = 0


MESSAGES: tuple[type, ...] = (CopyPacket, KernelPacket, WaitPacket, Drain, Suspend, Resume)
"""Every type of message that the actors of a device receive."""
