"""The messages between the actors of a device, typed and frozen.

A *packet* is a command of a stream, which it names: host threads submit it to the stream's hardware queue, which
dispatches it in order to a copy engine or to the compute units.  ``done`` is set at its completion; its value is
(``copies`` or ``kernels``, begin, end) in virtual seconds, or None.  The other messages go to the compute units.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from offloadrt.kernels import Launch
from offloadrt.sim import Signal

if TYPE_CHECKING:
    from offloadrt.machine.stream import Stream


@attrs.frozen(eq=False)
class CopyPacket:
    """Transfer ``nbytes``; to a copy engine of its direction (h2d, d2h, d2d)."""

    number: int
    stream: Stream
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
    stream: Stream
    cause: int
    launch: Launch
    run: Callable[[], None] | None
    """Computes the result at the kernel's end; None for phantoms."""
    done: Signal


@attrs.frozen(eq=False)
class WaitPacket:
    """Let nothing after it in its stream start before ``event`` is set."""

    stream: Stream
    event: Signal
    done: Signal


Packet = CopyPacket | KernelPacket | WaitPacket
PACKETS = (CopyPacket, KernelPacket, WaitPacket)
"""What a hardware queue understands."""


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


MESSAGES: tuple[type, ...] = (*PACKETS, Drain, Suspend, Resume)
"""Every type of message that the actors of a device receive."""
