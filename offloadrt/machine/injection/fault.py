"""One fault as a user writes it: what it strikes, which of these events, from when on, and with which error."""

from __future__ import annotations

import difflib
import re
from typing import Final, Literal, get_args

import attrs

from offloadrt.machine.profile import units

FaultKind = Literal[
    "call", "kernel", "page_fault", "doorbell", "interrupt", "stuck", "slow", "thread", "device"
]  # fmt: skip

FORMS: Final = (
    "CALL[:N][+][@TIME][=CODE]", "kernel[:N][@TIME]", "page_fault[:N][@TIME]", "doorbell[:N][@TIME]",
    "interrupt[:N][@TIME]", "stuck:ENGINE[:N][@TIME]", "slow:ENGINE:FACTORx[@TIME]", "thread:NUMBER@TIME",
    "device[:NUMBER]@TIME", "random:SEED[:RATE]",
)  # fmt: skip
"""How faults are written."""
EVERYWHERE: Final = "everywhere"
"""What stands for a fault at each await, in a run of its own each; no single run takes it."""
ENGINES: Final = ("h2d", "d2h", "d2d", "p2p")
"""The directions of copy engines and DMA rings."""
_WRITTEN: Final = re.compile(
    r"(?P<what>\w+)(?::(?P<rest>[^@=]+?))?(?P<onwards>\+)?(?:@(?P<time>[^=]+))?(?:=(?P<code>\w+))?"
)
_PREFIXES: Final = ("hsa_amd_", "hsa_")


class BadFault(ValueError):
    """A fault that is written wrongly."""


class ThreadDied(BaseException):
    """A host thread died at a fault ``thread:NUMBER@TIME``.

    It is no Exception, so that no handler of the program's own takes it for one of the program's errors: structured
    regions are left as at a cancellation, and the run ends.
    """


@attrs.frozen
class InjectedFault:
    """One fault. ``text`` is how it was written."""

    kind: FaultKind
    name: str = ""
    """Of the call, the direction of the engine, the thread; empty for any call."""
    number: int = 1
    """Which of the events that match, counted from 1 from ``since`` on; of a device its number."""
    onwards: bool = False
    """Whether it strikes all events from that one on."""
    since: float = 0.0
    """Virtual seconds."""
    code: str = ""
    """The error that a call returns; empty for the usual one."""
    factor: float = 1.0
    """Of an engine that is slow: how many times as long a transfer takes."""
    text: str = ""

    def concerns(self, kind: FaultKind, name: str, now: float) -> bool:
        """Tell whether an event of this kind and name is one of those that it counts."""
        return kind == self.kind and now >= self.since and self.name in ("", name)

    def strikes(self, count: int) -> bool:
        """Tell whether it strikes the ``count``-th event that it concerns."""
        return count >= self.number if self.onwards else count == self.number

    @classmethod
    def parse(cls, text: str) -> InjectedFault:
        """Read one fault.

        Raises BadFault.

        >>> InjectedFault.parse("cuMemAlloc:3+").number, InjectedFault.parse("slow:h2d:10x@2ms").since
        (3, 0.002)
        """
        match = _WRITTEN.fullmatch(text)
        if match is None:
            raise BadFault(f"{text}: a fault is written {', '.join(FORMS)}")
        what, onwards, code = match["what"], match["onwards"] is not None, match["code"] or ""
        rest = match["rest"].split(":") if match["rest"] else []
        since = 0.0 if match["time"] is None else _parse_time(text, match["time"])
        if what in ("slow", "stuck"):
            return _parse_engine_fault(text, what, rest, since, onwards or bool(code))
        if what in ("thread", "device"):
            return _parse_timed_fault(
                text, what, rest, since if match["time"] is not None else None, onwards or bool(code)
            )
        if len(rest) > 1:
            raise BadFault(f"{text}: after {what} comes a number, as in {what}:3")
        number = _parse_count(text, rest[0]) if rest else 1
        if what in get_args(FaultKind):
            if what != "call" and (onwards or code):
                raise BadFault(f"{text}: only calls take + and =CODE")
            return cls(what, "", number, onwards, since, code, text=text)  # type: ignore[arg-type]
        for prefix in _PREFIXES:
            what = what.removeprefix(prefix)
        if what.islower() and "_" not in what and (near := difflib.get_close_matches(what, get_args(FaultKind), 1)):
            raise BadFault(f"{text}: there is no {what}; did you mean {near[0]}?")
        return cls("call", what, number, onwards, since, code, text=text)


def _parse_engine_fault(text: str, what: str, rest: list[str], since: float, extra: bool) -> InjectedFault:
    if extra or not rest or rest[0] not in ENGINES or len(rest) > 2:
        raise BadFault(f"{text}: it is written {what}:ENGINE, and an engine is {', '.join(ENGINES)}")
    if what == "stuck":
        number = _parse_count(text, rest[1]) if len(rest) > 1 else 1
        return InjectedFault("stuck", rest[0], number, since=since, text=text)
    try:
        factor = float(rest[1].removesuffix("x")) if len(rest) > 1 and rest[1].endswith("x") else 0.0
    except ValueError:
        factor = 0.0
    if not 1.0 <= factor < float("inf"):
        raise BadFault(f"{text}: how much slower is written 10x, and at least 1x")
    return InjectedFault("slow", rest[0], 1, True, since, factor=factor, text=text)


def _parse_timed_fault(text: str, what: str, rest: list[str], since: float | None, extra: bool) -> InjectedFault:
    if since is None or extra or len(rest) > 1 or (what == "thread" and not rest):
        written, example = {
            "thread": ("thread:NUMBER@TIME", "thread:2@1ms"), "device": ("device[:NUMBER]@TIME", "device@2ms")
        }[what]  # fmt: skip
        raise BadFault(f"{text}: it is written {written}, as in {example}")
    if what == "device":
        return InjectedFault("device", "", _parse_count(text, rest[0], 0) if rest else 0, since=since, text=text)
    name = f"host thread {rest[0]}" if rest[0].isdigit() else rest[0]
    return InjectedFault("thread", name, since=since, text=text)


def _parse_count(text: str, given: str, least: int = 1) -> int:
    if not given.isascii() or not given.isdigit() or int(given) < least:
        raise BadFault(f"{text}: {given!r} is no number from {least}")
    return int(given)


def _parse_time(text: str, given: str) -> float:
    try:
        value, dimension = units.quantity(given)
    except units.UnitError as error:
        raise BadFault(f"{text}: {error}") from None
    if dimension != "time" or not 0 <= value < float("inf"):
        raise BadFault(f"{text}: {given!r} is no time, as 2ms is")
    return value
