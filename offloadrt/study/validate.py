"""`offloadrt validate`: what a paper reports, what the emulator says, and the verdict. No claim is hidden.

A verdict is *holds*, *fails*, *depends on NAME* (another end of an entry's range, or another choice, turns it
round) or *not applicable*.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor

import attrs
import msgspec

from offloadrt.machine import MachineSpec
from offloadrt.study import profiles
from offloadrt.study.claims import claims_of
from offloadrt.study.errors import UserError
from offloadrt.study.judging import Bench, Grid, Judgement, hear
from offloadrt.study.parameters import Value
from offloadrt.study.points import Options, Point
from offloadrt.study.results import Result
from offloadrt.study.sweep import Outcome, sweep

MATTERS = 0.01
"""An entry matters when an end of its range changes a sensitivity run by more than this part."""


@attrs.frozen
class Finding:
    """One claim and what became of it."""

    claim: str
    reported: str
    emulated: str
    expression: str
    verdict: str
    reason: str = ""


@attrs.frozen
class Report:
    """All claims of a paper of role `predict`, in the order of the paper."""

    paper: str
    machine: str
    note: str
    """How much was run."""
    findings: list[Finding]

    def counts(self) -> dict[str, int]:
        """How many claims have each verdict; all that depend on something are one."""
        counts = dict.fromkeys(("holds", "depends", "fails", "not applicable"), 0)
        for finding in self.findings:
            kind = "depends" if finding.verdict.startswith("depends on") else finding.verdict.partition(":")[0]
            counts[kind] += 1
        return {kind: count for kind, count in counts.items() if count}

    def to_json(self) -> bytes:
        """One JSON object."""
        return msgspec.json.encode({**msgspec.to_builtins(self), "counts": self.counts()})


@attrs.frozen
class Variant:
    """The machine with something changed: an end of an entry's range, another choice, or a candidate mechanism on."""

    key: str
    """The entry that a verdict then depends on."""
    text: str
    options: Options


def variants_of(spec: MachineSpec, candidates: Mapping[str, Mapping[str, str]]) -> list[Variant]:
    """Both ends of every range, every other choice, and each candidate: overrides by the entry that stands for it."""
    found = []
    for key, entry in spec.entries.items():
        if entry.reference:
            continue
        if entry.is_range:
            found += [Variant(key, f"{key} = {end}", Options(range_end={key: end})) for end in ("low", "high")]
        others = [choice for choice in entry.choices if choice != entry.value]
        found += [Variant(key, f"{key} = {choice}", Options(overrides={key: choice})) for choice in others]
    for key, overrides in candidates.items():
        text = ", ".join(f"{name} = {value}" for name, value in overrides.items())
        found.append(Variant(key, text, Options(overrides=overrides)))
    return found


def validate(
    paper: str,
    pool: Executor,
    *,
    jobs: int = 1,
    quick: bool = False,
    ranges: bool = False,
    advanced: Callable[[Outcome], None] | None = None,
) -> Report:
    """Judges every claim of `paper`, the runs on `pool`; with `ranges`, also with each entry that matters changed.

    Raises UserError for an unknown paper, or when a run that a judge asks for fails.
    """
    claims = [claim for claim in claims_of(paper) if claim.role == "predict"]
    module = importlib.import_module(f"offloadrt.study.claims.{paper}")
    bench: Bench = module.bench
    judges = [bench.judges[claim.id] for claim in claims]
    runs = _Runs(pool, jobs, advanced)
    said = hear(judges, module.grid("quick" if quick else "full", Options()), runs)
    turned: dict[str, list[Variant]] = {claim.id: [] for claim in claims}
    unlike: set[str] = set()
    if ranges:
        small = module.grid("ends", Options())
        nominal = hear(judges, small, runs)
        unlike = {claim for claim, judgement in nominal.items() if judgement.holds != said[claim].holds}
        variants = variants_of(profiles.load(module.MACHINE), module.CANDIDATES)
        for variant in _that_matter(variants, small, module.SENSITIVITY, runs):
            for claim, judgement in hear(judges, attrs.evolve(small, options=variant.options), runs).items():
                if judgement.holds != nominal[claim].holds and nominal[claim].holds == said[claim].holds:
                    turned[claim].append(variant)
    findings = [
        Finding(
            claim.id,
            claim.reported,
            said[claim.id].emulated,
            bench.judges[claim.id].expression,
            _verdict(said[claim.id], turned[claim.id]),
            _reason(said[claim.id], turned[claim.id], claim.id in unlike),
        )
        for claim in claims
    ]
    return Report(paper, module.MACHINE, _note(quick, ranges, runs.made), findings)


def _verdict(judgement: Judgement, turned: Sequence[Variant]) -> str:
    if judgement.holds is None:
        return f"not applicable: {judgement.reason}"
    if turned:
        return "depends on " + ", ".join(dict.fromkeys(variant.key for variant in turned))
    return "holds" if judgement.holds else "fails"


def _reason(judgement: Judgement, turned: Sequence[Variant], unlike: bool = False) -> str:
    if judgement.holds is None:
        return ""
    parts = [judgement.reason] if not judgement.holds else []
    if turned:
        stands = "holds" if judgement.holds else "fails"
        parts.append(f"{stands} as the profile stands, the other way round with {'; '.join(v.text for v in turned)}")
    if unlike:
        parts.append(
            "the ranges say nothing about it: on their smaller grid the claim comes out otherwise to begin with"
        )
    return ". ".join(part for part in parts if part)


def _note(quick: bool, ranges: bool, made: int) -> str:
    extent = "quick: fewer thread counts and batches, and less work" if quick else "the full grid"
    ends = (
        "; both ends of every range that matters, other choices and candidate mechanisms (on a smaller grid)"
        if ranges
        else ""
    )
    return f"{extent}{ends}; {made} runs"


def _that_matter(
    variants: Sequence[Variant], grid: Grid, parameters: Sequence[Mapping[str, Value]], runs: _Runs
) -> list[Variant]:
    """The variants that change a sensitivity run."""
    grids = [grid, *(attrs.evolve(grid, options=variant.options) for variant in variants)]
    times = [result.elapsed_s for result in runs([one.point(place) for one in grids for place in parameters])]
    nominal, *others = _rows(times, len(parameters))
    return [
        variant
        for variant, changed in zip(variants, others, strict=True)
        if any(abs(new - old) > MATTERS * old for new, old in zip(changed, nominal, strict=True))
    ]


def _rows(values: Sequence[float], width: int) -> list[Sequence[float]]:
    return [values[start : start + width] for start in range(0, len(values), width)]


@attrs.define
class _Runs:
    """Makes runs for the judges on an executor."""

    pool: Executor
    jobs: int
    advanced: Callable[[Outcome], None] | None
    made: int = 0

    def __call__(self, points: Sequence[Point]) -> list[Result]:
        outcome = sweep(points, self.pool, jobs=self.jobs, advanced=self.advanced)
        if outcome.failures:
            failure = outcome.failures[0]
            raise UserError(f"validate: {failure.point.scenario} {dict(failure.point.parameters)}: {failure.message}")
        self.made += len(points)
        return outcome.finished
