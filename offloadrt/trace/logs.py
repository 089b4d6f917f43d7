"""The log of a run: JSON Lines in a file, written by structlog.

structlog's own processors do the work. Nothing global is read or changed: loggers are made and bound explicitly, never
through contextvars, which would leak between actors, and without `structlog.configure`, which belongs to the user.
Times are integer nanoseconds of virtual time (`time_ns`).
"""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import IO, Any

import msgspec
import numpy as np
import structlog

from offloadrt.trace.events import EVENTS, NO_CAUSE, NONE, Row, to_ns

ACTOR = "actor_name"
"""The key under which a log line carries the name of its actor."""


class JsonLines:
    """A sink that writes each event as a JSON object on a line: its class's name, `time_ns`, actor, and other fields.

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
        """Write some rows of the trace (events) to the log."""
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
        """Close the log's file."""
        self._file.close()


def _plain(value: Any) -> Any:
    """Convert NumPy's numbers to Python's. Raises TypeError for any other type."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a field of an event is a string or a number, not {value!r}")
