"""What limits a run, in one sentence: what most of its critical path waits for or works on, and in which calls.

`observe` records a run and finds its critical path; `limit_of` writes the sentence. `lock_uses` returns how long each
lock was held in the measured time, by which calls, and how many threads waited for it.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import attrs

from offloadrt.extensions.explaining.causal_log import Annotation, CausalLog
from offloadrt.extensions.explaining.charged_in import places
from offloadrt.extensions.explaining.critical_path import (
    FAULTS,
    RELAYED,
    Doing,
    History,
    PathPart,
    counted_over,
    critical_path,
    history_of,
    plain,
)
from offloadrt.extensions.explaining.phases import NamedPhases
from offloadrt.extensions.explaining.work import NOTHING, WorkDone, work_of
from offloadrt.extensions.logs.reading import lock_family
from offloadrt.machine import MachineSpec
from offloadrt.study.errors import UserError
from offloadrt.study.reporting.results import DeviceFigures, Result
from offloadrt.study.reporting.words import size
from offloadrt.study.running.execution import execute
from offloadrt.study.running.run import Run
from offloadrt.study.scripts.definition import Scenario
from offloadrt.study.spec import RunSpec
from offloadrt.trace import EVENTS, Row
from offloadrt.trace.events import PS_PER_S

Window = tuple[int, int]
"""Begin and end of a measured window, in picoseconds."""

MOST_HOLDERS = 3


@attrs.frozen
class Holder:
    """A call, array and directive (at the line `place`) that held a lock, and its share (0 to 1) of the held time."""

    call: str
    array: str
    directive: str
    place: str
    share: float


@attrs.frozen
class ResourceUse:
    """Says how one resource (a lock, or a part of the machine such as a copy engine) was used in the measured time.

    mean_queue: how many waited for it, on average. holders: for a lock, the calls that held it longest.
    """

    name: str
    utilisation: float
    """The share of the time in which it was held or busy; for a family (entry locks), the share of the busiest."""
    mean_queue: float
    p95_queue: float | None
    """The number of waiters that is exceeded in 5 % of the time; None where only the mean is known."""
    holders: tuple[Holder, ...] = ()


def lock_uses(history: History, windows: Sequence[Window]) -> list[ResourceUse]:
    """Return how each family of locks was used in the measured time, the family held longest first.

    A family is a lock, or all locks of one kind such as those of table entries. windows: (begin, end) of what is
    measured, in picoseconds. history: what happened in the run.
    """
    elapsed_ps = sum(end - begin for begin, end in windows)
    holds = _holds(history)
    queues: dict[str, list[Window]] = {}
    for lock, since, until in history.waits:
        queues.setdefault(lock_family(lock), []).extend(_inside((since, until), windows))
    uses = []
    for family, by_lock in holds.items():
        inside = {
            lock: [(piece, doing) for span, doing in spans for piece in _inside(span, windows)]
            for lock, spans in by_lock.items()
        }
        busiest = max((_covered([piece for piece, _ in pieces]) for pieces in inside.values()), default=0)
        if busiest and elapsed_ps:
            mean, p95 = _queue(queues.get(family, []), elapsed_ps)
            pieces = [piece for spans in inside.values() for piece in spans]
            uses.append(ResourceUse(family, busiest / elapsed_ps, mean, p95, _holders(history, pieces)))
    return sorted(uses, key=lambda use: (-use.utilisation, use.name))


def part_uses(devices: Mapping[str, DeviceFigures], elapsed_s: float) -> list[ResourceUse]:
    """Return how the parts of the machine, such as copy engines, were used in the measured time, the busiest first.

    devices: the figures of each device by its name. elapsed_s: the length of the measured time, in virtual seconds.
    """
    uses = [
        ResourceUse(name, part.busy_s / whole, part.wait_s / elapsed_s if elapsed_s else 0.0, None)
        for name, part in devices.items()
        if (whole := part.busy_s + part.idle_s) > 0.0 and (part.busy_s or part.wait_s)
    ]
    return sorted(uses, key=lambda use: (-use.utilisation, use.name))


def _holds(history: History) -> dict[str, dict[str, list[tuple[Window, Doing]]]]:
    """Return, by family and name of a lock, begin and end of each hold, and what the holder did when it took it."""
    holds: dict[str, dict[str, list[tuple[Window, Doing]]]] = {}
    for steps in history.steps.values():
        held: dict[str, tuple[int, Doing]] = {}
        before: tuple[str, ...] = ()
        for time_ps, doing in zip(steps.times, steps.doing, strict=True):
            if doing.locks == before:
                continue
            for lock in doing.locks:
                if lock not in before:
                    held[lock] = time_ps, doing
            for lock in before:
                if lock not in doing.locks and lock in held:
                    since, taken = held.pop(lock)
                    holds.setdefault(lock_family(lock), {}).setdefault(lock, []).append(((since, time_ps), taken))
            before = doing.locks
    return holds


def _inside(span: Window, windows: Sequence[Window]) -> list[Window]:
    pieces = [(max(span[0], begin), min(span[1], end)) for begin, end in windows]
    return [piece for piece in pieces if piece[0] < piece[1]]


def _covered(spans: list[Window]) -> int:
    """Return the picoseconds that lie in at least one of the spans."""
    covered = reached = 0
    for begin, end in sorted(spans):
        if end > reached:
            covered += end - max(begin, reached)
            reached = end
    return covered


def _queue(waits: Sequence[Window], elapsed_ps: int) -> tuple[float, float]:
    """Return the mean number of waiters and the number that is exceeded in 5 % of the time."""
    changes = sorted([(begin, 1) for begin, _ in waits] + [(end, -1) for _, end in waits])
    at: dict[int, int] = {}
    level = last = 0
    for time_ps, change in changes:
        at[level] = at.get(level, 0) + time_ps - last
        level, last = level + change, time_ps
    total = sum(number * ps for number, ps in at.items())
    left = elapsed_ps // 20
    for number in sorted(at, reverse=True):
        left -= at[number]
        if number and left < 0:
            return total / elapsed_ps, float(number)
    return total / elapsed_ps, 0.0


def _holders(history: History, pieces: Sequence[tuple[Window, Doing]]) -> tuple[Holder, ...]:
    sums: dict[tuple[str, str, str, str], int] = {}
    total = 0
    for (begin, end), doing in pieces:
        call = doing.call
        key = (
            "" if call is None else call.api,
            "" if call is None else plain(call.array),
            history.directives.get(doing.directive, ""),
            history.source_lines.get(doing.directive, ""),
        )
        sums[key] = sums.get(key, 0) + end - begin
        total += end - begin
    ordered = sorted(sums.items(), key=lambda item: (-item[1], item[0]))[:MOST_HOLDERS]
    return tuple(Holder(*key, ps / total) for key, ps in ordered)


_MAIN = 0
"""The index of the actor with which a run begins."""


@attrs.frozen
class Observed:
    """A recorded run: its result, its critical path and how its resources were used.

    `spec` is its machine. `windows` are begin and end, in picoseconds, of what is measured. `history` is what every
    thread and part of the machine did, and `causal_log` which of them let which other one go on. `phases` are the
    phases that the program names. `work` is the work it has done, `NOTHING` if that was not counted.
    """

    result: Result
    spec: MachineSpec
    model: str
    """The programming model of the program: "openmp", "cuda", and so on."""
    windows: tuple[Window, ...]
    path: tuple[PathPart, ...]
    resources: tuple[ResourceUse, ...]
    history: History = attrs.field(repr=False)
    phases: NamedPhases = attrs.field(repr=False)
    rows: Sequence[Row] = attrs.field(repr=False)
    """Every event of the run."""
    causal_log: CausalLog = attrs.field(repr=False)
    work: WorkDone = NOTHING

    @property
    def elapsed_ps(self) -> int:
        """Return the measured time in picoseconds, the sum of the parts of the critical path.

        Iterations of long loops that were left out (`RepeatedPhases`) are included by an estimate.
        """
        return sum(part.ps for part in self.path)

    @property
    def evicts(self) -> bool:
        """Tell whether blocks were evicted because managed memory does not fit into device memory."""
        return self.result.faults.get("evicted_blocks", 0) > 1


def observe(scenario: Scenario, given: Mapping[str, Any], options: RunSpec) -> Observed:
    """Run a scenario once, as `offloadrt run` does, and find its critical path.

    given: the program's parameters by name. Raises what `execute` raises, and UserError if `options.repeat` is not 1.
    """
    if options.repeat != 1:
        raise UserError("why: one run is explained; leave --repeat out")
    causal_log = CausalLog()
    runs: list[Run] = []
    once = attrs.evolve(options, repeat=1, record=True, hash=bool(options.hash))
    result = execute(scenario, given, spec=once, causal_log=causal_log, before_run=runs.append)
    run = runs[-1]
    assert run.trace is not None
    counted = [row for row in run.trace.rows if EVENTS[row[0]].counts]
    history = history_of(counted, causal_log.rows, causal_log.source_lines, causal_log.arrivals)
    history.has_barriers = run.options.model in ("cuda", "stdpar") and run.spec.flag("stream.barriers")
    spans = [(round(begin * PS_PER_S), round(end * PS_PER_S), actor.index) for begin, end, actor in run.windows.spans]
    if not spans:  # a program that used no machine
        spans = [(0, round(run.sim.now * PS_PER_S), _MAIN)]
    path = [part for begin, end, actor in spans for part in critical_path(history, begin, end, actor)]
    windows: Sequence[Window] = [(begin, end) for begin, end, _ in spans]
    phases = [
        (round(phase.begin_s * PS_PER_S), round(phase.end_s * PS_PER_S), phase.weight) for phase in run.windows.skipped
    ]
    path = list(counted_over(path, phases))
    if result.faults.get("cpu_page_fault_count"):
        path = list(_with_faults_of_the_host(path, history, causal_log.annotations))
    uses = lock_uses(history, [(begin, end) for begin, end, _ in phases] or windows) + part_uses(
        result.devices, result.elapsed_s
    )
    of_run = result, run.spec, run.options.model
    named = NamedPhases.of(causal_log.annotations, history.names)
    parts = tuple(windows), tuple(path), tuple(uses)
    return Observed(*of_run, *parts, history, named, run.trace.rows, causal_log, work_of(run, causal_log))


_NEAR = 0.75
"""The sentence also names each share that is at least this part of the largest one, since they are nearly equal."""
_NOTEWORTHY = 0.25
_WAITING = 0.25
"""The sentence says that the work is uneven if threads wait for one another for at least this share of their time."""


def _with_faults_of_the_host(
    path: Iterable[PathPart], history: History, annotations: Iterable[Annotation]
) -> Iterator[PathPart]:
    """Yield the path, with a thread's own page faults of managed memory as a resource apart from its computing.

    These faults have no events. A thread that neither computes nor calls anything while time passes serves them.
    """
    computes: dict[str, list[Window]] = {}
    begun: dict[int, int] = {}
    for one in annotations:
        if one.what == "begin" and one.name == "compute":
            begun[one.actor] = one.time_ps
        elif one.what == "end" and one.actor in begun:
            computes.setdefault(history.names[one.actor], []).append((begun.pop(one.actor), one.time_ps))
    for part in path:
        own = computes.get(part.actor, [])
        if part.resource != "program" or _inside_one(part, own):
            yield part
        else:
            yield attrs.evolve(part, resource=HOST_FAULTS, call="their service")


def _inside_one(part: PathPart, spans: Sequence[Window]) -> bool:
    place = bisect.bisect_right(spans, (part.begin_ps, math.inf)) - 1
    return place >= 0 and part.begin_ps < spans[place][1]


HOST_FAULTS = "page faults of the host"
"""The resource of a host thread's own page faults, which bring pages of managed memory back or create them."""

_NAMES = {
    "core": "cores of the host",
    r"(device \d+) stream order": r"order of a stream that threads share on \1",
    r"(device \d+) time slices": r"time slices of processes on \1",
    r"(device \d+) compute units": r"compute units of \1",
}
"""The sentence's words for a resource, by a regular expression for the resource's name."""
_WORK = {
    "driver": "Calls of the driver",
    "messages": "The messaging library's own work",
    "runtime": "The offloading runtime's own work",
    "program": "The program's own work on the host",
    "kernel": "Kernels",
    "launch": "The latency of launches",
    "page faults": "Page faults",
    HOST_FAULTS: "Page faults of the host",
    RELAYED: "Copies between devices through the host",
}


@attrs.frozen
class PathShare:
    """A group of parts of the critical path: its time in picoseconds, and its share (0 to 1) of the whole path."""

    name: str
    ps: int
    share: float
    waited: float
    """The share of the group's time in which an actor waited for its turn."""


@attrs.frozen
class Limit:
    """Says what limits a run: a resource, and the call or kernel that uses it most, both by name.

    `sentence` says this in words and is what is printed.
    """

    resource: str
    call: str
    share: float
    """The resource's share of the critical path, 0 to 1."""
    sentence: str


def grouped(path: Iterable[PathPart], key: Callable[[PathPart], str]) -> list[PathShare]:
    """Add up the times of the parts that have the same key; return the groups, the largest first."""
    sums: dict[str, list[int]] = {}
    for part in path:
        group = sums.setdefault(key(part), [0, 0])
        group[0] += part.ps
        group[1] += part.ps if part.waited_for else 0
    whole = sum(ps for ps, _ in sums.values()) or 1
    ordered = sorted(sums.items(), key=lambda item: (-item[1][0], item[0]))
    return [PathShare(name, ps, ps / whole, waited / ps if ps else 0.0) for name, (ps, waited) in ordered if ps]


def by_phase(observed: Observed) -> list[PathShare]:
    """Add up a run's critical path by the phases that the program has named, the longest phase first.

    The name of each returned share is the phase's name, followed by the resource that takes most of its time. Returns
    an empty list if the program names no phases.
    """
    of_phase: dict[str, list[PathPart]] = {}
    for part, phase in observed.phases.parts(observed.path) if observed.phases else ():
        of_phase.setdefault(phase, []).append(part)
    words = {phase: f"{phase}: mostly {grouped(parts, by_resource)[0].name}" for phase, parts in of_phase.items()}
    phases = {id(part): words[phase] for phase, parts in of_phase.items() for part in parts}
    return grouped((part for parts in of_phase.values() for part in parts), lambda part: phases[id(part)])


def by_resource(part: PathPart) -> str:
    return f"waiting for {part.waited_for}" if part.waited_for else _WORK.get(part.resource, part.resource).lower()


def by_call(part: PathPart) -> str:
    if part.resource == "messages":
        return part.directive
    return part.call or ("no call" if part.resource in ("runtime", "program") else part.resource)


def by_line(part: PathPart) -> str:
    if not part.directive:
        return part.place or "no directive"
    return f"{part.directive} ({part.place})" if part.place else part.directive


def limit_of(observed: Observed, resource: str = "") -> Limit:
    """Say what limits a recorded run: `resource` if the critical path has it, else the one with the largest share."""
    path = observed.path
    if not path:
        return Limit("nothing", "", 0.0, "No time was measured.")
    shares = sorted(grouped(path, lambda part: part.blame), key=lambda share: (-share.ps, -share.waited))
    first = next((share for share in shares if share.name == resource), shares[0])
    behind = [part for part in path if part.blame == first.name]
    call = grouped(behind, lambda part: part.call)[0]
    use = next((use for use in observed.resources if use.name == first.name), None)
    if any(part.waited_for for part in behind):
        more = _of_neighbours(observed) if first.name == "entry locks" else ""
        if first.name.endswith("stream order"):
            more = "; streams of the threads' own, which the program has to make, let their work overlap"
        sentence = _of_turns(first, behind, use, more)
    else:
        sentence = _of_work(observed, first, behind, use)
    near = [share for share in shares if share is not first and share.share >= _NEAR * first.share]
    if near and not resource:
        sentence = f"{sentence[:-1]}; near it: {', '.join(f'{spoken(one)} ({_percent(one.share)})' for one in near)}."
    return Limit(first.name, call.name, first.share, sentence)


def spoken(of: PathShare | Limit) -> str:
    """Return a resource in words for the sentence on what limits a run: "the device table", "calls of the driver"."""
    resource = of.name if isinstance(of, PathShare) else of.resource
    work = _WORK.get(resource)
    return f"the {_named(resource)}" if work is None else work[:1].lower() + work[1:]


def _named(resource: str) -> str:
    for pattern, name in _NAMES.items():
        if (found := re.fullmatch(pattern, resource)) is not None:
            return found.expand(name)
    return resource


def _of_neighbours(observed: Observed) -> str:
    """Say which share of the waits for entry locks was for an entry beside the one looked up; empty below 25 %."""
    history = observed.history
    whole = sum(until - since for lock, since, until in history.waits if lock.startswith("entry of "))
    share = sum(until - since for since, until in history.neighbours) / whole if whole else 0.0
    if share < _NOTEWORTHY:
        return ""
    return f"; {_percent(share)} of the waits for them are for a neighbour's entry, which a look-up locks as well"


def _of_turns(first: PathShare, behind: Sequence[PathPart], use: ResourceUse | None, more: str) -> str:
    name = _named(first.name)
    if use is not None and use.holders and not name.endswith("locks"):
        name = name if name.endswith("lock") else f"lock of the {name}" if _is_known(first.name) else f'lock "{name}"'
    many = name.startswith(("cores", "time slices", "compute units")) or name.endswith("locks")
    limit, it, is_ = ("limit", "them", "they are") if many else ("limits", "it", "it is")
    used = "" if use is None else f"; {is_} {'held' if use.holders else 'busy'} {_percent(use.utilisation)} of the time"
    return (
        f"The {name} {limit} this run: {_percent(first.share)} of the critical path is waiting for {it}, "
        f"{_behind(behind, 'behind')}{used}{more}."
    )


def _is_known(lock: str) -> bool:
    """Tell whether a lock belongs to the runtime or the driver, and not to the program."""
    known = (where for of_name in places().values() for where in of_name)
    return any(fnmatchcase(lock, where.removeprefix("behind ")) for where in known if where.startswith("behind "))


def _of_work(observed: Observed, first: PathShare, behind: Sequence[PathPart], use: ResourceUse | None) -> str:
    name = _WORK.get(first.name, f"The {first.name}")
    verb = "limit" if name.startswith(("Kernels", "Calls", "Page faults", "Copies")) else "limits"
    busy = "" if use is None else f"; it is busy {_percent(use.utilisation)} of the time"
    more = ""
    if first.name == "kernel":
        more = _over_the_link(observed, first) or _too_small(observed, behind) + _one_device(observed)
        more += _of_frees(observed, first) + _apart(observed)
    elif first.name == "driver":
        more = _of_copies(observed, behind)
    elif first.name in (FAULTS, HOST_FAULTS):
        more = _of_pages(observed)
    elif first.name == RELAYED:
        texts = [observed.spec.text(key) for key in ("nvlink.topology", "pcie.peers") if key in observed.spec.entries]
        why = "peer access is not enabled" if {*texts} - {"none"} else "the devices do not reach one another's memory"
        more = f"; each crosses two links, since {why}"
    elif "copy engine" in first.name:
        more = _apart(observed)
    if first.name in ("kernel", "program"):
        more += _uneven(observed, behind)
    return f"{name} {verb} this run: {_percent(first.share)} of the critical path, {_behind(behind, 'in')}{more}{busy}."


def _uneven(observed: Observed, behind: Sequence[PathPart]) -> str:
    """Say whose work the others wait for, if threads or ranks wait for one another for a quarter of their time."""
    went = observed.result.where_time_went
    waiting = {what: went[name].share for name, what in (("threads", "threads"), ("ranks", "ranks")) if name in went}
    who = max(waiting, key=lambda name: waiting[name], default="")
    if not who or waiting[who] < _WAITING:
        return ""
    # Where a kernel is late, the path runs over the device; the late thread is the one that submitted the kernel.
    longest = heapq.nlargest(_ENOUGH, behind, key=lambda part: part.ps)
    late = grouped(longest, lambda part: _worker(observed, part))[0]
    if late.name.startswith("hidden helper thread"):
        return f"; {late.name} does most of it, while the threads of the program wait"
    most = f", most of the path is {late.name}" if late.name else ""
    return f"; the work is uneven: {who} wait for one another {_percent(waiting[who])} of their time{most}"


_ENOUGH = 200
"""So many of the longest parts of a path decide which thread is late."""


def _worker(observed: Observed, part: PathPart) -> str:
    """Return the name of the thread that does a part of the path, or that submitted the part's kernel; else empty."""
    if part.resource != "kernel":
        return part.actor
    at = [run for run in observed.history.kernels.values() if run.start < part.end_ps <= run.end]
    submitters = {observed.history.names.get(run.submitted[0], "") for run in at if run.name == part.call}
    return submitters.pop() if len(submitters) == 1 else ""


def _one_device(observed: Observed) -> str:
    """Say that one of several devices does most of the work; empty if no device stands out."""
    uses = [use for use in observed.resources if re.fullmatch(r"device \d+ compute units", use.name)]
    if len(uses) < 2 or uses[1].utilisation > _IDLE * uses[0].utilisation:  # the busiest comes first
        return ""
    name, others = uses[0].name.removesuffix(" compute units"), _percent(uses[1].utilisation)
    return f"; {name} works {_percent(uses[0].utilisation)} of the time, and the others {others} at most"


def _one_queue(observed: Observed) -> str:
    """Say that one hardware queue of a device has most of the kernels' time; empty if no queue stands out."""
    spans: dict[tuple[int, int], list[Window]] = {}
    for run in observed.history.kernels.values():
        if run.end >= 0:
            spans.setdefault((run.device, run.queue), []).append((run.start, run.end))
    (busiest, most), *rest = sorted(((key, _covered(of)) for key, of in spans.items()), key=lambda one: -one[1])
    others = [time_ps for (device, _), time_ps in rest if device == busiest[0]]
    if not others or others[0] > _IDLE * most:
        return ""
    return (
        f"; kernels of hardware queue {busiest[1]} run {_percent(most / observed.elapsed_ps)} of the time, and those "
        f"of each other queue {_percent(others[0] / observed.elapsed_ps)} at most"
    )


_IDLE = 0.6
"""One device or queue stands out if the next has no more than this part of its busy time."""
_TINY = 1 << 14
"""Mean bytes of copies below which a copy costs about as much as an empty one."""
_MANY = 16


def _of_copies(observed: Observed, behind: Sequence[PathPart]) -> str:
    """Say whether the copies of the call with most of `behind` are tiny or come from pageable memory; else empty."""
    call = grouped(behind, by_call)[0].name
    direction = "h2d" if "HtoD" in call else "d2h" if "DtoH" in call else ""
    if not direction:
        return ""
    place = grouped([part for part in behind if by_call(part) == call], lambda part: part.place)[0].name
    lines = observed.causal_log.source_lines
    copies = [
        (row[9], row[10])
        for row in observed.rows
        if row[0] == "CopyBegin" and row[7] == direction and (not place or lines.get(row[5], "") == place)
    ]
    whole = sum(nbytes for nbytes, _ in copies)
    if len(copies) >= _MANY and whole < _TINY * len(copies):
        mean = size(whole // len(copies))
        return f"; its {len(copies):,} copies move {mean} each, so their number costs, and not their bytes"
    if sum(nbytes for nbytes, memory in copies if memory == "staged") > whole / 2:
        return "; the memory of the host is pageable, so that the thread copies all of it to a pinned buffer as well"
    return ""


def _of_pages(observed: Observed) -> str:
    """Say that pages thrash, if the driver delayed faults for it, and that blocks are evicted, if any are."""
    faults = observed.result.faults
    put_off = faults.get("throttling", 0)
    text = ""
    if put_off:
        what = "a fault" if put_off == 1 else f"{put_off:,} faults"
        text += f"; pages thrash between host and device, and the driver puts {what} off"
    if observed.evicts:
        text += f"; {faults['evicted_blocks']:,} blocks are evicted, since not all of the managed memory fits"
    return text


def _of_frees(observed: Observed, kernels: PathShare) -> str:
    """Say that cuMemFree waits for the kernels, if most of the kernels' time on the path is followed by one."""
    freeing = [
        part.ps
        for part, after in itertools.pairwise(observed.path)
        if part.resource == "kernel" and after.call == "cuMemFree"
    ]
    if sum(freeing) < kernels.ps / 2:
        return ""
    return "; cuMemFree waits for them, so that the host does nothing meanwhile"


def _apart(observed: Observed) -> str:
    """Say that no copy overlaps a kernel, if both have a large share of the path."""
    of_path = {"kernel": 0, "copy": 0}
    for part in observed.path:
        kind = "kernel" if part.resource == "kernel" else "copy" if "copy engine" in part.resource else ""
        if kind:
            of_path[kind] += part.ps
    if min(of_path.values()) < _NOTEWORTHY / 2 * observed.elapsed_ps:
        return ""
    kernels = [(run.start, run.end) for run in observed.history.kernels.values() if run.end >= 0]
    begun: dict[int, int] = {}
    copies: list[Window] = []
    for row in observed.rows:
        if row[0] == "CopyBegin":
            begun[row[6]] = row[1]
        elif row[0] == "CopyEnd" and row[6] in begun:
            copies.append((begun.pop(row[6]), row[1]))
    beside = _covered(kernels) + _covered(copies) - _covered([*kernels, *copies])
    return "" if beside > 0.01 * observed.elapsed_ps else "; copies and kernels never run at the same time"


def _over_the_link(observed: Observed, kernels: PathShare) -> str:
    """Say that kernels access host memory over the link, if that takes at least half of their time."""
    entry = observed.spec.entries.get("remote.access_bw")
    over = {name: usage.remote_bytes for name, usage in observed.result.managed.items() if usage.remote_bytes}
    if entry is None or not over or sum(over.values()) < kernels.ps * 0.5e-12 * observed.spec.value(entry.key):
        return ""
    name, nbytes = max(over.items(), key=lambda item: item[1])
    return f"; it reaches memory of the host over the link, {size(nbytes)} of `{plain(name)}`"


def _too_small(observed: Observed, behind: Sequence[PathPart]) -> str:
    """Say that the kernel with the most time has fewer teams than the device has SMs; empty if it fills the device."""
    (longest, *_) = grouped(behind, lambda part: part.call)
    runs = [run for run in observed.history.kernels.values() if run.name == longest.name and run.end >= 0]
    teams = max((run.teams for run in runs), default=0)
    sms = observed.spec.count("gpu.sms") if "gpu.sms" in observed.spec.entries else 0
    if not 0 < teams < sms:
        return ""
    spans = [(run.start, run.end) for run in runs]
    apart = len(spans) > 1 and _covered(spans) == sum(end - begin for begin, end in spans)
    beside = f", and no two of its {len(spans):,} launches run at a time" if apart else ""
    if apart and observed.model in _ASIDE and len({(run.device, run.queue) for run in runs}) == 1:
        beside += f"; those that do not depend on one another overlap only {_ASIDE[observed.model]}"
    return f"; its {teams} teams fill a part of the {sms} SMs only{beside}{_one_queue(observed)}"


_ASIDE = {
    "cuda": "in streams of their own, which the program has to make",
    "openmp": "with `nowait`, or from several threads, as the program has to say",
}
"""What a program of each model has to do so that kernels of one queue may run at the same time."""


def _behind(behind: Sequence[PathPart], how: str) -> str:
    """Say which call, directive, array and line have most of the time of some parts."""
    (call, *_) = grouped(behind, by_call)
    most = "most" if how == "in" and call.name == behind[0].resource else ""
    of_call = [part for part in behind if by_call(part) == call.name]
    (place, *_) = grouped(of_call, by_line)
    of_place = [part for part in of_call if by_line(part) == place.name]
    (array, *_) = grouped(of_place, lambda part: plain(part.array))
    of = f" of `{array.name}`" if array.name and array.share > 0.5 else ""
    what = "outside of calls" if call.name == "no call" else f"{how} {call.name}"
    if place.name == "no directive":
        return f"{_percent(call.share)} of that {what}{of}"
    directive, _, line = place.name.partition(" (")
    if directive == call.name and line:  # a message has no other name
        return f"{_percent(call.share)} of that {what}, most at {line[:-1]}"
    where = (
        f"in {directive}{of} ({line}" if line else f"at {directive}{of}" if of_place[0].place else f"in {directive}{of}"
    )
    return f"{most or f'{_percent(call.share)} of that {what}, most'} {where}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
