"""What every actor did when, and the critical path of a run.

`history_of` sorts the events and the resumptions of a run by actor. `critical_path` walks backwards from the end of the
run. After an actor was resumed, it works or waits for a timer of its own, so this time belongs to the actor. At the
resumption the path goes on with the *giver*, the actor that resumed it. So the parts of the path follow one another
without a gap, and add up to the time from begin to end. If an actor had waited for its turn, at a lock for instance,
the path of that time is the work of the actors before it, and each part names what was waited for.

The compute units run many kernels at a time, in one actor. There the path follows one kernel: from its end to its
start, through its page faults, and on to its submission. While another process has the device, the kernel waits for its
time slice. While it stands in a queue behind kernels of other threads, it waits for the order of the stream that the
threads share, or for the hardware queue that their streams share.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

import attrs

from offloadrt.extensions.explaining.causal_log import FIRST_CALL, Resumption
from offloadrt.extensions.logs.reading import lock_family
from offloadrt.extensions.logs.statistics import EndedWait, LockWaits
from offloadrt.trace import Row
from offloadrt.trace.events import NONE, plain_kernel

_NUMBERS = re.compile(r"[\s_.\[(]*\d[\d\s_.,\])]*$")

_PROCESS = re.compile(r"(?:rank|process) (\d+)$")
_KERNEL = re.compile(r"kernel (\d+) \(")
"""The name of the signal that is set when a kernel ends."""
_PROGRAM = re.compile(r"host thread|hidden helper thread|rank \d+$")
_COPIES = ("cuMemcpy", "memory_async_copy")
"""How the names of copying calls begin: CUDA's and ROCr's."""

NOTHING = 0
"""Stands for the directive's number where no directive caused the work."""


@attrs.define(eq=False)
class ApiCall:
    """A call of the function `api` of the driver; `array` names the array that it served, empty if no event does."""

    api: str
    array: str = ""


class Doing(NamedTuple):
    """Says what an actor (a thread, or a part of the machine) does from one of its events to the next.

    directive: the number of the directive for which the actor works. call: the driver's call that the actor is in. This
    class is a tuple because a run has hundreds of thousands of instances.
    """

    directive: int = NOTHING
    call: ApiCall | None = None
    locks: tuple[str, ...] = ()
    """The locks that the actor holds, in the order in which it took them."""
    copy: str = ""
    """The direction of the copy that a copy engine makes; `RELAYED` for a copy from device to device by the host."""
    migrates: bool = False
    """Whether that copy moves pages of managed memory."""


@attrs.define(eq=False)
class KernelRun:
    """A kernel's run on the compute units; times are picoseconds, and `stalls` are its waits for pages (begin, end).

    `number` is its number in the run, `teams` the number of its teams (thread blocks), `directive` the number of the
    directive that launched it, `queue` that of its stream, and `actor` the index of the part of the machine that
    started it. `end` is -1 while it runs.
    """

    number: int
    name: str
    teams: int
    directive: int
    queue: int
    actor: int
    start: int
    end: int = -1
    submitted: tuple[int, int] = (-1, -1)
    """The index of the actor that submitted the kernel, and the time of that."""
    device: int = 0
    """The device's number."""
    place: int = -1
    """The kernel's index among the kernels of its queue, in order of submission."""
    stalls: list[tuple[int, int]] = attrs.field(factory=list)


@attrs.define(eq=False)
class ActorSteps:
    """What one actor (a thread, or a part of the machine) did when, as three lists of equal length, in order of time.

    `rows` are the numbers of its events, `times` their times in picoseconds, and `doing` what the actor did from each
    event on.
    """

    rows: list[int] = attrs.field(factory=list)
    """The number of the event with which the item of `doing` at the same index begins."""
    times: list[int] = attrs.field(factory=list)
    doing: list[Doing] = attrs.field(factory=list)

    def add(self, row: int, time_ps: int, doing: Doing) -> None:
        self.rows.append(row)
        self.times.append(time_ps)
        self.doing.append(doing)

    @property
    def now(self) -> Doing:
        return self.doing[-1] if self.doing else IDLE


IDLE = Doing()


@attrs.define(eq=False)
class History:
    """All that the search for the critical path needs of a run, by actor, kernel and lock; times are picoseconds.

    An actor is a thread, or a part of the machine or the driver. A resumption is a moment at which one actor lets
    another one, which waited, go on. `names` are the actors' names and `steps` what they did, by the actor's index.
    `source_lines` are the directives' lines in the program's source, by the directive's number. `kernels` are the
    kernels by their number.
    """

    names: dict[int, str] = attrs.field(factory=dict)
    steps: dict[int, ActorSteps] = attrs.field(factory=dict)
    directives: dict[int, str] = attrs.field(factory=dict)
    """By number of a directive: its name, such as "target"."""
    source_lines: dict[int, str] = attrs.field(factory=dict)
    resumptions: Sequence[Resumption] = ()
    taken: dict[int, list[int]] = attrs.field(factory=dict)
    """By actor: the numbers of the resumptions that it got, in order."""
    kernels: dict[int, KernelRun] = attrs.field(factory=dict)
    ends: dict[tuple[int, int], list[int]] = attrs.field(factory=dict)
    """By actor and time: the numbers of the kernels that ended then, or met a missing page."""
    arrivals: dict[int, tuple[int, int]] = attrs.field(factory=dict)
    """By kernel: when it reached the compute units, and how many resumptions the run had had by then."""
    arrays: dict[int, set[str]] = attrs.field(factory=dict)
    """Names of the arrays that each directive maps or looks up, by its number."""
    lock_waits: dict[tuple[int, int], tuple[str, int]] = attrs.field(factory=dict)
    """By actor and time at which it got a lock, or was woken to try again: the lock's name, and when the wait began."""
    waits: list[tuple[str, int, int]] = attrs.field(factory=list)
    """Every wait that ended because the actor got the lock: the lock's name, begin and end of the wait."""
    neighbours: list[tuple[int, int]] = attrs.field(factory=list)
    """Begin and end of each wait of a look-up for the lock of a table entry beside the looked-up bytes."""
    queued: dict[tuple[int, int], list[int]] = attrs.field(factory=dict)
    """By device and queue: the numbers of its kernels, in the order in which they were submitted."""
    slices: dict[int, list[tuple[int, int]]] = attrs.field(factory=dict)
    """By device: when each time slice began, and the number of its process, or -1 at a context switch."""
    has_barriers: bool = False
    """Whether a kernel waits for the one before it in its hardware queue, whatever their streams, as in HIP."""

    def last_taken(self, actor: int, before: int) -> int | None:
        """Return the number of the latest resumption before number `before` that let this actor go on; or None.

        A resumption is a moment at which one actor (a thread, or a part of the machine) lets another one go on that
        waited.
        """
        numbers = self.taken.get(actor, ())
        last = bisect.bisect_left(numbers, before) - 1
        return numbers[last] if last >= 0 else None

    def resumptions_until(self, time_ps: int) -> int:
        """Return how many resumptions there were up to `time_ps`, in picoseconds.

        A resumption is a moment at which one actor (a thread, or a part of the machine) lets another one go on that
        waited.
        """
        return bisect.bisect_right(self.resumptions, time_ps, key=attrgetter("time_ps"))

    def is_program(self, actor: int) -> bool:
        """Tell whether an actor, by its index, is a thread of the program, and no part of the machine or driver."""
        name = self.names.get(actor, "")
        return name == "main" or bool(_PROGRAM.match(name))

    def actor_named(self, name: str) -> int | None:
        """Return the index of the actor (thread, or part of the machine or driver) with a name; or None."""
        return next((actor for actor, known in self.names.items() if known == name), None)


def plain(array: str) -> str:
    """Remove the indices at the end of an array's name, so that "a[0]" and "a[1]" get the same name."""
    return _NUMBERS.sub("", array)


def history_of(
    rows: Iterable[Row],
    resumptions: Sequence[Resumption],
    source_lines: dict[int, str],
    arrivals: dict[int, tuple[int, int]],
) -> History:
    """Sort a run's events and resumptions by actor, so that the critical path can be found.

    A resumption is a moment at which one actor (a thread, or a part of the machine) lets another one go on. rows:
    events that count in the trace hash, in order. source_lines: by directive. arrivals: by kernel, when it reached the
    compute units, and how many resumptions the run had had until then.
    """
    history = History(source_lines=source_lines, resumptions=resumptions, arrivals=arrivals)
    for number, resumption in enumerate(resumptions):
        history.taken.setdefault(resumption.taker, []).append(number)
    reading = _Reading(history)
    for number, row in enumerate(rows):
        reading.read(number, row)
    return history


class _Reading:
    """Fills a `History` from the events of a run, one after the other."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._blocks: dict[int, str] = {}
        self._submitted: dict[int, tuple[int, int]] = {}
        self._places: dict[int, int] = {}
        self._visited: dict[int, tuple[int, int]] = {}
        """By actor: begin and end of its last wait for an entry's lock."""
        self._waits = LockWaits()
        self._mapped: dict[int, str] = {}
        """By actor: the array that it looked up last."""

    def read(self, number: int, row: Row) -> None:
        history = self._history
        label, time_ps, actor = row[:3]
        ended = self._waits.follow(label, time_ps, actor, row[6] if len(row) > 6 else "")
        if label == "ActorSpawned":
            history.names[actor] = row[6]
            history.steps[actor] = ActorSteps()
            return
        if label.startswith(("Kernel", "PageFault")):
            self._kernel(row)
            return
        if label.startswith("TimeSlice"):
            history.slices.setdefault(row[3], []).append((time_ps, row[6] if label == "TimeSliceBegin" else -1))
            return
        steps = history.steps.get(actor)
        if steps is None:
            return
        if label in ("LockWait", "LockAcquire"):
            self._wait(actor, time_ps, ended)
        doing = self._changed(steps.now, row)
        if doing is not None:
            steps.add(number, time_ps, doing)

    def _changed(self, now: Doing, row: Row) -> Doing | None:
        """Return what an actor does from an event on; None if the event changes nothing."""
        label, cause = row[0], row[5]
        directive, call, locks, copy, migrates = now
        match label:
            case "LockAcquire":
                return Doing(directive, call, (*locks, row[6]), copy, migrates)
            case "LockRelease":
                if row[6] not in locks:
                    return None
                left = list(locks)
                left.remove(row[6])
                return Doing(directive, call, tuple(left), copy, migrates)
            case "CallBegin":
                copied = self._mapped.get(row[2], "") if row[6].startswith(_COPIES) and cause < FIRST_CALL else ""
                return Doing(cause or directive, ApiCall(row[6], copied), locks, copy, migrates)
            case "CallEnd":
                return Doing(directive if directive < FIRST_CALL else NOTHING, None, locks, copy, migrates)
            case "DirectiveBegin":
                self._history.directives[row[6]] = row[7]
                return Doing(row[6], call, locks, copy, migrates)
            case "DirectiveEnd":
                return Doing(NOTHING if cause == row[6] else cause, None, locks, copy, migrates)
            case "CopyBegin":
                # A copy from pinned memory without a queue is a piece of one through the host; no program asks for it.
                direction = RELAYED if row[4] == NONE and row[10] == "pinned" else row[7]
                return Doing(cause, call, locks, direction, row[10] == "managed")
            case "CopyEnd":
                return Doing(NOTHING, call, locks)
            case "MapInsert" | "MapRemove":
                self._blocks[row[9]] = row[6]
                self._history.arrays.setdefault(cause, set()).add(row[6])
            case "MapLookup":
                self._history.arrays.setdefault(cause, set()).add(row[6])
                self._mapped[row[2]] = row[6]
                waited = self._visited.pop(row[2], None)
                if waited is not None and waited[1] == row[1] and not row[9]:
                    self._history.neighbours.append(waited)
            case "Allocate" | "Free":
                if now.call is not None:
                    now.call.array = self._blocks.get(row[6], "")
            case _:
                pass
        return None

    def _wait(self, actor: int, time_ps: int, ended: EndedWait | None) -> None:
        """Record the wait for a lock that has ended, or whose actor was woken to try again."""
        history = self._history
        if ended is not None and ended.got:
            history.lock_waits[actor, time_ps] = ended.lock, ended.since_ps
            history.waits.append((ended.lock, ended.since_ps, time_ps))
            if ended.lock.startswith("entry of "):
                self._visited[actor] = ended.since_ps, time_ps
        elif self._waits.tries_again(actor) and (waiting := self._waits.since(actor)) is not None:
            history.lock_waits[actor, time_ps] = waiting

    def _kernel(self, row: Row) -> None:
        history = self._history
        label, time_ps, actor, device, queue, cause, kernel = row[:7]
        if label == "KernelSubmit":
            queued = history.queued.setdefault((device, queue), [])
            self._submitted[kernel] = actor, time_ps
            self._places[kernel] = len(queued)
            queued.append(kernel)
            if (known := history.kernels.get(kernel)) is not None:
                known.submitted, known.place = (actor, time_ps), len(queued) - 1
            return
        if label == "KernelStart":
            run = KernelRun(kernel, plain_kernel(row[7]), row[8], cause, queue, actor, time_ps, device=device)
            run.submitted = self._submitted.get(kernel, run.submitted)
            run.place = self._places.get(kernel, -1)
            history.kernels[kernel] = run
            return
        if (begun := history.kernels.get(kernel)) is None:
            return
        if label == "PageFaultEnd":
            if begun.stalls:
                begun.stalls[-1] = begun.stalls[-1][0], time_ps
            return
        history.ends.setdefault((actor, time_ps), []).append(kernel)
        if label == "PageFaultBegin":
            begun.stalls.append((time_ps, -1))
        else:
            begun.end = time_ps


FAULTS = "page faults"
"""The resource of the page-fault handler's work, and of the migrations that it asks for."""
RELAYED = "copies between devices through the host"
"""The resource of copies that go through pinned memory of the host, piece by piece, over two links."""


@attrs.frozen
class PathPart:
    """A piece of the critical path: who worked, in which call, and what was waited for; times are picoseconds.

    `begin_ps` and `end_ps` are its ends. `actor` is the name of the thread, or part of the machine, that worked.
    `array`, `directive` and `place` say for what: the array, the directive and its source line; each is empty if there
    is none.
    """

    begin_ps: int
    end_ps: int
    actor: str
    resource: str
    """Which part worked: "program", "runtime", "driver", "messages", "kernel", "launch", "page faults", an engine, or
    another actor.
    """
    call: str
    """The driver's call or the kernel; empty if there is none."""
    array: str
    directive: str
    place: str
    waited_for: str
    """The lock, core or engine for which the actor of a later part waited during this part; empty for none."""
    times: float = 1.0
    """The factor for its time: above 1 in an instance of a repeated phase that stands for others, not run."""

    @property
    def ps(self) -> int:
        """Return this part's length in picoseconds times `times`, how often a repeated phase is counted."""
        own = self.end_ps - self.begin_ps
        return own if self.times == 1.0 else round(own * self.times)

    @property
    def blame(self) -> str:
        """Return the resource to blame for this part: the one that was waited for, or else the one that worked."""
        return self.waited_for or self.resource


@attrs.define
class _Turn:
    """A wait for a turn during which the path runs: the resource waited for, and when the wait had begun."""

    resource: str
    since_ps: int


def critical_path(history: History, begin_ps: int, end_ps: int, actor: int) -> list[PathPart]:
    """Return the critical path from `begin_ps` to `end_ps`: the parts, in order of time, that determine its length.

    actor: the index of the actor (a thread, or a part of the machine) with which the path ends. The parts add up to
    `end_ps - begin_ps`. history: what happened in the run.
    """
    return _Walk(history, begin_ps).back_from(actor, end_ps)


def counted_over(path: Iterable[PathPart], phases: Sequence[tuple[int, int, float]]) -> Iterator[PathPart]:
    """Yield the critical path's parts, multiplied inside repeated phases of which only some instances were run.

    phases: (begin in ps, end in ps, the factor for the time between them). A part that reaches across the begin or end
    of a phase is cut there.
    """
    for part in path:
        begin = part.begin_ps
        for since, until, times in phases:
            first, last = max(begin, since), min(part.end_ps, until)
            if first < last:
                if begin < first:
                    yield attrs.evolve(part, begin_ps=begin, end_ps=first)
                yield attrs.evolve(part, begin_ps=first, end_ps=last, times=times)
                begin = last
        if begin < part.end_ps:
            yield attrs.evolve(part, begin_ps=begin)


class _Walk:
    """One walk backwards along the critical path, which collects its parts."""

    def __init__(self, history: History, begin_ps: int) -> None:
        self._history = history
        self._begin_ps = begin_ps
        self._parts: list[PathPart] = []
        self._turns: list[_Turn] = []
        self._seen: set[tuple[int, int]] = set()
        """Numbers of the kernels that the path has reached, each with the time."""

    def back_from(self, actor: int, end_ps: int) -> list[PathPart]:
        history = self._history
        time_ps, number, awaited = end_ps, history.resumptions_until(end_ps), 0
        while time_ps > self._begin_ps:
            if (kernel := self._kernel_at(actor, time_ps, awaited)) is not None:
                actor, time_ps, number = self._along(kernel, time_ps, number)
                continue
            taken = history.last_taken(actor, number)
            since_ps = 0 if taken is None else min(history.resumptions[taken].time_ps, time_ps)
            self._work(actor, since_ps, time_ps)
            if taken is None:
                break
            self._wait(taken)
            giver, target = history.resumptions[taken].giver, _KERNEL.match(history.resumptions[taken].target)
            awaited = 0 if target is None else int(target[1])
            actor, time_ps, number = (giver if giver >= 0 else actor), since_ps, taken
        return self._parts[::-1]

    # ------------------------------------------------------------------ waits for a turn

    def _wait(self, taken: int) -> None:
        resumption = self._history.resumptions[taken]
        if resumption.turn:
            self._turns.append(_Turn(lock_family(resumption.target), resumption.since_ps))
        elif not resumption.target:
            lock_wait = self._history.lock_waits.get((resumption.taker, resumption.time_ps))
            if lock_wait is not None:
                self._turns.append(_Turn(lock_family(lock_wait[0]), lock_wait[1]))

    # ------------------------------------------------------------------ parts

    def _add(self, begin_ps: int, end_ps: int, part: PathPart) -> None:
        """Add a part, cut at the begin of the path and where waits for a turn had begun."""
        begin_ps = max(begin_ps, self._begin_ps)
        while begin_ps < end_ps:
            self._turns = [turn for turn in self._turns if turn.since_ps < end_ps]
            turn = self._turns[-1] if self._turns else None
            cut_ps = begin_ps if turn is None else max(turn.since_ps, begin_ps)
            waited = part.waited_for or ("" if turn is None else turn.resource)
            self._parts.append(attrs.evolve(part, begin_ps=cut_ps, end_ps=end_ps, waited_for=waited))
            end_ps = cut_ps

    def _work(self, actor: int, begin_ps: int, end_ps: int) -> None:
        """Add what an actor did from `begin_ps` to `end_ps`, one part for each step."""
        begin_ps = max(begin_ps, self._begin_ps)
        name = self._history.names.get(actor, "?")
        copies = 0
        for step_begin, step_end, doing in self._steps_back(actor, begin_ps, end_ps):
            if doing.copy:
                copies += 1
            behind = name if copies > 1 and not doing.migrates and doing.copy != RELAYED else ""
            self._add(step_begin, step_end, self._part(actor, name, doing, behind))

    def _steps_back(self, actor: int, begin_ps: int, end_ps: int) -> Iterator[tuple[int, int, Doing]]:
        steps = self._history.steps.get(actor)
        if steps is None:
            yield begin_ps, end_ps, IDLE
            return
        step = bisect.bisect_left(steps.times, end_ps) - 1
        while end_ps > begin_ps:
            if step < 0:
                yield begin_ps, end_ps, IDLE
                return
            since = max(steps.times[step], begin_ps)
            if since < end_ps:
                yield since, end_ps, steps.doing[step]
                end_ps = since
            step -= 1

    def _part(self, actor: int, name: str, doing: Doing, behind: str) -> PathPart:
        history = self._history
        call = doing.call
        if doing.migrates:
            resource, call = FAULTS, ApiCall(f"migration {doing.copy}")
        elif "fault handler" in name:
            resource, call = FAULTS, ApiCall("their service")
        elif doing.copy == RELAYED or name.startswith("peer relay"):
            resource = RELAYED
        elif doing.copy or not history.is_program(actor):
            resource = name
        elif doing.call is not None:
            resource = "driver"
        elif history.directives.get(doing.directive, "").startswith("MPI_"):
            resource = "messages"
        else:
            resource = "runtime" if doing.directive else "program"
        return self._made(name, resource, doing.directive, call, behind)

    def _made(self, name: str, resource: str, directive: int, call: ApiCall | None, behind: str = "") -> PathPart:
        history = self._history
        array = "" if call is None else call.array
        if not array and len(known := history.arrays.get(directive, set())) == 1:
            (array,) = known
        return PathPart(
            begin_ps=0,
            end_ps=0,
            actor=name,
            resource=resource,
            call="" if call is None else call.api,
            array=array,
            directive=history.directives.get(directive, ""),
            place=history.source_lines.get(directive, ""),
            waited_for=behind,
        )

    # ------------------------------------------------------------------ kernels

    def _kernel_at(self, actor: int, time_ps: int, awaited: int) -> KernelRun | None:
        """Return a kernel of this actor that ended or met a missing page at this time, the awaited one if it did."""
        ended = self._history.ends.get((actor, time_ps), ())
        for number in (awaited, *ended) if awaited in ended else ended:
            if (number, time_ps) not in self._seen:
                self._seen.add((number, time_ps))
                return self._history.kernels[number]
        return None

    def _along(self, kernel: KernelRun, time_ps: int, number: int) -> tuple[int, int, int]:
        """Go from a kernel's end or fault back to its start or last stall; return as `_giver_at` where to go on."""
        history = self._history
        name = history.names.get(kernel.actor, "?")
        work = self._made(name, "kernel", kernel.directive, ApiCall(kernel.name))
        went_on = [end for _, end in kernel.stalls if kernel.start < end < time_ps]
        since_ps = went_on[-1] if went_on else kernel.start
        self._in_slices(kernel, since_ps, time_ps, work)
        return self._giver_at(kernel.actor, since_ps, number) if went_on else self._before(kernel, number)

    def _in_slices(self, kernel: KernelRun, begin_ps: int, end_ps: int, work: PathPart) -> None:
        """Add the work of a kernel; while another process has the device, the kernel waits for its time slice."""
        slices = self._history.slices.get(kernel.device)
        if not slices:
            self._add(begin_ps, end_ps, work)
            return
        named = _PROCESS.search(self._history.names.get(kernel.submitted[0], ""))  # as in "rank 1"
        process = 0 if named is None else int(named[1])
        place = bisect.bisect_left(slices, (end_ps, -2)) - 1
        while begin_ps < end_ps:
            since, whose = slices[place] if place >= 0 else (0, process)
            since = max(since, begin_ps)
            own = whose == process
            turn = work if own else attrs.evolve(work, waited_for=f"device {kernel.device} time slices")
            self._add(since, end_ps, turn)
            end_ps, place = since, place - 1

    def _before(self, kernel: KernelRun, number: int) -> tuple[int, int, int]:
        """Go from a kernel's start to what it waited for, or to its submitter; return as `_giver_at` where to go on."""
        history = self._history
        submitter, submitted_ps = kernel.submitted
        arrived_ps, arrived = history.arrivals.get(kernel.number, (kernel.start, number))
        name = history.names.get(kernel.actor, "?")
        launch = self._made(name, "launch", kernel.directive, ApiCall(kernel.name))
        if arrived_ps < kernel.start and self._was_held_up(kernel):
            self._turns.append(_Turn(name, arrived_ps))
            return self._giver_at(kernel.actor, kernel.start, number)
        self._in_slices(kernel, arrived_ps, kernel.start, launch)
        if (turn := self._order_before(kernel, arrived_ps)) is not None:
            self._turns.append(turn)
        if submitted_ps == arrived_ps or kernel.submitted[0] < 0:
            return (submitter if submitter >= 0 else kernel.actor), arrived_ps, arrived
        queue = next(
            (
                actor
                for kind in ("hardware queue", "hsa queue")
                if (actor := history.actor_named(f"{name.removesuffix(' compute units')} {kind} {kernel.queue}"))
                is not None
            ),
            submitter,
        )
        return queue, arrived_ps, arrived

    def _order_before(self, kernel: KernelRun, arrived_ps: int) -> _Turn | None:
        """Return the turn for which a kernel waited behind other threads' kernels in its queue; None if it did not.

        A command waits for the one before it in its stream. If the previous kernel of the queue ended when this one
        arrived, both are in one stream, or the queue's kernels have barriers. Otherwise this kernel only stood behind
        the other one in the hardware queue.
        """
        history = self._history
        submitter, submitted_ps = kernel.submitted
        if kernel.place < 1 or submitted_ps >= arrived_ps:
            return None
        before = history.queued[kernel.device, kernel.queue][kernel.place - 1]
        numbers = history.ends.get((kernel.actor, arrived_ps), ())
        ending = {number: history.kernels[number] for number in numbers}
        ended = {at: one for at, one in ending.items() if one.queue == kernel.queue and one.end == arrived_ps}
        waited_for = [ended[before]] if before in ended else ended.values()
        if all(other.submitted[0] == submitter for other in waited_for):
            return None
        in_stream = before in ended and not history.has_barriers
        what = "stream order" if in_stream else f"hardware queue {kernel.queue}"
        return _Turn(f"device {kernel.device} {what}", submitted_ps)

    def _was_held_up(self, kernel: KernelRun) -> bool:
        """Tell whether a kernel began because another kernel or a halt ended, and not because its latency was over."""
        history = self._history
        if any(other != kernel.number for other in history.ends.get((kernel.actor, kernel.start), ())):
            return True
        taken = history.last_taken(kernel.actor, history.resumptions_until(kernel.start))
        if taken is None or history.resumptions[taken].time_ps != kernel.start:
            return False
        return history.is_program(history.resumptions[taken].giver)

    def _giver_at(self, actor: int, time_ps: int, number: int) -> tuple[int, int, int]:
        """Return the actor that resumed `actor` at a time, the time, and the number of resumptions before it.

        It is the actor itself if a kernel of its own ended at that time.
        """
        history = self._history
        if history.ends.get((actor, time_ps)):
            return actor, time_ps, min(number, history.resumptions_until(time_ps))
        taken = history.last_taken(actor, min(number, history.resumptions_until(time_ps)))
        if taken is None or history.resumptions[taken].giver < 0:
            return actor, time_ps, number
        return history.resumptions[taken].giver, time_ps, taken
