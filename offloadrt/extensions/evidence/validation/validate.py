"""`offloadrt validate`: what a paper reports, what the emulator says, and the verdict. No claim is hidden.

A verdict is *holds*, *fails*, *depends on NAME* (another end of an entry's range, or another choice, turns it
round) or *not applicable*. It is about a mechanism, a shape or a magnitude, which are counted apart; one that cannot
fail is not counted. What the ranges do is in `ranges.py`.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any, get_args

import attrs
import msgspec
from rich.console import RenderableType
from rich.markup import escape

from offloadrt.cli.render import table_of
from offloadrt.extensions.evidence.validation.claims import Claim, JudgedKind
from offloadrt.extensions.evidence.validation.judging import (
    Answers,
    Extent,
    Judgement,
    Paper,
    RunFailed,
    hear,
    may_matter,
    sensitivity_points,
)
from offloadrt.extensions.evidence.validation.ranges import MachineVariant, RangeEffects, range_effects, variants_of
from offloadrt.machine import MachineSpec
from offloadrt.study.errors import UserError
from offloadrt.study.inputs import DRAWS, draws_of
from offloadrt.study.reporting.results import Result
from offloadrt.study.reporting.words import where
from offloadrt.study.running import profiles
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import Point, SweepOutcome, sweep

_DECIDING = (
    "id", "role", "kind", "judged_as", "value", "lo", "hi", "at_least", "at_most", "more_than", "less_than", "given",
)  # fmt: skip
"""Fields of a claim that decide its verdict, or where it is counted."""


def digest_of(paper: Paper, options: RunSpec, answers: Answers) -> str:
    """Return a digest of what a report's verdicts rest on, so that a stored report shows when it is out of date.

    It covers the numbers and choices of the machine's profile, what decides each claim, the code of the judges and
    probes, and what the paper's sensitivity runs give: they are short, and an entry or a mechanism that matters changes
    them. Sources, quotations, comments, docstrings and the wording of reasons are left out, so that no text makes a
    report stale; imports and the order of definitions as well, so that code may move.
    """
    runtime, machine = options.runtime, options.machine or paper.machine
    facts = [
        [_of_machine(profiles.load(name, runtime=runtime), paper.uses) for name in paper.other_machines],
        _of_machine(profiles.load(machine, options.overrides, runtime=runtime), paper.uses),
        [_of_claim(claim) for claim in paper.bench.claims.values()],
        sorted(code for file in _judging(paper) for code in _of_code(file.read_text(encoding="utf-8"))),
        [_of_run(result) for result in answers(sensitivity_points(paper.sensitivity, paper.grid("ends", options)))],
    ]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def _of_machine(spec: MachineSpec, uses: Collection[str]) -> Any:
    entries = {key: entry for key, entry in spec.entries.items() if may_matter(key, uses) and not entry.reference}
    return [
        spec.name,
        spec.runtime,
        {key: [entry.value, entry.low, entry.high, entry.choices] for key, entry in entries.items()},
    ]


def _of_claim(claim: Claim) -> Any:
    return {name: getattr(claim, name) for name in _DECIDING}


def _judging(paper: Paper) -> list[Path]:
    """List the files of the judges, which say where these look, and the probes that lie beside them.

    Of what several papers share, in this package, it is the file of the judge, and what all judges judge by.
    """
    functions = (judge.function for judge in paper.bench.judges.values())
    of_judges = {Path(inspect.getfile(one.func if isinstance(one, partial) else one)) for one in functions}
    here = Path(__file__).parent
    shared = {file for file in of_judges if file.parent == here} | {here / "judging.py"}
    probes = {file.with_name("probes.py") for file in of_judges - shared}
    return sorted(of_judges | shared | {file for file in probes if file.exists()})


def _of_code(source: str) -> list[str]:
    """Return the statements of a module without sentences and imports: what moves to another file stays the same."""
    imports = (ast.Import, ast.ImportFrom)
    body = [
        statement
        for statement in ast.parse(source).body
        if not isinstance(statement, imports) and not (isinstance(statement, ast.If) and _is_typing(statement))
    ]
    return [code for statement in body if (code := ast.unparse(_WithoutWords().visit(statement))) != "''"]


def _is_typing(statement: ast.If) -> bool:
    return isinstance(statement.test, ast.Name) and statement.test.id == "TYPE_CHECKING"


_TAKES_WORDS = ("Reading", "Judgement", "unless", "append", "join")
"""Functions whose arguments are sentences."""


class _WithoutWords(ast.NodeTransformer):
    """Leaves out sentences: texts with a blank, but for those that choose something.

    Such are keys, what is matched or compared, and arguments of functions that take no sentence. Of a text with values
    in it the values stay.
    """

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return ast.Constant("") if isinstance(node.value, str) and " " in node.value else node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        values = [value.value for value in node.values if isinstance(value, ast.FormattedValue)]
        return ast.Tuple([self.visit(value) for value in values])

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        node.value = self.visit(node.value)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if isinstance(node.func, ast.Attribute | ast.Name):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            if name not in _TAKES_WORDS:
                node.func = self.visit(node.func)
                node.args = [one if isinstance(one, ast.Constant) else self.visit(one) for one in node.args]
                node.keywords = [self.visit(one) for one in node.keywords]
                return node
        self.generic_visit(node)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        return node

    def visit_MatchValue(self, node: ast.MatchValue) -> ast.pattern:
        return node


def _of_run(result: Result) -> Any:
    calls = {name: call.count for name, call in result.calls.items()}
    return [result.elapsed_s, result.events, calls, result.inputs]


Advanced = Callable[[str, int, int], None]
"""Called with each run: what the runs are for, how many of them are made, and how many are asked for so far."""


@attrs.frozen
class Finding:
    """One claim and what became of it."""

    claim: str
    reported: str
    emulated: str
    expression: str
    verdict: str
    reason: str = ""
    role: str = "predict"
    """`predict`, or `calibrate`: a figure that a parameter may be fitted to, so that its verdict proves nothing."""
    kind: JudgedKind = "mechanism"
    """What the verdict is about."""
    fails_if: str = ""
    """What makes it fail."""
    by_construction: str = ""
    """Why it holds whatever the emulator does; empty when it may fail, or has."""
    cause: str = ""
    """Why it fails: the mechanism that is missing, or the reason to accept it."""
    share: str = ""
    """In how many draws of all ranges it holds; empty without `ranges`."""


@attrs.frozen
class StructuralInput:
    """A number of the paper's programs, which was put in, beside what is emulated."""

    claim: str
    reported: str
    emulated: str
    difference: str


@attrs.frozen
class ValidationRecord:
    """A report as `validate --json` prints it, with its counts by verdict."""

    paper: str
    machine: str
    note: str
    findings: list[Finding]
    overrides: Mapping[str, str]
    ranges: list[str]
    runtime: str
    inputs: list[StructuralInput]
    digest: str
    counts: dict[str, int]
    counts_by_role: dict[str, dict[str, int]]
    counts_by_kind: dict[str, dict[str, int]]


@attrs.frozen
class ValidationReport:
    """All claims of a paper of role `predict`, and those of role `calibrate` that have a judge, in its order."""

    paper: str
    machine: str
    note: str
    """A sentence that says how much was run."""
    findings: list[Finding]
    overrides: Mapping[str, str] = attrs.field(factory=dict)
    """Entries of the machine that the user set."""
    ranges: list[str] = attrs.field(factory=list)
    """What the ranges were tried with, and what they show, in sentences; empty without `ranges`."""
    runtime: str = ""
    """The profile of the offloading runtime."""
    inputs: list[StructuralInput] = attrs.field(factory=list)
    """Numbers of the programs that the paper reports and that were put in: kernels, executions, bytes."""
    digest: str = ""
    """A digest of what the verdicts rest on (`digest_of`)."""

    def counts(self, role: str | None = None, kind: JudgedKind | None = None) -> dict[str, int]:
        """Count the claims by verdict, of one role and one kind or of all.

        All that depend on something are one verdict. A verdict that cannot fail is not counted.
        """
        counts = dict.fromkeys(("holds", "depends", "fails", "not applicable"), 0)
        for finding in self.findings:
            verdict = "depends" if finding.verdict.startswith("depends on") else finding.verdict.partition(":")[0]
            counts[verdict] += (
                not finding.by_construction and role in (None, finding.role) and kind in (None, finding.kind)
            )
        return {verdict: count for verdict, count in counts.items() if count}

    def counts_by_role(self) -> dict[str, dict[str, int]]:
        """Count the claims by verdict for each role that there is."""
        return {role: self.counts(role) for role in sorted({finding.role for finding in self.findings}, reverse=True)}

    def counts_by_kind(self) -> dict[str, dict[str, int]]:
        """Count the claims of role `predict` by verdict for each kind, and those that hold by construction."""
        by_construction = sum(bool(finding.by_construction) for finding in self.findings)
        return {
            **{f"{kind}s": self.counts("predict", kind) for kind in get_args(JudgedKind)},
            **({"by construction, not counted": {"holds": by_construction}} if by_construction else {}),
        }

    def to_json(self) -> bytes:
        """Encode the report as one JSON object."""
        return msgspec.json.encode(
            ValidationRecord(
                **attrs.asdict(self, recurse=False),
                counts=self.counts(),
                counts_by_role=self.counts_by_role(),
                counts_by_kind=self.counts_by_kind(),
            )
        )


def validate(
    paper: Paper,
    pool: Executor,
    *,
    jobs: int = 1,
    quick: bool = False,
    ranges: bool = False,
    machine: str | None = None,
    runtime: str | None = None,
    overrides: Mapping[str, str] | None = None,
    file: Path | None = None,
    draws: int = DRAWS,
    advanced: Advanced | None = None,
) -> ValidationReport:
    """Judge every claim of `paper`, with the runs on `pool`.

    `quick` makes fewer runs; `ranges` does as well, and judges again with each entry that matters changed, and at
    `draws` places of all ranges together. `file` keeps finished runs: the same validation takes them from there.
    `machine` is the machine that the claims are about (the default), or a file of the user's that is based on it;
    `runtime` is the one that the paper's programs were built for, or another. `overrides` replaces entries of the
    machine, which then stay as they are when `ranges` tries the others.

    Raises UserError for a machine that the claims say nothing about, and for an override that does not fit; RunFailed
    when a run that a judge asks for fails, unless that is at a place that was drawn: there its claims are not judged.
    """
    bench = paper.bench
    claims = [claim for claim in bench.claims.values() if claim.role == "predict" or claim.id in bench.judges]
    options = RunSpec(machine=machine, runtime=runtime or paper.runtime, overrides=dict(overrides or {}))
    spec = profiles.load(machine or paper.machine, overrides, runtime=options.runtime)
    if machine is not None and not profiles.is_based_on(machine, paper.machine):
        raise UserError(
            f"--machine {machine}: the claims of {paper.name} are about {paper.machine} "
            f"({profiles.load(paper.machine).title}), and {spec.name} is another machine; "
            f'give a file with base = "{paper.machine}", or change entries with --set'
        )
    judges = [bench.judges[claim.id] for claim in claims]
    extent: Extent = "quick" if quick or ranges else "full"
    grid = paper.grid(extent, options)
    runs = _Runs(pool, jobs, advanced, file)
    digest = digest_of(paper, options, runs.stage("digest"))
    judgements = hear([*judges, *bench.checks.values()], grid, runs.stage(f"{extent} grid"))
    inputs = [
        StructuralInput(id, check.claim.reported, judgements[id].emulated, judgements[id].reason)
        for id, check in bench.checks.items()
    ]
    how = "the full grid" if extent == "full" else "quick: fewer thread counts and batches, and less work"
    note = f"{how} ({grid.described}); {runs.made} runs"
    effects = RangeEffects()
    if ranges:
        small = paper.grid("ends", options)
        variants = variants_of(spec, paper.candidates, options, paper.inputs, paper.uses)
        drawn = draws_of(spec, paper.inputs, options, draws)
        effects = range_effects(judges, judgements, small, variants, paper.sensitivity, runs.stage, drawn)
    findings = []
    for claim in claims:
        judgement, turned = judgements[claim.id], effects.turned.get(claim.id, [])
        reason = _reason(judgement, turned, claim.id in effects.unlike)
        finding = _finding(claim, judgement.emulated, _verdict(judgement, turned), reason, judgement.holds)
        share = effects.shares.get(claim.id)
        findings.append(finding if share is None else attrs.evolve(finding, share=str(share)))
    return ValidationReport(
        paper.name, spec.name, note, findings, options.overrides, effects.sentences, spec.runtime, inputs, digest
    )


def _finding(claim: Claim, emulated: str, verdict: str, reason: str, holds: bool | None) -> Finding:
    return Finding(
        claim.id,
        claim.reported,
        emulated,
        claim.evaluated,
        verdict,
        reason,
        claim.role,
        claim.judged_kind,
        claim.failing,
        claim.by_construction if verdict == "holds" else "",
        claim.cause if holds is False else "",
    )


def _verdict(judgement: Judgement, turned: Sequence[MachineVariant]) -> str:
    if judgement.holds is None:
        return f"not applicable: {judgement.reason}"
    if turned:
        return "depends on " + ", ".join(dict.fromkeys(variant.key for variant in turned))
    return "holds" if judgement.holds else "fails"


def _reason(judgement: Judgement, turned: Sequence[MachineVariant], unlike: bool = False) -> str:
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


@attrs.define
class _Runs:
    """Makes runs for the judges on an executor."""

    pool: Executor
    jobs: int
    advanced: Advanced | None
    file: Path | None = None
    made: int = 0

    def stage(self, name: str) -> Callable[[Sequence[Point]], list[Result]]:
        """Make the answers for one part of the work, whose name goes with each progress report."""
        asked = finished = 0

        def tell(outcome: SweepOutcome) -> None:
            if self.advanced is not None:
                self.advanced(name, finished + len(outcome.finished), asked)

        def answers(points: Sequence[Point]) -> list[Result]:
            nonlocal asked, finished
            asked += len(points)
            outcome = sweep(points, self.pool, jobs=self.jobs, file=self.file, advanced=tell)
            if outcome.failures:
                failure = outcome.failures[0]
                raise RunFailed(
                    f"validate: {failure.point.scenario} {dict(failure.point.parameters)}: {failure.message}"
                )
            finished += len(points)
            self.made += len(points)
            return outcome.finished

        return answers


def validation(report: ValidationReport) -> Iterable[RenderableType]:
    """List every claim with what was reported, what the emulator says, and the verdict; then the reasons."""
    overrides = "".join(f", {key} = {value}" for key, value in report.overrides.items())
    yield f"[bold]{report.paper}[/] on {escape(where(report) + overrides)}: {report.note}"
    yield f"digest of machines, claims and short runs: {report.digest}"
    table = table_of("", "claim", "about a", "reported", "emulated", "verdict")
    table.columns[0].no_wrap = True
    for finding in report.findings:
        claim = finding.claim.removeprefix(f"{report.paper}.")
        verdict = finding.verdict.partition(":")[0]
        if verdict.count(",") > 2:
            verdict = f"depends on {verdict.count(',') + 1} entries"
        verdict += " (by construction)" if finding.by_construction else ""
        verdict += "" if finding.role == "predict" else f" ({finding.role})"
        table.add_row(claim, finding.kind, escape(finding.reported), escape(finding.emulated), escape(verdict))
    yield table
    yield ""
    for finding in report.findings:
        yield f"[bold]{finding.claim}[/]: {escape(finding.verdict)}"
        yield f"    evaluated: {escape(finding.expression)}"
        details = {
            "fails if": finding.fails_if,
            "because": finding.reason,
            "cause": finding.cause,
            "holds in": finding.share,
            "by construction": finding.by_construction,
        }
        yield from (f"    {name}: {escape(text)}" for name, text in details.items() if text)
    if report.inputs:
        table = table_of(
            "\ninputs of the programs, beside what is emulated", "claim", "reported", "emulated", "difference"
        )
        for put_in in report.inputs:
            claim = put_in.claim.removeprefix(f"{report.paper}.")
            table.add_row(claim, escape(put_in.reported), put_in.emulated, put_in.difference)
        yield table
    if report.ranges:
        yield "\n[bold]ranges[/]"
        yield from (f"  {escape(sentence)}" for sentence in report.ranges)
    yield f"\n{len(report.findings)} claims: {_tallied(report.counts())}"
    for kind, counts in report.counts_by_kind().items():
        if counts:
            yield f"  {sum(counts.values())} {kind}: {_tallied(counts)}"
    if len(roles := report.counts_by_role()) > 1:
        for role, counts in roles.items():
            yield f"  {sum(counts.values())} of role {role}: {_tallied(counts)}"


def _tallied(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{verdict}: {count}" for verdict, count in counts.items())
