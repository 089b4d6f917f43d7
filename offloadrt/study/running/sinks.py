"""The files that a run can write while it goes: its log and its Perfetto trace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from offloadrt.study.errors import UserError

if TYPE_CHECKING:
    from offloadrt.trace import CausalLog, Sink
    from offloadrt.trace.events import Row


def open_sinks(
    *, log: Path | None = None, perfetto: Path | None = None, causal_log: CausalLog | None = None
) -> list[Sink]:
    """Open the sinks for `Run(sinks=...)`; `causal_log` are those of the same run, for the Perfetto file.

    Raises UserError for a file that cannot be written and for a package that is missing.
    """
    sinks: list[Sink] = []
    try:
        if log is not None:
            from offloadrt.trace.logs import JsonLines

            sinks.append(_FileSink(log, JsonLines(log)))
        if perfetto is not None:
            from offloadrt.trace.perfetto import PerfettoFile

            sinks.append(_FileSink(perfetto, PerfettoFile(perfetto, causal_log)))
    except OSError as error:
        raise UserError(f"{error.filename}: cannot be written: {error.strerror}") from None
    except ImportError as error:
        raise UserError(str(error)) from None
    return sinks


@attrs.frozen
class _FileSink:
    """A sink that raises UserError with its path when the file cannot be written, as on a full disk."""

    path: Path
    sink: Sink

    def write(self, rows: Sequence[Row], /) -> None:
        with self._naming_the_file():
            self.sink.write(rows)

    def close(self) -> None:
        with self._naming_the_file():
            self.sink.close()

    @contextmanager
    def _naming_the_file(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UserError(f"{self.path}: cannot be written: {error.strerror or error}") from None
