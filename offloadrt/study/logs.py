"""Reads a log back: the statistics of a run that happened earlier."""

from __future__ import annotations

from pathlib import Path

import attrs

from offloadrt.study.errors import UserError
from offloadrt.trace import TraceStatistics


def statistics_of(path: Path) -> TraceStatistics:
    """Compute the statistics of the log that `offloadrt run --log` wrote to `path`.

    Raises UserError when it cannot be read as one.
    """
    from offloadrt.trace.logs import read_json_lines

    statistics = TraceStatistics()
    events = 0
    try:
        for events, event in enumerate(read_json_lines(path), start=1):  # noqa: B007
            statistics.write([(event.label, *attrs.astuple(event, recurse=False))])
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, TypeError) as error:
        raise UserError(str(error)) from None
    statistics.close()
    if not events:
        raise UserError(f"{path}: holds no event")
    return statistics
