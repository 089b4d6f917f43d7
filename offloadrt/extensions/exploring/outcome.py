"""What came out of one run, and when two outcomes are the same."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

import attrs

from offloadrt.sim import SimulationError
from offloadrt.study.errors import ScriptFailed, UserError
from offloadrt.study.running.execution import ENDING_ERRORS
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.scripts.tracebacks import innermost, user_site

_TIMES = ("_s", "_ms", "_us", "_ns", "time", "elapsed", "speedup", "ratio")
"""How the names of figures end that are times or follow from times; they differ from schedule to schedule."""


@attrs.frozen
class RunOutcome:
    """An error, reports of checkers, or a result."""

    key: str
    """Two outcomes with the same key are the same outcome."""
    text: str
    """What it is, in one line."""
    is_error: bool
    detail: str = ""
    """The error's own traceback, or the reports, as far as there are any."""
    is_named: bool = False
    """Whether it is an error with a name, as those of the runtime and the driver library, and those for users."""


def result_of(figures: Mapping[str, Value], names: Sequence[str]) -> RunOutcome:
    """Return the outcome of a run that ended well: the figures `names`, or all that are no times if none are named.

    Raises UserError for a name that the program did not return.
    """
    for name in names:
        if name not in figures:
            raise UserError(f"--result {name}: the program returned {', '.join(figures) or 'no figures'}")
    chosen = {
        name: value
        for name, value in figures.items()
        if (name in names if names else not name.endswith(_TIMES) and "per_s" not in name)
    }
    text = " ".join(f"{name}={value}" for name, value in chosen.items()) or "it ended"
    return RunOutcome("result " + json.dumps(chosen, sort_keys=True), text, False)


def reported(reports: Sequence[str]) -> RunOutcome:
    """Return the outcome of a run about which checkers have something to report."""
    first = reports[0].partition("\n")[0]
    return RunOutcome(f"report {_without_numbers(first)}", first, True, "\n".join(reports))


def failure_of(error: BaseException) -> RunOutcome:
    """Return the outcome of a run that raised. Errors of one type at one line of the program are the same."""
    detail = str(error)
    cause = error.__cause__ if isinstance(error, ScriptFailed) and error.__cause__ is not None else error
    inner = innermost(cause)
    if inner is not error and not isinstance(error, ScriptFailed):
        detail = str(inner)
    kind = type(inner).__name__
    message = (str(inner).partition("\n")[0] or detail.partition("\n")[0]).strip()
    site = user_site(inner)
    where = f" ({site})" if site else ""
    key = f"{kind} {site or _without_numbers(message)}"
    if isinstance(inner, SimulationError):  # its message says who waits for whom, which differs
        key = kind
    text = f"{kind}: {message}{where}" if message else f"{kind}{where}"
    return RunOutcome(key, text, True, detail, isinstance(inner, (UserError, *ENDING_ERRORS)))


def _without_numbers(text: str) -> str:
    return re.sub(r"\d+(\.\d+)?(e[+-]?\d+)?", "N", text)
