"""How a claim is judged: a generator asks for runs, gets their results, and says what it measured.

    @bench.judge("exahype.fig3.*.robust")
    def robust(grid, case):
        t = yield from strong(grid, CASES[case], "pool")
        worst, at = ...
        return Reading(f"at most {worst:.3g} (T = {at})", worst, f"more threads cost time beyond T = {at}")

The claim's entry in `claims.toml` says what is evaluated, within which limits, and what the judge is given (`case`). A
judge whose relation is no comparison with limits returns a `Judgement` of its own. Judges that ask at the same time
are answered together: equal runs are made once, all on one executor.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise
from types import ModuleType
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

import attrs

from offloadrt.extensions.certainty.draws import Draws
from offloadrt.extensions.evidence.validation.claims import Claim, claims_of
from offloadrt.machine import MachineSpec
from offloadrt.registry import Registry
from offloadrt.study.certainty import MOST as DRAWS
from offloadrt.study.errors import UserError, did_you_mean
from offloadrt.study.inputs import InputRange
from offloadrt.study.reporting.results import Result
from offloadrt.study.running.run import Run
from offloadrt.study.scripts import registry
from offloadrt.study.scripts.definition import Scenario
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import Keys, Point
from offloadrt.trace import Event, events
from offloadrt.trace.events import decode

DISCERNIBLE = 1.01
"""The ratio from which one time counts as longer than another: real machines cannot tell less apart."""


def longer(time: float, other: float) -> bool:
    """Tell whether a time, or another positive figure, is discernibly larger than the other one."""
    return time >= DISCERNIBLE * other


def number(value: Any) -> float:
    """Read a measured figure that is a number."""
    assert isinstance(value, int | float)
    return float(value)


def numbers(measured: Mapping[str, Any], *names: str) -> list[float]:
    """Read several measured figures that are numbers."""
    return [number(measured[name]) for name in names]


def mean(values: Iterable[float]) -> float:
    """Take the arithmetic mean, as the papers average."""
    terms = list(values)
    return math.fsum(terms) / len(terms)


def listed(values: Mapping[Any, float], form: str = ".3g") -> str:
    """Write figures by place.

    >>> listed({2.0: 1.6, "S4": 1.5})
    '2: 1.6, S4: 1.5'
    """
    return ", ".join(f"{_text(place)}: {value:{form}}" for place, value in values.items())


def _text(place: Any) -> str:
    return f"{place:g}" if isinstance(place, float) else str(place)


T = TypeVar("T")


@attrs.frozen
class Judgement:
    """What the emulator says to a claim: its figure, whether the relation holds, and why not when it does not.

    `holds` is None when the claim cannot be judged here; `reason` then says what it needs.
    """

    emulated: str
    holds: bool | None
    reason: str = ""


@attrs.frozen
class Reading:
    """What a judge measured; the claim compares it with its limits."""

    emulated: str
    """The figures in words."""
    figures: float | Mapping[Any, float]
    """One figure, or several by place, which must all keep to the limits."""
    too_low: str
    """Why a figure would be too small; `{outside}` stands for the places outside of the limits."""
    too_high: str | None = None
    """Why a figure would be too large; None when the reason is that of `too_low`."""

    def judged_by(self, claim: Claim) -> Judgement:
        """Compare the figures with the limits of a claim."""
        figures = self.figures if isinstance(self.figures, Mapping) else {"": self.figures}
        outside = claim.outside(figures)
        is_low = self.too_high is None or any(claim.is_below(figures[place]) for place in outside)
        reason = self.too_low if is_low else str(self.too_high)
        return Judgement(self.emulated, not outside, reason.replace("{outside}", ", ".join(map(str, outside))))


def unless(emulated: str, wrong: Mapping[str, object] | Iterable[str]) -> Judgement:
    """Judge that a claim holds unless something is wrong: a reason in a list, or one whose condition is true."""
    reasons = [reason for reason, is_so in wrong.items() if is_so] if isinstance(wrong, Mapping) else list(wrong)
    return Judgement(emulated, not reasons, "; ".join(reasons))


def not_rising(curve: Mapping[T, float]) -> list[tuple[T, T]]:
    """List the neighbouring places of a positive curve between which it does not rise discernibly."""
    return [(before, after) for before, after in pairwise(curve) if not longer(curve[after], curve[before])]


def not_falling(curve: Mapping[T, float]) -> list[tuple[T, T]]:
    """List the neighbouring places of a positive curve between which it does not fall discernibly."""
    return [(before, after) for before, after in pairwise(curve) if not longer(curve[before], curve[after])]


Answer = TypeVar("Answer")
Asking: TypeAlias = Generator[list[Point], list[Result], Answer]
"""Yields points, is sent their results in the same order, returns an answer."""

Program: TypeAlias = Scenario | str
"""A scenario, such as a probe that lies beside the judges, or the name of one."""
Check = TypeVar("Check", bound=Callable[..., Any])

Hearing: TypeAlias = Asking[Judgement | Reading]
"""What the function of a judge returns when it is called: it asks for runs and says what came out."""

Extent: TypeAlias = Literal["full", "quick", "ends"]
"""How much a judge runs: everything, enough for a verdict in less time, or so little that each
end of every range can be judged by it."""


@attrs.frozen
class Judge:
    """The judge of one claim."""

    claim: Claim
    function: Callable[..., Hearing]

    def __call__(self, grid: JudgingGrid) -> Asking[Judgement]:
        """Ask for runs, and compare what came out with the limits of the claim."""
        answer = yield from self.function(grid, **self.claim.given)
        return answer if isinstance(answer, Judgement) else answer.judged_by(self.claim)


@attrs.frozen
class InputCheck:
    """Sets a number that a paper reports of its programs beside the one that is emulated; there is no verdict.

    Wrong programs would get right verdicts only by chance, so that what was put in is shown as it came out.
    """

    claim: Claim
    """A claim of role `input`."""
    function: Callable[[Any, Claim], Asking[Sequence[float]]]

    def __call__(self, grid: JudgingGrid) -> Asking[Judgement]:
        """Ask for runs, and return the emulated numbers and how far they are from the claim's."""
        numbers = yield from self.function(grid, self.claim)
        value = self.claim.value
        reported = value if isinstance(value, list) else [value]
        pairs = [(number, float(other)) for number, other in zip(numbers, reported, strict=True) if other is not None]
        differences = (f"{number / other - 1:+.1%}" if other else f"{number:+.3g}" for number, other in pairs)
        emulated = (f"{number:.0f}" if number >= 1000 else f"{number:.4g}" for number in numbers)
        return Judgement(", ".join(emulated), None, ", ".join(differences))


@attrs.frozen
class JudgingGrid(ABC):
    """Where the judges of a paper look: its scenario, and the machine with what is changed of it."""

    scenario: str
    options: RunSpec = attrs.field(factory=RunSpec, kw_only=True)

    @property
    @abstractmethod
    def described(self) -> str:
        """Say in words how much is looked at."""

    def point(self, parameters: Mapping[str, Value], *, scenario: Program | None = None, record: bool = False) -> Point:
        """Describe one run of the paper's scenario, or of another one."""
        chosen = scenario if isinstance(scenario, Scenario) else registry.find(scenario or self.scenario)
        options = attrs.evolve(self.options, record=record)
        return Point(registry.reference(chosen), chosen.bind(dict(parameters)), options)

    def runs(self, many: Iterable[Mapping[str, Value]]) -> Asking[list[Result]]:
        """Make several runs of the paper's scenario; `yield from` it."""
        answers: list[Result] = yield [self.point(parameters) for parameters in many]
        return answers

    def facts(self, scenario: Program, many: Sequence[Mapping[str, Value]] = ({},)) -> Asking[list[dict[str, Value]]]:
        """Make recorded runs of a probe, and return what they measured; `yield from` it."""
        answers: list[Result] = yield [self.point(parameters, scenario=scenario, record=True) for parameters in many]
        return [answer.measured for answer in answers]


@attrs.define
class Bench:
    """The claims of a paper and their judges, by id; the modules with the judges fill it."""

    claims: Mapping[str, Claim]
    judges: dict[str, Judge] = attrs.field(factory=dict)
    checks: dict[str, InputCheck] = attrs.field(factory=dict)
    """Claims of role `input` whose numbers are set beside emulated ones."""

    @classmethod
    def of(cls, package: str) -> Bench:
        """Read the claims of a paper's package."""
        return cls(claims_of(package))

    def judge(self, *patterns: str) -> Callable[[Callable[..., Hearing]], Callable[..., Hearing]]:
        """Register the judge of the claims whose ids match one of the patterns, in which `*` stands for anything.

        Raises ValueError for a pattern that no claim matches, and for a claim that has a judge.
        """

        def register(function: Callable[..., Hearing]) -> Callable[..., Hearing]:
            for id in self._matching(patterns):
                if id in self.judges:
                    raise ValueError(f"claim {id} has two judges")
                self.judges[id] = Judge(self.claims[id], function)
            return function

        return register

    def beside(self, *patterns: str) -> Callable[[Check], Check]:
        """Register what measures the numbers of the inputs whose ids match, in their units.

        Raises ValueError for a pattern that no claim matches, and for a claim that is no input with a number.
        """

        def register(function: Check) -> Check:
            for id in self._matching(patterns):
                if self.claims[id].role != "input" or self.claims[id].value is None:
                    raise ValueError(f"claim {id} is no input with a number")
                self.checks[id] = InputCheck(self.claims[id], function)
            return function

        return register

    def _matching(self, patterns: Iterable[str]) -> list[str]:
        matching = []
        for pattern in patterns:
            ids = [id for id in self.claims if fnmatchcase(id, pattern)]
            if not ids:
                raise ValueError(f"{pattern}: no claim has such an id")
            matching += ids
        return matching

    def needs(self, what: str, claim: str) -> None:
        """Say that a claim cannot be judged until the emulator has `what`."""

        @self.judge(claim)
        def lacking(grid: JudgingGrid) -> Hearing:
            yield []
            return Judgement("–", None, f"needs {what}")


Answers: TypeAlias = Callable[[Sequence[Point]], Sequence[Result]]
"""Makes the given runs and returns their results, in order; raises RunFailed."""


class RunFailed(UserError):
    """A run that a judge asked for ended with an error."""


def hear(judges: Sequence[Judge | InputCheck], grid: JudgingGrid, answers: Answers) -> dict[str, Judgement]:
    """Hear all judges on one grid, and return their judgements by claim."""
    judgements = hear_all([(judge, grid) for judge in judges], answers)
    return {judge.claim.id: judgement for judge, judgement in zip(judges, judgements, strict=True)}


def hear_all(cases: Sequence[tuple[Judge | InputCheck, JudgingGrid]], answers: Answers) -> list[Judgement]:
    """Hear every judge on its grid, all at once: each round makes every run that any of them asks for, once."""
    judgements: dict[int, Judgement] = {}
    open_: dict[int, Asking[Judgement]] = {}
    asked: dict[int, list[str]] = {}
    known: dict[str, Result] = {}
    wanted: dict[str, Point] = {}
    keys_of = Keys()

    def note(number: int, points: list[Point]) -> None:
        keys = [keys_of.of(point) for point in points]
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
                judgements[number] = stop.value
                del open_[number]
    return [judgements[number] for number in range(len(cases))]


Facts: TypeAlias = dict[str, int | float | bool | str | None]
"""What a probe measured."""

E = TypeVar("E", bound=Event)
B = TypeVar("B", bound=Event)


def recorded(run: Run, *kinds: type[E]) -> list[E]:
    """Decode the recorded events of some kinds, in order."""
    assert run.trace is not None, "a probe is run with a recording"
    labels = frozenset(kind.label for kind in kinds)
    return [decode(row) for row in run.trace.rows if row[0] in labels]  # type: ignore[misc]


@attrs.frozen
class Span(Generic[B]):
    """An interval of virtual time, in picoseconds, with the event that began it."""

    begin: int
    end: int
    first: B

    @property
    def duration(self) -> int:
        """Return how long it lasts."""
        return self.end - self.begin


def calls(run: Run, api: str | None = None) -> list[Span[events.CallBegin]]:
    """List the calls of the driver's API, or of one function of it, in the order of their ends."""
    spans = _spans(run, events.CallBegin, events.CallEnd, lambda event: (event.actor, event.api))
    return [span for span in spans if api is None or span.first.api == api]


def copies(run: Run) -> list[Span[events.CopyBegin]]:
    """List the transfers of copy engines, in the order of their ends."""
    return _spans(run, events.CopyBegin, events.CopyEnd, lambda event: (event.device, event.copy))


def kernels(run: Run) -> list[Span[events.KernelStart]]:
    """List the kernels while they were resident, in the order of their starts."""
    spans = _spans(run, events.KernelStart, events.KernelEnd, lambda event: (event.device, event.kernel))
    return sorted(spans, key=lambda span: (span.begin, span.end))


def _spans(run: Run, begin: type[B], end: type[Event], key: Callable[[Any], object]) -> list[Span[B]]:
    """Pair every end with the begin of the same key."""
    begun: dict[object, B] = {}
    spans = []
    for event in recorded(run, begin, end):
        if isinstance(event, begin):
            begun[key(event)] = event
        elif (first := begun.pop(key(event), None)) is not None:
            spans.append(Span(first.time_ps, event.time_ps, first))
    return spans


def overlap(some: Iterable[Span[Any]], others: Sequence[Span[Any]]) -> int:
    """Add up over all pairs the picoseconds for which one span runs while the other does."""
    return sum(max(0, min(a.end, b.end) - max(a.begin, b.begin)) for a in some for b in others)


SensitivityRun: TypeAlias = Mapping[str, Value] | tuple[str, Mapping[str, Value]]
"""Parameters of the paper's scenario, or another scenario and its parameters."""

RARELY_USED = (
    "acc.", "access_counter.", "ats.", "graph.", "hip.", "mempool.", "mig.", "mpi.", "mps.", "net.", "nic.", "numa.",
    "process.", "runlist.", "shm.", "stream.", "teams.",
)  # fmt: skip
"""Groups of entries whose mechanisms no program of a paper uses, but those that it names in `uses`.

They can neither turn a verdict nor age a report.
"""


def may_matter(entry: str, uses: Collection[str] = ()) -> bool:
    """Tell whether a program of a paper can meet the mechanism that this entry of a machine belongs to."""
    return entry in uses or not entry.startswith(RARELY_USED)


@attrs.frozen
class Paper:
    """A paper's claims, the judges that check them, and where the judges look."""

    name: str
    machine: str
    """The machine that its claims are about."""
    bench: Bench
    """The claims of the paper and their judges."""
    grid: Callable[[Extent, RunSpec], JudgingGrid]
    """Makes the grid on which its judges run, full or reduced."""
    sensitivity: Sequence[SensitivityRun]
    """Short runs that show whether an entry of the machine has any influence on times."""
    candidates: Mapping[str, Mapping[str, str]]
    """Mechanisms without a source that a machine may have, by entry: what to override to switch one on."""
    runtime: str | None = None
    """The runtime that its programs were built for; None is the machine's default."""
    inputs: Mapping[str, InputRange] = attrs.field(factory=dict)
    """Inputs of its programs that its authors leave open, by name."""
    other_machines: Sequence[str] = ()
    """Further machines that its judges look at."""
    uses: Collection[str] = ()
    """Entries of rarely used mechanisms (``RARELY_USED``) that its programs do use."""


def sensitivity_points(runs: Sequence[SensitivityRun], grid: JudgingGrid) -> list[Point]:
    """Describe a paper's sensitivity runs on the machine of a grid."""
    named = [run if isinstance(run, tuple) else (grid.scenario, run) for run in runs]
    return [grid.point(parameters, scenario=scenario) for scenario, parameters in named]


PAPERS: Final = Registry[Paper]("paper", "offloadrt.papers")


def paper_named(name: str) -> Paper:
    """Import the paper of that name. Raises UserError, with the names that exist, for any other name."""
    known = PAPERS.names()
    if name not in known:
        raise UserError(f"--paper {name}: no claims of it{did_you_mean(name, known)} (there are: {', '.join(known)})")
    return PAPERS.find(name)


def draws_of(
    spec: MachineSpec, inputs: Mapping[str, InputRange], options: RunSpec, count: int = DRAWS
) -> list[RunSpec]:
    """Draw `count` places in the ranges of one machine and of inputs; none where nothing is left to draw."""
    draws = Draws.of([spec], inputs.values())
    free = [key for key in draws.entries if key not in options.overrides]
    return [draws.at(number, spec, options) for number in range(count)] if free else []


def inputs_of(*modules: ModuleType) -> dict[str, InputRange]:
    """List the ranges with names that modules define, by name."""
    ranges = [value for module in modules for value in vars(module).values() if isinstance(value, InputRange)]
    return {range_.name: range_ for range_ in ranges if range_.name}
