"""Which event is drawn on which track: the picture of a run, whatever it is drawn with.

group "host"      a track a host thread (directives, API calls, waits), and host memory
group "locks"     who holds each lock, and how many wait for it; entry locks share their tracks
group "messages"  messages of each rank that are under way
group "device n"  hardware queues, copy engines, compute units, page faults, drains, memory in use

Arrows lead from a directive to its copies and kernels, and from the actor that releases a lock to the actor that gets
it after a wait. The slice of a wait for a lock names the lock's holders at the wait's begin. Slices of calls and
directives have notes: bytes, arrays, kernels. Barriers, tasks and arguments of calls come from a `CausalLog`, if there
is one (`AnnotationTracks`).

On a track slices nest and never overlap. A host thread has one track, on which directives, calls and waits nest as the
thread entered them (`ThreadTracks`). A resource (lock, hardware queue, copy engine, compute units) has as many lanes as
it ever had things going on at once; a slice takes the lowest lane that is free, so the layout depends on nothing but
the order of the events (`Lanes`). What the picture is drawn with is a `Canvas`.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import attrs

from offloadrt.address_map import AddressMap
from offloadrt.extensions.explaining.causal_log import FIRST_CALL, Annotation, CausalLog
from offloadrt.extensions.logs.reading import lock_family
from offloadrt.extensions.logs.statistics import LockWaits
from offloadrt.trace import events
from offloadrt.trace.events import NONE, Event, Row, decode, plain_kernel

Notes = Mapping[str, int | str]
"""Details of a slice by name, shown when the reader clicks on it; such as {"bytes": 4096}."""


class Canvas(Protocol):
    """Draws tracks, known by the numbers that `thread`, `lane` and `counter` return; times are picoseconds."""

    def thread(self, group: str, index: int, name: str, /) -> int:
        """Make a new track for a host thread or task, and return the track's number.

        group: the heading below which the track is drawn. index: the thread's number among all actors (threads and
        parts of the machine) of the run.
        """

    def lane(self, group: str, name: str, /) -> int:
        """Make a new track of a resource (a lock or an engine), and return the track's number.

        A resource with several slices at one time has several tracks. group: the heading below which the track is
        drawn.
        """

    def counter(self, group: str, name: str, unit: str, /) -> int:
        """Make a new track for a number over time, and return the track's number. unit: "bytes" or "count".

        group: the heading below which the track is drawn.
        """

    def begin(self, track: int, time_ps: int, name: str, flows: Sequence[int], notes: Notes, /) -> None:
        """Begin a slice (a bar over time) on a track; `notes` are details to show with it, by name.

        Slices that have a number of `flows` in common are joined by arrows, in order of time. track: the track's
        number. time_ps: when, in picoseconds. name: the text on the slice.
        """

    def end(self, track: int, time_ps: int, notes: Notes | None = None, /) -> None:
        """End the slice that began last on the track, at a time in picoseconds, with `notes` known only at its end."""

    def instant(self, track: int, time_ps: int, name: str, notes: Notes, flows: Sequence[int] = (), /) -> None:
        """Mark a moment on a track. time_ps: when, in picoseconds. name: the text to show.

        notes: details to show, by name. flows: numbers of arrows; an arrow joins all slices and marks that have its
        number.
        """

    def value(self, track: int, time_ps: int, value: int, /) -> None:
        """Give a counter (the number of its track) a new value at a time in picoseconds."""


@attrs.define
class _Thread:
    track: int
    open: list[tuple[str, object]] = attrs.field(factory=list)
    """Keys of the slices that have begun and not ended, the outermost first."""


@attrs.define
class ThreadTracks:
    """Draws one track for each host thread, with slices (bars over time) that nest.

    The end of a slice also ends the slices inside it that are still open. `canvas` is what the tracks are drawn on;
    `group` is the heading of all threads' tracks.
    """

    canvas: Canvas
    group: str
    names: dict[int, str] = attrs.field(factory=dict)
    """By index of an actor (here a host thread): its name. The creator of this object fills in the names."""
    _threads: dict[int, _Thread] = attrs.field(factory=dict)

    def name(self, actor: int) -> str:
        """Return the name of the actor (thread) with an index, "actor INDEX" if it is unknown."""
        return self.names.get(actor, f"actor {actor}")

    def track(self, actor: int) -> int:
        """Return the number of the track of a thread (`actor`, its index); a new track is made at the first call."""
        return self._thread(actor).track

    def begin(
        self,
        actor: int,
        time_ps: int,
        what: tuple[str, object],
        name: str,
        flows: Sequence[int] = (),
        notes: Notes | None = None,
    ) -> None:
        """Begin a slice (a bar over time) on a thread's track, at a time in picoseconds.

        actor: the thread's index. what: the slice's key, such as ("wait", lock), by which `end` finds it. flows: the
        numbers of arrows that join it to other slices. notes: details to show, by name.
        """
        thread = self._thread(actor)
        thread.open.append(what)
        self.canvas.begin(thread.track, time_ps, name, flows, notes or {})

    def is_innermost(self, actor: int, what: tuple[str, object]) -> bool:
        """Tell whether the slice with the key `what` is open on a thread's track, and no other is open inside it."""
        thread = self._threads.get(actor)
        return thread is not None and bool(thread.open) and thread.open[-1] == what

    def end(self, actor: int, time_ps: int, what: tuple[str, object], notes: Notes | None = None) -> None:
        """End the slice with the key `what` and those still open inside it; do nothing if it is not open.

        time_ps: when, in picoseconds. notes: details that are known only now, by name.
        """
        thread = self._threads.get(actor)
        if thread is None or what not in thread.open:
            return
        while thread.open.pop() != what:
            self.canvas.end(thread.track, time_ps)
        self.canvas.end(thread.track, time_ps, notes or {})

    def end_all(self, actor: int, time_ps: int) -> None:
        """End all open slices (bars) on the track of a thread that has finished, at a time in picoseconds."""
        thread = self._threads.get(actor)
        if thread is not None:
            for _ in thread.open:
                self.canvas.end(thread.track, time_ps)
            thread.open.clear()

    def finish(self, time_ps: int) -> None:
        """End all open slices on all tracks, at a time in picoseconds."""
        for actor in self._threads:
            self.end_all(actor, time_ps)

    def _thread(self, actor: int) -> _Thread:
        thread = self._threads.get(actor)
        if thread is None:
            thread = self._threads[actor] = _Thread(self.canvas.thread(self.group, actor, self.name(actor)))
        return thread


@attrs.define
class _Lane:
    track: int
    busy: bool = False


@attrs.define
class Lanes:
    """Draws resources such as locks and engines; each gets as many tracks ("lanes") as it has slices at one time.

    A slice is a bar over time. `canvas` is what it draws on.
    """

    canvas: Canvas
    _lanes: dict[tuple[str, str], list[_Lane]] = attrs.field(factory=dict)
    _open: dict[tuple[object, ...], list[_Lane]] = attrs.field(factory=dict)

    def begin(
        self,
        group: str,
        resource: str,
        time_ps: int,
        what: tuple[object, ...],
        name: str,
        flows: Sequence[int] = (),
        notes: Notes | None = None,
    ) -> None:
        """Begin a slice on the resource's first track without an open slice; by the key `what`, `end` finds it again.

        group: the heading below which the resource's tracks are drawn. time_ps: when, in picoseconds. name: the text on
        the slice. flows: the numbers of arrows that join it to other slices. notes: details to show, by name.
        """
        lanes = self._lanes.setdefault((group, resource), [])
        lane = next((lane for lane in lanes if not lane.busy), None)
        if lane is None:
            lane = _Lane(self.canvas.lane(group, f"{resource} ({len(lanes) + 1})" if lanes else resource))
            lanes.append(lane)
        lane.busy = True
        self._open.setdefault(what, []).append(lane)
        self.canvas.begin(lane.track, time_ps, name, flows, notes or {})

    def end(self, time_ps: int, what: tuple[object, ...]) -> bool:
        """End the oldest open slice (bar over time) with the key `what`, on whichever track of its resource it is.

        time_ps: when, in picoseconds. Returns False, and does nothing, if none is open.
        """
        lanes = self._open.get(what)
        if not lanes:
            return False
        lane = lanes.pop(0)
        if not lanes:
            del self._open[what]
        lane.busy = False
        self.canvas.end(lane.track, time_ps)
        return True

    def finish(self, time_ps: int) -> None:
        """End all bars that show resources in use and are still open, at a time in picoseconds."""
        for what in list(self._open):
            while what in self._open:
                self.end(time_ps, what)


@attrs.define
class CounterTracks:
    """Draws numbers over time on `canvas`, each on a separate track."""

    canvas: Canvas
    _tracks: dict[tuple[str, str], int] = attrs.field(factory=dict)
    _values: dict[tuple[str, str], int] = attrs.field(factory=dict)

    def add(self, group: str, name: str, unit: str, time_ps: int, change: int) -> None:
        """Change a number over time by `change`, and draw its new value; it is 0 before its first change.

        group: the heading below which the number's track is drawn. unit: "bytes" or "count". time_ps: when, in
        picoseconds.
        """
        key = group, name
        track = self._tracks.get(key)
        if track is None:
            track = self._tracks[key] = self.canvas.counter(group, name, unit)
        value = self._values[key] = self._values.get(key, 0) + change
        self.canvas.value(track, time_ps, value)


# ---------------------------------------------------------------------- notes
# What the notes of a call and of a directive say: bytes, addresses, arrays, kernels, mapped variables.
MOST_NAMES = 16
"""The note of a directive names so many mapped variables at most; of the others it gives the number."""


class CallNotes:
    """Collects details of calls and directives (bytes, addresses, arrays, kernels) from a trace's events in order."""

    def __init__(self) -> None:
        self._blocks: dict[int, AddressMap[tuple[int, str]]] = {}
        """By device: size in bytes and array of each entry of its present table; removed entries are kept."""
        self._missing: dict[int, tuple[int, str]] = {}
        """By thread: size in bytes and array of the section that it looked up last, if that was not mapped."""
        self._calls: dict[int, dict[str, int | str]] = {}
        """By thread: the notes of the call that it is in."""
        self._maps: dict[int, dict[str, None]] = {}
        """By directive: names of the arrays that it mapped or looked up, in order; the values mean nothing."""

    def follow(self, event: Event) -> None:
        """Read the next event of the trace, and keep what it says about the call or directive that it belongs to."""
        match event:
            case events.CallBegin():
                self._calls[event.actor] = {}
            case events.Allocate() | events.Free():
                self._memory(event)
            case events.KernelSubmit():
                self.tell(event.actor, event.device, {"kernel": plain_kernel(event.name)})
            case events.MapLookup():
                self._maps.setdefault(event.cause, {}).setdefault(event.array)
                if event.found:
                    self._missing.pop(event.actor, None)
                else:
                    self._missing[event.actor] = event.size, event.array
            case events.MapInsert():
                self._maps.setdefault(event.cause, {}).setdefault(event.array)
                self._missing.pop(event.actor, None)
                blocks = self._blocks.setdefault(event.device, AddressMap())
                blocks.pop(event.device_address)
                blocks[event.device_address] = event.size, event.array
            case _:
                pass

    def tell(self, actor: int, device: int, notes: dict[str, int | str]) -> None:
        """Add details to the call that a thread is in; for an address in a mapped array, add the array's name, too.

        actor: the thread's index. device: the device's number. notes: the details by name, such as bytes or address.
        """
        call = self._calls.get(actor)
        if call is None:
            return
        call.update(notes)
        address = notes.get("address")
        blocks = self._blocks.get(device)
        if isinstance(address, int) and blocks is not None and (found := blocks.before(address)) is not None:
            begin, (size, array) = found
            if array and address < begin + max(size, 1):
                call["array"] = array

    def of_call(self, actor: int) -> dict[str, int | str]:
        """Return and forget the details of the call that a thread ends; the address is text in hexadecimal."""
        notes = self._calls.pop(actor, {})
        if "address" in notes:
            notes["address"] = f"{notes['address']:#x}"
        return notes

    def of_directive(self, directive: int) -> dict[str, int | str]:
        """Return and forget the details of a directive (by its number) that ends: the names of the arrays it mapped."""
        names = [name for name in self._maps.pop(directive, {}) if name]
        if not names:
            return {}
        more = f", and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        return {"maps": ", ".join(names[:MOST_NAMES]) + more}

    def _memory(self, event: events.Allocate | events.Free) -> None:
        if isinstance(event, events.Free):
            self.tell(event.actor, event.device, {"bytes": event.size, "address": event.address})
            return
        call = self._calls.get(event.actor)
        if call is None:
            return
        call.update({"bytes": event.size, "address": event.address})
        # The runtime allocates a section whose look-up found no entry; a larger allocation is a block of a pool.
        size, array = self._missing.get(event.actor, (0, ""))
        if array and size == event.size:
            call["array"] = array


# ---------------------------------------------------------------------- annotations
# Draws annotations on the tracks of host threads: activities, resumptions, and which thread made a deferred task.
DOING = "doing"
"""The first half of an activity's key in `ThreadTracks`; the other half is the activity's name."""


@attrs.define(eq=False)
class AnnotationTracks:
    """Draws annotations (waits for other threads, arguments of calls) in order with the events of a run.

    An arrow leads from where a deferred task was made to the directive that carries it out.
    """

    _waiting: deque[Annotation]
    _threads: ThreadTracks
    _calls: CallNotes
    _arrow: Callable[[], int]
    _is_thread: Callable[[int], bool]
    _givers: dict[int, str] = attrs.field(factory=dict, init=False)
    """By thread: the name of the actor that resumed it last during its present activity."""
    _tasks: dict[int, int] = attrs.field(factory=dict, init=False)
    """By thread: the number of the arrow to the deferred task that it is about to run."""
    _devices: dict[int, int] = attrs.field(factory=dict, init=False)

    def until(self, position: int) -> None:
        """Draw the annotations that were recorded before event number `position`."""
        waiting = self._waiting
        while waiting and waiting[0].position <= position:
            self._draw(waiting.popleft())

    def finish(self) -> None:
        """Draw all remaining annotations."""
        while self._waiting:
            self._draw(self._waiting.popleft())

    def enters(self, actor: int, device: int) -> None:
        """Remember the device of the call that a thread begins, to name the arrays at the call's addresses."""
        self._devices[actor] = device

    def task_of(self, actor: int) -> tuple[int, ...]:
        """Return the arrow to draw into the directive that a thread begins, from where its deferred task was made.

        Returns one arrow's number, or none if the directive is no deferred task.
        """
        task = self._tasks.pop(actor, None)
        return () if task is None else (task,)

    def _draw(self, annotation: Annotation) -> None:
        actor, threads, now = annotation.actor, self._threads, annotation.time_ps
        match annotation.what:
            case "begin":
                self._givers.pop(actor, None)
                threads.begin(actor, now, (DOING, annotation.name), annotation.name)
            case "end":
                giver = self._givers.pop(actor, "")
                notes: Notes = {"let go on by": giver} if giver else {}
                threads.end(actor, now, (DOING, annotation.name), notes)
            case "gave":
                self._gave(annotation)
            case "made":
                name = f"make task {annotation.name}"
                threads.canvas.instant(threads.track(actor), now, name, {}, (annotation.other,))
            case "run":
                self._tasks[actor] = annotation.other
            case "arguments":
                self._calls.tell(actor, self._devices.get(actor, -1), dict(annotation.arguments or {}))
            case _:
                raise ValueError(f"an annotation of no known kind: {annotation}")

    def _gave(self, annotation: Annotation) -> None:
        """Draw an arrow from a thread to the one that it resumes; a device has no track on which to begin an arrow."""
        giver, taker, threads = annotation.actor, annotation.other, self._threads
        if not threads.is_innermost(taker, (DOING, annotation.name)):
            return  # it waits for something else meanwhile, inside of the activity
        self._givers[taker] = threads.name(giver)
        if self._is_thread(giver):
            flows = (self._arrow(),)
            name = f"{annotation.name}: let go on {threads.name(taker)}"
            threads.canvas.instant(threads.track(giver), annotation.time_ps, name, {}, flows)
            name = f"{annotation.name}: let go on by {threads.name(giver)}"
            threads.canvas.instant(threads.track(taker), annotation.time_ps, name, {}, flows)


HOST = "host"
LOCKS = "locks"
FIRST_ARROW = 1 << 40
"""The number of the first arrow between threads; smaller ones are numbers of directives."""
_HOST_THREADS = ("main", "host thread", "hidden helper thread", "rank ")
"""How the names begin of the actors that get a track when they start, even if they cause no further event."""


class Drawing:
    """Draws the events of a trace, in order, on a canvas: threads, locks, engines, kernels, and numbers over time.

    Of a device's present table, only the number of its entries is drawn. causal_log: what the same run recorded besides
    events: who let whom go on, and details such as the arguments of calls (annotations); drawing removes those from the
    log. `finish` ends the slices that are still open.
    """

    def __init__(self, canvas: Canvas, causal_log: CausalLog | None = None) -> None:
        self._canvas = canvas
        self._threads = ThreadTracks(canvas, HOST)
        self._lanes = Lanes(canvas)
        self._counters = CounterTracks(canvas)
        self._waits = LockWaits()
        self._blocks: dict[tuple[int, int], list[int]] = {}
        self._directives: set[int] = set()
        self._holders: dict[str, list[int]] = {}
        """By lock: the actors that hold it."""
        self._wanted: dict[str, int] = {}
        """By lock: how many actors wait for it."""
        self._arrows = itertools.count(FIRST_ARROW)
        self._given: dict[str, int] = {}
        """By lock: the arrow from its last release while an actor waited. By message: the arrow from its send."""
        self._calls = CallNotes()
        self._source_lines: Mapping[int, str] = {} if causal_log is None else causal_log.source_lines
        self._annotations = AnnotationTracks(
            deque() if causal_log is None else causal_log.annotations,
            self._threads,
            self._calls,
            lambda: next(self._arrows),
            lambda actor: self._threads.name(actor).startswith(_HOST_THREADS),
        )
        self._handlers: dict[str, ThreadTracks] = {}
        """By group ("device 0"): the tracks of the device's page-fault handler."""
        self._count = 0
        self._now = 0

    def draw(self, rows: Sequence[Row]) -> None:
        """Draw the next rows of the trace."""
        for row in rows:
            event = decode(row)
            if event.counts:
                self._annotations.until(self._count)
                self._count += 1
            self._now = event.time_ps
            self._end_wait(event)
            self._calls.follow(event)
            self._event(event)

    def finish(self) -> None:
        """End every open slice at the time of the last event."""
        self._annotations.finish()
        for tracks in (self._threads, *self._handlers.values()):
            tracks.finish(self._now)
        self._lanes.finish(self._now)

    def _event(self, event: Event) -> None:
        self._draw_on_thread(event)
        self._draw_lock(event)
        self._draw_memory(event)
        self._draw_on_device(event)
        if isinstance(event, events.MessageSent | events.MessageReceived):
            self._message(event)

    def _message(self, event: events.MessageSent | events.MessageReceived) -> None:
        """Draw a message from its send to the end of its receive, with an arrow between the two threads."""
        what = "message", event.message
        notes: Notes = {"bytes": event.bytes, "tag": event.tag, "message": event.message}
        if isinstance(event, events.MessageSent):
            arrow = self._given[f"message {event.message}"] = next(self._arrows)
            to = f"to rank {event.destination}"
            self._lanes.begin("messages", f"rank {event.source} sends", event.time_ps, what, to, (), notes)
            self._instant(event, f"send {to}", notes, (arrow,))
        elif (begun := self._given.pop(f"message {event.message}", None)) is not None:
            self._lanes.end(event.time_ps, what)
            self._instant(event, f"received from rank {event.source}", notes, (begun,))

    def _draw_on_thread(self, event: Event) -> None:
        """Draw what a host thread does: directives, calls, waits for signals, errors."""
        now, actor = event.time_ps, event.actor
        match event:
            case events.ActorSpawned():
                self._threads.names[actor] = event.name
                if event.name.startswith(_HOST_THREADS):
                    self._threads.track(actor)
            case events.ActorFinished():
                self._threads.end_all(actor, now)
            case events.DirectiveBegin():
                self._directive(event)
            case events.DirectiveEnd():
                line = self._source_lines.get(event.directive)
                notes: Notes = {**({"at": line} if line else {}), **self._calls.of_directive(event.directive)}
                self._threads.end(actor, now, ("directive", event.directive), notes)
            case events.CallBegin():
                self._annotations.enters(actor, event.device)
                self._threads.begin(actor, now, ("call", event.api), event.api)
            case events.CallEnd():
                at: Notes = {"at": self._source_lines[event.cause]} if event.cause >= FIRST_CALL else {}
                self._threads.end(actor, now, ("call", event.api), {**at, **self._calls.of_call(actor)})
            case events.SignalWaitBegin():
                self._threads.begin(actor, now, ("signal", event.signal), f"wait for {event.signal}")
            case events.SignalWaitEnd():
                self._threads.end(actor, now, ("signal", event.signal))
            case events.KernelSubmit():
                self._instant(event, f"submit {plain_kernel(event.name)}", {"kernel": event.kernel})
            case events.RuntimeError_():
                self._instant(event, f"error in {event.call}", {"message": event.message})
            case _:
                pass

    def _draw_lock(self, event: Event) -> None:
        """Draw a lock with its holders, and the threads that wait for it."""
        match event:
            case events.LockWait() if not self._waits.tries_again(event.actor):
                holders = self._holders.get(event.lock, ())
                held: Notes = {"held by": ", ".join(map(self._threads.name, holders))} if holders else {}
                what = ("wait", event.lock)
                self._threads.begin(event.actor, event.time_ps, what, f"wait for {event.lock}", (), held)
                self._waiting(event.lock, 1)
            case events.LockAcquire():
                self._acquire(event)
            case events.LockRelease():
                self._lanes.end(event.time_ps, ("lock", event.lock, event.actor))
                self._release(event)
            case _:
                pass

    def _draw_memory(self, event: Event) -> None:
        """Draw device memory in use, entries of the device table, placements and prefaults."""
        now = event.time_ps
        match event:
            case events.Allocate():
                self._allocate(event)
            case events.Free():
                self._free(event)
            case events.ObjectPlaced():
                self._instant(event, f"{event.mechanism}: {event.array}", {"bytes": event.size})
            case events.MapInsert() | events.MapRemove():
                change = 1 if isinstance(event, events.MapInsert) else -1
                self._counters.add(_group(event.device), "present entries", "count", now, change)
            case events.Prefault():
                self._instant(event, "prefault", {"bytes": event.bytes, "pages": event.pages})
                self._counters.add(_group(event.device), "pages prefaulted", "count", now, event.pages)
            case _:
                pass

    def _draw_on_device(self, event: Event) -> None:
        """Draw what a device does: copies, kernels, page faults, drains, time slices."""
        now, group = event.time_ps, _group(event.device)
        match event:
            case events.CopyBegin():
                self._copy(event)
            case events.CopyEnd():
                if self._lanes.end(now, ("copy", event.copy)):
                    self._counters.add(group, f"bytes in flight {event.direction}", "bytes", now, -event.bytes)
                self._lanes.end(now, ("copy in queue", event.copy))
            case events.KernelStart():
                self._kernel(event)
            case events.KernelEnd():
                if self._lanes.end(now, ("kernel", event.kernel)):
                    self._counters.add(group, "resident kernels", "count", now, -1)
                self._lanes.end(now, ("kernel in queue", event.kernel))
            case events.PageFaultBegin():
                self._page_fault(event)
            case events.PageFaultEnd():
                self._lanes.end(now, ("page fault", event.kernel))
            case events.FaultPhaseBegin():
                self._fault_phase(event)
            case events.FaultPhaseEnd():
                self._phases(event).end(event.actor, now, ("phase", event.phase))
            case events.Drain():
                what = ("drain", event.device, event.reason)
                self._lanes.begin(group, "drains", now, what, f"drain for {event.reason}")
            case events.Resume():
                self._lanes.end(now, ("drain", event.device, event.reason))
            case events.TimeSliceBegin():
                process = f"process {event.process}"
                self._lanes.begin(group, "time slices", now, ("time slice", event.device, process), process)
            case events.TimeSliceEnd():
                self._lanes.end(now, ("time slice", event.device, f"process {event.process}"))
            case _:
                pass

    def _instant(self, event: Event, name: str, notes: Notes, flows: Sequence[int] = ()) -> None:
        """Mark an event on the track of its thread."""
        self._canvas.instant(self._threads.track(event.actor), event.time_ps, name, notes, flows)

    def _flows(self, cause: int) -> Sequence[int]:
        """Return the arrow from directive `cause` to a slice that it caused; none if the trace lacks the directive."""
        return (cause,) if cause in self._directives else ()

    def _directive(self, event: events.DirectiveBegin) -> None:
        parents = (
            *(self._flows(event.cause) if event.cause != event.directive else ()),
            *self._annotations.task_of(event.actor),
        )
        self._directives.add(event.directive)
        notes = {"directive": event.directive, "device": event.device}
        what = ("directive", event.directive)
        self._threads.begin(event.actor, event.time_ps, what, event.name, (*parents, event.directive), notes)

    def _release(self, event: events.LockRelease) -> None:
        """Remove a holder of a lock; if an actor waits for the lock, begin an arrow to the one that gets it."""
        holders = self._holders.get(event.lock, [])
        if event.actor in holders:
            holders.remove(event.actor)
        if self._wanted.get(event.lock, 0) > 0:
            arrow = self._given[event.lock] = next(self._arrows)
            self._instant(event, f"release {event.lock}", {}, (arrow,))

    def _acquire(self, event: events.LockAcquire) -> None:
        self._holders.setdefault(event.lock, []).append(event.actor)
        what = ("lock", event.lock, event.actor)
        family, holder = lock_family(event.lock), self._threads.name(event.actor)
        name = holder if family == event.lock else f"{event.lock}: {holder}"
        self._lanes.begin(LOCKS, family, event.time_ps, what, name)

    def _end_wait(self, event: Event) -> None:
        """End a thread's wait for a lock: its next event shows whether it has the lock or has given up."""
        wait = self._waits.follow(event.label, event.time_ps, event.actor, getattr(event, "lock", ""))
        if wait is None:
            return
        self._threads.end(event.actor, event.time_ps, ("wait", wait.lock))
        self._waiting(wait.lock, -1)
        arrow = self._given.pop(wait.lock, None)
        if wait.got and arrow is not None:
            self._instant(event, f"got {wait.lock}", {}, (arrow,))

    def _waiting(self, lock: str, change: int) -> None:
        self._wanted[lock] = self._wanted.get(lock, 0) + change
        self._counters.add(LOCKS, f"waiting for {lock_family(lock)}", "count", self._now, change)

    def _allocate(self, event: events.Allocate) -> None:
        # A pool hands out blocks inside the driver's blocks; only the outermost block at an address is counted.
        blocks = self._blocks.setdefault((event.device, event.address), [])
        blocks.append(event.size)
        if len(blocks) == 1:
            self._counters.add(_group(event.device), "memory in use", "bytes", event.time_ps, event.size)

    def _free(self, event: events.Free) -> None:
        blocks = self._blocks.get((event.device, event.address))
        if not blocks:
            return
        size = blocks.pop()
        if not blocks:
            del self._blocks[event.device, event.address]
            self._counters.add(_group(event.device), "memory in use", "bytes", event.time_ps, -size)

    def _copy(self, event: events.CopyBegin) -> None:
        group, now, name = _group(event.device), event.time_ps, event.direction
        notes: Notes = {"copy": event.copy, "bytes": event.bytes, "memory": event.memory, "directive": event.cause}
        self._lanes.begin(group, event.engine, now, ("copy", event.copy), name, self._flows(event.cause), notes)
        self._counters.add(group, f"bytes in flight {event.direction}", "bytes", now, event.bytes)
        if event.queue != NONE:
            self._lanes.begin(group, _queue(event), now, ("copy in queue", event.copy), name, (), notes)

    def _kernel(self, event: events.KernelStart) -> None:
        group, now, name = _group(event.device), event.time_ps, plain_kernel(event.name)
        notes: Notes = {"kernel": event.kernel, "teams": event.teams, "directive": event.cause}
        self._lanes.begin(group, "compute units", now, ("kernel", event.kernel), name, self._flows(event.cause), notes)
        self._counters.add(group, "resident kernels", "count", now, 1)
        if event.queue != NONE:
            self._lanes.begin(group, _queue(event), now, ("kernel in queue", event.kernel), name, (), notes)

    def _page_fault(self, event: events.PageFaultBegin) -> None:
        name = "page fault" if event.pages == 1 else f"page fault ({event.pages} pages)"
        notes: Notes = {"kernel": event.kernel, "pages": event.pages, "directive": event.cause}
        what = ("page fault", event.kernel)
        self._lanes.begin(_group(event.device), "page faults", event.time_ps, what, name, (), notes)

    def _fault_phase(self, event: events.FaultPhaseBegin) -> None:
        """Draw a phase of serving page faults, on the track of the host thread that serves or of the fault handler."""
        counts = {"block": event.block, "pages": event.pages, "entries": event.entries, "directive": event.cause}
        notes: Notes = {name: number for name, number in counts.items() if number > 0}
        self._phases(event).begin(event.actor, event.time_ps, ("phase", event.phase), event.phase, (), notes)
        if event.phase == "service":
            self._counters.add(_group(event.device), "faults served", "count", event.time_ps, event.pages)

    def _phases(self, event: Event) -> ThreadTracks:
        """Return the tracks of host threads if the event's actor is one, else those of its device's fault handler."""
        if self._threads.name(event.actor).startswith(_HOST_THREADS):
            return self._threads
        group = _group(event.device)
        return self._handlers.setdefault(group, ThreadTracks(self._canvas, group, self._threads.names))


def _group(device: int) -> str:
    return HOST if device == NONE else f"device {device}"


def _queue(event: Event) -> str:
    return f"hardware queue {event.queue}"
