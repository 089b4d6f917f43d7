"""How a claim is judged: a generator asks for runs, gets their results, and says what came out.

    @judge("exahype.fig3.euler3d_p5.robust", "max over T of t(2T) / t(T) <= 1.1")
    def robust(grid):
        t = yield from grid.times(threads=grid.threads, memory="pool")
        worst = ...
        return Judgement(f"{worst:.3g}", worst <= 1.1, "why, when it does not hold")

Judges that ask at the same time are answered together: equal runs are made once, all on one executor.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import attrs

from offloadrt.study.points import Options, Point
from offloadrt.study.reporting.results import Result
from offloadrt.study.scripts import registry
from offloadrt.study.scripts.parameters import Value


@attrs.frozen
class Judgement:
    """What the emulator says to a claim: its figure, whether the relation holds, and why not when it does not.

    `holds` is None when the claim cannot be judged here; `reason` then says what it needs.
    """

    emulated: str
    holds: bool | None
    reason: str = ""


Asking: TypeAlias = Generator[list[Point], list[Result], Judgement]
"""Yields points, is sent their results in the same order, returns a judgement."""


Extent: TypeAlias = Literal["full", "quick", "ends"]
"""How much a judge looks at: all, enough for a verdict in less time, or what both ends of every range can afford."""

Registration: TypeAlias = Callable[[Callable[..., Asking]], Callable[..., Asking]]
"""What `Bench.judge` gives: a decorator that leaves the function as it is."""


@attrs.frozen
class Judge:
    """The judge of one claim. `expression` is what it evaluates, in words of the field."""

    claim: str
    expression: str
    function: Callable[..., Asking]
    arguments: Mapping[str, Any] = attrs.field(factory=dict)

    def __call__(self, grid: Places) -> Asking:
        return self.function(grid, **self.arguments)


@attrs.frozen
class Places(ABC):
    """Where the judges of a paper look: its scenario, and the variant of the machine."""

    scenario: str
    options: Options = attrs.field(factory=Options, kw_only=True)

    @property
    @abstractmethod
    def described(self) -> str:
        """How much is looked at, in words."""

    def point(self, parameters: Mapping[str, Value], *, scenario: str | None = None, record: bool = False) -> Point:
        """One run of the paper's scenario, or of another one."""
        chosen = registry.find(scenario or self.scenario)
        options = attrs.evolve(self.options, record=record)
        return Point(registry.reference(chosen), chosen.bind(dict(parameters)), options)

    def runs(self, many: Iterable[Mapping[str, Value]]) -> Generator[list[Point], list[Result], list[Result]]:
        """Results of several runs of the paper's scenario; `yield from` it."""
        answers: list[Result] = yield [self.point(parameters) for parameters in many]
        return answers

    def facts(
        self, scenario: str, many: Sequence[Mapping[str, Value]] = ({},)
    ) -> Generator[list[Point], list[Result], list[dict[str, Value]]]:
        """What recorded runs of a probe measured; `yield from` it."""
        answers: list[Result] = yield [self.point(parameters, scenario=scenario, record=True) for parameters in many]
        return [answer.measured for answer in answers]


@attrs.frozen
class Grid(Places):
    """Where the judges of a paper look: thread counts, batches, how much work, and which variant of the machine."""

    threads: tuple[int, ...]
    ends: tuple[int, ...]
    """Thread counts at which a curve over batches is looked at."""
    batches: tuple[int, ...]
    alone: tuple[int, ...]
    """Batches at which one thread is looked at by itself."""
    gains: tuple[int, ...]
    """Batches at which the gain of one memory over another is looked for."""
    work: Mapping[str, int]
    """How much there is to do, by kind."""

    @property
    def described(self) -> str:
        """How much is looked at, in words."""
        work = ", ".join(f"{kind} {count}" for kind, count in self.work.items())
        return f"threads {_listed(self.threads)}; batches {_listed(self.batches)}; {work}"


def _listed(counts: Iterable[int]) -> str:
    return ", ".join(map(str, counts))


@attrs.define
class Bench:
    """The judges of a paper, by claim; a module of `claims` fills one."""

    judges: dict[str, Judge] = attrs.field(factory=dict)

    def judge(
        self, claim: str, expression: str, **arguments: Any
    ) -> Callable[[Callable[..., Asking]], Callable[..., Asking]]:
        """Registers the judge of one claim; may be stacked when claims differ in `arguments` only."""

        def decorate(function: Callable[..., Asking]) -> Callable[..., Asking]:
            if claim in self.judges:
                raise ValueError(f"claim {claim} has two judges")
            self.judges[claim] = Judge(claim, expression, function, arguments)
            return function

        return decorate

    def needs(self, what: str, *claims: str) -> None:
        """Claims that cannot be judged until the emulator has `what`."""
        for claim in claims:

            def judge(grid: Places) -> Asking:
                yield []
                return Judgement("–", None, f"needs {what}")

            self.judges[claim] = Judge(claim, "–", judge)


Answers: TypeAlias = Callable[[Sequence[Point]], Sequence[Result]]
"""Makes runs: their results, in order."""


def hear(judges: Sequence[Judge], grid: Places, answers: Answers) -> dict[str, Judgement]:
    """Hears all judges on one grid: their judgements by claim."""
    return {
        judge.claim: judgement
        for judge, judgement in zip(judges, hear_all([(judge, grid) for judge in judges], answers), strict=True)
    }


def hear_all(cases: Sequence[tuple[Judge, Places]], answers: Answers) -> list[Judgement]:
    """Hears every judge on its grid, all at once: each round makes every run that any of them asks for, once."""
    said: dict[int, Judgement] = {}
    open_: dict[int, Asking] = {}
    asked: dict[int, list[str]] = {}
    known: dict[str, Result] = {}
    wanted: dict[str, Point] = {}

    def note(number: int, points: list[Point]) -> None:
        keys = [point.key for point in points]
        asked[number] = keys
        wanted.update((key, point) for key, point in zip(keys, points, strict=True) if key not in known)

    for number, (judge, grid) in enumerate(cases):
        open_[number] = judge(grid)
        note(number, next(open_[number]))
    while open_:
        known.update(zip(wanted, answers(list(wanted.values())), strict=True))
        wanted.clear()
        for number, asking in list(open_.items()):
            try:
                note(number, asking.send([known[key] for key in asked[number]]))
            except StopIteration as stop:
                said[number] = stop.value
                del open_[number]
    return [said[number] for number in range(len(cases))]
