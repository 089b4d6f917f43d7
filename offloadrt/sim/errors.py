"""Errors of a run in virtual time; each message says who waits, for what, since when, and who holds it.

`no_duration` and `AsyncOnly` catch two mistakes that every primitive can meet: a duration that is not a finite number
from 0 on, and `with` where `async with` is meant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn


class SimulationError(RuntimeError):
    """Base of every error that the scheduler of virtual time reports."""


class Deadlock(SimulationError):
    """Raised when actors wait for ever: no actor is ready and no timer is pending."""


class Livelock(SimulationError):
    """Raised when actors made many steps without virtual time advancing."""


class BadChoice(SimulationError):
    """Raised when a strategy chose badly: ``choose`` raised, or did not return the index of a ready actor."""


class UncontrolledNondeterminism(SimulationError):
    """Raised when Trio itself wakes several tasks at one instant: their order is random, so no run would repeat."""


class RealInputOutput(SimulationError):
    """Raised when a task waits for something outside virtual time: a thread, a socket, a process, a signal."""


class UnregisteredTask(SimulationError):
    """Raised when a task that is no actor of this run awaits a primitive of ``offloadrt.sim``."""


class DetachedTrioCall(SimulationError):
    """Raised when an actor that Trio does not step (engine ``turbo``) calls Trio outside ``sim.attached()``."""


class SimTimeout(SimulationError):
    """Raised when the body of ``sim.fail_after(dt)`` took longer than ``dt`` virtual seconds."""


class ReturnToTrio(Exception):
    """Raised inside the clock's hook (`deadline_to_sleep_time`) to leave it, because Trio has a task to run.

    Users never see it. Raised as a class: an instance that is raised again and again would grow its traceback for ever.
    """


class Expired(BaseException):
    """Raised in the body of ``move_on_after`` or ``fail_after`` when the time is up. Users never see it."""


LONGEST_S = 1e9
"""Virtual seconds, 32 years, that one step may take: what comes later could no longer be told apart in time."""


def no_duration(call: str, given: object) -> Exception:
    """Return the error to raise for an argument `given` of `call` that is no number of seconds in 0 to `LONGEST_S`."""
    if isinstance(given, int | float):
        return ValueError(f"{call}({given!r:.80}): virtual seconds are finite and not negative, and at most 1e9")
    return TypeError(f"{call}({given!r}): takes virtual seconds as a number, as in {call}(1e-5) for 10 microseconds")


class AsyncOnly:
    """Base of the classes that `async with` enters. It has no `__enter__`, so a type checker rejects `with`."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __enter__(self) -> NoReturn:
            raise TypeError(f"{getattr(self, 'directive', type(self).__name__)}: write `async with`, not `with`")

        def __exit__(self, *error: object) -> None: ...
