"""What limits a run, in one sentence: what its critical path waits for or works on most, and who is behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import attrs

from offloadrt.extensions.explaining.critical_path import PathPart
from offloadrt.extensions.explaining.history import plain
from offloadrt.extensions.explaining.observed import Observed
from offloadrt.extensions.explaining.resources import ResourceUse

_WAITING = 0.25
"""The share of the threads' time, spent waiting for one another, from which on one of them is said to be late."""

_NAMES = {"core": "cores of the host"}
_WORK = {
    "driver": "Calls of the driver",
    "runtime": "The offloading runtime's own work",
    "program": "The program's own work on the host",
    "kernel": "Kernels",
    "launch": "The latency of launches",
    "page faults": "Page faults",
}


@attrs.frozen
class PathShare:
    """A group of parts of the critical path: its time, and its share of the whole path."""

    name: str
    ps: int
    share: float
    waited: float
    """The share of the group in which somebody waited for a turn."""


@attrs.frozen
class Limit:
    """What limits a run: the resource, the call or kernel behind it, and the sentence that says so."""

    resource: str
    call: str
    share: float
    """The share of the critical path."""
    sentence: str


def grouped(path: Iterable[PathPart], key: Callable[[PathPart], str]) -> list[PathShare]:
    """Add up the parts of a path by a key, the largest sum first."""
    sums: dict[str, list[int]] = {}
    for part in path:
        group = sums.setdefault(key(part), [0, 0])
        group[0] += part.ps
        group[1] += part.ps if part.waited_for else 0
    whole = sum(ps for ps, _ in sums.values()) or 1
    ordered = sorted(sums.items(), key=lambda item: (-item[1][0], item[0]))
    return [PathShare(name, ps, ps / whole, waited / ps if ps else 0.0) for name, (ps, waited) in ordered if ps]


def by_resource(part: PathPart) -> str:
    return f"waiting for {part.waited_for}" if part.waited_for else _WORK.get(part.resource, part.resource).lower()


def by_call(part: PathPart) -> str:
    return part.call or ("no call" if part.resource in ("runtime", "program") else part.resource)


def by_line(part: PathPart) -> str:
    return f"{part.directive or 'no directive'} ({part.place})" if part.place else part.directive or "no directive"


def limit_of(observed: Observed) -> Limit:
    """Say what limits a run."""
    path = observed.path
    if not path:
        return Limit("nothing", "", 0.0, "No time was measured.")
    first = max(grouped(path, lambda part: part.blame), key=lambda share: (share.ps, share.waited))
    behind = [part for part in path if part.blame == first.name]
    call = grouped(behind, lambda part: part.call)[0]
    use = next((use for use in observed.resources if use.name == first.name), None)
    if any(part.waited_for for part in behind):
        sentence = _of_turns(first, behind, use)
    else:
        sentence = _of_work(observed, first, behind, use)
    return Limit(first.name, call.name, first.share, sentence)


def _of_turns(first: PathShare, behind: Sequence[PathPart], use: ResourceUse | None) -> str:
    name = _NAMES.get(first.name, first.name)
    if use is not None and use.holders and not name.endswith("locks"):
        name = name if name.endswith("lock") else f"lock of the {name}"
    many = name.startswith("cores") or name.endswith("locks")
    limit, it, is_ = ("limit", "them", "they are") if many else ("limits", "it", "it is")
    used = "" if use is None else f"; {is_} {'held' if use.holders else 'busy'} {_percent(use.utilisation)} of the time"
    return (
        f"The {name} {limit} this run: {_percent(first.share)} of the critical path is waiting for {it}, "
        f"{_behind(behind, 'behind')}{used}."
    )


def _of_work(observed: Observed, first: PathShare, behind: Sequence[PathPart], use: ResourceUse | None) -> str:
    name = _WORK.get(first.name, f"The {first.name}")
    verb = "limit" if name in ("Kernels", "Calls of the driver", "Page faults") else "limits"
    busy = "" if use is None else f"; it is busy {_percent(use.utilisation)} of the time"
    more = ""
    if first.name == "kernel":
        more = _too_small(observed, behind)
    elif first.name == "program":
        waiting = observed.result.where_time_went.get("threads")
        if waiting is not None and waiting.share >= _WAITING:
            (late, *_) = grouped(behind, lambda part: part.actor)
            more = (
                f"; the work is uneven: threads wait for one another {_percent(waiting.share)} of their time, most of "
                f"the path is {late.name}"
            )
    return f"{name} {verb} this run: {_percent(first.share)} of the critical path, {_behind(behind, 'in')}{more}{busy}."


def _too_small(observed: Observed, behind: Sequence[PathPart]) -> str:
    """Say how much of the device the longest kernel fills, where that is less than all of it."""
    (longest, *_) = grouped(behind, lambda part: part.call)
    teams = max((run.teams for run in observed.history.kernels.values() if run.name == longest.name), default=0)
    sms = observed.spec.count("gpu.sms") if "gpu.sms" in observed.spec.entries else 0
    return f"; its {teams} teams fill a part of the {sms} SMs only" if 0 < teams < sms else ""


def _behind(behind: Sequence[PathPart], how: str) -> str:
    """Say which call, directive, array and line stand behind most of some parts."""
    (call, *_) = grouped(behind, by_call)
    of_call = [part for part in behind if by_call(part) == call.name]
    (place, *_) = grouped(of_call, by_line)
    of_place = [part for part in of_call if by_line(part) == place.name]
    (array, *_) = grouped(of_place, lambda part: plain(part.array))
    of = f" of `{array.name}`" if array.name and array.share > 0.5 else ""
    what = "outside of calls" if call.name == "no call" else f"{how} {call.name}"
    if place.name == "no directive":
        return f"{_percent(call.share)} of that {what}{of}"
    directive, _, line = place.name.partition(" (")
    return f"{_percent(call.share)} of that {what}, most in {directive}{of}{' (' + line if line else ''}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
