"""Errors that tell the story: who waits, on what, since when, who holds it, and what came before.

Where an actor stands in the user's program (file and line for messages, and what it called there) is read from its
frames. A frame is the user's when its file is no part of this package, nor of Trio or another installed library.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final

import outcome
import trio

from offloadrt.sim.errors import Deadlock, DetachedTrioCall, Livelock, SimulationError, UnregisteredTask
from offloadrt.sim.scheduler import Actor, Scheduler, unregistered

_PACKAGE: Final = Path(__file__).resolve().parents[1]
_OTHERS: Final = tuple(f"{Path(str(module.__file__)).resolve().parent}/" for module in (trio, outcome, traceback))
_SCENARIOS: Final = f"{_PACKAGE / 'scenarios'}/"
"""Folder of the scenarios in a wheel. It lies inside the package, but its files are programs of the user."""

Frames = Iterable[tuple[FrameType, int]]
"""Frames with their line numbers, the innermost frame last."""


def is_users(file: str) -> bool:
    """Tell whether a source file is the user's (or a scenario), and not part of this package, Trio or Python."""
    if file.startswith("<") or "site-packages" in file:
        return False
    return file.startswith(_SCENARIOS) or not file.startswith((f"{_PACKAGE}/", *_OTHERS))


def awaited(coroutine: Any) -> Iterator[tuple[FrameType, int]]:
    """Yield (frame, line number) of a suspended coroutine and of those that it awaits, the outermost first."""
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "gi_frame", None)
        if frame is not None:
            yield frame, frame.f_lineno
        coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "gi_yieldfrom", None)


def running(frame: FrameType | None) -> Frames:
    """Return the frames of the calls in progress, from the outermost one to `frame`."""
    return reversed([*traceback.walk_stack(frame)] if frame is not None else [])


def site(frames: Frames) -> str:
    """Return `FILE:LINE` of the innermost of the frames that is in the user's program; an empty text if none is."""
    return _split(frames)[0]


def _split(frames: Frames) -> tuple[str, FrameType | None]:
    """Return `FILE:LINE` of the innermost frame of the user's program, and the frame that it has called."""
    site, called = "", None
    wanted = True
    for frame, line in frames:
        file = frame.f_code.co_filename
        if is_users(file):
            site, called, wanted = f"{Path(file).name}:{line}", None, True
        elif wanted and not (site == "" and file.startswith(f"{_PACKAGE / 'sim'}/")):
            called, wanted = frame, False
    return site, called


def call(frames: Frames) -> tuple[str, str]:
    """Return `FILE:LINE` of the innermost of the `frames` in the user's program, and the name of what is called there.

    A name of Trio's begins with `trio.`. A name of this package has its class in small letters, as in `run.parallel`.
    Both results are empty where they are not known; the name is also empty for what `async with` calls.
    """
    site, called = _split(frames)
    return site, _name_of(called)


def _name_of(called: FrameType | None) -> str:
    """Return the name of a call from the frame of the called function, in the form that `call` gives it."""
    if called is None or called.f_code.co_name.startswith("__"):
        return ""
    name = called.f_code.co_qualname.rpartition("<locals>.")[2]
    head = name.partition(".")[0]
    if called.f_code.co_filename.startswith(f"{_PACKAGE}/"):
        return head.lower() + name[len(head) :] if "." in name else name
    for prefix, module in (("trio", trio), ("trio.lowlevel", trio.lowlevel)):
        if hasattr(module, head):
            return f"{prefix}.{name}"
    return name


LISTED = 20
"""Largest number of actors that one message names."""


def holder(target: Any) -> str:
    """Return who holds the lock ``target``, as a deadlock report writes it: ``" held by host0"``; else ""."""
    owners = target.holders() if hasattr(target, "holders") else []
    return f" held by {', '.join(owner.name for owner in owners)}" if owners else ""


def missing(target: Any) -> str:
    """Return who is missing at the barrier ``target``: ``", to which host thread 2 has not come"``; else ""."""
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
    site, called = call(awaited(getattr(actor.task, "coro", None)))
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
    """Describe in one line what an actor waits for, what locks it holds, and its last waits."""
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


_INSTEAD: Final = {
    **dict.fromkeys(("Lock", "StrictFIFOLock"), "offloadrt.sim.Lock(run.sim, 'name')"),
    **dict.fromkeys(("Semaphore", "CapacityLimiter"), "offloadrt.sim.Semaphore(run.sim, 1, 'name')"),
    **dict.fromkeys(("Event", "Condition"), "offloadrt.sim.Signal(run.sim, 'name')"),
    **dict.fromkeys(("MemorySendChannel", "MemoryReceiveChannel"), "offloadrt.sim.Mailbox(run.sim, 'name')"),
    "NurseryManager": "run.sim.open_nursery()",
    "CancelScope": "run.sim.move_on_after(seconds) or run.sim.fail_after(seconds)",
}
"""What to write instead of a class of Trio's, for messages."""


def detached_call(sim: Scheduler, actor: Actor, frames: Frames) -> DetachedTrioCall:
    """Make the error for a Trio call, the last of `frames`, by an actor that Trio does not step (engine ``turbo``)."""
    site, frame = _split(frames)
    called = _name_of(frame)
    owner = "" if frame is None else type(frame.f_locals.get("self")).__name__
    instead = f"use {_INSTEAD.get(owner, 'the primitives of offloadrt.sim')}"
    if not called and owner in _INSTEAD:
        called = f"trio.{owner}"
    if called.startswith("trio.sleep"):
        instead = "write 'await t.compute(seconds)' for work, 'await run.sim.sleep(seconds)' for a pause"
    return DetachedTrioCall(
        f"{site and f'{site}: '}t={sim.now:g}: {actor.name} calls {called or 'Trio (asyncio works nowhere)'}, which "
        f"works only inside 'async with run.sim.attached():'; {instead}"
    )


def explained(sim: Scheduler, actor: Actor, error: BaseException, why: str = "") -> BaseException:
    """Return an error that explains `error` better, or `error` itself.

    A SimulationError that gives the reason `why` is returned if there is a `why`, or if `error` cannot be printed,
    which would break Trio. DetachedTrioCall replaces Trio's complaint about a call by an actor that Trio does not step,
    UnregisteredTask that about a primitive given to a nursery of Trio's, as in ``n.start_soon(run.sim.sleep, 1e-3)``.
    TypeError replaces the AttributeError of a wrong argument that the user's program has passed to this package.
    """
    try:
        repr(error), str(error)
    except Exception as second:
        why = f"which cannot be printed: {type(second).__name__}"
    if why:
        text = f"{actor.name} raised {type(error).__module__}.{type(error).__qualname__}, {why}"
        return SimulationError(text).with_traceback(error.__traceback__)
    if isinstance(error, RuntimeError) and actor.detached and "async context" in str(error):
        explained = detached_call(sim, actor, traceback.walk_tb(error.__traceback__))
        explained.__cause__ = error
        return explained
    lone = only_error(error) if isinstance(error, BaseExceptionGroup) else error
    if isinstance(lone, TypeError) and str(lone).startswith("Trio got unexpected <generator object"):
        refusal = UnregisteredTask(f"t={sim.now:g}: {unregistered(sim, actor)}")
        refusal.__cause__ = None  # it is told once
        return refusal.with_traceback(lone.__traceback__)
    if isinstance(error, AttributeError) and error.name is not None:
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        users = [place for place, frame in enumerate(frames) if is_users(frame.f_code.co_filename)]
        for call in frames[users[-1] + 1 : users[-1] + 2] if users else ():
            code, given = call.f_code, call.f_locals
            for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
                if name != "self" and given.get(name, given) is error.obj:
                    refused = TypeError(f"{code.co_name}: {name} cannot be {error.obj!r:.80}")
                    refused.__cause__ = None  # it is told once
                    return refused.with_traceback(error.__traceback__)
    return error


def disorder(sim: Scheduler, broken: BaseException) -> SimulationError:
    """Return the error to report for `broken`, which broke Trio: an UnregisteredTask among its causes, or a new one."""
    cause: BaseException | None = broken
    while cause is not None:
        if isinstance(cause, UnregisteredTask):
            return cause
        cause = cause.exceptions[0] if isinstance(cause, BaseExceptionGroup) else cause.__cause__ or cause.__context__
    return SimulationError(
        f"t={sim.now:g}: the tasks of the run are in disorder: a coroutine was stepped by hand, as with send(None), "
        "or a nursery or scope of Trio was left by another task or in another order than entered"
    )


def add(sim: Scheduler, actor: Actor, error: BaseException) -> None:
    """Add notes to an error: which actor raised it, at which virtual time, and what the other actors did."""
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

    An error that is the ``__cause__`` of another error of the group does not count as one of several.
    """
    errors = {id(error): error for error in leaves(group)}
    first = [error for error in errors.values() if id(error.__cause__) not in errors]
    return first[0] if len(first) == 1 else group


def leaves(error: BaseException) -> list[BaseException]:
    """Return the errors inside nested groups, in order."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for part in error.exceptions for leaf in leaves(part)]
