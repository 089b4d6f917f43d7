"""Reads a Perfetto file back, with Perfetto's own protos, and checks that it is a sound picture."""

from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import pytest

pytest.importorskip("perfetto", reason="the extra 'perfetto' is not installed")
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto

from offloadrt.extensions.explaining.drawing import FIRST_ARROW


@attrs.define
class Slice:
    track: int
    name: str
    begin: int
    end: int
    depth: int
    flows: tuple[int, ...]
    notes: dict[str, int | str]


@attrs.define
class Picture:
    """What a Perfetto file shows; made strictly: an unbalanced, unordered or orphaned packet fails."""

    tracks: dict[int, Any]
    slices: list[Slice]
    counters: dict[str, list[tuple[int, int]]]
    instants: list[tuple[int, int, str]]
    arrows: dict[int, list[tuple[str, int, str]]]
    """What each arrow goes through, in order: track, time and name of the slice or instant."""

    def title(self, track: int) -> str:
        descriptor = self.tracks[track]
        return str(descriptor.name or descriptor.thread.thread_name or descriptor.process.process_name)

    def on(self, title: str) -> list[Slice]:
        return [slice for slice in self.slices if self.title(slice.track) == title]

    def titles(self, group: str) -> list[str]:
        parents = [uuid for uuid, track in self.tracks.items() if track.process.process_name == group]
        return [self.title(uuid) for uuid, track in self.tracks.items() if track.parent_uuid in parents]


def note(annotation: Any) -> int | str:
    return annotation.string_value if annotation.HasField("string_value") else annotation.int_value


def parsed(path: Path, run: int = 0, runs: int = 1) -> Picture:
    """Read one of the runs in a file; each has a sequence of packets."""
    trace = proto.Trace()
    trace.ParseFromString(path.read_bytes())
    picture = Picture({}, [], defaultdict(list), [], defaultdict(list))
    stacks: dict[int, list[Slice]] = defaultdict(list)
    now = 0
    for packet in trace.packet:
        assert 1 <= packet.trusted_packet_sequence_id <= runs
        if packet.trusted_packet_sequence_id != 1 + run:
            continue
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            assert track.uuid not in picture.tracks
            assert not track.parent_uuid or track.parent_uuid in picture.tracks
            picture.tracks[track.uuid] = track
            continue
        event = packet.track_event
        assert packet.timestamp >= now
        now = packet.timestamp
        assert event.track_uuid in picture.tracks
        stack = stacks[event.track_uuid]
        if event.type == proto.TrackEvent.TYPE_SLICE_BEGIN:
            notes = {annotation.name: note(annotation) for annotation in event.debug_annotations}
            stack.append(Slice(event.track_uuid, event.name, now, -1, len(stack), tuple(event.flow_ids), notes))
            picture.slices.append(stack[-1])
            for flow in event.flow_ids:
                picture.arrows[flow].append((picture.title(event.track_uuid), now, event.name))
        elif event.type == proto.TrackEvent.TYPE_SLICE_END:
            ended = stack.pop()
            ended.end = now
            ended.notes.update({annotation.name: note(annotation) for annotation in event.debug_annotations})
        elif event.type == proto.TrackEvent.TYPE_COUNTER:
            picture.counters[picture.title(event.track_uuid)].append((now, event.counter_value))
        else:
            picture.instants.append((event.track_uuid, now, event.name))
            for flow in event.flow_ids:
                picture.arrows[flow].append((picture.title(event.track_uuid), now, event.name))
    assert not any(stacks.values())
    return picture


def check(picture: Picture) -> None:
    """Slices nest; on the tracks of resources none overlaps; arrows lead from a directive to what exists."""
    by_track: dict[int, list[Slice]] = defaultdict(list)
    for slice in picture.slices:
        assert slice.end >= slice.begin
        by_track[slice.track].append(slice)
    for track, slices in by_track.items():
        open_: list[Slice] = []
        for slice in slices:
            while len(open_) > slice.depth:
                open_.pop()
            assert all(outer.begin <= slice.begin and slice.end <= outer.end for outer in open_)
            open_.append(slice)
        if not picture.tracks[track].HasField("thread"):
            assert all(slice.depth == 0 for slice in slices)
            assert all(left.end <= right.begin for left, right in pairwise(slices))
    flows: dict[int, list[Slice]] = defaultdict(list)
    for slice in picture.slices:
        for flow in slice.flows:
            if flow < FIRST_ARROW:
                flows[flow].append(slice)
    for flow, (first, *rest) in flows.items():
        assert first.notes["directive"] == flow and picture.tracks[first.track].HasField("thread")
        assert all(slice.begin >= first.begin for slice in rest)
