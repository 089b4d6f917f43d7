"""The measured windows of a run: virtual time, figures and API calls between their starts and their ends."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from types import TracebackType

import attrs

from offloadrt.sim import Actor, Simulation
from offloadrt.sim.errors import AsyncOnly
from offloadrt.study.errors import UserError
from offloadrt.study.running.ledger import Ledger
from offloadrt.study.running.phases import PhaseEstimate, RepeatedPhases
from offloadrt.trace import Calls


class Windows:
    """The measured windows; several add up. Until the first one is opened, everything from the run's start is measured.

    `ledger` gives what the run has counted up to now; `calls` is where the machine counts API calls. What the program's
    `phases` leave out of a window is in all figures, by estimate; `spans` are as the run was.
    """

    def __init__(
        self, sim: Simulation, ledger: Callable[[], Ledger], calls: Calls, sample_phases: bool = False
    ) -> None:
        self._sim = sim
        self.phases = RepeatedPhases(sim, sample_phases, lambda: attrs.evolve(ledger(), calls=self.calls))
        self._ledger_now = ledger
        self._counting = calls
        self._outside = Calls()
        self._inside = Calls()
        self._closed = Ledger()
        self._at_start = Ledger()
        self._closed_s = 0.0
        self._open: float | None = 0.0
        self._explicit = False
        self.spans: list[tuple[float, float, Actor]] = []
        """Begin and end of each window that is over, in virtual seconds, and who ended it."""

    def start(self) -> None:
        """Open a window. Raises UserError where one is open."""
        if not self._explicit:
            self._explicit, self._open = True, None
        if self._open is not None:
            raise UserError("windows.start: a measured window is open already")
        self._open = self._sim.now
        self._at_start = self._ledger_now()
        self._outside.include(self._counting.cut())

    def end(self) -> None:
        """Close the window. Raises UserError where none is open."""
        if not self._explicit or self._open is None:
            raise UserError("windows.end: no measured window is open")
        self._close(self._open)

    def finish(self) -> None:
        """End the program: where no window was ever opened, everything up to here is measured."""
        if self._open is not None and not self._explicit:
            self._close(self._open)

    def _close(self, opened: float) -> None:
        self._closed_s += self._since(opened)
        self.spans.append((opened, self._sim.now, self._sim.current))
        self._open = None
        self._closed += self._counted_since(opened)
        self._inside.include(self._counting.cut())
        for phase in self.phases.estimates(opened, self._sim.now):
            self._inside.include(phase.more.calls)

    def _since(self, opened: float) -> float:
        skipped = math.fsum(phase.seconds for phase in self.phases.estimates(opened, self._sim.now))
        return self._sim.now - opened + skipped

    def _counted_since(self, opened: float) -> Ledger:
        counted = self._ledger_now() - self._at_start
        for phase in self.phases.estimates(opened, self._sim.now):
            counted += phase.more
        return counted

    @property
    def elapsed(self) -> float:
        """Return the virtual seconds in the windows so far."""
        running = 0.0 if self._open is None else self._since(self._open)
        return self._closed_s + running

    @property
    def measured(self) -> Ledger:
        """Return what was counted in the windows so far."""
        figures = self._closed if self._open is None else self._closed + self._counted_since(self._open)
        calls = _together(self._inside)
        if self._open is not None:
            left_out = self.phases.estimates(self._open, self._sim.now)
            calls = _together(calls, self._counting, *(phase.more.calls for phase in left_out))
        return attrs.evolve(figures, calls=calls)

    @property
    def counted(self) -> Ledger:
        """Return what has been counted since the start, measured or not, with what was left out of windows."""
        phases = self.phases.estimates(0.0, self._sim.now)
        return reduce(Ledger.__add__, (phase.more for phase in phases), self._ledger_now())

    @property
    def skipped(self) -> list[PhaseEstimate]:
        """Return the sampled phases whose left-out instances belong to windows that are over."""
        return [phase for begin, end, _ in self.spans for phase in self.phases.estimates(begin, end)]

    @property
    def calls_outside(self) -> Calls:
        """Return the API calls that returned outside of the windows so far; none when no window was opened."""
        if not self._explicit:
            return Calls()
        return _together(self._outside, self._counting) if self._open is None else _together(self._outside)

    @property
    def calls(self) -> Calls:
        """Return all API calls so far."""
        return _together(self._outside, self._inside, self._counting)


def _together(*parts: Calls) -> Calls:
    calls = Calls()
    for part in parts:
        calls.include(part)
    return calls


class MeasuredPart(AsyncOnly):
    """Measures the block of `async with run.measure():`."""

    directive = "run.measure()"

    def __init__(self, windows: Windows) -> None:
        self._windows = windows

    async def __aenter__(self) -> None:
        self._windows.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._windows.end()
