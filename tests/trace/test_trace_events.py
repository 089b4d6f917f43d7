"""The vocabulary: documented, frozen, slotted, constructible, with the names and fields that written files have."""

import attrs
import pytest

from offloadrt.trace import EVENTS, Event, events
from offloadrt.trace.events import decode, event, to_ns

VOCABULARY = {
    "ActorSpawned": "name",
    "ActorFinished": "name",
    "DirectiveBegin": "directive name",
    "DirectiveEnd": "directive name",
    "LockWait": "lock",
    "LockAcquire": "lock",
    "LockRelease": "lock",
    "MapLookup": "array begin size found",
    "MapInsert": "array begin size device_address dynamic hold",
    "MapCount": "array begin size dynamic hold",
    "MapRemove": "array begin size device_address",
    "Attach": "array begin device_address",
    "ObjectPlaced": "array size mechanism",
    "Allocate": "address size api",
    "Free": "address size api",
    "CallBegin": "api",
    "CallEnd": "api",
    "CopyBegin": "copy direction engine bytes memory",
    "CopyEnd": "copy direction engine bytes memory",
    "KernelSubmit": "kernel name",
    "KernelStart": "kernel name teams",
    "KernelEnd": "kernel name",
    "PageFaultBegin": "kernel pages",
    "PageFaultEnd": "kernel pages",
    "FaultPhaseBegin": "phase block pages entries",
    "FaultPhaseEnd": "phase",
    "Prefault": "bytes pages",
    "Drain": "reason",
    "Resume": "reason",
    "TimeSliceBegin": "process",
    "TimeSliceEnd": "process",
    "SignalWaitBegin": "signal",
    "SignalWaitEnd": "signal",
    "RuntimeError_": "call message",
    "MessageSent": "message source destination tag bytes",
    "MessageReceived": "message source destination tag bytes",
}


def test_the_vocabulary_is_this() -> None:
    assert {name: " ".join(kind.payload) for name, kind in EVENTS.items()} == VOCABULARY


@pytest.mark.parametrize("kind", EVENTS.values(), ids=EVENTS.keys())
def test_every_event_is_a_documented_frozen_slotted_class(kind: type[Event]) -> None:
    assert kind.__doc__ and len(kind.__doc__) > 20
    assert kind is getattr(events, kind.__name__)
    values = {"int": 3, "str": "x", "bool": True, int: 3, str: "x", bool: True}
    made = kind(*(values[field.type] for field in attrs.fields(kind)))
    assert not hasattr(made, "__dict__")
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        made.time_ps = 4  # type: ignore[misc]  # that is what is tested
    assert decode((kind.label, *attrs.astuple(made))) == made
    types = {field.name: field.type for field in attrs.fields(kind)}
    assert all(types[size] in (int, "int") for size in kind.sizes)


def test_codes_differ() -> None:
    assert len({kind.code for kind in EVENTS.values()}) == len(EVENTS)


def test_a_class_of_event_must_be_documented_and_its_sizes_its_own() -> None:
    with pytest.raises(ValueError, match="event Bare has no docstring"):

        @event
        class Bare(Event):
            pass

    with pytest.raises(ValueError, match="event Wrong has no field 'bytes'"):

        @event
        class Wrong(Event):
            """Counts what it does not have."""

            sizes = ("bytes",)

    with pytest.raises(ValueError, match="taken"):

        @event
        class Drain(Event):
            """Has a name that there is."""

    assert "Bare" not in EVENTS and "Wrong" not in EVENTS and EVENTS["Drain"] is events.Drain


def test_nanoseconds_are_monotone_and_whole() -> None:
    assert [to_ns(ps) for ps in (0, 499, 500, 1499, 1500, 10**18 + 1)] == [0, 0, 1, 1, 2, 10**15]
