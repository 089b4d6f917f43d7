"""The order that CUDA keeps between its legacy default stream and the streams of a context that block with it."""

from __future__ import annotations

from offloadrt.machine import Stream
from offloadrt.sim import Signal


class ImplicitOrder:
    """The legacy default stream of one context, and its blocking streams.

    A command of the legacy stream starts when what was submitted to all blocking streams before it has completed, and
    a command of a blocking stream when what was submitted to the legacy stream before it has ("Stream synchronization
    behavior" of CUDA's manual).  A stream that is neither waits for nobody.
    """

    __slots__ = ("_blocking", "legacy")

    def __init__(self) -> None:
        self.legacy: Stream | None = None
        """The legacy default stream; None when the program has none."""
        self._blocking: dict[int, Stream] = {}

    def add(self, stream: Stream) -> None:
        """Let a stream block with the legacy one."""
        self._blocking[stream.index] = stream

    def remove(self, stream: Stream) -> None:
        """Forget a stream that is destroyed."""
        self._blocking.pop(stream.index, None)

    def blocks(self, stream: Stream) -> bool:
        """Tell whether the legacy stream and another wait for one another."""
        return self.legacy is not None and stream.index in self._blocking

    def before(self, stream: Stream) -> list[Signal]:
        """Return the completions for which the next command of a stream has to wait, besides its own stream's."""
        legacy = self.legacy
        if legacy is None:
            return []
        if stream is not legacy:
            blocks = stream.index in self._blocking and not legacy.idle
            return [legacy.last] if blocks and legacy.last is not None else []
        return [other.last for other in self._blocking.values() if other.last is not None and not other.idle]
