"""How verdicts depend on ranges, of a machine's entries and of programs' inputs: `offloadrt validate --ranges`.

Two steps keep it to minutes. *Screening*: every variant of the machine makes a few short runs; an end of a range that
changes none of them by more than `MATTERS` is left out, and so is a choice that changes nothing at all. *Judging*: with
each variant that is left, one at a time, the claims are judged on the grid `ends`, which has fewer places than the full
one. Claims on small recorded runs are judged with every variant, and all claims with both ends of a program's input:
runs that do not take the input are those of the machine as it stands. Two variants have all ranges of the machine at
one end together; other places of several ranges at a time are drawn (`draws_of`).

The drawn places are a scrambled Sobol sequence (`scipy.stats.qmc`): few points that fill a space of many dimensions
evenly. Each range counts on a logarithmic scale between its ends, as its mean does. Every draw judges all claims on the
small grid. The shares are of 64 draws, so that a true share of a half may come out as 0.38 to 0.62 (95 %).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import attrs

from offloadrt.extensions.evidence.validation.judging import (
    Answers,
    Judge,
    Judgement,
    JudgingGrid,
    RunFailed,
    SensitivityRun,
    hear,
    hear_all,
    may_matter,
    sensitivity_points,
)
from offloadrt.machine import MachineSpec
from offloadrt.study.inputs import InputRange
from offloadrt.study.reporting.results import Result
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import Keys, Point

_AT_ONCE = 8
"""Draws whose runs are made together; their results are then let go."""


@attrs.frozen
class DrawnShare:
    """In how many draws a claim holds, of those in which it could be judged.

    It cannot be judged at a place where a run that it needs ends with an error.
    """

    holds: int
    judged: int

    def __str__(self) -> str:
        return f"{self.holds} of {self.judged} draws"


def shares_of(
    judges: Sequence[Judge], grid: JudgingGrid, drawn: Sequence[RunSpec], stage: Callable[[str], Answers]
) -> dict[str, DrawnShare]:
    """Judge the claims on `grid` at every place that was drawn."""
    if not drawn:
        return {}
    answers = stage("ranges: claims at places drawn in all of them")
    verdicts: dict[str, list[bool | None]] = {judge.claim.id: [] for judge in judges}
    for start in range(0, len(drawn), _AT_ONCE):
        grids = [attrs.evolve(grid, options=options) for options in drawn[start : start + _AT_ONCE]]
        cases = [(judge, at) for at in grids for judge in judges]
        for (judge, _), holds in zip(cases, _verdicts(cases, answers), strict=True):
            verdicts[judge.claim.id].append(holds)
    return {
        claim: DrawnShare(sum(holds is True for holds in said), sum(holds is not None for holds in said))
        for claim, said in verdicts.items()
    }


def _verdicts(cases: Sequence[tuple[Judge, JudgingGrid]], answers: Answers) -> list[bool | None]:
    """Hear judges, all at once unless a run fails: then each half for itself, down to the judge that needs the run."""
    try:
        return [judgement.holds for judgement in hear_all(cases, answers)]
    except RunFailed:
        if len(cases) == 1:
            return [None]
        half = len(cases) // 2
        return [*_verdicts(cases[:half], answers), *_verdicts(cases[half:], answers)]


def describe_draws(drawn: Sequence[RunSpec], shares: Mapping[str, DrawnShare]) -> list[str]:
    """Say in sentences what was drawn, and in how much of the space claims hold."""
    if not drawn:
        return []
    ranges = f"{len(drawn[0].range_end)} entries of the machine and {len(drawn[0].inputs)} inputs of the programs"
    always = sum(0 < share.holds == share.judged for share in shares.values())
    never = sum(share.holds == 0 for share in shares.values())
    failed = [
        f"{claim} is judged in {share.judged} draws only: runs fail in the others"
        for claim, share in shares.items()
        if share.judged < len(drawn)
    ]
    partly = {claim: share for claim, share in shares.items() if 0 < share.holds < share.judged}
    drawn_of = f"{len(drawn)} draws (Sobol) of {ranges} together"
    return [
        f"{drawn_of}: {always} claims hold in all of them, {never} in none",
        *failed,
        *(f"{claim} holds in {share}" for claim, share in sorted(partly.items(), key=lambda item: item[1].holds)),
    ]


@attrs.define
class AnswersByTakenInputs:
    """Answers that know which inputs a run takes, and leave the others out of what it is asked for.

    Runs that take none of the inputs that were changed are then those of the machine as it stands, and made once.
    """

    answers: Answers
    _taken: dict[tuple[str, str], frozenset[str]] = attrs.field(factory=dict)
    _known: dict[str, Result] = attrs.field(factory=dict)

    def __call__(self, points: Sequence[Point]) -> list[Result]:
        """Answer the points, in order."""
        asked = [self._of_taken(point) for point in points]
        keys_of = Keys()
        keys = [keys_of.of(point) for point in asked]
        missing = {key: point for key, point in zip(keys, asked, strict=True) if key not in self._known}
        made = dict(zip(missing, self.answers(list(missing.values())), strict=True))
        for key, result in made.items():
            point = missing[key]
            if not point.options.inputs:
                self._taken[_program(point)] = frozenset(result.inputs)
                if not point.options.range_end:
                    self._known[key] = result
        return [self._known.get(key) or made[key] for key in keys]

    def _of_taken(self, point: Point) -> Point:
        taken = self._taken.get(_program(point))
        if taken is None or not point.options.inputs:
            return point
        inputs = {name: place for name, place in point.options.inputs.items() if name in taken}
        return attrs.evolve(point, options=attrs.evolve(point.options, inputs=inputs))


def _program(point: Point) -> tuple[str, str]:
    """Name what decides which inputs a run takes: its scenario and its parameters."""
    return point.scenario, repr(sorted(point.parameters.items()))


MATTERS = 0.02
"""An end of a range matters when it changes the time of a sensitivity run by more than this part."""
IDENTITY = frozenset({"driver.api", "driver.calls", "p2p.without_link", "pcie.peers", "usm.shared"})
"""Entries with choices that say which machine it is: another choice would be another machine."""
FAILING = "crashes"
"""A choice under which programs that meet it fail, so that nothing can be judged with it."""
CORNER = "all ranges together"
"""The entry that a verdict depends on when a corner turns it round."""


@attrs.frozen
class MachineVariant:
    """The machine with something changed: an end of an entry's range, another choice, or a candidate mechanism on."""

    key: str
    """The entry that a verdict then depends on."""
    text: str
    options: RunSpec
    least: float = MATTERS
    """How much it must change a sensitivity run to be judged, as a part of its time; 0 means by any amount."""
    always: bool = False
    """Whether it is judged without that: few runs take a program's input, and they are known."""


@attrs.frozen
class RangeEffects:
    """How verdicts depend on the variants of the machine."""

    turned: Mapping[str, list[MachineVariant]] = attrs.field(factory=dict)
    """The variants that turn a verdict round, by claim."""
    unlike: frozenset[str] = frozenset()
    """Claims whose verdict on the ranges' grid differs although nothing was changed: nothing can be said about them."""
    sentences: list[str] = attrs.field(factory=list)
    """Sentences that say what was run and what it shows."""
    shares: Mapping[str, DrawnShare] = attrs.field(factory=dict)
    """The share of all ranges' space in which each claim holds."""


def variants_of(
    spec: MachineSpec,
    candidates: Mapping[str, Mapping[str, str]],
    options: RunSpec | None = None,
    inputs: Mapping[str, InputRange] | None = None,
    uses: Collection[str] = (),
) -> list[MachineVariant]:
    """List both ends of every range and input, every other choice, each candidate, and the two corners of all ranges.

    They are changes to `options`; what the user set there is left as it is, and so is what says which
    machine it is. `uses`: entries of rarely used mechanisms that count all the same.
    """
    options = options or RunSpec()
    entries = {
        key: entry
        for key, entry in spec.entries.items()
        if may_matter(key, uses) and not entry.reference and key not in options.overrides and key not in IDENTITY
    }
    variants = []
    for key, entry in entries.items():
        if entry.is_range:
            variants += [_at(key, f"{key} = {end}", {key: end}, options) for end in ("low", "high")]
        others = [choice for choice in entry.choices if choice not in (entry.value, FAILING)]
        variants += [_with(key, {key: choice}, options) for choice in others]
    for key, overrides in candidates.items():
        if not overrides.keys() & options.overrides.keys():
            variants.append(_with(key, overrides, options))
    for end in ("low", "high"):
        ends = {key: end for key, entry in entries.items() if entry.is_range}
        variants.append(_at(CORNER, f"all ranges = {end}", ends, options))
    for name, range_ in (inputs or {}).items():
        for place, end in (
            (0.0, "low"),
            (range_.highest, "high" if range_.affordable is None else str(range_.affordable)),
        ):
            evolved = attrs.evolve(options, inputs={**options.inputs, name: place})
            variants.append(MachineVariant(name, f"{name} = {end}", evolved, always=True))
    return variants


def _at(key: str, text: str, ends: Mapping[str, str], options: RunSpec) -> MachineVariant:
    return MachineVariant(key, text, options.with_ends(ends))


def _with(key: str, overrides: Mapping[str, str], options: RunSpec) -> MachineVariant:
    text = ", ".join(f"{name} = {value}" for name, value in overrides.items())
    return MachineVariant(key, text, attrs.evolve(options, overrides={**options.overrides, **overrides}), least=0.0)


def range_effects(
    judges: Sequence[Judge],
    judgements: Mapping[str, Judgement],
    grid: JudgingGrid,
    variants: Sequence[MachineVariant],
    sensitivity: Sequence[SensitivityRun],
    stage: Callable[[str], Answers],
    drawn: Sequence[RunSpec] = (),
) -> RangeEffects:
    """Judge the claims again on `grid` with each of `variants` that matters, and at the places that were `drawn`.

    `judgements` are their verdicts as the machine stands. Claims that cannot be judged, and those that `grid` judges
    otherwise to begin with, are not judged with variants.
    """
    judged = _that_matter(variants, grid, sensitivity, stage("ranges: which entries matter"))
    answers = AnswersByTakenInputs(stage("ranges: claims with each of them changed"))
    nominal = hear([judge for judge in judges if judgements[judge.claim.id].holds is not None], grid, answers)
    too_small = [claim for claim, judgement in nominal.items() if judgement.holds is None]
    unlike = frozenset(claim for claim, judgement in nominal.items() if judgement.holds != judgements[claim].holds)
    again = [judge for judge in judges if judge.claim.id in nominal and judge.claim.id not in unlike]
    small = [judge for judge in again if all(point.options.record for point in next(judge(grid)))]
    turned: dict[str, list[MachineVariant]] = {judge.claim.id: [] for judge in again}
    for start in range(0, len(variants), _AT_ONCE):
        some = variants[start : start + _AT_ONCE]
        cases = [(variant, judge) for variant in some for judge in (again if variant in judged else small)]
        heard = hear_all([(judge, attrs.evolve(grid, options=variant.options)) for variant, judge in cases], answers)
        for (variant, judge), judgement in zip(cases, heard, strict=True):
            if judgement.holds != judgements[judge.claim.id].holds:
                turned[judge.claim.id].append(variant)
    left_out = [variant for variant in variants if variant not in judged]
    shares = shares_of(again, grid, drawn, stage)
    sentences = [
        *_sentences(grid, judged, left_out, len(small), turned, unlike.difference(too_small)),
        *([f"cannot be judged on the small grid: {', '.join(too_small)}"] if too_small else []),
        *describe_draws(drawn, shares),
    ]
    return RangeEffects(turned, unlike, sentences, shares)


def _that_matter(
    variants: Sequence[MachineVariant], grid: JudgingGrid, runs: Sequence[SensitivityRun], answers: Answers
) -> list[MachineVariant]:
    """Choose the variants that change a sensitivity run enough."""
    screened = [variant for variant in variants if not variant.always]
    grids = [grid, *(attrs.evolve(grid, options=variant.options) for variant in screened)]
    times = [result.elapsed_s for result in answers([point for at in grids for point in sensitivity_points(runs, at)])]
    rows = [times[start : start + len(runs)] for start in range(0, len(times), len(runs))]
    nominal, *others = rows
    matter = [
        variant
        for variant, changed in zip(screened, others, strict=True)
        if any(abs(new - old) > variant.least * old for new, old in zip(changed, nominal, strict=True))
    ]
    return [*matter, *(variant for variant in variants if variant.always)]


def _sentences(
    grid: JudgingGrid,
    judged: Sequence[MachineVariant],
    left_out: Sequence[MachineVariant],
    small: int,
    turned: Mapping[str, Sequence[MachineVariant]],
    unlike: frozenset[str],
) -> list[str]:
    tried = "one change at a time, and all ranges of the machine at one end together"
    least = f"ends that change no sensitivity run by more than {MATTERS:.0%}, and choices that change none at all"
    sentences = [
        f"on the small grid ({grid.described}): {tried}",
        f"judged with {len(judged)} changes: {_listed(judged)}",
        f"only the {small} claims on small recorded runs were judged with {least} ({len(left_out)}): "
        + (_listed(left_out) or "none"),
    ]
    firm = [claim for claim, variants in turned.items() if not variants]
    sentences.append(f"{len(firm)} of {len(turned)} verdicts are the same with every change")
    for claim, variants in turned.items():
        if variants:
            sentences.append(f"{claim} is turned round by {len(variants)}: {_listed(variants)}")
    if unlike:
        sentences.append(
            f"not tried, as the small grid judges them otherwise to begin with: {', '.join(sorted(unlike))}"
        )
    return sentences


def _listed(variants: Sequence[MachineVariant]) -> str:
    return "; ".join(variant.text for variant in variants)
