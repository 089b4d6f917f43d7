"""`offloadrt validate`: what a paper reports, what the emulator says, and the verdict. No claim is hidden.

A verdict is *holds*, *fails*, *depends on NAME* (another end of an entry's range, or another choice, turns it
round) or *not applicable*.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any

import attrs
import msgspec

from offloadrt.study import profiles
from offloadrt.study.claims import claims_of
from offloadrt.study.errors import UserError
from offloadrt.study.judging import Bench, Grid, Judgement, hear
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
        counts: dict[str, int] = {}
        for finding in self.findings:
            kind = "depends" if finding.verdict.startswith("depends on") else finding.verdict.partition(":")[0]
            counts[kind] = counts.get(kind, 0) + 1
        return counts

    def to_json(self) -> bytes:
        """One JSON object."""
        return msgspec.json.encode({**msgspec.to_builtins(self), "counts": self.counts()})


@attrs.frozen
class Variant:
    """The machine with one entry changed: an end of its range, or another choice."""

    key: str
    value: str

    def options(self, spec: Any) -> Options:
        """Runs on this variant."""
        if spec.entries[self.key].is_range:
            return Options(range_end={self.key: self.value})
        return Options(overrides={self.key: self.value})


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
    said = hear(judges, module.grid(quick, Options()), runs)
    turned: dict[str, list[str]] = {claim.id: [] for claim in claims}
    if ranges:
        spec = profiles.load(module.MACHINE)
        nominal = said if quick else hear(judges, module.grid(True, Options()), runs)
        for variant in _that_matter(spec, module.grid(True, Options()), module.SENSITIVITY, runs):
            for claim, judgement in hear(judges, module.grid(True, variant.options(spec)), runs).items():
                if judgement.holds != nominal[claim].holds:
                    turned[claim].append(f"{variant.key} = {variant.value}")
    findings = [
        Finding(
            claim.id,
            claim.reported,
            said[claim.id].emulated,
            bench.judges[claim.id].expression,
            _verdict(said[claim.id], turned[claim.id]),
            _reason(said[claim.id], turned[claim.id]),
        )
        for claim in claims
    ]
    return Report(paper, module.MACHINE, _note(quick, ranges, runs.made), findings)


def _verdict(judgement: Judgement, turned: Sequence[str]) -> str:
    if judgement.holds is None:
        return f"not applicable: {judgement.reason}"
    if turned:
        return "depends on " + ", ".join(dict.fromkeys(name.partition(" = ")[0] for name in turned))
    return "holds" if judgement.holds else "fails"


def _reason(judgement: Judgement, turned: Sequence[str]) -> str:
    if judgement.holds is None:
        return ""
    parts = [judgement.reason] if not judgement.holds else []
    if turned:
        parts.append(
            f"{'holds' if judgement.holds else 'fails'} as the profile stands, "
            f"the other way round with {'; '.join(turned)}"
        )
    return ". ".join(part for part in parts if part)


def _note(quick: bool, ranges: bool, made: int) -> str:
    extent = "quick: fewer thread counts and batches, and a quarter of the work" if quick else "the full grid"
    ends = "; both ends of every range that matters and every other choice (on the quick grid)" if ranges else ""
    return f"{extent}{ends}; {made} runs"


def _that_matter(spec: Any, grid: Grid, parameters: Sequence[Any], runs: _Runs) -> list[Variant]:
    """The variants of the machine that change a sensitivity run."""
    variants = []
    for key, entry in spec.entries.items():
        if entry.reference:
            continue
        if entry.is_range:
            variants += [Variant(key, "low"), Variant(key, "high")]
        else:
            variants += [Variant(key, choice) for choice in entry.choices if choice != entry.value]
    nominal = runs([grid.point(place) for place in parameters])
    points = [
        attrs.evolve(grid, options=variant.options(spec)).point(place) for variant in variants for place in parameters
    ]
    results = runs(points)
    found = []
    for number, variant in enumerate(variants):
        changed = results[number * len(nominal) : (number + 1) * len(nominal)]
        if any(
            abs(new.elapsed_s - old.elapsed_s) > MATTERS * old.elapsed_s
            for new, old in zip(changed, nominal, strict=True)
        ):
            found.append(variant)
    return found


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
