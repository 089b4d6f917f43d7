"""How the verdicts on a paper's claims are printed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich.console import RenderableType
from rich.markup import escape

from offloadrt.cli.render import table_of
from offloadrt.study.reporting.words import where
from offloadrt.study.validation.validate import ValidationReport


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
