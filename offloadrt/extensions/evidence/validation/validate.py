"""`offloadrt validate`: what a paper reports, what the emulator computes, and the verdict. No claim is hidden.

A verdict is *holds*, *fails*, *depends on NAME* (another end of an entry's range, or another choice, turns it
round) or *not applicable*. It is about a mechanism, a shape or a magnitude, which are counted apart; one that cannot
fail is not counted.

With `--ranges` it says how verdicts depend on ranges, of a machine's entries and of programs' inputs.
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

import ast
import hashlib
import importlib.resources
import inspect
import json
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any, get_args

import attrs
import msgspec
from rich.console import RenderableType
from rich.markup import escape

from offloadrt import machine as machines
from offloadrt.cli.render import table_of
from offloadrt.extensions.evidence.validation.claims import JudgedKind
from offloadrt.extensions.evidence.validation.judging import (
    Answers,
    Extent,
    InputCheck,
    Judge,
    Judgement,
    JudgingGrid,
    Paper,
    RunFailed,
    SensitivityRun,
    draws_of,
    hear,
    hear_all,
    may_matter,
    sensitivity_points,
)
from offloadrt.machine import MachineSpec
from offloadrt.registry import regular
from offloadrt.study.certainty import MOST as DRAWS
from offloadrt.study.errors import UserError
from offloadrt.study.inputs import InputRange
from offloadrt.study.reporting.results import Result
from offloadrt.study.reporting.words import where
from offloadrt.study.running import profiles
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import Keys, Point, SweepOutcome, sweep

_AT_ONCE = 8
"""So many draws, or variants of the machine, are judged together; then their results are dropped."""


@attrs.frozen
class DrawnShare:
    """In how many random samples of the uncertain values (draws) a claim `holds`, and in how many it could be `judged`.

    It cannot be judged in a draw in which a run that it needs ends with an error.
    """

    holds: int
    judged: int

    def __str__(self) -> str:
        return f"{self.holds} of {self.judged} draws"


def shares_of(
    judges: Sequence[Judge], grid: JudgingGrid, drawn: Sequence[RunSpec], stage: Callable[[str], Answers]
) -> dict[str, DrawnShare]:
    """Judge the claims once for each random sample of the uncertain values; return in how many each one holds.

    judges: one for each claim. drawn: the samples, as options. stage: gets a title, returns a function that makes runs.
    """
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
    """Return whether each claim holds. If a run fails, halve the cases until its judge is alone: None for that one."""
    try:
        return [judgement.holds for judgement in hear_all(cases, answers)]
    except RunFailed:
        if len(cases) == 1:
            return [None]
        half = len(cases) // 2
        return [*_verdicts(cases[:half], answers), *_verdicts(cases[half:], answers)]


def describe_draws(drawn: Sequence[RunSpec], shares: Mapping[str, DrawnShare]) -> list[str]:
    """Return sentences about the random samples (`drawn`), and in how many of them claims hold (`shares`)."""
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
    """Makes runs by `answers`, a function from runs to results, and makes no run twice.

    Runs that differ only in inputs (numbers that no paper states) which their program does not use count as equal.
    """

    answers: Answers
    _taken: dict[tuple[str, str], frozenset[str]] = attrs.field(factory=dict)
    _known: dict[str, Result] = attrs.field(factory=dict)

    def __call__(self, points: Sequence[Point]) -> list[Result]:
        """Return the results of the points, in order."""
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
    """Return a key of what decides which inputs a run takes: its scenario and its parameters."""
    return point.scenario, repr(sorted(point.parameters.items()))


MATTERS = 0.02
"""An end of a range matters if it changes the time of a sensitivity run by more than this fraction."""
IDENTITY = frozenset({"driver.api", "driver.calls", "p2p.without_link", "pcie.peers", "usm.shared"})
"""Entries with choices that say which machine it is: another choice would be another machine."""
FAILING = "crashes"
"""A choice of an entry with which programs that use the mechanism fail; so nothing is judged with it."""
CORNER = "all ranges together"
"""The name of an entry for verdicts that change if all ranges are at the same end."""


@attrs.frozen
class MachineVariant:
    """A machine with one change (`text`, made by `options`): an end of a range, another choice, or a mechanism."""

    key: str
    """The name of the changed entry: a verdict that changes with this variant is said to depend on it."""
    text: str
    options: RunSpec
    least: float = MATTERS
    """The variant is judged only if it changes the time of a sensitivity run by more than this fraction."""
    always: bool = False
    """Whether it is judged in any case, as both ends of a program's input are, because few runs take the input."""


@attrs.frozen
class RangeEffects:
    """Says which verdicts change when one cost or choice of the machine is changed (a `MachineVariant`)."""

    turned: Mapping[str, list[MachineVariant]] = attrs.field(factory=dict)
    """By claim: the variants that change its verdict."""
    unlike: frozenset[str] = frozenset()
    """Claims whose verdict differs on the small grid even without a change: variants show nothing about them."""
    sentences: list[str] = attrs.field(factory=list)
    """Sentences about what was run and what it shows."""
    shares: Mapping[str, DrawnShare] = attrs.field(factory=dict)
    """By claim: in how many draws of all ranges it holds."""


def variants_of(
    spec: MachineSpec,
    candidates: Mapping[str, Mapping[str, str]],
    options: RunSpec | None = None,
    inputs: Mapping[str, InputRange] | None = None,
    uses: Collection[str] = (),
) -> list[MachineVariant]:
    """List the changes of a machine to try: both ends of every range and input, every other choice, each candidate.

    The two corners (all ranges at the low end, all at the high end) come last. Each change is made to `options`.
    Entries that the user set there are left as they are, and so are those that say which machine it is (`IDENTITY`).
    candidates: by entry, overrides that switch on a mechanism which the machine may have. uses: entries of
    `RARELY_USED` groups that are included all the same.
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
    """Judge the claims again with changed machines, to find verdicts that depend on an uncertain entry.

    This is done on the small `grid`: with each of `variants` that changes the times of the `sensitivity` runs, and with
    each random sample in `drawn`. judgements: by claim, the verdicts with the unchanged machine. Left out are claims
    that cannot be judged or have another verdict on `grid`. stage: gets a title, returns what makes runs.
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
    """Return the variants that change a sensitivity run by more than their `least`, and those with `always`."""
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


_DECIDING = (
    "id", "role", "kind", "judged_as", "value", "lo", "hi", "at_least", "at_most", "more_than", "less_than", "given",
)  # fmt: skip
"""Fields of a claim that decide its verdict, or in which group it is counted."""


def digest_of(paper: Paper, options: RunSpec, answers: Answers) -> str:
    """Return a hash of what the verdicts of a report depend on; a stored report with another hash is out of date.

    It covers the numbers and choices of the machine's profile, the fields that decide each claim, the code of judges
    and probes, and the results of the paper's short sensitivity runs (`answers` makes them), which change with every
    entry or mechanism that matters. Texts (sources, quotations, comments, docstrings, reasons), imports and the order
    of definitions are left out, so that no text makes a report stale and code may move.
    """
    runtime, machine = options.runtime, options.machine or paper.machine
    facts = [
        [_of_machine(profiles.load(name, runtime=runtime), paper.uses) for name in paper.other_machines],
        _of_machine(profiles.load(machine, options.overrides, runtime=runtime), paper.uses),
        [{name: getattr(claim, name) for name in _DECIDING} for claim in paper.bench.claims.values()],
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


def _judging(paper: Paper) -> list[Path]:
    """Return the source files of a paper's judges, the `probes.py` beside them, and `judging.py`.

    Judges in this package, which several papers share, have no probes beside them.
    """
    functions = (judge.function for judge in paper.bench.judges.values())
    of_judges = {Path(inspect.getfile(one.func if isinstance(one, partial) else one)) for one in functions}
    here = Path(__file__).parent
    shared = {file for file in of_judges if file.parent == here} | {here / "judging.py"}
    probes = {file.with_name("probes.py") for file in of_judges - shared}
    return sorted(of_judges | shared | {file for file in probes if file.exists()})


def _of_code(source: str) -> list[str]:
    """Return the source text of a module's statements, without imports and sentences, for the digest."""
    texts = []
    for statement in ast.parse(source).body:
        match statement:
            case ast.Import() | ast.ImportFrom() | ast.If(test=ast.Name(id="TYPE_CHECKING")):
                continue
        texts.append(ast.unparse(_WithoutWords().visit(statement)))
    return [code for code in texts if code != "''"]


_TAKES_WORDS = ("Reading", "Judgement", "unless", "append", "join")
"""Functions and methods whose arguments are sentences, which the digest leaves out."""


class _WithoutWords(ast.NodeTransformer):
    """Replaces sentences by empty texts: every text with a blank, except where a text may decide something.

    That is so for keys, for patterns and operands of comparisons, and for arguments of functions other than
    `_TAKES_WORDS`. Of an f-string, the values stay.
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
"""Called after each run with the name of the stage, the runs made in it, and the runs asked for so far."""


@attrs.frozen
class Finding:
    """A claim (its id), its verdict and `reason`, the paper's and the emulated figure, and the judged `expression`."""

    claim: str
    reported: str
    emulated: str
    expression: str
    verdict: str
    reason: str = ""
    role: str = "predict"
    """`predict`, or `calibrate`: parameters may be fitted to its figure, so that its verdict proves nothing."""
    kind: JudgedKind = "mechanism"
    """Whether the verdict is about a number, an order, a trend or a mechanism."""
    fails_if: str = ""
    """What would make it fail."""
    by_construction: str = ""
    """Why it holds whatever the emulator does; empty if it can fail, or has failed."""
    cause: str = ""
    """Why it fails: the mechanism that is missing, or the reason to accept it."""
    share: str = ""
    """In how many draws of all ranges it holds, as text; empty without `ranges`."""


@attrs.frozen
class StructuralInput:
    """A number that the paper reports of its programs (`claim`), the emulated one, and their `difference`, as texts."""

    claim: str
    reported: str
    emulated: str
    difference: str


@attrs.frozen
class ValidationRecord:
    """The verdicts on a paper's claims for JSON: the fields of `ValidationReport`, and numbers of claims by verdict."""

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
    """The verdicts (`findings`) on a paper's claims, in the paper's order.

    They are all of role `predict`, and those of role `calibrate` (to which parameters may be fitted) that are judged.
    """

    paper: str
    machine: str
    note: str
    """A sentence that says how much was run."""
    findings: list[Finding]
    overrides: Mapping[str, str] = attrs.field(factory=dict)
    """Entries of the machine that the user set."""
    ranges: list[str] = attrs.field(factory=list)
    """Sentences about what was run with changed ranges and what it shows; empty without `ranges`."""
    runtime: str = ""
    """The profile of the offloading runtime."""
    inputs: list[StructuralInput] = attrs.field(factory=list)
    """Numbers of the programs that the paper reports and that were put in: kernels, executions, bytes."""
    digest: str = ""
    """A digest of what the verdicts rest on (`digest_of`)."""

    def counts(self, role: str | None = None, kind: JudgedKind | None = None) -> dict[str, int]:
        """Count the claims by verdict: those of one role (`input`, `calibrate` or `predict`) and one kind, or all.

        All verdicts that begin with "depends on" are counted together. Claims that no run could refute
        (`by_construction`) are not counted.
        """
        counts = dict.fromkeys(("holds", "depends", "fails", "not applicable"), 0)
        for finding in self.findings:
            verdict = "depends" if finding.verdict.startswith("depends on") else finding.verdict.partition(":")[0]
            counts[verdict] += (
                not finding.by_construction and role in (None, finding.role) and kind in (None, finding.kind)
            )
        return {verdict: count for verdict, count in counts.items() if count}

    def counts_by_role(self) -> dict[str, dict[str, int]]:
        """Count the claims by verdict for each role: `predict`, and `calibrate` (parameters may have been fitted)."""
        return {role: self.counts(role) for role in sorted({finding.role for finding in self.findings}, reverse=True)}

    def counts_by_kind(self) -> dict[str, dict[str, int]]:
        """Count the claims by verdict that runs are to predict (role `predict`), for each kind (numbers, orders, …).

        Returns the counts by verdict under the kind's name. Claims that hold by construction, so that no run could
        refute them, are not among these: their number is under the key "by construction, not counted", as {"holds":
        number}.
        """
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
    paper: Paper, pool: Executor, *, jobs: int = 1, quick: bool = False, ranges: bool = False,
    machine: str | None = None, runtime: str | None = None, overrides: Mapping[str, str] | None = None,
    file: Path | None = None, draws: int = DRAWS, advanced: Advanced | None = None,
) -> ValidationReport:  # fmt: skip
    """Judge every claim of `paper`, with the runs on `pool`.

    `quick` makes fewer runs. `ranges` does so, too, and judges again with each entry that matters changed, and with
    `draws` random samples of all ranges together. `file` keeps finished runs: the same validation takes them from
    there. `machine` is the machine that the claims are about (the default), or a user's file that is based on it.
    `runtime` is by default the one for which the paper's programs were built. `overrides` replaces entries of the
    machine, which `ranges` then leaves as they are.

    Raises UserError for a machine that the claims are not about, and for an override that does not fit. Raises
    RunFailed if a run that a judge asks for fails; with a random sample, its claims are just not judged. After
    KeyboardInterrupt only the claims whose runs were made are judged.
    """
    bench = paper.bench
    claims = [claim for claim in bench.claims.values() if claim.role == "predict" or claim.id in bench.judges]
    options = RunSpec(machine=machine, runtime=runtime or paper.runtime, overrides=dict(overrides or {}))
    spec = profiles.load(machine or paper.machine, overrides, runtime=options.runtime)
    if machine is not None and not _is_based_on(machine, paper.machine):
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
    heard: list[Judge | InputCheck] = [*judges, *bench.checks.values()]
    try:
        judgements = hear(heard, grid, runs.stage(f"{extent} grid"))
    except KeyboardInterrupt:
        judgements, ranges = runs.hear_what_was_made(heard, grid), False
    inputs = [
        StructuralInput(id, check.claim.reported, judgements[id].emulated, judgements[id].reason)
        for id, check in bench.checks.items()
    ]
    how = "the full grid" if extent == "full" else "quick: fewer thread counts and batches, and less work"
    note = f"{how} ({grid.described}); {runs.made} runs" + ("; interrupted" if runs.interrupted else "")
    effects = RangeEffects()
    if ranges:
        small = paper.grid("ends", options)
        variants = variants_of(spec, paper.candidates, options, paper.inputs, paper.uses)
        drawn = draws_of(spec, paper.inputs, options, draws)
        effects = range_effects(judges, judgements, small, variants, paper.sensitivity, runs.stage, drawn)
    findings = []
    for claim in claims:
        judgement, turned = judgements[claim.id], effects.turned.get(claim.id, [])
        verdict, reason = _verdict(judgement, turned), _reason(judgement, turned, claim.id in effects.unlike)
        finding = Finding(
            claim.id, claim.reported, judgement.emulated, claim.evaluated, verdict, reason, claim.role,
            claim.judged_kind, claim.failing, claim.by_construction if verdict == "holds" else "",
            claim.cause if judgement.holds is False else "", str(effects.shares.get(claim.id, "")),
        )  # fmt: skip
        findings.append(finding)
    return ValidationReport(
        paper.name, spec.name, note, findings, options.overrides, effects.sentences, spec.runtime, inputs, digest
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
    """Makes the runs of the judges on an executor, and keeps the results of the last stage."""

    pool: Executor
    jobs: int
    advanced: Advanced | None
    file: Path | None = None
    made: int = 0
    interrupted: bool = False
    _known: dict[str, Result] = attrs.field(factory=dict)
    """By key: the results of the last stage."""

    def hear_what_was_made(self, judges: Sequence[Judge | InputCheck], grid: JudgingGrid) -> dict[str, Judgement]:
        """After Ctrl-C, run the judges whose runs were made; the claims of the others become "not applicable"."""
        self.interrupted, keys = True, Keys()

        def known(points: Sequence[Point]) -> list[Result]:
            return [self._known[keys.of(point)] for point in points]

        judgements: dict[str, Judgement] = {}
        for judge in judges:
            try:
                judgements |= hear([judge], grid, known)
            except KeyError:
                judgements[judge.claim.id] = Judgement("", None, "interrupted before its runs were made")
        return judgements

    def stage(self, name: str) -> Callable[[Sequence[Point]], list[Result]]:
        """Begin a stage of the work; return its `Answers`. name: for the reports of progress."""
        asked = finished = 0
        so_far: SweepOutcome | None = None
        keys = Keys()
        self._known = {}

        def tell(outcome: SweepOutcome) -> None:
            nonlocal so_far
            so_far = outcome
            if self.advanced is not None:
                self.advanced(name, finished + len(outcome.finished), asked)

        def answers(points: Sequence[Point]) -> list[Result]:
            nonlocal asked, finished
            asked += len(points)
            try:
                outcome = sweep(points, self.pool, jobs=self.jobs, file=self.file, advanced=tell)
            finally:
                if so_far is not None:
                    for point, result in zip(so_far.points, so_far.results, strict=True):
                        if result is not None:
                            self._known[keys.of(point)] = result
            if outcome.failures:
                failure = outcome.failures[0]
                raise RunFailed(
                    f"validate: {failure.point.scenario} {dict(failure.point.parameters)}: {failure.message}"
                )
            finished += len(points)
            self.made += len(points)
            return outcome.finished

        return answers


def _is_based_on(machine: str, base: str) -> bool:
    """Tell whether `machine` is the profile `base`, a copy that kept its name, or a user's file built on it.

    `machine` is a name or a file. A profile of the package that inherits entries from `base` is another machine. Raises
    UserError if a profile cannot be read.
    """
    profiles.load(machine)  # it and all that it is built on can be read
    parent: str | None = machine
    while parent is not None:
        header = tomllib.loads(_text(parent))["machine"]
        if base in (parent, header["name"]):
            return True
        parent = None if parent in machines.available() else header.get("base")
    return False


def _text(machine: str) -> str:
    if machine in machines.available():
        return (importlib.resources.files(machines) / "profiles" / f"{machine}.toml").read_text(encoding="utf-8")
    return regular(Path(machine)).read_text(encoding="utf-8")


def validation(report: ValidationReport) -> Iterable[RenderableType]:
    """Yield a table of all claims with the reported and the emulated figure and the verdict; then the reasons."""
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
            "fails if": finding.fails_if, "because": finding.reason, "cause": finding.cause, "holds in": finding.share,
            "by construction": finding.by_construction,
        }  # fmt: skip
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
