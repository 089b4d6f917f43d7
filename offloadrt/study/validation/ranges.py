"""How verdicts depend on ranges, of a machine's entries and of programs' inputs: `offloadrt validate --ranges`.

Two steps keep it to minutes. *Screening*: every variant of the machine makes a few short runs; an end of a range that
changes none of them by more than `MATTERS` is left out, and so is a choice that changes nothing at all. *Judging*: with
each variant that is left, one at a time, the claims are judged on the grid `ends`, which has fewer places than the full
one. Claims on small recorded runs are judged with every variant, and all claims with both ends of a program's input:
runs that do not take the input are those of the machine as it stands. Two variants have all ranges of the machine at
one end together; other places of several ranges at a time are drawn (`draws.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import attrs

from offloadrt.machine import MachineSpec
from offloadrt.study.input_range import InputRange
from offloadrt.study.spec import RunSpec
from offloadrt.study.validation.draws import AnswersByTakenInputs, DrawnShare, describe_draws, shares_of
from offloadrt.study.validation.judging import Answers, Judge, Judgement, JudgingGrid, hear, hear_all
from offloadrt.study.validation.paper import SensitivityRun, may_matter, sensitivity_points

MATTERS = 0.02
"""An end of a range matters when it changes the time of a sensitivity run by more than this part."""
IDENTITY = frozenset({"driver.api", "driver.calls", "p2p.without_link", "pcie.peers", "usm.shared"})
"""Entries with choices that say which machine it is: another choice would be another machine."""
FAILING = "crashes"
"""A choice under which programs that meet it fail, so that nothing can be judged with it."""
CORNER = "all ranges together"
"""The entry that a verdict depends on when a corner turns it round."""
_AT_ONCE = 8
"""Variants whose runs are made together; their results, with every event of the recorded ones, are then let go."""


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
