"""Errors of a run in virtual time; each message says who waits, for what, since when, and who holds it.

`no_duration` and `AsyncOnly` catch two mistakes that every primitive can meet: a duration that is not a finite number
from 0 on, and `with` where `async with` is meant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn


class SimulationError(RuntimeError):
    """Base of every error that the scheduler of virtual time reports."""


class Deadlock(SimulationError):
    """Actors wait, nothing is ready and no timer is pending: they would wait for ever."""


class Livelock(SimulationError):
    """Actors made many steps and virtual time did not advance."""


class BadChoice(SimulationError):
    """A strategy made no valid choice: ``choose`` raised, or it returned no index of an actor that is ready."""


class UncontrolledNondeterminism(SimulationError):
    """Trio woke several tasks of a run at one instant; Trio orders them at random, so the run would not repeat."""


class RealInputOutput(SimulationError):
    """A task of the run waits for something outside virtual time: a thread, a socket, a process, a signal."""


class UnregisteredTask(SimulationError):
    """A primitive of ``offloadrt.sim`` was awaited in a task that is not an actor of this run."""


class DetachedTrioCall(SimulationError):
    """A plain Trio call was made by a detached actor (gear ``turbo``) outside ``async with sim.attached()``."""


class SimTimeout(SimulationError):
    """The body of ``sim.fail_after(dt)`` took longer than ``dt`` virtual seconds."""


class ReturnToTrio(Exception):
    """Control signal inside the clock hook: leave it, Trio has something to run. Never seen by users.

    Raised as a class: an instance that is raised again and again would grow its traceback for ever.
    """


class Expired(BaseException):
    """Control signal of ``move_on_after`` and ``fail_after``; one instance per scope. Never seen by users."""


def no_duration(call: str, given: object) -> Exception:
    """Return the error that `call(given)` raises when `given` is not a finite, non-negative number of seconds."""
    if isinstance(given, int | float):
        return ValueError(f"{call}({given!r}): virtual seconds are finite and not negative")
    return TypeError(f"{call}({given!r}): takes virtual seconds as a number, as in {call}(1e-5) for 10 microseconds")


class AsyncOnly:
    """Base of the classes that `async with` enters. It has no `__enter__`, so a type checker rejects `with`."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __enter__(self) -> NoReturn:
            raise TypeError(f"{getattr(self, 'directive', type(self).__name__)}: write `async with`, not `with`")

        def __exit__(self, *error: object) -> None: ...
