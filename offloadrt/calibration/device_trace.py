"""What a profiler recorded of a program: its API calls and the commands of its devices.

This is the form that the readers of all profilers give. Times are whole nanoseconds of one clock. Calls and commands
are compared by identity: two may have the same values.
"""

from __future__ import annotations

import attrs

Correlation = tuple[int, int]
"""A process, and the number in it that a call and the commands that it submitted share."""


@attrs.frozen(eq=False)
class TracedCall:
    """A call of the driver's or the runtime's API that succeeded."""

    name: str
    """Without the version that profilers append."""
    process: int
    thread: int
    start: int
    end: int
    correlation: Correlation | None = None
    nbytes: int | None = None
    """What it allocated or freed, where the file says so."""

    @property
    def seconds(self) -> float:
        return (self.end - self.start) * 1e-9


@attrs.frozen(eq=False)
class TracedCommand:
    """Something that a device did: a kernel, a copy, or setting memory."""

    kind: str
    """`kernel`, `copy` or `set`."""
    name: str
    device: int
    stream: int
    start: int
    end: int
    correlation: Correlation | None = None
    nbytes: int = 0
    direction: str = ""
    """Of a copy: `h2d`, `d2h`, or empty for any other."""
    pinned: bool | None = None
    """Whether the host's side of a copy is pinned; None where the file does not say."""

    @property
    def seconds(self) -> float:
        return (self.end - self.start) * 1e-9


@attrs.frozen
class DeviceTrace:
    """One profiler's file."""

    path: str
    source: str
    """What it is, with versions and the device's name, for a profile's `[sources]`."""
    calls: tuple[TracedCall, ...]
    commands: tuple[TracedCommand, ...]
    library: str
    """Whose calls they are: `cuda` or `hip`."""
    facts: dict[str, float] = attrs.field(factory=dict)
    """What the file says of the device, by entry of a profile: to see whether the base is that machine."""
    hints: tuple[str, ...] = ()
    """What the file lacks, and how to record it."""


class CalibrationError(ValueError):
    """A file that cannot be read, or that has nothing to calibrate from; the message names the file and the reason."""
