"""What a run gives back: one record, the same for people, programs and later comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import msgspec

from offloadrt.study.parameters import Value


@attrs.frozen
class CallFigures:
    """All calls of one driver or runtime function, under its real name. Virtual seconds."""

    count: int
    total_s: float
    mean_s: float
    min_s: float
    max_s: float


@attrs.frozen
class LockFigures:
    """One lock: how often it was taken, how often somebody had to wait, and the virtual seconds waited and held by
    all together.
    """

    acquired: int
    contended: int
    wait_s: float
    hold_s: float


@attrs.frozen
class DeviceFigures:
    """One part of the machine (an engine of a device, a hardware queue, the cores): virtual seconds in which it worked,
    the rest of the time, and those that work for it waited until it was free.
    """

    busy_s: float
    idle_s: float
    wait_s: float


@attrs.frozen
class Bytes:
    """Bytes that device copies moved, by direction."""

    h2d: int = 0
    d2h: int = 0
    d2d: int = 0
    p2p: int = 0


@attrs.frozen
class TimeShare:
    """Host-thread time that went into one thing: virtual seconds summed over the threads, and its share of all their
    lives.
    """

    total_s: float
    share: float


@attrs.frozen
class Result:
    """One run. `measured` is what the scenario returned.

    `elapsed_s`, calls, locks, devices, bytes and where_time_went are of its measured windows (everything when it opened
    none); locks are those that were taken in them. `events` (timers set) and the trace hash are of the whole run.
    """

    scenario: str
    parameters: dict[str, Value]
    machine: str
    seed: int
    elapsed_s: float
    measured: dict[str, Value]
    calls: dict[str, CallFigures]
    locks: dict[str, LockFigures]
    devices: dict[str, DeviceFigures]
    bytes: Bytes
    faults: dict[str, int]
    events: int
    trace_hash: str | None
    """Over time, actor, kind and sizes of every event; None unless a trace was asked for."""
    where_time_went: dict[str, TimeShare]
    repeats: list[Repeat] = attrs.field(factory=list)
    """Every run of a repeated measurement, this one included; empty when there was only one."""


@attrs.frozen
class Repeat:
    """One of several runs with different seeds."""

    seed: int
    elapsed_s: float
    measured: dict[str, Value]
    trace_hash: str | None


def builtins(result: Result) -> dict[str, Any]:
    """The result as dicts, lists, numbers and texts; without `repeats` when there was one run."""
    record = attrs.asdict(result)
    if not record["repeats"]:
        del record["repeats"]
    return record


def to_json(result: Result) -> bytes:
    """One JSON object on one line."""
    return msgspec.json.encode(builtins(result))


def median(results: list[Result]) -> Result:
    """The run whose elapsed time is the (lower) median, with all of them listed in `repeats` when there are several."""
    if len(results) == 1:
        return results[0]
    middle = sorted(results, key=lambda result: (result.elapsed_s, result.seed))[(len(results) - 1) // 2]
    repeats = [Repeat(result.seed, result.elapsed_s, result.measured, result.trace_hash) for result in results]
    return attrs.evolve(middle, repeats=repeats)


def measured_of(returned: object, scenario: str) -> dict[str, Value]:
    """The figures that a scenario returned, as plain values (NumPy scalars become Python's). Raises TypeError in
    words for its author.
    """
    if returned is None:
        return {}
    if not isinstance(returned, Mapping):
        raise TypeError(
            f"scenario {scenario} returned {type(returned).__name__}; it returns a dict of figures, or nothing"
        )
    measured: dict[str, Value] = {}
    for name, value in returned.items():
        plain = value.item() if hasattr(value, "item") else value
        if not isinstance(name, str) or not isinstance(plain, int | float | bool | str | None):
            raise TypeError(
                f"scenario {scenario} returned {name!r}: {value!r}; figures are numbers, texts, true, false or None"
            )
        measured[name] = plain
    return measured
