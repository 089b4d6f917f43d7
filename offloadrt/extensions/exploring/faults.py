"""Reads the faults to inject, as the user writes them for `--faults`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Final, get_args

from offloadrt.driver import CALLS
from offloadrt.machine.injection import EVERYWHERE, FaultKind, FaultPlan, InjectedFault, RandomFaults
from offloadrt.machine.profile import units
from offloadrt.study.errors import UserError, did_you_mean

FORMS: Final = (
    "CALL[:N][+][@TIME][=CODE]", "kernel[:N][@TIME]", "page_fault[:N][@TIME]", "doorbell[:N][@TIME]",
    "interrupt[:N][@TIME]", "stuck:ENGINE[:N][@TIME]", "slow:ENGINE:FACTORx[@TIME]", "thread:NUMBER@TIME",
    "device[:NUMBER]@TIME", "random:SEED[:RATE]",
)  # fmt: skip
"""The forms in which faults are written."""
ENGINES: Final = ("h2d", "d2h", "d2d", "p2p")
"""The directions of copy engines and DMA rings, by which faults name them."""
_WRITTEN: Final = re.compile(
    r"(?P<what>\w+)(?::(?P<rest>[^@=]+?))?(?P<onwards>\+)?(?:@(?P<time>[^=]+))?(?:=(?P<code>\w+))?"
)
_PREFIXES: Final = ("hsa_amd_", "hsa_")


RATE: Final = 0.01
"""The part of all events that a random plan makes fail, unless it gives another rate."""


class BadFault(ValueError):
    """Raised for the text of a fault that cannot be read."""


def fault_of(text: str) -> InjectedFault:
    """Read one fault from its text (`FORMS`). Raises BadFault for a text that is no fault.

    >>> fault_of("cuMemAlloc:3+").number, fault_of("slow:h2d:10x@2ms").since
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
        return _parse_timed_fault(text, what, rest, since if match["time"] is not None else None, onwards or bool(code))
    if len(rest) > 1:
        raise BadFault(f"{text}: after {what} comes a number, as in {what}:3")
    number = _parse_count(text, rest[0]) if rest else 1
    if what in get_args(FaultKind):
        if what != "call" and (onwards or code):
            raise BadFault(f"{text}: only calls take + and =CODE")
        return InjectedFault(what, "", number, onwards, since, code, text=text)  # type: ignore[arg-type]
    for prefix in _PREFIXES:
        what = what.removeprefix(prefix)
    if what.islower() and "_" not in what and (near := difflib.get_close_matches(what, get_args(FaultKind), 1)):
        raise BadFault(f"{text}: there is no {what}; did you mean {near[0]}?")
    return InjectedFault("call", what, number, onwards, since, code, text=text)


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


def _parse_random(text: str) -> RandomFaults:
    _, *numbers = text.split(":")
    try:
        seed, rate = int(numbers[0]), float(numbers[1]) if len(numbers) > 1 else RATE
    except (ValueError, IndexError):
        seed, rate = -1, 0.0
    if len(numbers) > 2 or seed < 0 or not 0.0 < rate <= 1.0:
        raise BadFault(f"{text}: it is written random:SEED or random:SEED:RATE, with a rate above 0 and at most 1")
    return RandomFaults(seed, rate)


def plan_of(faults: Sequence[str]) -> FaultPlan:
    """Parse the faults of a run, each written as for `--faults`, such as ``cuMemAlloc:3``.

    Raises UserError for a bad fault, and for a call that no driver has.
    """
    if EVERYWHERE in faults:
        raise UserError(
            f"--faults {EVERYWHERE}: is an option of `offloadrt explore` only, which makes a run for each fault"
        )
    try:
        drawn = [text for text in faults if text.partition(":")[0] == "random"]
        plan = FaultPlan(
            tuple(fault_of(text) for text in faults if text not in drawn), tuple(map(_parse_random, drawn))
        )
    except BadFault as error:
        raise UserError(f"--faults {error}") from None
    for fault in plan.faults:
        if fault.kind == "call" and fault.name and fault.name not in CALLS:
            hint = did_you_mean(fault.name, CALLS) or f"; a fault is written {', '.join(FORMS)}"
            raise UserError(f"--faults {fault.text}: no driver library has a call {fault.name}{hint}")
    return plan
