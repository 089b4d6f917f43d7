"""A run that lives inside somebody else's `trio.run`: it is that run's clock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio.abc

from offloadrt.study.running.run import Run
from offloadrt.study.running.unawaited import all_awaited
from offloadrt.study.scripts.tracebacks import innermost


class ClockedRun(Run, trio.abc.Clock):
    """A `Run` that is a `trio.abc.Clock`, which is what pytest-trio looks for among a test's fixtures."""

    __slots__ = ()

    def start_clock(self) -> None:
        """Start the clock; Trio calls this once, before its first task runs."""
        self.sim.start_clock()

    def current_time(self) -> float:
        """Return the virtual seconds since the start."""
        return self.sim.current_time()

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Let virtual time pass when nothing else is to be done."""
        return self.sim.deadline_to_sleep_time(deadline)

    async def live(self, main: Callable[[], Awaitable[object]]) -> None:
        """Run `await main()` as the first actor, in the current task, and wait for all that it started.

        An error of one actor is raised as it is, not in a group.
        """
        __tracebackhide__ = True
        try:
            with all_awaited(self.sim):
                async with self.sim.running_here():
                    async with self.sim.adopt("test"):
                        await main()
                        await self.finish()
            if self.sim.violation is not None:
                raise self.sim.violation
        except BaseExceptionGroup as group:
            raise innermost(group) from None
        finally:
            if self.trace is not None:
                self.trace.close()
