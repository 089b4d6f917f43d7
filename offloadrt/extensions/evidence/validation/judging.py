"""How a claim is judged: a generator asks for runs, gets their results, and says what it measured.

    @bench.judge("exahype.fig3.*.robust")
    def robust(grid, case):
        t = yield from strong(grid, CASES[case], "pool")
        worst, at = ...
        return Reading(f"at most {worst:.3g} (T = {at})", worst, f"more threads cost time beyond T = {at}")

The claim's entry in `claims.toml` says what is evaluated, within which limits, and which arguments the judge gets
(`case`). A judge whose relation is no comparison with limits returns a `Judgement` instead of a `Reading`. Judges that
ask at the same time are answered together: equal runs are made once, all on one executor.
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
"""A time counts as longer than another from this ratio on: on real machines less is lost in the noise."""


def longer(time: float, other: float) -> bool:
    """Tell whether a time, or another positive number, is at least 1 % (`DISCERNIBLE`) more than the other one."""
    return time >= DISCERNIBLE * other


def number(value: Any) -> float:
    """Return a measured figure, which must be a number, as a float."""
    assert isinstance(value, int | float)
    return float(value)


def numbers(measured: Mapping[str, Any], *names: str) -> list[float]:
    """Return the named measured figures, which must be numbers, as floats."""
    return [number(measured[name]) for name in names]


def mean(values: Iterable[float]) -> float:
    """Return the arithmetic mean of `values`, at least one; the papers average by it."""
    terms = list(values)
    return math.fsum(terms) / len(terms)


def listed(values: Mapping[Any, float], form: str = ".3g") -> str:
    """Return `values` as text, each figure behind its key.

    >>> listed({2.0: 1.6, "S4": 1.5})
    '2: 1.6, S4: 1.5'

    form: the format of each figure, as for `format`.
    """
    return ", ".join(f"{_text(place)}: {value:{form}}" for place, value in values.items())


def _text(place: Any) -> str:
    return f"{place:g}" if isinstance(place, float) else str(place)


T = TypeVar("T")


@attrs.frozen
class Judgement:
    """The verdict on a claim: the emulated figure, whether the claim holds, and if it does not, the reason.

    `holds` is None if the claim cannot be judged here; `reason` then says what is missing. `emulated` is the figure as
    text.
    """

    emulated: str
    holds: bool | None
    reason: str = ""


@attrs.frozen
class Reading:
    """The figures that a judge has measured, to be compared with the limits of a claim."""

    emulated: str
    """The figures in words."""
    figures: float | Mapping[Any, float]
    """One figure, or several by a key such as the number of threads; all must lie within the limits."""
    too_low: str
    """What a figure below the limits means; `{outside}` stands for the keys of the figures outside the limits."""
    too_high: str | None = None
    """What a figure above the limits means; None: the same as `too_low`."""

    def judged_by(self, claim: Claim) -> Judgement:
        """Return the verdict on a claim: whether the figures lie within its limits, and if not, why."""
        figures = self.figures if isinstance(self.figures, Mapping) else {"": self.figures}
        outside = claim.outside(figures)
        is_low = self.too_high is None or any(claim.is_below(figures[place]) for place in outside)
        reason = self.too_low if is_low else str(self.too_high)
        return Judgement(self.emulated, not outside, reason.replace("{outside}", ", ".join(map(str, outside))))


def unless(emulated: str, wrong: Mapping[str, object] | Iterable[str]) -> Judgement:
    """Return the verdict that a claim holds if nothing is wrong; else the verdict that it fails, with the reasons.

    emulated: the emulated figures in words. wrong: the reasons; or, by reason, a condition: the reason counts if it is
    true.
    """
    reasons = [reason for reason, is_so in wrong.items() if is_so] if isinstance(wrong, Mapping) else list(wrong)
    return Judgement(emulated, not reasons, "; ".join(reasons))


def not_rising(curve: Mapping[T, float]) -> list[tuple[T, T]]:
    """Return the pairs of neighbouring keys of a positive curve between which it does not rise by 1 % or more."""
    return [(before, after) for before, after in pairwise(curve) if not longer(curve[after], curve[before])]


def not_falling(curve: Mapping[T, float]) -> list[tuple[T, T]]:
    """Return the pairs of neighbouring keys of a positive curve between which it does not fall by 1 % or more."""
    return [(before, after) for before, after in pairwise(curve) if not longer(curve[before], curve[after])]


Answer = TypeVar("Answer")
Asking: TypeAlias = Generator[list[Point], list[Result], Answer]
"""A generator that yields the points of runs, is sent their results in the same order, and returns an answer."""

Program: TypeAlias = Scenario | str
"""A scenario, such as a probe in the file beside the judges, or the name of one."""
Check = TypeVar("Check", bound=Callable[..., Any])

Hearing: TypeAlias = Asking[Judgement | Reading]
"""The generator that a judge's function returns: it asks for runs, and returns what they show."""

Extent: TypeAlias = Literal["full", "quick", "ends"]
"""How much a judge runs: everything ("full"), enough for a verdict in less time ("quick"), or so little that the
claims can be judged again at each end of every range ("ends")."""


@attrs.frozen
class Judge:
    """Judges a claim of a paper, `claim`: its `function` asks for runs, and returns the figures measured in them."""

    claim: Claim
    function: Callable[..., Hearing]

    def __call__(self, grid: JudgingGrid) -> Asking[Judgement]:
        """Ask for runs, and compare the figures from their results with the limits of the claim."""
        answer = yield from self.function(grid, **self.claim.given)
        return answer if isinstance(answer, Judgement) else answer.judged_by(self.claim)


@attrs.frozen
class InputCheck:
    """Measures in the emulator a number that a paper reports of its own programs; both are shown, without a verdict.

    If the emulated programs differed from the paper's, verdicts would be right only by chance. So the report shows how
    well the numbers match. `function` is called with the grid of runs and the claim. It asks for runs by ``yield``, and
    returns the measured numbers.
    """

    claim: Claim
    """A claim with the role `input`."""
    function: Callable[[Any, Claim], Asking[Sequence[float]]]

    def __call__(self, grid: JudgingGrid) -> Asking[Judgement]:
        """Ask for runs; return the emulated numbers and, as the reason, their differences from the claim's."""
        numbers = yield from self.function(grid, self.claim)
        value = self.claim.value
        reported = value if isinstance(value, list) else [value]
        pairs = [(number, float(other)) for number, other in zip(numbers, reported, strict=True) if other is not None]
        differences = (f"{number / other - 1:+.1%}" if other else f"{number:+.3g}" for number, other in pairs)
        emulated = (f"{number:.0f}" if number >= 1000 else f"{number:.4g}" for number in numbers)
        return Judgement(", ".join(emulated), None, ", ".join(differences))


@attrs.frozen
class JudgingGrid(ABC):
    """The runs that the judges of a paper's claims may ask for: the paper's scenario, on a machine, with options.

    `scenario` is the scenario's name, and `options` are the options of every run. Subclasses add the parameters for
    which the scenario is run.
    """

    scenario: str
    options: RunSpec = attrs.field(factory=RunSpec, kw_only=True)

    @property
    @abstractmethod
    def described(self) -> str:
        """Return in words how many runs the grid has, for the report."""

    def point(self, parameters: Mapping[str, Value], *, scenario: Program | None = None, record: bool = False) -> Point:
        """Return a point of a sweep (one run) for which a function that judges a claim may ask.

        parameters: of the paper's scenario, or of `scenario` if that is given. record: whether the run's events are
        kept.
        """
        chosen = scenario if isinstance(scenario, Scenario) else registry.find(scenario or self.scenario)
        options = attrs.evolve(self.options, record=record)
        return Point(registry.reference(chosen), chosen.bind(dict(parameters)), options)

    def runs(self, many: Iterable[Mapping[str, Value]]) -> Asking[list[Result]]:
        """Ask for runs of the paper's scenario, one for each item of `many`; call it with `yield from`."""
        answers: list[Result] = yield [self.point(parameters) for parameters in many]
        return answers

    def facts(self, scenario: Program, many: Sequence[Mapping[str, Value]] = ({},)) -> Asking[list[dict[str, Value]]]:
        """Ask for runs of a probe (a small program that shows a mechanism), and return the figures of each run.

        The runs keep their events. scenario: the probe. many: the probe's parameters, run by run. Call it with `yield
        from`.
        """
        answers: list[Result] = yield [self.point(parameters, scenario=scenario, record=True) for parameters in many]
        return [answer.measured for answer in answers]


@attrs.define
class Bench:
    """Collects a paper's claims, and by claim id the functions that judge them, which the paper's modules register."""

    claims: Mapping[str, Claim]
    judges: dict[str, Judge] = attrs.field(factory=dict)
    checks: dict[str, InputCheck] = attrs.field(factory=dict)
    """By id: checks of the claims with role `input` whose numbers are shown beside emulated ones."""

    @classmethod
    def of(cls, package: str) -> Bench:
        """Read the claims of a paper's package into a new `Bench`, to which its modules then add their judges."""
        return cls(claims_of(package))

    def judge(self, *patterns: str) -> Callable[[Callable[..., Hearing]], Callable[..., Hearing]]:
        """Return a decorator that registers a function as the judge of all claims whose ids match one of the patterns.

        A pattern may have `*`. The decorator raises ValueError for a pattern that no claim matches, and for a claim
        that has a judge already.
        """

        def register(function: Callable[..., Hearing]) -> Callable[..., Hearing]:
            for id in self._matching(patterns):
                if id in self.judges:
                    raise ValueError(f"claim {id} has two judges")
                self.judges[id] = Judge(self.claims[id], function)
            return function

        return register

    def beside(self, *patterns: str) -> Callable[[Check], Check]:
        """Return a decorator for a function that measures in the emulator what a paper reports of its own programs.

        Such a claim (role `input`) is a number that the runs start from: the report shows the paper's and the emulated
        number side by side, without a verdict. patterns: of the claims' ids, in which `*` stands for any text. The
        decorator raises ValueError for a pattern that matches no claim, or a claim that is no input with a number.
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
        """Register that a claim (its id) cannot be judged, because the emulator lacks something (in words)."""

        @self.judge(claim)
        def lacking(grid: JudgingGrid) -> Hearing:
            yield []
            return Judgement("–", None, f"needs {what}")


Answers: TypeAlias = Callable[[Sequence[Point]], Sequence[Result]]
"""A function that makes the given runs and returns their results, in order; it raises RunFailed."""


class RunFailed(UserError):
    """Raised in a function that judges a claim when a run for which it asked ended with an error."""


def hear(judges: Sequence[Judge | InputCheck], grid: JudgingGrid, answers: Answers) -> dict[str, Judgement]:
    """Run the functions that judge claims, all on one grid of runs; return each claim's verdict, by the claim's id.

    answers: makes the runs for which the functions ask.
    """
    judgements = hear_all([(judge, grid) for judge in judges], answers)
    return {judge.claim.id: judgement for judge, judgement in zip(judges, judgements, strict=True)}


def hear_all(cases: Sequence[tuple[Judge | InputCheck, JudgingGrid]], answers: Answers) -> list[Judgement]:
    """Run functions that judge claims, each on a grid of runs of its own, until each has its verdict.

    In each round, the runs for which any of them asks are made once, by `answers`. cases: pairs of such a function and
    its grid. Returns the verdicts in the order of `cases`.
    """
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
"""The figures that a probe measured, by name."""

E = TypeVar("E", bound=Event)
B = TypeVar("B", bound=Event)


def recorded(run: Run, *kinds: type[E]) -> list[E]:
    """Return the events of some kinds that a run recorded, in order."""
    assert run.trace is not None, "a probe is run with a recording"
    labels = frozenset(kind.label for kind in kinds)
    return [decode(row) for row in run.trace.rows if row[0] in labels]  # type: ignore[misc]


@attrs.frozen
class Span(Generic[B]):
    """An interval of virtual time from `begin` to `end`, in picoseconds, with the event that began it (`first`)."""

    begin: int
    end: int
    first: B

    @property
    def duration(self) -> int:
        """Return the length of the interval in picoseconds."""
        return self.end - self.begin


def calls(run: Run, api: str | None = None) -> list[Span[events.CallBegin]]:
    """Return the calls of the driver's API, or only of the function `api`, in the order of their ends."""
    spans = _spans(run, events.CallBegin, events.CallEnd, lambda event: (event.actor, event.api))
    return [span for span in spans if api is None or span.first.api == api]


def copies(run: Run) -> list[Span[events.CopyBegin]]:
    """Return the transfers of copy engines, in the order of their ends."""
    return _spans(run, events.CopyBegin, events.CopyEnd, lambda event: (event.device, event.copy))


def kernels(run: Run) -> list[Span[events.KernelStart]]:
    """Return the times during which kernels were resident, in the order of their starts."""
    spans = _spans(run, events.KernelStart, events.KernelEnd, lambda event: (event.device, event.kernel))
    return sorted(spans, key=lambda span: (span.begin, span.end))


def _spans(run: Run, begin: type[B], end: type[Event], key: Callable[[Any], object]) -> list[Span[B]]:
    """Pair every event `end` with the last event `begin` that has the same key."""
    begun: dict[object, B] = {}
    spans = []
    for event in recorded(run, begin, end):
        if isinstance(event, begin):
            begun[key(event)] = event
        elif (first := begun.pop(key(event), None)) is not None:
            spans.append(Span(first.time_ps, event.time_ps, first))
    return spans


def overlap(some: Iterable[Span[Any]], others: Sequence[Span[Any]]) -> int:
    """Return the picoseconds in which an interval of `some` and one of `others` overlap, summed over all pairs."""
    return sum(max(0, min(a.end, b.end) - max(a.begin, b.begin)) for a in some for b in others)


SensitivityRun: TypeAlias = Mapping[str, Value] | tuple[str, Mapping[str, Value]]
"""A run that shows an entry's influence: parameters of the paper's scenario, or another scenario with its own."""

RARELY_USED = (
    "acc.", "access_counter.", "ats.", "graph.", "hip.", "mempool.", "mig.", "mpi.", "mps.", "net.", "nic.", "numa.",
    "process.", "runlist.", "shm.", "sm.max_shared_per_team", "sm.shared", "stream.", "teams.",
)  # fmt: skip
"""Groups of entries whose mechanisms the programs of papers do not use, except entries that a paper names in `uses`.

So their values change no verdict, and no digest of a report contains them.
"""


def may_matter(entry: str, uses: Collection[str] = ()) -> bool:
    """Tell whether the programs of a paper can use the mechanism whose cost a profile's entry gives.

    Mechanisms that few programs use are taken for unused unless `uses` has one of their entries.
    """
    return entry in uses or not entry.startswith(RARELY_USED)


@attrs.frozen
class Paper:
    """The claims of a paper, the functions that judge them, and the runs that these functions use."""

    name: str
    machine: str
    """The machine that its claims are about."""
    bench: Bench
    """The claims of the paper and their judges."""
    grid: Callable[[Extent, RunSpec], JudgingGrid]
    """Makes the grid of runs for its judges, of a given extent (`full`, `quick` or `ends`) and with given options."""
    sensitivity: Sequence[SensitivityRun]
    """Short runs that show whether an entry of the machine has any influence on times."""
    candidates: Mapping[str, Mapping[str, str]]
    """By entry: overrides that switch on a mechanism which the machine may have, without a source for it."""
    runtime: str | None = None
    """The runtime that its programs were built for; None is the machine's default."""
    inputs: Mapping[str, InputRange] = attrs.field(factory=dict)
    """By name: inputs of its programs that the authors do not state, with their ranges."""
    other_machines: Sequence[str] = ()
    """Further machines on which its judges make runs."""
    uses: Collection[str] = ()
    """Profile entries of mechanisms that few programs use (``RARELY_USED``), which the paper's programs do use."""


def sensitivity_points(runs: Sequence[SensitivityRun], grid: JudgingGrid) -> list[Point]:
    """Return the runs that show whether an uncertain entry of the machine changes times, with a grid's options.

    runs: each is the parameters for the grid's scenario, or (another scenario, its parameters).
    """
    named = [run if isinstance(run, tuple) else (grid.scenario, run) for run in runs]
    return [grid.point(parameters, scenario=scenario) for scenario, parameters in named]


PAPERS: Final = Registry[Paper]("paper", "offloadrt.papers")


def paper_named(name: str) -> Paper:
    """Import the package of a paper's claims and judges, by name. Raises UserError, with the names that exist."""
    known = PAPERS.names()
    if name not in known:
        raise UserError(f"--paper {name}: no claims of it{did_you_mean(name, known)} (there are: {', '.join(known)})")
    return PAPERS.find(name)


def draws_of(
    spec: MachineSpec, inputs: Mapping[str, InputRange], options: RunSpec, count: int = DRAWS
) -> list[RunSpec]:
    """Return the options of `count` runs, each with a random sample of the uncertain entries (costs, rates) and inputs.

    Empty if the user has set all uncertain entries. inputs: their ranges, by name.
    """
    draws = Draws.of([spec], inputs.values())
    free = [key for key in draws.entries if key not in options.overrides]
    return [draws.at(number, spec, options) for number in range(count)] if free else []


def inputs_of(*modules: ModuleType) -> dict[str, InputRange]:
    """Return the uncertain inputs of programs, which are global variables of their modules, by the input's name."""
    ranges = [value for module in modules for value in vars(module).values() if isinstance(value, InputRange)]
    return {range_.name: range_ for range_ in ranges if range_.name}
