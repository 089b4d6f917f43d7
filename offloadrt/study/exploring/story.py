"""Tells a schedule in a few lines: who is held back, where in the program, and who goes on meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from offloadrt.sim import source_line
from offloadrt.sim.scheduler import Actor
from offloadrt.sim.strategies import Strategy
from offloadrt.study.exploring.case import ScheduleCase
from offloadrt.study.exploring.program import Program
from offloadrt.trace.events import to_ns

_MOST = 4
"""Of so many actors that went on meanwhile a line tells."""


@attrs.define
class _Departed:
    """A departure that took place, and who went on while the actor was late."""

    time: float
    actor: int
    who: str
    until: float
    """When it may go on; before that it is late. Infinite until then for one that was passed over."""
    seconds: float | None
    meanwhile: dict[str, None] = attrs.field(factory=dict)


@attrs.define
class StoryStrategy:
    """Does what `strategy` does, and notes what there is to tell."""

    strategy: Strategy
    departed: list[_Departed] = attrs.field(init=False, factory=list)
    sites: dict[int, str] = attrs.field(init=False, factory=dict)
    """Where in the program the directive with a number is."""

    @property
    def name(self) -> str:
        return self.strategy.name

    @property
    def reach(self) -> float:
        return float(getattr(self.strategy, "reach", 0.0))

    def choose(self, ready: Sequence[Actor]) -> int:
        for actor in ready:
            self._who(actor)
        place = self.strategy.choose(ready)
        for actor in ready[:place]:
            if not any(one.actor == actor.index and one.until > actor.sim.now for one in self.departed):
                self.departed.append(_Departed(actor.sim.now, actor.index, self._who(actor), float("inf"), None))
        return place

    def delay(self, actor: Actor) -> float | None:
        now, who = actor.sim.now, self._who(actor)
        delay = getattr(self.strategy, "delay", None)
        held: float | None = None if delay is None else delay(actor)
        for one in self.departed:
            if one.actor == actor.index:
                if one.until > now and one.seconds is None:
                    one.until, one.seconds = now, now - one.time
            elif one.until >= now and held is None:
                one.meanwhile.setdefault(who)
        if held is not None:
            self.departed.append(_Departed(now, actor.index, who, now + held, held))
        return held

    def _who(self, actor: Actor) -> str:
        site = source_line.site(source_line.awaited(getattr(actor.task, "coro", None)))
        if site:
            self.sites[actor.cause] = site
        elif actor.cause:
            site = self.sites.get(actor.cause, f"directive {actor.cause}")
        return f"{actor.name} ({site})" if site else actor.name

    def lines(self) -> list[str]:
        """Return the story."""
        lines = []
        for one in self.departed:
            late = "goes behind the others" if not one.seconds else f"is held back for {_time(one.seconds)}"
            lines.append(f"t={_time(one.time)}  {one.who} {late}")
            others = sorted(one.meanwhile, key=lambda who: "(" not in who)
            if others:
                more = f" and {len(others) - _MOST} more" if len(others) > _MOST else ""
                lines.append(f"    meanwhile {', '.join(others[:_MOST])}{more} went on")
        return lines


def story_of(program: Program, case: ScheduleCase) -> list[str]:
    """Run a case once more, and tell it."""
    told = StoryStrategy(case.strategy)
    program.run(case, told)
    return [*(f"fault {fault}" for fault in case.faults), *cost_lines(case), *told.lines()]


def cost_lines(case: ScheduleCase) -> Iterable[str]:
    """Tell which costs are not at their means."""
    for key, share in case.costs:
        yield f"{key} is at {share:.0%} of its range"
    if case.jitter:
        yield f"each cost of the host varies by {case.jitter:.0%}"


def _time(seconds: float) -> str:
    ns = to_ns(round(seconds * 1e12))
    for unit, size in (("s", 10**9), ("ms", 10**6), ("µs", 10**3)):
        if ns >= size:
            return f"{ns / size:.4g} {unit}"
    return f"{ns} ns"
