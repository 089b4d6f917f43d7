"""Perfetto files: runs to look at in ui.perfetto.dev, through the trace builder of the `perfetto` package.

The package is an extra (`pip install 'offloadrt[perfetto]'`) and is imported when a file is opened. Times are
nanoseconds of virtual time. A file may have several runs, one below the other on one time axis.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from os import PathLike
from pathlib import Path
from typing import Any

import attrs

from offloadrt.extensions.explaining.causal_log import CausalLog
from offloadrt.extensions.explaining.drawing import HOST, Drawing, Notes
from offloadrt.study.errors import library, writing
from offloadrt.study.reporting.compare import Comparison
from offloadrt.study.reporting.words import named
from offloadrt.study.running.execution import execute
from offloadrt.study.scripts.definition import Scenario
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import grid
from offloadrt.trace.events import Row, to_ns

SEQUENCE = 1
"""The id of the sequence of all packets of the first run; so packets with the same time keep their order in the file.

Each further run has the next one.
"""
APART = 1 << 44
"""The numbers of tracks and arrows of a run begin at its number times this, so that runs in one file share none."""
MOST_THREADS = 1 << 20
"""The ids of processes and threads of a run begin at its number times this."""

PACKETS = 20_000
"""So many packets are held before they are written; a Perfetto file may consist of several serialized traces."""


class MissingExtra(ImportError):
    """Raised when an optional package is not installed; the message says how to install it."""


class PerfettoFile:
    """A sink that writes the events of a trace to the Perfetto file at `path`, which is overwritten.

    The file shows tracks for threads and resources with slices (bars over time), arrows between these, and counters.
    causal_log: the log of the same run; with it, threads' waits for one another, arrows to deferred tasks and arguments
    of copies are drawn, too. A file may have several runs: number is then the run's number from 0, where run 0 begins
    the file, and name is put before the headings of the run's tracks.

    Raises MissingExtra without the `perfetto` package, OSError when the file cannot be written.
    """

    @staticmethod
    def observer() -> CausalLog:
        """Return a new observer to give a run as `causal_log`; it keeps what a Perfetto file shows besides events.

        That is which thread waited for which, and the arguments of calls.
        """
        return CausalLog(history=False)

    def __init__(
        self, path: str | PathLike[str], causal_log: CausalLog | None = None, *, number: int = 0, name: str = ""
    ) -> None:
        canvas = _PerfettoCanvas(Path(path), number, name)
        self._canvas = canvas
        self._drawing = Drawing(canvas, causal_log)

    @classmethod
    def of(cls, path: str | PathLike[str], rows: Iterable[Row]) -> None:
        """Write recorded rows (`trace.rows`) to the Perfetto file at `path`."""
        file = cls(path)
        try:
            file.write(list(rows))
        finally:
            file.close()

    @staticmethod
    def side_by_side(path: Path) -> Callable[[Scenario, Comparison, RunSpec], Path]:
        """Return a function that runs all variants of a comparison once more and draws them into one file.

        That function takes the scenario, the comparison and the options of all its runs, and returns the path; it
        raises UserError when the file cannot be written. Raises UserError without the `perfetto` package.
        """
        library("perfetto", "perfetto")  # missing, it is missed before hours of runs and not after
        return functools.partial(_draw_variants, path)

    def write(self, rows: Sequence[Row], /) -> None:
        """Draw the next rows of the trace."""
        self._drawing.draw(rows)

    def close(self) -> None:
        """End the slices that are still open, and close the file."""
        try:
            self._drawing.finish()
        finally:
            self._canvas.close()


def _draw_variants(path: Path, scenario: Scenario, comparison: Comparison, options: RunSpec) -> Path:
    with writing(path) as part:
        for number, result in enumerate(comparison.results):
            swept = [name for name in result.parameters if name not in comparison.fixed]
            (point,) = grid(scenario, {name: (value,) for name, value in result.parameters.items()}, options)
            causal_log = PerfettoFile.observer()
            name = named({name: result.parameters[name] for name in swept})
            file = PerfettoFile(part, causal_log, number=number, name=name)
            spec = attrs.evolve(point.options, repeat=1, seed=result.seed, hash=True)
            execute(scenario, point.parameters, spec=spec, sinks=[file], causal_log=causal_log)
    return path


class _PerfettoCanvas:
    """A canvas that writes Perfetto packets of one run to a file, after those of the runs before it."""

    def __init__(self, path: Path, number: int = 0, name: str = "") -> None:
        try:
            from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import CounterDescriptor, TrackDescriptor, TrackEvent
            from perfetto.trace_builder.proto_builder import TraceProtoBuilder
        except ImportError as error:
            raise MissingExtra(
                "writing a Perfetto file needs the 'perfetto' package: pip install 'offloadrt[perfetto]'"
            ) from error
        self._builder: Any = TraceProtoBuilder
        self._units = {"bytes": CounterDescriptor.UNIT_SIZE_BYTES, "count": CounterDescriptor.UNIT_COUNT}
        self._explicit = TrackDescriptor.EXPLICIT
        self._begin = TrackEvent.TYPE_SLICE_BEGIN
        self._end = TrackEvent.TYPE_SLICE_END
        self._instant = TrackEvent.TYPE_INSTANT
        self._counter = TrackEvent.TYPE_COUNTER
        self._number, self._name = number, name
        self._uuids = count(1 + number * APART)
        self._groups: dict[str, tuple[int, int]] = {}
        self._held: Any = TraceProtoBuilder()
        self._packets = 0
        self._file = path.open("ab" if number else "wb")

    def close(self) -> None:
        """Write the remaining packets and close the file."""
        with self._file:
            self._write_packets()

    def thread(self, group: str, index: int, name: str, /) -> int:
        """Add a track of its own for a host thread; a run's first thread id is 1, since 0 means the swapper."""
        uuid, pid = self._group(group)
        track = self._track(next(self._uuids), parent=uuid)
        track.thread.pid = pid
        track.thread.tid = self._number * MOST_THREADS + index + 1
        track.thread.thread_name = name
        track.thread.legacy_sort_index = index
        return int(track.uuid)

    def lane(self, group: str, name: str, /) -> int:
        """Add a named track under its group."""
        return int(self._named(group, name).uuid)

    def counter(self, group: str, name: str, unit: str, /) -> int:
        """Add a counter track under its group."""
        track = self._named(group, name)
        track.counter.unit = self._units[unit]
        return int(track.uuid)

    def begin(self, track: int, time_ps: int, name: str, flows: Sequence[int], notes: Notes, /) -> None:
        """Begin a slice."""
        self._begun(self._begin, track, time_ps, name, flows, notes)

    def end(self, track: int, time_ps: int, notes: Notes | None = None, /) -> None:
        """End the innermost slice of the track; Perfetto adds notes of its end to those of its begin."""
        _annotate(self._event(track, time_ps, self._end), notes or {})

    def instant(self, track: int, time_ps: int, name: str, notes: Notes, flows: Sequence[int] = (), /) -> None:
        """Mark an instant."""
        self._begun(self._instant, track, time_ps, name, flows, notes)

    def value(self, track: int, time_ps: int, value: int, /) -> None:
        """Record a value of a counter."""
        self._event(track, time_ps, self._counter).counter_value = value

    def _group(self, name: str) -> tuple[int, int]:
        """Return track number and process id of a group, which the picture shows as a process of its own."""
        known = self._groups.get(name)
        if known is None:
            if name != HOST:
                self._group(HOST)  # the threads come first, whatever happens first
            known = self._groups[name] = next(self._uuids), self._number * MOST_THREADS + len(self._groups) + 1
            track = self._track(known[0])
            track.process.pid = known[1]
            track.process.process_name = f"{self._name}: {name}" if self._name else name
            track.process.legacy_sort_index = known[1]
            track.child_ordering = self._explicit
        return known

    def _named(self, group: str, name: str) -> Any:
        track = self._track(next(self._uuids), parent=self._group(group)[0])
        track.name = name
        return track

    def _track(self, uuid: int, parent: int | None = None) -> Any:
        track = self._packet().track_descriptor
        track.uuid = uuid
        if parent is not None:
            track.parent_uuid = parent
            track.sibling_order_rank = uuid % APART
        return track

    def _event(self, track: int, time_ps: int, kind: int) -> Any:
        packet = self._packet()
        packet.timestamp = to_ns(time_ps)
        event = packet.track_event
        event.type = kind
        event.track_uuid = track
        return event

    def _begun(self, kind: int, track: int, time_ps: int, name: str, flows: Sequence[int], notes: Notes) -> None:
        event = self._event(track, time_ps, kind)
        event.name = name
        event.flow_ids.extend(flow + self._number * APART for flow in flows)
        _annotate(event, notes)

    def _packet(self) -> Any:
        if self._packets >= PACKETS:
            self._write_packets()
        self._packets += 1
        packet = self._held.add_packet()
        packet.trusted_packet_sequence_id = SEQUENCE + self._number
        return packet

    def _write_packets(self) -> None:
        """Write the packets that are held, as one serialized trace."""
        self._file.write(self._held.serialize())
        self._held = self._builder()
        self._packets = 0


def _annotate(event: Any, notes: Notes) -> None:
    for name, value in notes.items():
        annotation = event.debug_annotations.add()
        annotation.name = name
        if isinstance(value, str):
            annotation.string_value = value
        else:
            annotation.int_value = value
