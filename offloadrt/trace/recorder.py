"""`Trace`: records the events of a run, hashes them, and hands them on to sinks.

Components hold a `Trace` or None and write `if (trace := self.trace) is not None: trace(events.CopyBegin, …)`, so a
run that wants no trace pays for a test against None and nothing else. A recorded event is a plain tuple until
somebody asks for the typed object: a tuple of strings and integers costs neither an allocation of a class nor the
attention of the garbage collector.
"""

from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from hashlib import blake2b
from sys import byteorder
from types import TracebackType
from typing import Any, Protocol, overload

import attrs

from offloadrt.trace.event import EVENTS, NO_CAUSE, NONE, Event, Row, decode
from offloadrt.trace.events import ActorFinished, ActorSpawned, LockAcquire, LockRelease, LockWait

BLOCK = 512
"""Rows that wait for hashing and for the sinks; small enough to stay in the processor's cache."""

PS_PER_S = 1e12


class Sink(Protocol):
    """Where rows go besides memory: a log, a Perfetto file, statistics."""

    def write(self, rows: Sequence[Row], /) -> None:
        """Take some rows, in order; called with every row once."""
        ...

    def close(self) -> None:
        """No row will follow: write what is left, close the file."""
        ...


class ActorLike(Protocol):
    """What the recorder asks of an actor."""

    @property
    def index(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def cause(self) -> int: ...


class Named(Protocol):
    """What the recorder asks of a lock."""

    @property
    def name(self) -> str: ...


class TracedSimulation(Protocol):
    """What the recorder asks of a simulation: the time in virtual seconds, and who runs."""

    @property
    def now(self) -> float: ...
    @property
    def current(self) -> Any: ...


@attrs.frozen
class Events(Sequence[Event]):
    """Recorded rows seen as typed events, made one by one when they are asked for."""

    rows: Sequence[Row]

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> "Events": ...
    def __getitem__(self, index: int | slice) -> "Event | Events":
        if isinstance(index, slice):
            return Events(self.rows[index])
        return decode(self.rows[index])

    def __iter__(self) -> Iterator[Event]:
        return map(decode, self.rows)


class Trace:
    """The recorder of a run; also the simulation's observer (set `sim.observer = trace`).

    sim: gives `now` (virtual seconds) and `current.index`.
    record: keep the rows in memory, for `rows` and `events`.
    hash: keep the streaming hash, for `hash()`.
    sinks: get every row, in blocks; `close()` writes what is left and closes them.
    """

    __slots__ = ("_closed", "_digest", "_forgotten", "_kept", "_pending", "_sim", "record", "sinks")

    def __init__(
        self, sim: TracedSimulation, *, record: bool = True, hash: bool = True, sinks: Sequence[Sink] = ()
    ) -> None:
        self._sim = sim
        self.record = record
        self.sinks = tuple(sinks)
        self._pending: list[Row] = []
        self._kept: list[Row] = []
        self._forgotten = 0
        self._digest = blake2b(digest_size=16) if hash else None
        self._closed = False

    def __call__(self, kind: type[Event], device: int, queue: int, cause: int, *payload: object) -> None:
        """Record an event of the running actor, now; `payload` in the order of the fields of `kind`."""
        sim = self._sim
        pending = self._pending
        pending.append((kind.label, round(sim.now * PS_PER_S), sim.current.index, device, queue, cause, *payload))
        if len(pending) >= BLOCK:
            self.flush()

    def by(self, actor: int, kind: type[Event], device: int, queue: int, cause: int, *payload: object) -> None:
        """Record an event, now, in the name of another actor, as a service does that grants a lock to a waiter."""
        pending = self._pending
        pending.append((kind.label, round(self._sim.now * PS_PER_S), actor, device, queue, cause, *payload))
        if len(pending) >= BLOCK:
            self.flush()

    def flush(self) -> None:
        """Hash the pending rows, hand them to the sinks, keep or forget them."""
        rows = self._pending
        if not rows:
            return
        self._pending = []
        if self._digest is not None:
            self._digest.update(_packed(rows))
        for sink in self.sinks:
            sink.write(rows)
        if self.record:
            self._kept += rows
        else:
            self._forgotten += len(rows)

    def close(self) -> None:
        """Flush, and close every sink. Closing twice does nothing more."""
        if self._closed:
            return
        self._closed = True
        with ExitStack() as stack:
            for sink in reversed(self.sinks):
                stack.callback(sink.close)
            self.flush()

    def __enter__(self) -> "Trace":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def rows(self) -> list[Row]:
        """Every recorded row, in order: (name of the class, time_ps, actor, device, queue, cause, *payload).

        Raises ValueError when the trace keeps no rows (`record=False`).
        """
        if not self.record:
            raise ValueError("this trace keeps no rows: it was made with record=False")
        self.flush()
        return self._kept

    @property
    def events(self) -> Events:
        """Every recorded event as a typed object, decoded when it is looked at."""
        return Events(self.rows)

    @property
    def count(self) -> int:
        """How many events happened so far."""
        return self._forgotten + len(self._kept) + len(self._pending)

    def hash(self) -> str:
        """32 hexadecimal digits: BLAKE2b over (kind, time in picoseconds, actor, sizes) of every event so far.

        Two runs that did the same things at the same times have the same hash, on every platform and Python. Names,
        devices, causes and addresses do not count. Raises ValueError when the trace was made with `hash=False`.
        """
        if self._digest is None:
            raise ValueError("this trace has no hash: it was made with hash=False")
        self.flush()
        return self._digest.hexdigest()

    # The simulation's observer

    def lock_waited(self, lock: Named, actor: ActorLike) -> None:
        """The simulation says: `actor` began to wait for `lock`."""
        self.by(actor.index, LockWait, NONE, NONE, actor.cause, lock.name)

    def lock_acquired(self, lock: Named, actor: ActorLike) -> None:
        """The simulation says: `actor` got `lock`."""
        self.by(actor.index, LockAcquire, NONE, NONE, actor.cause, lock.name)

    def lock_released(self, lock: Named, actor: ActorLike) -> None:
        """The simulation says: `actor` released `lock`."""
        self.by(actor.index, LockRelease, NONE, NONE, actor.cause, lock.name)

    def actor_spawned(self, actor: ActorLike) -> None:
        """The simulation says: `actor` exists."""
        self.by(actor.index, ActorSpawned, NONE, NONE, NO_CAUSE, actor.name)

    def actor_finished(self, actor: ActorLike) -> None:
        """The simulation says: `actor` is gone."""
        self.by(actor.index, ActorFinished, NONE, NONE, NO_CAUSE, actor.name)


def _packed(rows: Sequence[Row]) -> bytes:
    """Rows as the hash sees them: code, time, actor and sizes as little-endian 64-bit integers, one after another."""
    numbers: list[int] = []
    picks = {label: (kind.code, kind.hashed) for label, kind in EVENTS.items()}
    for row in rows:
        code, pick = picks[row[0]]
        numbers.append(code)
        numbers += pick(row)
    packed = array("q", numbers)
    if byteorder == "big":
        packed.byteswap()
    return packed.tobytes()
