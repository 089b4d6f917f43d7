"""The schedules of an exploration: the strategy that the user names, what decides one run, and a failing run's token.

`SchedulePlan` is the strategy as the user names it. It makes a `ScheduleCase` for each run: all that decides a run
besides the program, its parameters and its machine. A `Token` is a case and its program as a text of one line.
"""

from __future__ import annotations

import base64
import json
import random
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from offloadrt.extensions.exploring.strategies import Choice, Delay, Hold, Pct, Schedule
from offloadrt.extensions.exploring.strategies.schedule import Departure
from offloadrt.machine import MachineSpec
from offloadrt.machine.profile import units
from offloadrt.sim.strategies import Fifo, Random, Strategy
from offloadrt.study.errors import UserError, did_you_mean


@attrs.frozen
class ScheduleCase:
    """Everything that makes one run of a program differ from others: its schedule, costs and faults.

    The schedule is a strategy with its numbers, or a list of recorded departures. A departure is a moment at which the
    actor (thread or part of the machine) that goes on is not the one that became ready first. `seed` is the seed of the
    strategy's random choices; `departures` are the recorded ones.
    """

    kind: str = "fifo"
    """The strategy: "fifo", "random", "pct", "delay" or "schedule" (recorded departures)."""
    seed: int = 0
    bound: int = 0
    """For pct its depth, and for delay the number of delays."""
    steps: int = 0
    """The number of scheduling steps among which those with a priority change (pct) or a delay are drawn."""
    length: float = 0.0
    """In virtual seconds: how late pct or a recorded schedule may let an actor go on, or the longest delay of delay."""
    departures: tuple[Departure, ...] = ()
    costs: tuple[tuple[str, float], ...] = ()
    """Machine entries with the quantile of their range (0 to 1) at which each is set; all others are at the mean."""
    jitter: float = 0.0
    """The fraction by which each single cost of the host varies; 0 leaves the machine's own value."""
    faults: tuple[str, ...] = ()
    """Faults to inject, besides those in the program's own options."""

    @property
    def strategy(self) -> Strategy:
        """Return a new strategy for one run, which decides which of several ready actors goes on.

        An actor is a thread or a part of the machine.
        """
        return _STRATEGIES[self.kind](self)

    @property
    def range_end(self) -> Mapping[str, str | float]:
        return dict(self.costs)

    @property
    def overrides(self) -> Mapping[str, str]:
        return {"jitter": repr(self.jitter)} if self.jitter else {}

    @property
    def size(self) -> int:
        """Return the number of changes of order plus changed costs, by which smaller failing cases are searched for.

        A change of order is a moment at which another actor (thread or part of the machine) goes on than the one that
        became ready first.
        """
        return len(self.departures) + len(self.costs)


_STRATEGIES: Final[dict[str, Callable[[ScheduleCase], Strategy]]] = {
    "fifo": lambda case: Fifo(),
    "random": lambda case: Random(case.seed),
    "pct": lambda case: Pct(case.seed, case.bound, case.steps, case.length),
    "delay": lambda case: Delay(case.seed, case.bound, case.steps, case.length),
    "schedule": lambda case: Schedule(case.departures, case.length),
}


def packed(case: ScheduleCase) -> list[Any]:
    """Return a case (schedule, costs and faults of a run) as nested lists of plain values, for a token."""
    departures = [
        [one.step, one.place] if isinstance(one, Choice) else [one.actor, one.time, one.seconds]
        for one in case.departures
    ]
    costs = [list(pair) for pair in case.costs]
    row = [case.kind, case.seed, case.bound, case.steps, case.length, departures, costs, case.jitter]
    return [*row, list(case.faults)] if case.faults else row


def unpacked(row: Sequence[Any]) -> ScheduleCase:
    """Return the case (schedule, costs, faults) from its packed list; raise ValueError, TypeError or KeyError."""
    kind, seed, bound, steps, length, departures, costs, jitter, *faults = row
    case = ScheduleCase(
        str(kind),
        int(seed),
        int(bound),
        int(steps),
        float(length),
        tuple(
            Choice(int(one[0]), int(one[1])) if len(one) == 2 else Hold(int(one[0]), int(one[1]), float(one[2]))
            for one in departures
        ),
        tuple((str(key), float(quantile)) for key, quantile in costs),
        float(jitter),
        tuple(str(fault) for fault in faults[0]) if faults else (),
    )
    _STRATEGIES[case.kind]
    return case


def drawn(keys: tuple[str, ...], seed: int) -> tuple[tuple[str, float], ...]:
    """Choose a random position in its range (0 to 1) for each cost of the machine in `keys`.

    Equal seeds give the same positions on every version of Python. seed: of the random choice.
    """
    draw = random.Random(seed).random
    return tuple((key, round(draw(), 4)) for key in keys)


def costs_with_a_range(spec: MachineSpec) -> tuple[str, ...]:
    """Return the sorted names of a machine's entries that are costs or rates with a range, without sizes and counts.

    spec: the machine's profile.
    """
    keys = []
    for key in spec.ranges():
        unit = spec.entries[key].unit
        if unit is not None and not unit.is_count and unit.dimension != "data":
            keys.append(key)
    return tuple(sorted(keys))


_NUMBERS: Final = {"fifo": 0, "random": 0, "pct": 2, "delay": 2, "dfs": 2, "costs": 1}
"""By strategy: how many numbers it takes at most."""
_DEFAULT_BOUND: Final = {"pct": 3, "delay": 2, "dfs": 2}


@attrs.frozen
class SchedulePlan:
    """Plans schedules: `random`, `pct:DEPTH[:LENGTH]`, `delay:BOUND[:LENGTH]`, `dfs:BOUND[:LENGTH]`, `costs[:JITTER]`.

    A schedule says in which order actors (threads and parts of the machine) go on. DEPTH: how many steps must come in a
    certain order to show the bug that is searched for. BOUND: how often in a run an actor is delayed, or passed over,
    at most. `costs` draws the machine's uncertain entries instead; JITTER: the fraction by which each cost of the host
    varies.

    LENGTH is a virtual time (`20us`): for pct how late an actor may go on, for delay the longest delay, and for dfs how
    long an actor is held back. By default it is the program's duration for pct and delay, and 0 for dfs, which then
    enumerates the orders of actors that are ready at the same instant. `text` is the plan as the user wrote it; `kind`
    is the strategy's name, and `bound` (DEPTH or BOUND), `length` (None: the program's duration) and `jitter` are its
    numbers. `steps` is the number of scheduling choices in a run. `first_seed` is the seed of the first run; each
    further run has the next one.
    """

    text: str
    kind: str
    bound: int = 0
    length: float | None = None
    jitter: float = 0.0
    steps: int = 1000
    keys: tuple[str, ...] = ()
    """The names of the entries that the strategy `costs` draws."""
    first_seed: int = 0

    @classmethod
    def parse(cls, text: str, first_seed: int = 0) -> SchedulePlan:
        """Read a plan of schedules from its text. `first_seed` is the seed of the first run. Raises UserError."""
        kind, *numbers = text.split(":")
        if kind not in _NUMBERS:
            raise UserError(f"--strategy {text}: there are {', '.join(_NUMBERS)}{did_you_mean(kind, _NUMBERS)}")
        if len(numbers) > _NUMBERS[kind]:
            raise UserError(f"--strategy {text}: {kind} takes {_NUMBERS[kind] or 'no'} numbers at most")
        if kind == "costs":
            return cls(text, kind, jitter=_fraction(text, numbers[0]) if numbers else 0.0, first_seed=first_seed)
        bound = _DEFAULT_BOUND.get(kind, 0)
        if numbers:
            if not numbers[0].isascii() or not numbers[0].isdigit() or not 1 <= int(numbers[0]) <= 1000:
                raise UserError(f"--strategy {text}: {numbers[0]!r} is no number from 1 to 1000")
            bound = int(numbers[0])
        length = _seconds(text, numbers[1]) if len(numbers) > 1 else (0.0 if kind == "dfs" else None)
        return cls(text, kind, bound, length, first_seed=first_seed)

    def fitted(self, duration: float, steps: int, keys: tuple[str, ...]) -> SchedulePlan:
        """Return the plan for a program that takes `duration` virtual seconds and makes `steps` scheduling choices.

        keys: the names of the machine's costs that have a range, which the strategy `costs` varies.
        """
        length = duration if self.length is None and self.kind in ("pct", "delay") else self.length
        return attrs.evolve(self, length=length, steps=max(steps, 1), keys=keys)

    def case(self, number: int) -> ScheduleCase:
        """Return the case (schedule) of run `number`, from 0 on. Not for dfs, which derives cases from earlier runs."""
        seed = self.first_seed + number
        if self.kind == "costs":
            return ScheduleCase("random", seed, costs=drawn(self.keys, seed), jitter=self.jitter)
        if self.kind in ("pct", "delay"):
            return ScheduleCase(self.kind, seed, self.bound, self.steps, self.length or 0.0)
        return ScheduleCase(self.kind, seed)


def _seconds(text: str, given: str) -> float:
    try:
        value, dimension = units.quantity(given)
    except units.UnitError as error:
        raise UserError(f"--strategy {text}: {error}") from None
    if value < 0 or value == float("inf") or (dimension != "time" and value != 0):
        raise UserError(f"--strategy {text}: {given!r} is no time, as 20us is")
    return value


def _fraction(text: str, given: str) -> float:
    try:
        value = float(given)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 1.0:
        raise UserError(f"--strategy {text}: {given!r} is no fraction from 0 to 1")
    return value


PREFIX = "offloadrt1."
"""The beginning of every token; the digit is the version of the format."""

CHECKED = "check"
"""The option of a token by which reports of `offloadrt check` are failures."""


@attrs.frozen
class Token:
    """A run as one line of text, from which it can be repeated exactly.

    It has the program, parameters, options, schedule, costs and faults, and hashes by which a replay recognizes the
    same run. `results` are the names of the figures that must not depend on the schedule, `case` is the run's schedule,
    costs and faults, and `outcome` the key of how it ended.
    """

    program: str
    """The scenario's reference, or the node id of a pytest test."""
    parameters: Mapping[str, Any]
    """The parameters that differ from their defaults."""
    options: Mapping[str, Any]
    """Options of `RunSpec` that differ from their defaults, and `CHECKED` for a run under the checker."""
    results: tuple[str, ...]
    case: ScheduleCase
    digests: Mapping[str, str]
    """The first digits of hashes of the program's file, its machine and the emulator, by names for them."""
    outcome: str
    hash: str
    """The trace hash of the run."""

    def encode(self) -> str:
        """Return the token as one line of text."""
        row = [
            self.program,
            dict(self.parameters),
            dict(self.options),
            list(self.results),
            packed(self.case),
            dict(self.digests),
            self.outcome,
            self.hash,
        ]
        text = json.dumps(row, separators=(",", ":"), ensure_ascii=False)
        return PREFIX + base64.urlsafe_b64encode(zlib.compress(text.encode(), 9)).decode().rstrip("=")

    @classmethod
    def decode(cls, text: str) -> Token:
        """Read a token from its text; blanks and line breaks in the text are ignored. Raises UserError."""
        text = "".join(text.split())
        if not text.startswith(PREFIX):
            other = text.startswith("offloadrt") and "." in text
            raise UserError(
                f"replay: the token is of version {text.partition('.')[0].removeprefix('offloadrt')}; this is version 1"
                if other
                else f"replay: no token: it begins with {PREFIX}"
            )
        body = text.removeprefix(PREFIX)
        try:
            unzip = zlib.decompressobj()
            plain = unzip.decompress(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)), 10_000_000)
            if not unzip.eof:
                raise ValueError("it is cut off")
            program, parameters, options, results, case, digests, outcome, hash = json.loads(plain)
            return cls(
                str(program),
                dict(parameters),
                dict(options),
                tuple(map(str, results)),
                unpacked(case),
                {str(name): str(value) for name, value in dict(digests).items()},
                str(outcome),
                str(hash),
            )
        except (ArithmeticError, ValueError, TypeError, KeyError, IndexError, zlib.error, RecursionError) as error:
            raise UserError(f"replay: the token cannot be read ({error}); copy all of it") from None

    def changed(self, now: Mapping[str, str]) -> list[str]:
        """Return which of program, machine and emulator have changed since the token was made. now: today's digests."""
        return [name for name, digest in self.digests.items() if now.get(name) != digest]
