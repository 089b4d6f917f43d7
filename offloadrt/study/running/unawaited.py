"""Find what a program called and never awaited: without `await` a directive does nothing, which no figure shows.

The same is done for a region that is not entered by `async with`, but thrown away.

Python notices when it throws such a coroutine away, and warns; so does a `Region`. While a run lasts, that is an error
of the run. Nothing is added to what is awaited.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from offloadrt.study.errors import UserError
from offloadrt.study.scripts.tracebacks import script_line

if TYPE_CHECKING:
    from offloadrt.sim import Simulation

_NEVER = r"(coroutine|region) '.*' was never (awaited|entered)"


class NeverAwaited(UserError):
    """A directive or another coroutine was called without `await`, or a region without `async with`.

    The message says which, and its thread.
    """


@contextmanager
def all_awaited(sim: Simulation) -> Iterator[None]:
    """Notice coroutines and regions that are thrown away before they have begun, while the body runs.

    Raises NeverAwaited at the end; what the body itself raises gets a note instead.
    """
    forgotten: list[str] = []
    before = sys.unraisablehook

    def notice(unraisable: Any) -> None:
        warning = str(unraisable.exc_value)
        if isinstance(unraisable.exc_value, RuntimeWarning) and (what := re.match(_NEVER, warning)):
            actor = sim.running
            who = "the program" if actor is None else actor.name
            called, word = _called(unraisable.object, warning), "await" if what[1] == "coroutine" else "async with"
            forgotten.append(f"{who}: {called} was never {what[2]}{script_line()}, so it did nothing: write `{word}`")
        else:
            before(unraisable)

    sys.unraisablehook = notice
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=_NEVER, category=RuntimeWarning)
            yield
    except Exception as error:
        for line in dict.fromkeys(forgotten):
            error.add_note(line)
        raise
    finally:
        sys.unraisablehook = before
    if forgotten:
        times = f" (and {len(forgotten) - 1} more)" if len(forgotten) > 1 else ""
        raise NeverAwaited(forgotten[0] + times)


def _called(coroutine: Any, warning: str) -> str:
    """Return the directive that a coroutine is; else its function's name.

    The warning has the name where Python gives no more.
    """
    frame = getattr(coroutine, "cr_frame", None)
    function = warning.split("'")[1].rpartition(".")[2]
    if function not in ("in_directive", "_defer", "_run_after"):
        return function
    return "a directive" if frame is None else str(frame.f_locals["name"])
