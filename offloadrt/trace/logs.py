"""The log of a run: JSON Lines in a file, written by structlog.

structlog's own processors do the work. Nothing global is read or changed: loggers are made and bound explicitly, never
through contextvars, which would leak between actors, and without `structlog.configure`, which belongs to the user.
Times are integer nanoseconds of virtual time (`time_ns`).
"""

from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import IO, Annotated, Any

import msgspec
import numpy as np
import structlog

from offloadrt.registry import regular
from offloadrt.trace.events import EVENTS, NO_CAUSE, NONE, Event, Row, to_ns

ACTOR = "actor_name"
"""The key under which a log line carries the name of its actor."""


class JsonLines:
    """A sink that writes each event as a JSON object, a line each: its name, time_ns, actor, and the fields that apply.

    `device` and `queue` are left out when the event concerns none, `cause` when no directive caused it. The file at
    `path` is overwritten. Raises OSError when it cannot be written.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self._file: IO[bytes] = Path(path).open("wb")  # noqa: SIM115 - open until close()
        encoder = msgspec.json.Encoder(enc_hook=_plain)
        self._logger = structlog.wrap_logger(
            structlog.BytesLogger(self._file),
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.EventRenamer("event"),
                structlog.processors.JSONRenderer(serializer=lambda fields, **_: encoder.encode(fields)),
            ],
            wrapper_class=structlog.BoundLogger,
            context_class=dict,
            cache_logger_on_first_use=True,
        ).bind()
        self._bound: dict[int, Any] = {}

    def write(self, rows: Sequence[Row], /) -> None:
        """Log some rows."""
        for label, time_ps, actor, device, queue, cause, *payload in rows:
            kind = EVENTS[label]
            if label == "ActorSpawned":
                self._bound[actor] = self._logger.bind(actor=actor, **{ACTOR: payload[0]})
            logger = self._bound.get(actor)
            if logger is None:
                logger = self._bound[actor] = self._logger.bind(actor=actor)
            fields: dict[str, Any] = {"time_ns": to_ns(time_ps)}
            if device != NONE:
                fields["device"] = device
            if queue != NONE:
                fields["queue"] = queue
            if cause != NO_CAUSE:
                fields["cause"] = cause
            fields.update(zip(kind.payload, payload, strict=True))
            method = logger.error if label == "RuntimeError_" else logger.info
            method(label, **fields)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _plain(value: Any) -> Any:
    """Turn NumPy's numbers into Python's. Raises TypeError for anything else."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a field of an event is a string or a number, not {value!r}")


_Time = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
"""Whole nanoseconds; nothing happens before the start, nor after a hundred days."""


def read_json_lines(
    path: str | PathLike[str], on_cut: Callable[[int], object] = lambda number: None
) -> Iterator[Event]:
    """Read the events of a file written by `JsonLines`, one by one, at the whole nanosecond.

    A last line that was cut off, as by a full disk, is left out, and on_cut is called with its number. Raises
    ValueError, with file and line, for another line that is no event; OSError when the file cannot be read.
    """
    decoder = msgspec.json.Decoder(dict[str, Any])
    with regular(Path(path)).open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                fields = decoder.decode(line)
                kind = EVENTS[msgspec.convert(fields["event"], str)]
                time_ns = msgspec.convert(fields["time_ns"], _Time)
                missing = {"device": NONE, "queue": NONE, "cause": NO_CAUSE, "time_ps": time_ns * 1000}
                yield msgspec.convert({**missing, **fields}, kind)
            except (msgspec.DecodeError, KeyError) as error:
                if (
                    number > 1
                    and not line.endswith(b"\n")
                    and not isinstance(error, msgspec.ValidationError | KeyError)
                ):
                    on_cut(number)
                    return
                why = f"not an event of a trace, as `run --log` writes them ({_why_none(error)})"
                raise ValueError(f"{path}, line {number}: {why}") from error


def _why_none(error: msgspec.DecodeError | KeyError) -> str:
    """Say why a line is no event."""
    if isinstance(error, msgspec.ValidationError):
        return str(error)
    if isinstance(error, KeyError):
        name = error.args[0]
        return f"it has no {name}" if name in ("event", "time_ns") else f"no event is called {name}"
    return "it is no JSON"
