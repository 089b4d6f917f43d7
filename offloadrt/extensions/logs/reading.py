"""Reads the log of a run, as `run --log` writes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from os import PathLike
from pathlib import Path
from typing import Annotated, Any

import msgspec

from offloadrt.registry import regular
from offloadrt.trace.events import EVENTS, NO_CAUSE, NONE, Event

_Time = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
"""Whole nanoseconds of virtual time, from 0 to about a hundred days."""


def read_json_lines(
    path: str | PathLike[str], on_cut: Callable[[int], object] = lambda number: None
) -> Iterator[Event]:
    """Read the events of a file written by `JsonLines`, one by one; their times are whole nanoseconds.

    A last line that was cut off, as by a full disk, is left out, and on_cut is called with its number. Raises
    ValueError, with file and line, for another line that is no event; OSError when the file cannot be read.
    """
    decoder, latest_ns = msgspec.json.Decoder(dict[str, Any]), 0
    with regular(Path(path)).open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                fields = decoder.decode(line)
                kind = EVENTS[msgspec.convert(fields["event"], str)]
                time_ns = msgspec.convert(fields["time_ns"], _Time)
                if time_ns < latest_ns:
                    raise msgspec.ValidationError(f"its time_ns is {time_ns}, but {latest_ns} in a line before it")
                latest_ns = time_ns
                missing = {"device": NONE, "queue": NONE, "cause": NO_CAUSE, "time_ps": time_ns * 1000}
                yield msgspec.convert({**missing, **fields}, kind)
            except (msgspec.DecodeError, UnicodeDecodeError, KeyError, RecursionError) as error:
                if (
                    number > 1
                    and not line.endswith(b"\n")
                    and not isinstance(error, msgspec.ValidationError | KeyError)
                ):
                    on_cut(number)
                    return
                why = f"not an event of a trace, as `run --log` writes them ({_why_none(error)})"
                raise ValueError(f"{path}, line {number}: {why}") from error


def _why_none(error: Exception) -> str:
    """Return in words why a line is no event."""
    if isinstance(error, msgspec.ValidationError):
        return str(error)
    if isinstance(error, KeyError):
        name = error.args[0]
        return f"it has no {name}" if name in ("event", "time_ns") else f"no event is called {name}"
    return "it is no JSON"


def lock_family(lock: str) -> str:
    """Return the name under which locks are summed: "entry locks" for "entry of a"; other names stay as they are.

    The locks of a process stay as they are, too: "device table of process 2".
    """
    kind, of, owner = lock.partition(" of ")
    return f"{kind} locks" if of and not owner.startswith("process ") else lock
