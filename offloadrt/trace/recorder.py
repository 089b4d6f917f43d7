"""`Trace`: records the events of a run, hashes them, and hands them on to sinks.

Components hold a `Trace` or None and write `if (trace := self.trace) is not None: trace(events.CopyBegin, …)`, so a
run without a trace costs a test against None and nothing else. Events are stored unchanged in two flat lists, one for
the fields that all events have and one for the payloads: no lasting object is made, and the garbage collector has
nothing to do. Blocks of the lists are hashed column by column. They become rows (tuples with integer picoseconds) when
a sink or a caller asks for rows, and typed events when these are accessed.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from hashlib import blake2b
from types import TracebackType
from typing import Any, ClassVar, Protocol, overload

import attrs
import numpy as np

from offloadrt.sim import Actor, Simulation
from offloadrt.sim.scheduler import ResumptionObserver
from offloadrt.trace.events import (
    NO_CAUSE,
    NONE,
    PS_PER_S,
    SHAPES,
    ActorFinished,
    ActorSpawned,
    DirectiveBegin,
    Event,
    FaultPhaseBegin,
    FaultPhaseEnd,
    LockAcquire,
    LockRelease,
    LockWait,
    Row,
    decode,
)

BLOCK = 512
"""Events in a block. The hash is computed block by block, so another block size would change the hash."""

WIDTH = 6
"""Fields of an event in a block besides its payload: code, time in seconds, actor, device, queue, cause."""

FULL = BLOCK * WIDTH

LONGEST_S = 9.2e6
"""The longest time in seconds that 63 bits hold in picoseconds: 106 days."""


class TimeOverflow(OverflowError):
    """Raised for a virtual time that a trace cannot hold."""


class Sink(Protocol):
    """Receives the rows of a trace (one for each event) and keeps them outside memory: a log, a Perfetto file."""

    def write(self, rows: Sequence[Row], /) -> None:
        """Take some rows, in order; the recorder passes every row once."""

    def close(self) -> None:
        """Write the remaining rows and close the file: no row will follow."""


@attrs.frozen
class Events(Sequence[Event]):
    """Gives recorded rows as typed events; each event is decoded when it is accessed."""

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


class CausalObserver(ResumptionObserver, Protocol):
    """Notes which actor resumes which, and where directives stand in the source, for analyses of a run."""

    position: Callable[[], int]
    """Returns the number of events so far."""
    source_lines: dict[int, str]
    """Where each directive stands in the source, as "patch.cpp:41", by number."""

    def finished(self, actor: Actor) -> None:
        """Note that an actor has ended: another actor may have waited for its end in Trio."""

    def begin(self, actor: Actor, activity: str) -> None:
        """Note that a thread begins an activity: "barrier", "taskwait", "depend", "critical" or "compute"."""

    def end(self, actor: Actor) -> None:
        """Note that the innermost activity of a thread ("barrier", "taskwait", …) has ended."""

    def activities_of(self, actor: Actor) -> Sequence[str]:
        """Return the activities that a thread is in, the innermost one last."""

    def task_made(self, actor: Actor, name: str) -> int:
        """Note that a thread makes a deferred task named `name`; return the task's number, for `task_run`."""

    def task_run(self, actor: Actor, task: int) -> None:
        """Note that the next directive of a thread is the deferred task with this number."""

    def called_with(self, actor: Actor, arguments: Mapping[str, int | str]) -> None:
        """Note the arguments (by name) of the driver call that a thread is in."""

    def arrived(self, sim: Any, kernel: int, launch: Any) -> None:
        """Note that the kernel with this number has reached the compute units. launch: its `kernels.Launch`."""

    def locate(self, directive: int, actor: Actor) -> None:
        """Enter the source line of directive number `directive`, which `actor` begins, in `source_lines`."""

    def call_at(self) -> int:
        """Return a number that identifies the program's line of the present driver call; NO_CAUSE if unknown."""


class Trace:
    """The recorder of a run; also the simulation's observer (set `sim.observer = trace`).

    sim: gives `now` (virtual seconds) and `current.index`. record: keep the events in memory, for `rows` and `events`.
    hash: keep the streaming hash, for `hash()`. sinks: get every row, in blocks; `close()` writes what is left and
    closes them. causal_log: notes which actor resumes which (`CausalObserver`); `sim` must have the same object.
    """

    __slots__ = (
        "_asides",
        "_blocks",
        "_closed",
        "_digest",
        "_done",
        "_payload",
        "_pending",
        "_rows",
        "_sim",
        "_taken",
        "causal_log",
        "record",
        "sinks",
    )

    has_program_events: ClassVar[bool] = True
    """Whether the trace also gets events of programs and the runtime, not only those of drivers and hardware."""

    def __init__(
        self,
        sim: Simulation,
        *,
        record: bool = True,
        hash: bool = True,
        sinks: Sequence[Sink] = (),
        causal_log: CausalObserver | None = None,
    ) -> None:
        self._sim = sim
        self.causal_log = causal_log
        if causal_log is not None:
            causal_log.position = lambda: self.count
        self.record = record
        self.sinks = tuple(sinks)
        self._pending: list[Any] = []
        """The block that is being filled: `WIDTH` entries for each event, one event after another."""
        self._payload: list[Any] = []
        """The payloads of the pending block's events, one after another."""
        self._taken = 0, 0
        """How many entries of the pending block and of its payloads the sinks and the recording already have."""
        self._asides: list[tuple[int, Row]] = []
        """Rows of uncounted events, each with the number of events before it; -1 while the row lies in the future."""
        self._done = 0
        """Number of events in the blocks that are already full."""
        self._blocks: list[tuple[tuple[Any, ...], tuple[Any, ...], list[tuple[int, Row]]]] = []
        self._rows: list[Row] = []
        self._digest = blake2b(digest_size=16) if hash else None
        self._closed = False

    def __call__(self, kind: type[Event], device: int, queue: int, cause: int, *payload: object) -> None:
        """Record an event of the running actor now; `payload` has the order of the fields of `kind`."""
        sim = self._sim
        pending = self._pending
        pending += (kind.code, sim.now, sim.current.index, device, queue, cause)
        self._payload += payload
        if len(pending) == FULL:
            self._block()

    def by(self, actor: int, kind: type[Event], device: int, queue: int, cause: int, *payload: object) -> None:
        """Record an event now on behalf of another actor, such as the grant of a lock to a waiting actor.

        kind: the event's class. queue: a hardware queue, or -1. cause: the directive's number. payload: other fields.
        """
        pending = self._pending
        pending += (kind.code, self._sim.now, actor, device, queue, cause)
        self._payload += payload
        if len(pending) == FULL:
            self._block()

    def aside(self, kind: type[Event], of: tuple[int, int, int], what: tuple[Any, ...], in_s: float = 0.0) -> None:
        """Record an event at `in_s` virtual seconds from now; the trace's `count` and hash leave it out.

        kind: the event's class. of: its actor, device and cause (the directive's number). what: its other fields.
        """
        actor, device, cause = of
        row = kind.label, round((self._sim.now + in_s) * PS_PER_S), actor, device, NONE, cause, *what
        self._asides.append((self.count if in_s == 0.0 else -1, row))

    def _take_asides(self, begin: int) -> list[tuple[int, Row]]:
        """Remove and return the uncounted rows that lie before the end of the pending block, each with its position."""
        first, times = self._done + begin // WIDTH, self._pending[begin + 1 :: WIDTH]
        taken, self._asides, asides = [], [], self._asides
        for number, row in asides:
            if number < 0 and not self._closed and row[1] - 0.5 > times[-1] * PS_PER_S:
                self._asides.append((number, row))
            else:
                taken.append((number - first if number >= 0 else bisect_left(times, (row[1] - 0.5) / PS_PER_S), row))
        return sorted(taken, key=lambda aside: (aside[0], aside[1][1]))

    def flush(self) -> None:
        """Hand all events so far to the sinks. Raises ValueError when an event was recorded with a wrong payload."""
        begin, begin_payload = self._taken
        if begin == len(self._pending) and not (self._closed and self._asides):
            return
        self._taken = len(self._pending), len(self._payload)
        # Tuples, since the garbage collector forgets a tuple of numbers and strings, but searches a list.
        asides = self._take_asides(begin) if self._asides else []
        block = tuple(self._pending[begin:]), tuple(self._payload[begin_payload:]), asides
        if self.record:
            self._blocks.append(block)
        if self.sinks:
            rows = _rows(*block)
            for sink in self.sinks:
                sink.write(rows)

    def _block(self) -> None:
        """Hash the full block, hand its rows on, and begin a new block."""
        if self._digest is not None:
            self._digest.update(_packed(self._pending, self._payload))
        try:
            self.flush()
        finally:
            self._done += BLOCK
            self._pending = []
            self._payload = []
            self._taken = 0, 0

    def close(self) -> None:
        """Flush and close every sink. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        with ExitStack() as stack:
            for sink in reversed(self.sinks):
                stack.callback(sink.close)
            self.flush()
            _picoseconds(self._pending[-WIDTH:])  # raises OverflowError, before somebody asks for the hash

    def __enter__(self) -> "Trace":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def rows(self) -> list[Row]:
        """Return every recorded row, in order: (name of the class, time_ps, actor, device, queue, cause, *payload).

        Raises ValueError when the trace keeps no rows (`record=False`).
        """
        if not self.record:
            raise ValueError("this trace keeps no rows: it was made with record=False")
        self.flush()
        for block in self._blocks:
            self._rows += _rows(*block)
        self._blocks.clear()
        return self._rows

    @property
    def events(self) -> Events:
        """Return every recorded event as a typed object; each is decoded when it is accessed."""
        return Events(self.rows)

    @property
    def count(self) -> int:
        """Return the number of events so far."""
        return self._done + len(self._pending) // WIDTH

    @property
    def hashes(self) -> bool:
        """Tell whether the trace keeps a hash."""
        return self._digest is not None

    def hash(self) -> str:
        """Return 32 hexadecimal digits: BLAKE2b over (kind, time in picoseconds, actor, sizes) of every event so far.

        Two runs that did the same things at the same times have the same hash, on every platform and Python. Names,
        devices, causes and addresses do not count. Raises ValueError when the trace was made with `hash=False`.
        """
        if self._digest is None:
            raise ValueError("this trace has no hash: it was made with hash=False")
        digest = self._digest.copy()
        digest.update(_packed(self._pending, self._payload))
        return digest.hexdigest()

    # The simulation's observer. Most events of a run are of locks: they take the shortest way.

    def lock_waited(self, lock: Any, actor: Actor) -> None:
        """Record that `actor` began to wait for `lock`; called by the simulation."""
        pending = self._pending
        pending += (LockWait.code, self._sim.now, actor.index, NONE, NONE, actor.cause)
        self._payload.append(lock.name)
        if len(pending) == FULL:
            self._block()

    def lock_acquired(self, lock: Any, actor: Actor) -> None:
        """Record that `actor` got `lock`; called by the simulation."""
        pending = self._pending
        pending += (LockAcquire.code, self._sim.now, actor.index, NONE, NONE, actor.cause)
        self._payload.append(lock.name)
        if len(pending) == FULL:
            self._block()

    def lock_released(self, lock: Any, actor: Actor) -> None:
        """Record that `actor` released `lock`; called by the simulation."""
        pending = self._pending
        pending += (LockRelease.code, self._sim.now, actor.index, NONE, NONE, actor.cause)
        self._payload.append(lock.name)
        if len(pending) == FULL:
            self._block()

    def actor_spawned(self, actor: Actor) -> None:
        """Record that `actor` was started; called by the simulation."""
        self.by(actor.index, ActorSpawned, NONE, NONE, NO_CAUSE, actor.name)

    def actor_finished(self, actor: Actor) -> None:
        """Record that `actor` has ended; called by the simulation."""
        self.by(actor.index, ActorFinished, NONE, NONE, NO_CAUSE, actor.name)
        if self.causal_log is not None:
            self.causal_log.finished(actor)

    def directive(self, device: int, number: int, name: str) -> None:
        """Record that the running actor begins the directive with this number and name on a device."""
        self(DirectiveBegin, device, NONE, number, number, name)
        if self.causal_log is not None:
            self.causal_log.locate(number, self._sim.current)


@contextmanager
def _activity(causal_log: CausalObserver, actor: Actor, activity: str) -> Iterator[None]:
    causal_log.begin(actor, activity)
    try:
        yield
    finally:
        causal_log.end(actor)


_NOTHING = nullcontext()


def doing(trace: Trace | None, actor: Actor, activity: str) -> AbstractContextManager[None]:
    """Note which activity ("barrier", "compute") a thread is in during the body of `with`, for `CausalObserver`."""
    if trace is None or trace.causal_log is None:
        return _NOTHING
    return _activity(trace.causal_log, actor, activity)


@attrs.define(eq=False)
class FaultPhase:
    """Writes the begin and, at `end`, the end of one phase of handling page faults, such as a fetch, to the trace."""

    _trace: Trace
    _sim: Simulation
    _device: int
    _phase: str
    _cause: int
    _block: int = NONE
    _pages: int = 0
    _entries: int = 0
    parts: Mapping[str, float] = {}
    """The parts in which the phase's last piece of work is shown (see `works`), in order: name, and cost in seconds."""

    def _note(self, kind: type[Event], *what: Any, in_s: float = 0.0) -> None:
        self._trace.aside(kind, (self._sim.current.index, self._device, self._cause), what, in_s)

    def works(self, seconds: float, scale: float) -> None:
        """Record the parts of the phase's last piece of work, which begins now and takes `seconds` in all.

        Each of `parts` takes its cost times `scale`, the factor of random jitter. The last one ends with the work.
        """
        parts = {name: scale * taken for name, taken in self.parts.items() if taken > 0.0}
        ends = [seconds - sum([*parts.values()][after:]) for after in range(len(parts))] + [seconds]
        for part, begin, end in zip(parts, ends, ends[1:], strict=False):
            self._note(FaultPhaseBegin, part, NONE, 0, 0, in_s=begin)
            self._note(FaultPhaseEnd, part, in_s=end)

    def __attrs_post_init__(self) -> None:
        self._note(FaultPhaseBegin, self._phase, self._block, self._pages, self._entries)

    def end(self) -> None:
        """Record that the phase of serving page faults is over."""
        self._note(FaultPhaseEnd, self._phase)


def fault_phases(trace: Trace | None, sim: Simulation, device: int) -> Callable[..., FaultPhase] | None:
    """Return the function that begins a traced phase of handling page faults; None where the trace keeps no events.

    Its arguments are those of `FaultPhaseBegin`: phase, cause (the directive's number), block, pages and entries.
    """
    return None if trace is None or not (trace.record or trace.sinks) else partial(FaultPhase, trace, sim, device)


def _picoseconds(block: Sequence[Any]) -> "np.ndarray[Any, np.dtype[np.int64]]":
    """Return the times of a block, to the nearest picosecond."""
    if block and block[-WIDTH + 1] > LONGEST_S:
        raise TimeOverflow(f"virtual time {block[-WIDTH + 1]:.3g} s: a trace reaches {LONGEST_S:.3g} s")
    return np.rint(np.array(block[1::WIDTH]) * PS_PER_S).astype("<i8")


def _rows(block: Sequence[Any], payload: Sequence[Any], asides: Sequence[tuple[int, Row]]) -> list[Row]:
    """Build the rows of a block, and insert the rows of uncounted events."""
    columns = (block[column::WIDTH] for column in range(2, WIDTH))
    rows: list[Row] = []
    at = 0
    for code, time_ps, *common in zip(block[::WIDTH], _picoseconds(block).tolist(), *columns, strict=True):
        label, width, _ = SHAPES[code]
        rows.append((label, time_ps, *common, *payload[at : at + width]))
        at += width
    _check_width(block, payload, at)
    for number, row in reversed(asides):
        rows.insert(number, row)
    return rows


def _packed(block: Sequence[Any], payload: Sequence[Any]) -> bytes:
    """Pack a block for the hash: all codes, all times, all actors, all sizes, as little-endian 64-bit integers."""
    codes = block[::WIDTH]
    sizes: list[int] = []
    at = 0
    for code in codes:
        _, width, where = SHAPES[code]
        if where:
            sizes += [payload[at + position] for position in where]
        at += width
    _check_width(block, payload, at)
    columns = array("q", codes), _picoseconds(block), array("q", block[2::WIDTH]), array("q", sizes)
    return b"".join(np.asarray(column, "<i8").tobytes() for column in columns)


def _check_width(block: Sequence[Any], payload: Sequence[Any], expected: int) -> None:
    """Raise ValueError if a payload has a wrong width; payloads have no separators, so only their sum shows it."""
    if expected != len(payload):
        kinds = ", ".join(sorted({SHAPES[code][0] for code in block[::WIDTH]}))
        raise ValueError(
            f"of the last {len(block) // WIDTH} events one has a payload of a wrong width: {len(payload)} fields "
            f"instead of {expected}; there were {kinds}"
        )
