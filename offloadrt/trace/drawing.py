"""Which event is drawn on which track: the picture of a run, whatever it is drawn with.

group "host"      a track a host thread (directives, API calls, waits), and host memory
group "locks"     who holds each lock, and how many wait for it; entry locks share their tracks
group "device n"  hardware queues, copy engines, compute units, page faults, drains, memory in use

Arrows lead from a directive to its copies and kernels, and from who releases a lock to who had waited for it. A wait
for a lock says who held it when it began. Calls and directives say with what (`call_notes.py`). What threads do for one
another is drawn where hand-overs have been recorded (`annotation_tracks.py`).
"""

import itertools
from collections import deque
from collections.abc import Mapping, Sequence

from offloadrt.trace import events
from offloadrt.trace.annotation_tracks import AnnotationTracks
from offloadrt.trace.call_notes import CallNotes
from offloadrt.trace.event import NONE, Event, Row, decode, lock_family
from offloadrt.trace.handovers import Handovers
from offloadrt.trace.kernel_names import plain_kernel
from offloadrt.trace.lock_waits import LockWaits
from offloadrt.trace.tracks import Canvas, CounterTracks, Lanes, Notes, ThreadTracks

HOST = "host"
LOCKS = "locks"
FIRST_ARROW = 1 << 40
"""The number of the first arrow between threads; smaller ones are numbers of directives."""
_HOST_THREADS = ("main", "host thread", "hidden helper thread")
"""Actors that have a track from their beginning, whether an event tells of them or not."""


class Drawing:
    """Draws rows, in order, on a canvas; `finish` ends what is still open.

    Of the device table only the number of entries is drawn; its events are for the logs. handovers: what was recorded
    beside the events of the same run; its annotations are taken as they are drawn.
    """

    def __init__(self, canvas: Canvas, handovers: Handovers | None = None) -> None:
        self._canvas = canvas
        self._threads = ThreadTracks(canvas, HOST)
        self._lanes = Lanes(canvas)
        self._counters = CounterTracks(canvas)
        self._waits = LockWaits()
        self._blocks: dict[tuple[int, int], list[int]] = {}
        self._directives: set[int] = set()
        self._holders: dict[str, list[int]] = {}
        """Who holds each lock."""
        self._wanted: dict[str, int] = {}
        """How many wait for each lock."""
        self._arrows = itertools.count(FIRST_ARROW)
        self._given: dict[str, int] = {}
        """The arrow from the last release of each lock that somebody waited for."""
        self._calls = CallNotes()
        self._places: Mapping[int, str] = {} if handovers is None else handovers.places
        self._annotations = AnnotationTracks(
            deque() if handovers is None else handovers.annotations.waiting,
            self._threads,
            self._calls,
            lambda: next(self._arrows),
            lambda actor: self._threads.name(actor).startswith(_HOST_THREADS),
        )
        self._count = 0
        self._now = 0

    def draw(self, rows: Sequence[Row]) -> None:
        """Draw some rows."""
        for row in rows:
            self._annotations.until(self._count)
            self._count += 1
            event = decode(row)
            self._now = event.time_ps
            self._end_wait(event)
            self._calls.follow(event)
            self._event(event)

    def finish(self) -> None:
        """End every open slice at the time of the last event."""
        self._annotations.finish()
        self._threads.finish(self._now)
        self._lanes.finish(self._now)

    def _event(self, event: Event) -> None:
        self._draw_on_thread(event)
        self._draw_lock(event)
        self._draw_memory(event)
        self._draw_on_device(event)

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
                place = self._places.get(event.directive)
                notes: Notes = {**({"at": place} if place else {}), **self._calls.of_directive(event.directive)}
                self._threads.end(actor, now, ("directive", event.directive), notes)
            case events.CallBegin():
                self._annotations.enters(actor, event.device)
                self._threads.begin(actor, now, ("call", event.api), event.api)
            case events.CallEnd():
                self._threads.end(actor, now, ("call", event.api), self._calls.of_call(actor))
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
                self._counters.add(group, "pages faulted in", "count", now, event.pages)
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
        """Return the arrows into what directive `cause` caused; none when the trace does not have the directive."""
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
        """Take a lock from its holder; where somebody waits for it, an arrow leads to who gets it."""
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
        """End the wait of a thread for a lock: its next event shows that it has it or has given up."""
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
        # A pool hands out blocks inside those of the driver: the outermost block at an address is what counts.
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


def _group(device: int) -> str:
    return HOST if device == NONE else f"device {device}"


def _queue(event: Event) -> str:
    return f"hardware queue {event.queue}"
