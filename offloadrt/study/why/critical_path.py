"""The critical path: from the end of the run backwards, always to the actor that let the present one go on.

An actor's time is its own from the last resumption to it on: then it works, or waits for a timer of its own. At the
resumption the path goes over to the giver. So the parts of the path follow one another without a gap, and add up to the
time from its begin to its end. Where an actor had waited for its turn, at a lock for instance, the path of that time is
the work of those before it, and each part of it tells what was waited for.

The compute units run many kernels at a time, in one actor. So there the path goes along one kernel: from its end to its
start, through its page faults, and from there to its submission.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Sequence

import attrs

from offloadrt.study.why.history import IDLE, ApiCall, Doing, History, KernelRun
from offloadrt.trace.events import lock_family

FAULTS = "page faults"
"""The resource of what the handler of page faults does, and of the migrations that it asks for."""


@attrs.frozen
class PathPart:
    """A piece of the critical path, in integer picoseconds."""

    begin_ps: int
    end_ps: int
    actor: str
    resource: str
    """What worked: "program", "runtime", "driver", "kernel", "launch", "page faults", an engine, or another actor."""
    call: str
    """The call or the kernel."""
    array: str
    directive: str
    place: str
    waited_for: str
    """What the path's later actor waited for its turn at meanwhile: a lock, a core, an engine; empty for nothing."""
    times: float = 1.0
    """How many times over it counts: more than once in a repeated phase that stands for others."""

    @property
    def ps(self) -> int:
        """Return the time that it stands for."""
        own = self.end_ps - self.begin_ps
        return own if self.times == 1.0 else round(own * self.times)

    @property
    def blame(self) -> str:
        """Return what was waited for, or else what worked."""
        return self.waited_for or self.resource


@attrs.define
class _Turn:
    """A wait for a turn that the path passes through: what for, and when it had begun."""

    resource: str
    since_ps: int


def critical_path(history: History, begin_ps: int, end_ps: int, actor: int) -> list[PathPart]:
    """Return the path that ends with `actor` at `end_ps`, back to `begin_ps`, the first part first.

    The parts add up to `end_ps - begin_ps`.
    """
    return _Walk(history, begin_ps).back_from(actor, end_ps)


def counted_over(path: Iterable[PathPart], phases: Sequence[tuple[int, int, float]]) -> Iterator[PathPart]:
    """Let the parts in repeated phases stand for those that were left out; a phase is begin, end and how many times."""
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
    """One walk backwards."""

    def __init__(self, history: History, begin_ps: int) -> None:
        self._history = history
        self._begin_ps = begin_ps
        self._parts: list[PathPart] = []
        self._turns: list[_Turn] = []
        self._seen: set[tuple[int, int]] = set()
        """Kernels that the path has come to, and when."""

    def back_from(self, actor: int, end_ps: int) -> list[PathPart]:
        history = self._history
        time_ps, number = end_ps, history.handovers_until(end_ps)
        while time_ps > self._begin_ps:
            if (kernel := self._kernel_at(actor, time_ps)) is not None:
                actor, time_ps, number = self._along(kernel, time_ps, number)
                continue
            taken = history.last_taken(actor, number)
            since_ps = 0 if taken is None else min(history.resumptions[taken].time_ps, time_ps)
            self._work(actor, since_ps, time_ps)
            if taken is None:
                break
            self._wait(taken)
            giver = history.resumptions[taken].giver
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
        """Add a part, cut where the path's begin is and where waits for a turn had begun."""
        begin_ps = max(begin_ps, self._begin_ps)
        while begin_ps < end_ps:
            self._turns = [turn for turn in self._turns if turn.since_ps < end_ps]
            turn = self._turns[-1] if self._turns else None
            cut_ps = begin_ps if turn is None else max(turn.since_ps, begin_ps)
            waited = part.waited_for or ("" if turn is None else turn.resource)
            self._parts.append(attrs.evolve(part, begin_ps=cut_ps, end_ps=end_ps, waited_for=waited))
            end_ps = cut_ps

    def _work(self, actor: int, begin_ps: int, end_ps: int) -> None:
        """Add what an actor did, from step to step."""
        begin_ps = max(begin_ps, self._begin_ps)
        name = self._history.names.get(actor, "?")
        copies = 0
        for step_begin, step_end, doing in self._steps_back(actor, begin_ps, end_ps):
            if doing.copy:
                copies += 1
            behind = name if copies > 1 and not doing.migrates else ""
            self._add(step_begin, step_end, self._part(actor, name, doing, behind))

    def _steps_back(self, actor: int, begin_ps: int, end_ps: int) -> Iterator[tuple[int, int, Doing]]:
        steps = self._history.steps.get(actor)
        if steps is None:
            yield begin_ps, end_ps, IDLE
            return
        place = bisect.bisect_left(steps.times, end_ps) - 1
        while end_ps > begin_ps:
            if place < 0:
                yield begin_ps, end_ps, IDLE
                return
            since = max(steps.times[place], begin_ps)
            if since < end_ps:
                yield since, end_ps, steps.doing[place]
                end_ps = since
            place -= 1

    def _part(self, actor: int, name: str, doing: Doing, behind: str) -> PathPart:
        history = self._history
        call = doing.call
        if doing.migrates:
            resource, call = FAULTS, ApiCall(f"migration {doing.copy}")
        elif "fault handler" in name:
            resource, call = FAULTS, ApiCall("their service")
        elif doing.copy or not history.is_program(actor):
            resource = name
        elif doing.call is not None:
            resource = "driver"
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

    def _kernel_at(self, actor: int, time_ps: int) -> KernelRun | None:
        """Return a kernel that ended, or met a missing page, with this actor at this time."""
        for number in self._history.ends.get((actor, time_ps), ()):
            if (number, time_ps) not in self._seen:
                self._seen.add((number, time_ps))
                return self._history.kernels[number]
        return None

    def _along(self, kernel: KernelRun, time_ps: int, number: int) -> tuple[int, int, int]:
        """Go from a kernel's end or page fault to what had let it go on; returns actor, time and resumptions."""
        history = self._history
        name = history.names.get(kernel.actor, "?")
        work = self._made(name, "kernel", kernel.directive, ApiCall(kernel.name))
        went_on = [end for _, end in kernel.stalls if kernel.start < end < time_ps]
        if went_on:
            self._add(went_on[-1], time_ps, work)
            return self._giver_at(kernel.actor, went_on[-1], number)
        self._add(kernel.start, time_ps, work)
        return self._before(kernel, number)

    def _before(self, kernel: KernelRun, number: int) -> tuple[int, int, int]:
        """Go from a kernel's start to what it had waited for, and to who submitted it."""
        history = self._history
        submitter, submitted_ps = kernel.submitted
        arrived_ps, arrived = history.arrivals.get(kernel.number, (kernel.start, number))
        name = history.names.get(kernel.actor, "?")
        launch = self._made(name, "launch", kernel.directive, ApiCall(kernel.name))
        if arrived_ps < kernel.start and self._was_held_up(kernel):
            self._turns.append(_Turn(name, arrived_ps))
            return self._giver_at(kernel.actor, kernel.start, number)
        self._add(arrived_ps, kernel.start, launch)
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

    def _was_held_up(self, kernel: KernelRun) -> bool:
        """Tell whether a kernel began because another one ended, or a halt did, and not when its latency was over."""
        history = self._history
        if any(other != kernel.number for other in history.ends.get((kernel.actor, kernel.start), ())):
            return True
        taken = history.last_taken(kernel.actor, history.handovers_until(kernel.start))
        if taken is None or history.resumptions[taken].time_ps != kernel.start:
            return False
        return history.is_program(history.resumptions[taken].giver)

    def _giver_at(self, actor: int, time_ps: int, number: int) -> tuple[int, int, int]:
        """Return who let an actor go on at a time; the actor itself if a kernel of its own did."""
        history = self._history
        if history.ends.get((actor, time_ps)):
            return actor, time_ps, min(number, history.handovers_until(time_ps))
        taken = history.last_taken(actor, min(number, history.handovers_until(time_ps)))
        if taken is None or history.resumptions[taken].giver < 0:
            return actor, time_ps, number
        return history.resumptions[taken].giver, time_ps, taken
