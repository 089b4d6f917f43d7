"""Errors that tell the story: who waits, on what, since when, who holds it, and what came before."""

from __future__ import annotations

from typing import Any

from offloadrt.sim import source_line
from offloadrt.sim.errors import Deadlock, DetachedTrioCall, Livelock
from offloadrt.sim.scheduler import Actor, Scheduler

LISTED = 20
"""Actors named in one message."""


def holder(target: Any) -> str:
    """Return ``" held by host0"`` if ``target`` knows its owner, else nothing."""
    owners = target.holders() if hasattr(target, "holders") else []
    return f" held by {', '.join(owner.name for owner in owners)}" if owners else ""


def missing(target: Any) -> str:
    """Return ``", to which host thread 2 has not come"`` if ``target`` knows who is still to come, else nothing."""
    names = target.missing() if hasattr(target, "missing") else []
    if not names:
        return ""
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return f", to which {', '.join(names[:LISTED])}{more} {'has' if len(names) == 1 else 'have'} not come"


def waiting(actor: Actor) -> str:
    sim = actor.sim
    for time, _, item in sim.heap:
        if item is actor:
            return f"{actor.name} sleeps until t={time:g}"
    if actor in sim.ready or actor is sim.running:
        return f"{actor.name} runs"
    site, called = source_line.call(source_line.awaited(getattr(actor.task, "coro", None)))
    at = f" ({site})" if site else ""
    if (target := actor.waits_for) is not None:
        since = f"since t={actor.waits_since:g}"
        return f"{actor.name} waits on {target.name}{at} {since}{holder(target)}{missing(target)}"
    if called.startswith("trio."):
        return f"{actor.name} waits in {called}{at}, outside the primitives of the run"
    return f"{actor.name} waits in {called or 'a nursery'}{at}"


def held(sim: Scheduler, actor: Actor) -> list[str]:
    return [p.name for p in sim.primitives if hasattr(p, "holders") and actor in p.holders()]


def report(sim: Scheduler, actor: Actor) -> str:
    """Tell in one line what an actor waits for, what it holds, and its last waits."""
    parts = [waiting(actor)]
    if names := held(sim, actor):
        parts.append(f"holds {', '.join(names)}")
    last = list(actor.story)[:-1] if actor.waits_for is not None else list(actor.story)
    if last:
        parts.append("before: " + ", ".join(f"{name} at t={time:g}" for time, name in last))
    return "; ".join(parts)


def everybody(sim: Scheduler) -> str:
    actors = [a for a in sim.actors.values() if not a.daemon]
    lines = [f"  {report(sim, actor)}" for actor in actors[:LISTED]]
    if len(actors) > LISTED:
        lines.append(f"  and {len(actors) - LISTED} more")
    lines += [f"  after {incident}" for incident in sim.incidents[:LISTED]]
    return "\n".join(lines)


def deadlock(sim: Scheduler) -> Deadlock:
    count = len([a for a in sim.actors.values() if not a.daemon])
    who = "1 actor waits" if count == 1 else f"{count} actors wait"
    return Deadlock(f"t={sim.now:g}: {who}, nothing is ready and no timer is pending\n{everybody(sim)}")


def livelock(sim: Scheduler, steps: int) -> Livelock:
    return Livelock(f"t={sim.now:g}: {steps:,} steps without virtual time advancing; somebody spins.\n{everybody(sim)}")


def detached_call(sim: Scheduler, actor: Actor, frames: source_line.Frames) -> DetachedTrioCall:
    """Make the error for a call of Trio's; `frames` are the actor's, down to the call."""
    site, called = source_line.call(frames)
    instead = "use the run's own primitives"
    if called.startswith("trio.sleep"):
        instead = "write 'await t.compute(seconds)' for work, 'await run.sim.sleep(seconds)' for a pause"
    return DetachedTrioCall(
        f"{site and f'{site}: '}t={sim.now:g}: {actor.name} calls {called or 'Trio'}, which works only inside "
        f"'async with run.sim.attached():'; {instead}"
    )


def explained(sim: Scheduler, actor: Actor, error: BaseException) -> BaseException:
    """Return the error itself, or DetachedTrioCall if it is Trio's complaint of a call out of a detached actor."""
    if isinstance(error, RuntimeError) and actor.detached and "async context" in str(error):
        explained = detached_call(sim, actor, source_line.raised(error.__traceback__))
        explained.__cause__ = error
        return explained
    return error


def add(sim: Scheduler, actor: Actor, error: BaseException) -> None:
    """Note on an error who raised it, when, and what the others did."""
    if getattr(error, "__notes__", None):
        return
    error.add_note(f"raised in {actor.name} at t={sim.now:g} s of virtual time")
    if actor.story:
        error.add_note("its last waits: " + ", ".join(f"{name} at t={time:g}" for time, name in actor.story))
    others = [a for a in sim.actors.values() if a is not actor and not a.daemon and a.waits_for is not None]
    for other in others[:LISTED]:
        error.add_note(report(sim, other))


def only_error(group: BaseExceptionGroup[Any]) -> BaseException:
    """Return the one error inside nested groups of nurseries, or the group itself if there are several.

    An error whose ``__cause__`` is another one of the group is its consequence in an actor that went on at the same
    instant: the cause stands for both.
    """
    errors = _leaves(group)
    first = [error for error in errors if not any(error.__cause__ is other for other in errors)]
    return first[0] if len(first) == 1 else group


def _leaves(error: BaseException) -> list[BaseException]:
    """Return the errors inside nested groups, in order."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for part in error.exceptions for leaf in _leaves(part)]
