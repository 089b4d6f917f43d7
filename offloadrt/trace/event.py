"""What an event is: a frozen record with five common fields, registered under its name.

An event class declares its own fields after the common ones; the order of the declaration is the order of the payload
in `trace(kind, device, queue, cause, *payload)`. `sizes` names those of them (integers) that count in the trace hash.
"""

from typing import Any, ClassVar, TypeAlias, dataclass_transform
from zlib import crc32

import attrs

NONE = -1
"""The device or the queue of an event that concerns no device or no queue."""

NO_CAUSE = 0
"""The cause of an event that no directive caused; directives count from 1."""

Row: TypeAlias = tuple[Any, ...]
"""A recorded event: (name of its class, time_ps, actor, device, queue, cause, *payload)."""

PS_PER_S = 1e12

COMMON = 6
"""Where the payload begins in a row."""


@attrs.frozen
class Event:
    """The fields that every event has.

    Time is virtual, in integer picoseconds; durations and times elsewhere in offloadrt are floats in seconds.
    """

    sizes: ClassVar[tuple[str, ...]] = ()
    """Names of the payload fields that count in the trace hash."""
    label: ClassVar[str] = ""
    """The name of the class: how a row says what it is."""
    code: ClassVar[int] = 0
    """How the trace hash says what it is: the CRC-32 of the name, the same wherever and whenever it is computed."""
    payload: ClassVar[tuple[str, ...]] = ()
    """Names of the fields after the common ones, in order."""

    time_ps: int
    """When, in integer picoseconds of virtual time."""
    actor: int
    """Who: the index of the actor, in order of spawning."""
    device: int
    """The device it concerns, or -1."""
    queue: int
    """The hardware queue it concerns, or -1."""
    cause: int
    """The number of the directive that caused it, or 0."""


EVENTS: dict[str, type[Event]] = {}
"""Every class of event by its name, in the order of definition."""

SHAPES: dict[int, tuple[str, int, tuple[int, ...]]] = {}
"""What a recorder needs of each class, by code: its name, the width of its payload, and where in it the sizes are."""


@dataclass_transform(frozen_default=True)
def event(cls: type[Any]) -> type[Any]:
    """Make a class of event: frozen, slotted, and registered in `EVENTS`.

    Raises ValueError when the class has no docstring, when a size is not among its fields, or when its name is taken.
    """
    if not cls.__doc__:
        raise ValueError(f"event {cls.__name__} has no docstring")
    made: type[Event] = attrs.frozen(cls)
    names = tuple(field.name for field in attrs.fields(made))
    payload = names[COMMON - 1 :]
    unknown = [size for size in made.sizes if size not in payload]
    if unknown:
        raise ValueError(f"event {made.__name__} has no field {unknown[0]!r} to count as a size")
    code = crc32(made.__name__.encode("ascii"))
    if code in SHAPES:
        raise ValueError(f"event {made.__name__}: the name (or its CRC-32) is taken")
    made.label = made.__name__
    made.code = code
    made.payload = payload
    EVENTS[made.label] = made
    SHAPES[code] = made.label, len(payload), tuple(payload.index(size) for size in made.sizes)
    return made


def to_ns(time_ps: int) -> int:
    """Round picoseconds to integer nanoseconds (monotone: what nests in picoseconds nests in nanoseconds)."""
    return (time_ps + 500) // 1000


def lock_family(lock: str) -> str:
    """Return the name under which a lock is summed: "entry of a" is one of many "entry locks", which share one."""
    kind, of, _ = lock.partition(" of ")
    return f"{kind} locks" if of else lock


def decode(row: Row) -> Event:
    """Return the typed event of a row."""
    return EVENTS[row[0]](*row[1:])
