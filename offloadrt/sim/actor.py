"""An actor: one Trio task that takes part in virtual time."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable, Generator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

import outcome
from trio.lowlevel import Abort, enable_ki_protection, reschedule, wait_task_rescheduled

from offloadrt.sim.errors import Handover

if TYPE_CHECKING:
    from offloadrt.sim.kernel import Simulation

GO = outcome.Value(None)
"""The one wake-up value. Primitives never look at it: whoever is resumed for another reason finds ``Actor.trouble``."""

SELF: ContextVar[Actor] = ContextVar("offloadrt_actor")
"""The actor that a Trio task belongs to. Tasks of a nursery inherit it, so the kernel compares tasks as well."""

F = TypeVar("F", bound=Callable[..., Any])


@types.coroutine
def _nothing() -> Generator[Any, Any, None]:
    yield


PASSED = _nothing()
"""What a call returns whose time has passed already: awaiting it does nothing, as often as it is done."""
PASSED.close()

BEFORE_ALL = 1 << 62
"""Taken off an actor's index: cancellations and timeouts of one instant come first, in order of spawning."""


def uninterrupted(function: F) -> F:
    """Ctrl-C strikes between the operations of the kernel, in the user's code, never inside of one."""
    code_owner: Any = function
    enable_ki_protection(code_owner)
    return function


def _message(abort: Callable[[Any], Abort]) -> Any:
    """The object that ``wait_task_rescheduled(abort)`` yields to Trio; made once an actor instead of once a wait."""
    wait = wait_task_rescheduled(abort)
    message = wait.send(None)
    wait.close()
    return message


def hand_over(_: Any = None) -> Any:
    """What a step yields or returns when Trio has something to run: the trampoline calls it and stops."""
    raise Handover


class Actor:
    """A task of the run, with a name and an index in order of spawning.

    ``waits_for`` is what it is parked on (None while it runs, is ready or sleeps). ``data`` belongs to the actor's
    owner: floors above keep what they know of a host thread there. ``cause`` is the number of the directive that the
    actor works for, 0 for none.
    """

    __slots__ = (
        "cause", "daemon", "data", "detached", "finished", "index", "name", "own_trap", "raw_section", "send", "sim",
        "story", "task", "trap", "trouble", "value", "waits_for", "waits_since",
    )  # fmt: skip
    is_actor = True

    def __init__(self, sim: Simulation, name: str, daemon: bool) -> None:
        self.sim = sim
        self.name = name
        self.daemon = daemon
        self.index = sim.next_index()
        self.cause = 0
        self.data: dict[str, Any] = {}
        self.task: Any = None  # a trio.lowlevel.Task as soon as it has begun
        self.detached = False
        self.finished = False
        self.value: Any = None
        self.waits_for: Any = None
        self.waits_since = 0.0
        self.trouble: Callable[[], None] | None = None
        self.raw_section: Any = None
        self.story: deque[tuple[float, str]] = deque(maxlen=6)
        self.trap = self.own_trap = _message(self.abort)
        self.send: Callable[[Any], Any] = self._not_started

    def __repr__(self) -> str:
        return f"<actor {self.index} {self.name!r}>"

    def _not_started(self, _: Any) -> Any:
        """Its turn has come before Trio ran the new task's first step: let Trio do so, then take the turn."""
        self.sim.ready.appendleft(self)
        return hand_over

    def wake(self, _: Any) -> Any:
        """Gear ``native``, and attached actors in ``turbo``: the next step is Trio's."""
        sim = self.sim
        sim.expected = task = self.task
        reschedule(task, GO)
        sim.running = self
        return hand_over

    def abort(self, raise_cancel: Callable[[], Any]) -> Abort:
        """Trio wants to cancel a parked actor. The kernel delivers it, so that the order is spawn order, not Trio's.

        An actor that is already on its way is cancelled where it parks next: Trio asks again there if it is attached.
        """
        if (self.trouble is not None or not self.sim.interrupt(self, raise_cancel)) and self.detached:
            self.trap = LateCancel(self, raise_cancel)
        return Abort.FAILED


class LateCancel:
    """A cancellation that found its detached actor on its way: the trap that the actor yields where it parks next."""

    __slots__ = ("actor", "raise_cancel")

    def __init__(self, actor: Actor, raise_cancel: Callable[[], Any]) -> None:
        self.actor = actor
        self.raise_cancel = raise_cancel

    def __call__(self, _: Any) -> None:
        actor = self.actor
        actor.trap = None
        actor.sim.interrupt(actor, self.raise_cancel)
