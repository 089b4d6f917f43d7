"""Actors of one kind behind one mailbox, and a counter of things over time.

Each server serves one message after another; where allowed, further servers are spawned. ``LevelOverTime`` makes the
statistics of contended parts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import attrs

from offloadrt.sim import Actor, Mailbox, Simulation


# ---------------------------------------------------------------------- levels
# How many of something there are over virtual time, for the statistics of what contends.
class LevelOverTime:
    """A number that rises and falls by one, and its time integrals up to now.

    ``total_s`` is the integral of the number over virtual time, ``some_s`` the seconds in which the number was not 0.
    """

    __slots__ = ("_sim", "_since", "_some_s", "_total_s", "number")

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        self._since = sim.now
        self._total_s = self._some_s = 0.0
        self.number = 0

    def rise(self) -> None:
        """Raise the number by one, from the present virtual time on."""
        self._account()
        self.number += 1

    def fall(self) -> None:
        """Lower the number by one, from the present virtual time on."""
        self._account()
        self.number -= 1

    @property
    def total_s(self) -> float:
        self._account()
        return self._total_s

    @property
    def some_s(self) -> float:
        self._account()
        return self._some_s

    def _account(self) -> None:
        now = self._sim.now
        if self.number:
            dt = now - self._since
            self._total_s += self.number * dt
            self._some_s += dt
        self._since = now


M = TypeVar("M")


@attrs.define(eq=False)
class Servers(Generic[M]):
    """A group of equal server actors that serve messages; with ``grow``, a message that finds none idle adds one.

    Messages that find no idle server wait here, and not in the mailbox: a caller may reserve an idle actor and do its
    work itself, and that actor must not get another message meanwhile.

    serve: what each actor runs. It takes messages from ``mailbox`` for ever, and calls ``done`` when it has served one,
    before it reports the completion. It calls ``took_from_mailbox`` for a message that ``submit`` has not put there.
    name: returns the name of the actor with a number; numbers begin at 0. started: called with each actor that is
    spawned. service: whether ``serve`` fulfils the conditions of `Simulation.spawn_service`.
    """

    _sim: Simulation
    mailbox: Mailbox
    _serve: Callable[[], Awaitable[None]]
    _name: Callable[[int], str]
    _grow: bool = attrs.field(kw_only=True)
    _started: Callable[[Actor], None] | None = attrs.field(default=None, kw_only=True)
    _service: bool = attrs.field(default=False, kw_only=True)
    number: int = attrs.field(default=0, init=False)
    """Number of servers."""
    idle: int = attrs.field(default=0, init=False)
    """Number of idle servers."""
    queue: deque[M] = attrs.field(factory=deque, init=False)
    """Messages by ``submit`` that found no idle server."""
    queued: LevelOverTime = attrs.field(init=False)
    """Length of this queue over time."""

    def __attrs_post_init__(self) -> None:
        self.queued = LevelOverTime(self._sim)

    def start(self) -> None:
        """Spawn one server actor (simulated task)."""
        name = self._name(self.number)
        self.number += 1
        self.idle += 1
        if self._service:
            actor = self._sim.spawn_service(self._serve, name=name)
        else:
            actor = self._sim.spawn(self._serve, name=name, daemon=True, serves=self.mailbox)
        if self._started is not None:
            self._started(actor)

    def submit(self, message: M) -> None:
        """Pass a message to the server that has been idle for the longest; queue it while no server is idle."""
        if self.claim():
            self.mailbox.put(message)
        else:
            self.queue.append(message)
            self.queued.rise()

    def claim(self) -> bool:
        """Reserve an idle server, whose work the caller does itself, until ``done``; return False if none is idle."""
        if self.idle <= 0:
            if not self._grow:
                return False
            self.start()
        self.idle -= 1
        return True

    def took_from_mailbox(self) -> None:
        """Note that a server has got a message that its sender put into the mailbox directly, not by ``submit``.

        Such senders cannot spawn servers: the last idle server that gets a message spawns the next idle one.
        """
        self.idle -= 1
        if self._grow and not self.idle:
            self.start()

    def done(self) -> None:
        """Note that a server has served its message: it gets the next one, or becomes idle."""
        if self.queue:
            self.queued.fall()
            self.mailbox.put(self.queue.popleft())
        else:
            self.idle += 1


def numbered(name: str) -> Callable[[int], str]:
    """Return a function that names actors "name 0", "name 1"."""
    return lambda number: f"{name} {number}"


def numbered_from_the_second(name: str, kind: str) -> Callable[[int], str]:
    """Return a function that names actors "name", "name kind 1", "name kind 2"."""
    return lambda number: f"{name} {kind} {number}" if number else name
