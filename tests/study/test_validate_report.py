"""What `validate` reports: verdicts, the variants that they depend on, and how it is printed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
from invented_results import serial, whatever_is_asked
from rich.table import Table

from offloadrt import machine as machines
from offloadrt.cli import main
from offloadrt.cli.terminal import stages
from offloadrt.extensions.evidence.validation.judging import Judgement, may_matter
from offloadrt.extensions.evidence.validation.validate import (
    CORNER,
    Finding,
    MachineVariant,
    StructuralInput,
    ValidationReport,
    _reason,
    _verdict,
    validate,
    validation,
    variants_of,
)
from offloadrt.extensions.logs.schemas import schema_of
from offloadrt.papers.exahype.judges import PAPER
from offloadrt.study.running import profiles
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import InProcess, Point, SweepOutcome


@pytest.mark.parametrize(
    ("judgement", "turned", "verdict"),
    [
        (Judgement("1", True), [], "holds"),
        (Judgement("1", False, "so"), [], "fails"),
        (Judgement("1", True), ["driver.halt", "driver.halt", "a"], "depends on driver.halt, a"),
        (Judgement("–", None, "needs x"), [], "not applicable: needs x"),
    ],
)
def test_verdicts(judgement: Judgement, turned: list[str], verdict: str) -> None:
    variants = [MachineVariant(key, f"{key} = other", RunSpec()) for key in turned]
    assert _verdict(judgement, variants) == verdict
    assert not turned or "the other way round with driver.halt = other; " in _reason(judgement, variants)


def test_variants_are_ends_choices_and_candidates() -> None:
    spec = profiles.load("alex-a100")
    variants = variants_of(spec, PAPER.candidates)
    texts = [variant.text for variant in variants]
    assert "alloc.cudaMalloc_small = low" in texts and "alloc.cudaMalloc_small = high" in texts
    assert "driver.halt = suspend" in texts and f"driver.halt = {spec.text('driver.halt')}" not in texts
    assert "driver.halt = suspend, driver.halt_save_restore = 10 us" in texts
    assert texts[-2:] == ["all ranges = low", "all ranges = high"]
    for variant in variants:
        profiles.load("alex-a100", variant.options.overrides, variant.options.range_end)
    corner = variants[-1]
    assert corner.key == CORNER and sorted(corner.options.range_end) == sorted(filter(may_matter, spec.ranges()))


def test_what_the_user_set_and_what_the_machine_is_is_no_variant() -> None:
    overrides = {"alloc.cudaFree": "low", "driver.halt": "suspend"}
    options = RunSpec(machine="alex-a100", overrides=overrides)
    variants = variants_of(profiles.load("alex-a100", overrides), PAPER.candidates, options)
    varied = {key for variant in variants for key in (variant.key, *variant.options.range_end)}
    assert not varied & {"alloc.cudaFree", "driver.halt", "driver.halt_save_restore", "driver.api"}
    assert {"driver.free_visits_streams", "alloc.cudaMalloc_small", "driver.handoff"} < varied
    for variant in variants:
        assert variant.options.machine == "alex-a100"
        assert overrides.items() <= dict(variant.options.overrides).items()


def test_a_report_counts_verdicts() -> None:
    finding = Finding("c", "r", "e", "x", "holds")
    findings = [
        finding,
        attrs.evolve(finding, verdict="depends on a"),
        attrs.evolve(finding, verdict="not applicable: y"),
    ]
    assert ValidationReport("p", "m", "", findings).counts() == {"holds": 1, "depends": 1, "not applicable": 1}


def test_a_report_tells_claims_that_parameters_are_fitted_to_from_the_others() -> None:
    finding = Finding("c", "r", "e", "x", "holds")
    fitted = [attrs.evolve(finding, role="calibrate"), attrs.evolve(finding, role="calibrate", verdict="fails")]
    report = ValidationReport("p", "m", "", [finding, finding, *fitted])
    assert report.counts() == {"holds": 3, "fails": 1}
    assert report.counts_by_role() == {"predict": {"holds": 2}, "calibrate": {"holds": 1, "fails": 1}}
    assert json.loads(report.to_json())["counts_by_role"] == report.counts_by_role()
    *_, total, mechanisms, predicted, calibrated = map(str, validation(report))
    assert total == "\n4 claims: holds: 3, fails: 1"
    assert mechanisms == "  2 mechanisms: holds: 2"
    assert predicted == "  2 of role predict: holds: 2"
    assert calibrated == "  2 of role calibrate: holds: 1, fails: 1"


def test_a_report_counts_kinds_apart_and_not_what_holds_by_construction() -> None:
    finding = Finding("c", "r", "e", "x", "holds")
    shape, number = attrs.evolve(finding, kind="shape"), attrs.evolve(finding, kind="magnitude")
    findings = [
        finding,
        shape,
        attrs.evolve(shape, verdict="fails", cause="nobody knows"),
        attrs.evolve(number, verdict="depends on a", fails_if="a figure is below 1"),
        attrs.evolve(number, by_construction="one trace"),
        attrs.evolve(number, role="calibrate"),
    ]
    report = ValidationReport("p", "m", "", findings)
    assert report.counts() == {"holds": 3, "depends": 1, "fails": 1}
    assert report.counts_by_kind() == {
        "mechanisms": {"holds": 1},
        "shapes": {"holds": 1, "fails": 1},
        "magnitudes": {"depends": 1},
        "by construction, not counted": {"holds": 1},
    }
    assert json.loads(report.to_json())["counts_by_kind"] == report.counts_by_kind()
    printed = [line for line in validation(report) if isinstance(line, str)]
    assert "    cause: nobody knows" in printed and "    fails if: a figure is below 1" in printed
    assert "    by construction: one trace" in printed
    assert printed[-7:-3] == [
        "\n6 claims: holds: 3, depends: 1, fails: 1",
        "  1 mechanisms: holds: 1",
        "  2 shapes: holds: 1, fails: 1",
        "  1 magnitudes: depends: 1",
    ]
    assert printed[-3] == "  1 by construction, not counted: holds: 1"


def test_causes_are_told_of_what_fails_and_constructions_of_what_holds(invented_runs: list[Point]) -> None:
    findings = {finding.claim: finding for finding in validate(PAPER, InProcess(), quick=True).findings}
    for claim, finding in findings.items():
        stated = PAPER.bench.claims[claim]
        assert finding.cause == (stated.cause if finding.verdict == "fails" else "")
        assert finding.by_construction == (stated.by_construction if finding.verdict == "holds" else "")
        assert finding.fails_if == stated.failing
    assert any(finding.cause for finding in findings.values())
    assert findings["exahype.concl.obs_invalid"].by_construction


def test_inputs_are_printed_beside_what_is_emulated() -> None:
    put_in = StructuralInput("p.kernels", "46 kernels", "44", "-4.3%")
    report = ValidationReport("p", "m", "", [], inputs=[put_in])
    (table,) = [part for part in validation(report) if isinstance(part, Table) and "inputs" in str(part.title)]
    assert [list(column.cells) for column in table.columns] == [["kernels"], ["46 kernels"], ["44"], ["-4.3%"]]
    assert json.loads(report.to_json())["inputs"] == [attrs.asdict(put_in)]


def invent(monkeypatch: pytest.MonkeyPatch) -> list[Point]:
    """Give `validate` invented results; returns the points that it asks for."""
    asked: list[Point] = []

    def sweep(points: Sequence[Point], *_: object, **__: object) -> SweepOutcome:
        asked.extend(points)
        return SweepOutcome(points, [whatever_is_asked(point) for point in points])

    monkeypatch.setattr("offloadrt.extensions.evidence.validation.validate.sweep", sweep)
    return asked


@pytest.fixture
def invented_runs(monkeypatch: pytest.MonkeyPatch) -> list[Point]:
    return invent(monkeypatch)


@pytest.fixture(scope="module")
def over_ranges() -> tuple[ValidationReport, list[Point]]:
    """A report over ranges of invented results, and the points that it asked for."""
    with pytest.MonkeyPatch.context() as patched:
        asked = invent(patched)
        return validate(PAPER, InProcess(), quick=True, ranges=True, draws=0), asked


def test_ctrl_c_judges_the_claims_whose_runs_were_made(
    invented_runs: list[Point], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = validate(PAPER, InProcess(), quick=True)
    calls = 0

    def sweep(points: Sequence[Point], *_: Any, advanced: Any, **rest: Any) -> SweepOutcome:
        nonlocal calls
        calls += 1
        outcome = SweepOutcome(points, [whatever_is_asked(point) for point in points])
        if calls > 1:  # the first one is of the digest
            outcome.results[len(points) // 2 :] = [None] * (len(points) - len(points) // 2)
            advanced(outcome)
            raise KeyboardInterrupt
        return outcome

    monkeypatch.setattr("offloadrt.extensions.evidence.validation.validate.sweep", sweep)
    cut = validate(PAPER, InProcess(), quick=True, ranges=True)
    assert cut.note.endswith("; interrupted") and cut.digest == whole.digest and not cut.ranges
    known = {finding.claim: finding for finding in cut.findings if "interrupted" not in finding.verdict}
    assert 0 < len(known) < len(cut.findings) == len(whole.findings)
    of_whole = {finding.claim: finding for finding in whole.findings}
    assert {claim: of_whole[claim] for claim in known} == known
    calls = 0
    assert main(["validate", "--paper", "exahype", "--quick", "--jobs", "1"]) == 130
    said = capsys.readouterr()
    assert "interrupted before its runs were made" in said.out
    assert "Ctrl-C judges the claims whose runs are made" in said.err


def test_validate_hides_no_claim(invented_runs: list[Point]) -> None:
    report = validate(PAPER, InProcess())
    assert [finding.claim for finding in report.findings] == [
        claim.id for claim in PAPER.bench.claims.values() if claim.role == "predict"
    ]
    assert all(finding.reason for finding in report.findings if finding.verdict == "fails")
    assert all(finding.expression and finding.emulated for finding in report.findings)
    assert report.counts()["not applicable"] == 1
    assert "the full grid" in report.note and f"{len(invented_runs)} runs" in report.note


def test_ranges_say_on_what_a_verdict_depends(over_ranges: tuple[ValidationReport, list[Point]]) -> None:
    report, runs = over_ranges
    verdicts = {finding.claim: finding for finding in report.findings}
    assert verdicts["exahype.fig2.penalty"].verdict == f"depends on alloc.cudaFree, {CORNER}"
    assert "the other way round with alloc.cudaFree = high" in verdicts["exahype.fig2.penalty"].reason
    assert verdicts["exahype.fig3.ccz4_p5.robust"].verdict == "holds"
    assert {key for point in runs for key in point.options.range_end} > {"alloc.cudaFree", "driver.launch"}


def test_ranges_say_what_was_run(over_ranges: tuple[ValidationReport, list[Point]], invented_runs: list[Point]) -> None:
    report, _ = over_ranges
    grid, judged, left_out, firm, *_ = report.ranges
    assert "threads 1, 4, 16, 64" in grid and "one change at a time" in grid
    assert "all ranges = high" in judged and "alloc.cudaFree = high" in judged, "only these two change anything"
    assert "with 8 changes" in judged and "exahype.ccz4_flops = low; exahype.ccz4_flops = high" in judged, "and inputs"
    assert "driver.launch = low" in left_out
    turned = [finding for finding in report.findings if finding.verdict.startswith("depends")]
    assert firm.startswith(f"{44 - len(turned)} of 44 verdicts")
    assert validate(PAPER, InProcess(), quick=True).ranges == []


def test_only_runs_of_variants_that_matter_are_made(over_ranges: tuple[ValidationReport, list[Point]]) -> None:
    _, runs = over_ranges
    ends = [point.options.range_end for point in runs]
    screening = len(PAPER.sensitivity)
    probes = [point for point in runs if point.options.range_end == {"driver.launch": "low"}][screening:]
    assert probes and all(point.options.record for point in probes), "the claims on small recorded runs"
    assert ends.count({"alloc.cudaFree": "high"}) > 5 * screening


def test_ranges_say_nothing_where_their_grid_cannot_tell(
    invented_runs: list[Point], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = serial

    def best_at_32(parameters: Any) -> float:
        threads = parameters["threads"]
        return plain(parameters) * (0.01 if threads == 32 else 1 + 0.5 * threads)

    monkeypatch.setattr("invented_results.serial", best_at_32)
    finding = {found.claim: found for found in validate(PAPER, InProcess(), quick=True, ranges=True, draws=0).findings}[
        "exahype.fig2.euler3d_p5.plateau"
    ]
    assert finding.verdict == "fails", "the smaller grid has no 32 threads"
    assert "the ranges say nothing about it" in finding.reason


def test_without_a_terminal_each_stage_is_told_as_it_begins(capsys: pytest.CaptureFixture[str]) -> None:
    """Further lines come every few seconds: tests/test_cli_progress.py."""
    with stages("validate p") as advanced:
        for finished in range(0, 250, 50):
            advanced("full grid", finished, 300)
        advanced("ranges", 0, 7)
    assert capsys.readouterr().err.splitlines() == [
        "validate p, full grid: 0 of 300 runs",
        "validate p, ranges: 0 of 7 runs",
    ]


@pytest.mark.parametrize("quick", [(), ("--quick",)])
def test_validate_on_a_machine_of_the_users_own(
    quick: tuple[str, ...], invented_runs: list[Point], tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('[machine]\nname = "mine"\nbase = "alex-a100"\n')
    options = ["--machine", str(mine), "--set", "driver.halt=suspend", "--jobs", "1"]
    assert main(["validate", *quick, *options]) == 1, "invented figures meet no claim about numbers"
    assert "exahype on mine with nvhpc, driver.halt = suspend:" in capfdbinary.readouterr().out.decode()
    assert {point.options.machine for point in invented_runs} == {str(mine)}
    assert {tuple(point.options.overrides.items()) for point in invented_runs} == {(("driver.halt", "suspend"),)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--machine", "{other}"], "the claims of exahype are about alex-a100 (One NVIDIA A100 80GB"),
        (["--machine", "{other}"], "and other is another machine; give a file with base"),
        (["--machine", "alex-a10"], "did you mean alex-a100"),
        (["--set", "alloc.cudaFre=1"], "did you mean alloc.cudaFree"),
        (["--set", "alloc.cudaFree=20 GB"], "is a quantity of data"),
        (["--set", "alloc.cudaFree"], "an override is written --set key=value"),
    ],
)
def test_a_machine_that_does_not_suit(
    options: list[str], message: str, invented_runs: list[Point], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.toml"
    text = Path(profiles.load("alex-a100").path)
    text = Path(machines.__file__).parent / "profiles" / text.name
    other.write_text(text.read_text().replace('name = "alex-a100"', 'name = "other"'))
    assert main(["validate", "--jobs", "1", *(option.format(other=other) for option in options)]) == 2
    assert message in capsys.readouterr().err
    assert invented_runs == []


def test_the_report_is_printed_or_is_json(
    invented_runs: list[Point], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["validate", "--quick", "--jobs", "1"]) == 1, "some claims fail"
    shown = capfdbinary.readouterr().out.decode()
    assert "quick: fewer thread counts" in shown and "47 claims: holds:" in shown and "evaluated:" in shown
    assert main(["validate", "--quick", "--jobs", "1", "--json"]) == 1
    record = json.loads(capfdbinary.readouterr().out)
    pytest.importorskip("jsonschema").validate(record, schema_of("validate"))
    assert len(record["findings"]) == 47 and set(record["findings"][0]) == {
        "claim", "reported", "emulated", "expression", "verdict", "reason", "role", "kind",
        "fails_if", "by_construction", "cause", "share",
    }  # fmt: skip
