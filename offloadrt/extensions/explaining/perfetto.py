"""Perfetto files: a run to look at in ui.perfetto.dev, through the trace builder of the `perfetto` package.

The package is an extra (`pip install 'offloadrt[perfetto]'`) and is imported when a file is opened. Times are
nanoseconds of virtual time.
"""

from collections.abc import Iterable, Sequence
from itertools import count
from os import PathLike
from pathlib import Path
from typing import Any

from offloadrt.extensions.explaining.causal_log import CausalLog
from offloadrt.extensions.explaining.drawing import HOST, Drawing, Notes
from offloadrt.trace.events import Row, to_ns

SEQUENCE = 1
"""The id of the one sequence of all packets; so packets with the same time keep their order in the file."""

PACKETS = 20_000
"""So many packets are held before they are written; a Perfetto file may consist of several serialized traces."""


class MissingExtra(ImportError):
    """An optional package is not installed; the message says how to install it."""


class PerfettoFile:
    """A sink that writes the trace to the Perfetto file at `path`, which is overwritten.

    Tracks, slices, arrows and counters are those of `drawing`. causal_log: the log of the same run; with it, threads'
    waits for one another, arrows to deferred tasks and arguments of copies are drawn, too.

    Raises MissingExtra without the `perfetto` package, OSError when the file cannot be written.
    """

    @staticmethod
    def observer() -> CausalLog:
        """Return a new observer that records the annotations of the run to be drawn."""
        return CausalLog(history=False)

    def __init__(self, path: str | PathLike[str], causal_log: CausalLog | None = None) -> None:
        canvas = _PerfettoCanvas(Path(path))
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

    def write(self, rows: Sequence[Row], /) -> None:
        """Draw the next rows of the trace."""
        self._drawing.draw(rows)

    def close(self) -> None:
        """End the slices that are still open, and close the file."""
        try:
            self._drawing.finish()
        finally:
            self._canvas.close()


class _PerfettoCanvas:
    """A canvas that writes Perfetto packets to a file."""

    def __init__(self, path: Path) -> None:
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
        self._uuids = count(1)
        self._groups: dict[str, tuple[int, int]] = {}
        self._held: Any = TraceProtoBuilder()
        self._packets = 0
        self._file = path.open("wb")

    def close(self) -> None:
        """Write the remaining packets and close the file."""
        with self._file:
            self._write_packets()

    def thread(self, group: str, index: int, name: str, /) -> int:
        """Add a track of its own for a host thread; its thread id is its index + 1, since 0 means the swapper."""
        uuid, pid = self._group(group)
        track = self._track(next(self._uuids), parent=uuid)
        track.thread.pid = pid
        track.thread.tid = index + 1
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
            known = self._groups[name] = next(self._uuids), len(self._groups) + 1
            track = self._track(known[0])
            track.process.pid = known[1]
            track.process.process_name = name
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
            track.sibling_order_rank = uuid
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
        event.flow_ids.extend(flows)
        _annotate(event, notes)

    def _packet(self) -> Any:
        if self._packets >= PACKETS:
            self._write_packets()
        self._packets += 1
        packet = self._held.add_packet()
        packet.trusted_packet_sequence_id = SEQUENCE
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
