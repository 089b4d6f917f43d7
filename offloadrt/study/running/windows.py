"""The measured windows of a run: virtual time, figures and API calls between their starts and their ends."""

from __future__ import annotations

from collections.abc import Callable

from offloadrt.study.errors import UserError
from offloadrt.study.running.ledger import Ledger
from offloadrt.trace import Calls


class Windows:
    """Several windows add up. Until the first one is opened, all is measured from the run's start.

    `ledger` gives what the run has counted up to now; API calls are counted in `calls`.
    """

    def __init__(self, ledger: Callable[[], Ledger], calls: Calls) -> None:
        self._ledger_now = ledger
        self._counting = calls
        self._outside = Calls()
        self._inside = Calls()
        self._closed = Ledger()
        self._at_start = Ledger()
        self._closed_s = 0.0
        self._open: float | None = 0.0
        self._explicit = False

    def start(self, now: float) -> None:
        """Opens a window. Raises UserError where one is open."""
        if not self._explicit:
            self._explicit, self._open = True, None
        if self._open is not None:
            raise UserError("start_window: a measured window is open already")
        self._open = now
        self._at_start = self._ledger_now()
        self._outside.include(self._counting.cut())

    def end(self, now: float) -> None:
        """Closes the window. Raises UserError where none is open."""
        if not self._explicit or self._open is None:
            raise UserError("end_window: no measured window is open")
        self._close(now, self._open)

    def finish(self, now: float) -> None:
        """The program ends: what nobody measured in windows is measured up to here."""
        if self._open is not None and not self._explicit:
            self._close(now, self._open)

    def _close(self, now: float, opened: float) -> None:
        self._closed_s += now - opened
        self._open = None
        self._closed += self._ledger_now() - self._at_start
        self._inside.include(self._counting.cut())

    def elapsed(self, now: float) -> float:
        """Virtual seconds in the windows so far."""
        running = 0.0 if self._open is None else now - self._open
        return self._closed_s + running

    @property
    def measured(self) -> Ledger:
        """What was counted in the windows so far."""
        if self._open is None:
            return self._closed
        return self._closed + (self._ledger_now() - self._at_start)

    @property
    def calls_inside(self) -> Calls:
        """API calls that returned in the windows so far."""
        calls = Calls()
        calls.include(self._inside)
        if self._open is not None:
            calls.include(self._counting)
        return calls

    @property
    def calls_outside(self) -> Calls:
        """API calls that returned outside of them so far; none when no window was opened."""
        calls = Calls()
        if self._explicit:
            calls.include(self._outside)
            if self._open is None:
                calls.include(self._counting)
        return calls

    @property
    def calls(self) -> Calls:
        """All API calls so far."""
        calls = Calls()
        for part in (self._outside, self._inside, self._counting):
            calls.include(part)
        return calls
