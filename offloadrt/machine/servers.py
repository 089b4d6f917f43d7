"""Actors of one kind behind one mailbox: each serves one message after the other; where allowed, more are spawned."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from offloadrt.machine.level import Level
from offloadrt.sim import Mailbox, Simulation

M = TypeVar("M")


class Servers(Generic[M]):
    """As many actors as were started; with ``grow`` one more for each message that would find none idle.

    serve: what an actor runs. It gets from ``mailbox`` for ever, and says what it does with each message: ``took`` it,
    or ``took_unannounced``; and ``ended``, before it tells anybody that the message is served.
    name: what the actor with a number is called, from 0.
    """

    __slots__ = ("_grow", "_name", "_serve", "_sim", "idle", "mailbox", "number", "queued")

    def __init__(
        self,
        sim: Simulation,
        mailbox: Mailbox,
        serve: Callable[[], Awaitable[None]],
        name: Callable[[int], str],
        *,
        grow: bool,
    ) -> None:
        self.mailbox = mailbox
        self.number = 0
        """How many there are."""
        self.idle = 0
        """How many have nothing to do; negative: how many messages no actor has taken."""
        self.queued = Level(sim)
        """Messages by ``submit`` that came when no actor waited for one."""
        self._sim = sim
        self._serve = serve
        self._name = name
        self._grow = grow

    def start(self) -> None:
        """Spawn one."""
        name = self._name(self.number)
        self.number += 1
        self.idle += 1
        self._sim.spawn(self._serve, name=name, daemon=True)

    def submit(self, message: M) -> None:
        """Leave a message; the actor that has been waiting for the longest gets it."""
        if self._grow and self.idle <= 0:
            self.start()
        self.idle -= 1
        mailbox = self.mailbox
        if not mailbox.getters:
            self.queued.rise()
        mailbox.put(message)

    def took(self) -> None:
        """An actor has got a message that came by ``submit``."""
        if self.queued.number > len(self.mailbox.items):  # it was not handed to an idle one
            self.queued.fall()

    def took_unannounced(self) -> None:
        """An actor has got a message that its sender left in the mailbox itself.

        Those who send so cannot spawn anybody: the last idle actor that gets one spawns the next idle one.
        """
        self.idle -= 1
        if self._grow and not self.idle:
            self.start()

    def ended(self) -> None:
        """An actor has served its message."""
        self.idle += 1


def numbered(name: str) -> Callable[[int], str]:
    """Names of actors: "name 0", "name 1"."""
    return lambda number: f"{name} {number}"


def numbered_from_the_second(name: str, kind: str) -> Callable[[int], str]:
    """Names of actors: "name", "name kind 1", "name kind 2"."""
    return lambda number: f"{name} {kind} {number}" if number else name
