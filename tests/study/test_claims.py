"""The claims are the paper's, each that must emerge has a judge, and the judges judge."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from offloadrt.cli import main
from offloadrt.cli.render import validation
from offloadrt.cli.terminal import stages
from offloadrt.study import UserError, profiles
from offloadrt.study.claims import claims_of, exahype, papers
from offloadrt.study.executors import InProcess
from offloadrt.study.judging import Judgement, hear
from offloadrt.study.points import Options, Point
from offloadrt.study.ranges import CORNER, Variant, variants_of
from offloadrt.study.results import Bytes, Result
from offloadrt.study.sweep import Outcome
from offloadrt.study.validate import Finding, Report, _reason, _verdict, validate

SHARED = Path(__file__).parents[2].parent / "shared" / "papers" / "claims.toml"


def test_the_copy_is_exact() -> None:
    if not SHARED.is_file():
        pytest.skip("the claims of all papers are not beside this checkout")
    copy = Path(exahype.__file__).parent.with_suffix(".toml")
    theirs = [claim for claim in tomllib.loads(SHARED.read_text())["claim"] if claim["paper"] == "exahype"]
    assert tomllib.loads(copy.read_text())["claim"] == theirs


def test_papers_and_roles() -> None:
    assert "exahype" in papers()
    assert {claim.role for claim in claims_of("exahype")} <= {"input", "calibrate", "predict"}
    with pytest.raises(UserError, match="--paper exahyp: no claims of it; did you mean exahype"):
        claims_of("exahyp")


def test_every_claim_that_must_emerge_has_a_judge_and_no_other() -> None:
    predicted = [claim.id for claim in claims_of("exahype") if claim.role == "predict"]
    assert sorted(exahype.bench.judges) == sorted(predicted)


def test_only_validate_and_its_parts_read_claims() -> None:
    package = Path(exahype.__file__).parents[3]
    readers = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if "claims_of" in path.read_text(encoding="utf-8")
    }
    assert "study/claims/exahype/curves.py" in readers
    assert {reader for reader in readers if not reader.startswith("study/claims/")} == {"study/validate.py"}


def _result(point: Point, **measured: Any) -> Result:
    return Result(
        scenario=point.scenario,
        parameters=dict(point.parameters),
        machine="alex-a100",
        seed=0,
        elapsed_s=1.0,
        measured=measured,
        calls={},
        locks={},
        devices={},
        bytes=Bytes(),
        faults={},
        events=0,
        trace_hash=None,
        where_time_went={},
    )


def _invented(time: Any) -> Any:
    """Answers in which the time per volume is `time(parameters)`; over one thread's volumes it is longer."""

    def answers(points: Sequence[Point]) -> list[Result]:
        found = []
        for point in points:
            seconds = time(point.parameters)
            threads = point.parameters["threads"]
            assert isinstance(threads, int)
            figures = {"time_per_volume_s": seconds, "time_per_volume_per_thread_s": seconds * threads}
            found.append(_result(point, **figures))
        return found

    return answers


def _judged(claim: str, time: Any) -> Judgement:
    grid = exahype.grid("full", Options())
    return hear([exahype.bench.judges[claim]], grid, _invented(time))[claim]


def serial(parameters: Any) -> float:
    """Map and managed: all threads take turns, a batch costs a start and its patches. Pool: threads do not disturb one
    another.
    """
    per_batch = 0.5 / parameters["batch"] + 0.2
    return per_batch / parameters["threads"] if parameters["memory"] == "pool" else per_batch


def collapsing(parameters: Any) -> float:
    """As `serial`, and map gets dearer with every thread."""
    threads = parameters["threads"]
    return serial(parameters) * (1 + 0.5 * threads if parameters["memory"] == "map" else 1)


def parallel(parameters: Any) -> float:
    """No memory has threads wait for one another."""
    return serial({**parameters, "memory": "pool"})


@pytest.mark.parametrize(
    ("claim", "with_serial", "with_collapse"),
    [
        ("exahype.obs1.batching", True, True),
        ("exahype.obs2.degrade", True, True),
        ("exahype.obs2.expect", True, True),
        ("exahype.fig2.euler3d_p5.plateau", False, True),
        ("exahype.fig2.penalty", False, True),
        ("exahype.fig2.sat8", True, True),
        ("exahype.fig3.ccz4_p5.robust", True, True),
        ("exahype.fig3.vs_map", True, True),
        ("exahype.headline.order", True, True),
        ("exahype.concl.obs_invalid", True, True),
        ("exahype.fig2.speedup_iff", False, False),
    ],
)
def test_judges_tell_models_apart(claim: str, with_serial: bool, with_collapse: bool) -> None:
    assert _judged(claim, serial).holds is with_serial
    judgement = _judged(claim, collapsing)
    assert judgement.holds is with_collapse
    assert judgement.holds or judgement.reason, "a claim that fails says why"


def test_claims_that_need_more_say_so() -> None:
    judgement = _judged("exahype.concl.vendors", serial)
    assert judgement.holds is None and _verdict(judgement, []).startswith("not applicable: needs a profile of an MI")


@pytest.mark.parametrize("claim", ["exahype.fig4.ccz4_p5.um_flat", "exahype.fig4.ccz4_p5.um_worse"])
def test_judges_tell_taking_turns_from_scaling_in_managed_memory(claim: str) -> None:
    assert _judged(claim, serial).holds is True
    judgement = _judged(claim, parallel)
    assert judgement.holds is False and judgement.reason


def _of_facts(claim: str, *facts: dict[str, Any]) -> Judgement:
    """The judgement of a claim when its probes measure this, one after the other."""

    def answers(points: Sequence[Point]) -> list[Result]:
        return [_result(point, **facts[number % len(facts)]) for number, point in enumerate(points)]

    return hear([exahype.bench.judges[claim]], exahype.grid("quick", Options()), answers)[claim]


@pytest.mark.parametrize(
    ("claim", "change"),
    [
        ("exahype.mech.um_variant", {"device_copies": 1}),
        ("exahype.mech.um_variant", {"kernels_that_faulted": 1}),
        ("exahype.mech.um_variant", {"migrations_after_the_last_kernel": 0}),
        ("exahype.mech.um_parallel_copy", {"overlapped_s": 0.0}),
        ("exahype.mech.um_parallel_copy", {"hits": 0}),
        ("exahype.mech.um_not_global", {"ordinary_is_managed": True}),
        ("exahype.mech.um_not_global", {"managed_allocations": 3}),
        ("exahype.fig4.busy_link", {"handler_s": 0.1, "link_s": 0.2}),
    ],
)
def test_one_fact_decides(claim: str, change: dict[str, Any]) -> None:
    usual = FACTS["unified"] | FACTS["link_demand"]
    assert _of_facts(claim, usual).holds is True
    judgement = _of_facts(claim, usual | change)
    assert judgement.holds is False and judgement.reason


def test_demand_is_compared_with_the_pool() -> None:
    managed = FACTS["link_demand"]
    claim = "exahype.fig4.spread"
    assert _of_facts(claim, managed, {**managed, "peak_bytes_per_s": 2.0}).holds is True
    assert _of_facts(claim, managed, managed).holds is False
    assert _of_facts(claim, managed, {**managed, "peak_bytes_per_s": 2.0, "elapsed_s": 2.0}).holds is False


def test_equal_runs_are_made_once() -> None:
    made: list[str] = []

    def answers(points: Sequence[Point]) -> Sequence[Result]:
        made.extend(point.key for point in points)
        found: Sequence[Result] = _invented(serial)(points)
        return found

    judges = [exahype.bench.judges[f"exahype.fig3.{case}.robust"] for case in exahype.CASES]
    judges += [exahype.bench.judges["exahype.concl.obs_invalid"]]
    hear(judges, exahype.grid("full", Options()), answers)
    assert len(made) == len(set(made)) == 3 * 8 * 2, "each place takes two runs"


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
    variants = [Variant(key, f"{key} = other", Options()) for key in turned]
    assert _verdict(judgement, variants) == verdict
    assert not turned or "the other way round with driver.halt = other; " in _reason(judgement, variants)


def test_variants_are_ends_choices_and_candidates() -> None:
    spec = profiles.load("alex-a100")
    variants = variants_of(spec, exahype.CANDIDATES)
    texts = [variant.text for variant in variants]
    assert "alloc.cudaMalloc_small = low" in texts and "alloc.cudaMalloc_small = high" in texts
    assert "driver.halt = suspend" in texts and f"driver.halt = {spec.text('driver.halt')}" not in texts
    assert "driver.halt = suspend, driver.halt_save_restore = 10 us" in texts
    assert texts[-2:] == ["all ranges = low", "all ranges = high"]
    for variant in variants:
        profiles.load("alex-a100", variant.options.overrides, variant.options.range_end)
    corner = variants[-1]
    assert corner.key == CORNER and sorted(corner.options.range_end) == sorted(spec.ranges())


def test_what_the_user_set_and_what_the_machine_is_is_no_variant() -> None:
    overrides = {"alloc.cudaFree": "low", "driver.halt": "suspend"}
    options = Options(machine="alex-a100", overrides=overrides)
    variants = variants_of(profiles.load("alex-a100", overrides), exahype.CANDIDATES, options)
    varied = {key for variant in variants for key in (variant.key, *variant.options.range_end)}
    assert not varied & {"alloc.cudaFree", "driver.halt", "driver.halt_save_restore", "driver.api"}
    assert {"driver.free_visits_streams", "alloc.cudaMalloc_small", "lock.handoff"} < varied
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
    assert Report("p", "m", "", findings).counts() == {"holds": 1, "depends": 1, "not applicable": 1}


def test_a_report_tells_claims_that_parameters_are_fitted_to_from_the_others() -> None:
    finding = Finding("c", "r", "e", "x", "holds")
    fitted = [attrs.evolve(finding, role="calibrate"), attrs.evolve(finding, role="calibrate", verdict="fails")]
    report = Report("p", "m", "", [finding, finding, *fitted])
    assert report.counts() == {"holds": 3, "fails": 1}
    assert report.counts_by_role() == {"predict": {"holds": 2}, "calibrate": {"holds": 1, "fails": 1}}
    assert json.loads(report.to_json())["counts_by_role"] == report.counts_by_role()
    *_, total, predicted, calibrated = map(str, validation(report))
    assert total == "\n4 claims: holds: 3, fails: 1"
    assert predicted == "  2 of role predict: holds: 2"
    assert calibrated == "  2 of role calibrate: holds: 1, fails: 1"


def test_saturation_is_where_a_doubling_no_longer_pays() -> None:
    assert exahype.saturation({1: 1.0, 2: 0.6, 4: 0.4, 8: 0.35, 16: 0.34}) == 4
    assert exahype.saturation({1: 1.0, 2: 0.5, 4: 0.25}) is None


FACTS: dict[str, dict[str, Any]] = {
    "exahype_counts": dict.fromkeys(
        ("enters", "exits", "regions", "kernels", "entries_made", "entries_removed", "lookups", "allocations", "frees"),
        1,
    )
    | dict.fromkeys(("h2d", "d2h", "pinned", "copies", "batches"), 1)
    | dict.fromkeys(("table_holds", "table_overlaps", "table_uses_without_lock"), 1),
    "neighbours": {
        "kernel_wall_s": 1.0,
        "allocations_and_frees": 1,
        "allocations_and_frees_in_progress": 0,
        "copies": 1,
        "copies_in_progress": 1,
    },
    "crowd_of_kernels": {"most_kernels": 100},
    "unified": {
        "kernels": 2,
        "device_copies": 0,
        "kernels_that_faulted": 2,
        "host_faults": 4,
        "migrations_after_the_last_kernel": 1,
        "overlapped_s": 0.5,
        "copies_s": 1.0,
        "blocks": 2,
        "hits": 2,
        "managed_allocations": 2,
        "ordinary_is_managed": False,
        "ordinary_copies": 1,
    },
    "link_demand": {
        "elapsed_s": 1.0,
        "on_device_s": 1.0,
        "handler_s": 0.6,
        "link_s": 0.3,
        "peak_bytes_per_s": 1.0,
        "bytes": 1,
    },
    "manager": dict.fromkeys(
        (
            "in_use_is_not_handed_out",
            "free_block_is_reused",
            "size_is_part_of_the_key",
            "device_is_part_of_the_key",
        ),
        True,
    )
    | {
        "handed_out_twice": 0,
        "blocks_seen_by_several_threads": 1,
        "device_frees": 0,
        "hand_outs": 8,
        "hand_outs_together": 0,
    },
}


@pytest.fixture
def invented_runs(monkeypatch: pytest.MonkeyPatch) -> list[Point]:
    """`validate` gets invented results: slow frees turn `serial` into `collapsing`."""
    asked: list[Point] = []

    def sweep(points: Sequence[Point], *_: object, **__: object) -> Outcome:
        asked.extend(points)
        results: list[Result | None] = []
        for point in points:
            slow = point.options.range_end.get("alloc.cudaFree") == "high"
            probe = point.scenario.rpartition(":")[2]
            if probe in FACTS:
                results.append(_result(point, **FACTS[probe]))
            else:
                (found,) = _invented(collapsing if slow else serial)([point])
                results.append(attrs.evolve(found, elapsed_s=2.0 if slow else 1.0))
        return Outcome(points, results)

    monkeypatch.setattr("offloadrt.study.validate.sweep", sweep)
    return asked


def test_validate_hides_no_claim(invented_runs: list[Point]) -> None:
    report = validate("exahype", InProcess())
    assert [finding.claim for finding in report.findings] == [
        claim.id for claim in claims_of("exahype") if claim.role == "predict"
    ]
    assert all(finding.reason for finding in report.findings if finding.verdict == "fails")
    assert all(finding.expression and finding.emulated for finding in report.findings)
    assert report.counts()["not applicable"] == 1
    assert "the full grid" in report.note and f"{len(invented_runs)} runs" in report.note


def test_ranges_say_on_what_a_verdict_depends(invented_runs: list[Point]) -> None:
    verdicts = {
        finding.claim: finding for finding in validate("exahype", InProcess(), quick=True, ranges=True).findings
    }
    assert verdicts["exahype.fig2.penalty"].verdict == f"depends on alloc.cudaFree, {CORNER}"
    assert "the other way round with alloc.cudaFree = high" in verdicts["exahype.fig2.penalty"].reason
    assert verdicts["exahype.fig3.ccz4_p5.robust"].verdict == "holds"
    assert {key for point in invented_runs for key in point.options.range_end} > {"alloc.cudaFree", "driver.launch"}


def test_ranges_say_what_was_run(invented_runs: list[Point]) -> None:
    report = validate("exahype", InProcess(), quick=True, ranges=True)
    grid, judged, left_out, firm, *_ = report.ranges
    assert "threads 1, 4, 16, 128" in grid and "other combinations of ends were not tried" in grid
    assert "all ranges = high" in judged and "alloc.cudaFree = high" in judged, "only these two change anything"
    assert "with 2 changes" in judged and "driver.launch = low" in left_out
    turned = [finding for finding in report.findings if finding.verdict.startswith("depends")]
    assert firm.startswith(f"{46 - len(turned)} of 46 verdicts")
    assert validate("exahype", InProcess(), quick=True).ranges == []


def test_only_runs_of_variants_that_matter_are_made(invented_runs: list[Point]) -> None:
    validate("exahype", InProcess(), quick=True, ranges=True)
    ends = [point.options.range_end for point in invented_runs]
    screening = len(exahype.SENSITIVITY)
    probes = [point for point in invented_runs if point.options.range_end == {"driver.launch": "low"}][screening:]
    assert probes and all(point.options.record for point in probes), "the claims on small recorded runs"
    assert ends.count({"alloc.cudaFree": "high"}) > 5 * screening


def test_ranges_say_nothing_where_their_grid_cannot_tell(
    invented_runs: list[Point], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = serial

    def best_at_32(parameters: Any) -> float:
        threads = parameters["threads"]
        return plain(parameters) * (0.01 if threads == 32 else 1 + 0.5 * threads)

    monkeypatch.setattr(f"{__name__}.serial", best_at_32)
    finding = {found.claim: found for found in validate("exahype", InProcess(), quick=True, ranges=True).findings}[
        "exahype.fig2.euler3d_p5.plateau"
    ]
    assert finding.verdict == "fails", "the smaller grid has no 32 threads"
    assert "the ranges say nothing about it" in finding.reason


def test_large_batches_are_looked_at_only_where_needed() -> None:
    asked: list[int] = []

    def answers(points: Sequence[Point]) -> list[Result]:
        asked.extend(int(str(point.parameters["batch"])) for point in points)
        found: list[Result] = _invented(lambda parameters: 1.0)(points)
        return found

    (judgement,) = hear(
        [exahype.bench.judges["exahype.obs1.inflight"]], exahype.grid("full", Options()), answers
    ).values()
    assert judgement.emulated == f"{128 * 4 * 17**2} volumes (n = 4)" and asked == [4, 8]


def test_progress_without_a_terminal_is_a_line_every_hundred_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with stages("validate p") as advanced:
        for finished in range(0, 250, 50):
            advanced("full grid", finished, 300)
            advanced("full grid", finished, 310)
        advanced("ranges", 0, 7)
    assert capsys.readouterr().err.splitlines() == [
        "validate p, full grid: 0 runs of 300 or more",
        "validate p, full grid: 100 runs of 300 or more",
        "validate p, full grid: 200 runs of 300 or more",
        "validate p, ranges: 0 runs of 7 or more",
    ]


@pytest.mark.parametrize("quick", [(), ("--quick",)])
def test_validate_on_a_machine_of_the_users_own(
    quick: tuple[str, ...], invented_runs: list[Point], tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('[machine]\nname = "mine"\nbase = "alex-a100"\n')
    options = ["--machine", str(mine), "--set", "driver.halt=suspend", "--jobs", "1"]
    assert main(["validate", *quick, *options]) == 0
    assert "exahype on mine, driver.halt = suspend:" in capfdbinary.readouterr().out.decode()
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
    text = Path(exahype.__file__).parents[3] / "machine" / "profiles" / text.name
    other.write_text(text.read_text().replace('name = "alex-a100"', 'name = "other"'))
    assert main(["validate", "--jobs", "1", *(option.format(other=other) for option in options)]) == 2
    assert message in capsys.readouterr().err
    assert invented_runs == []


def test_the_report_is_printed_or_is_json(
    invented_runs: list[Point], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["validate", "--quick", "--jobs", "1"]) == 0
    shown = capfdbinary.readouterr().out.decode()
    assert "quick: fewer thread counts" in shown and "47 claims: holds:" in shown and "evaluated:" in shown
    assert main(["validate", "--quick", "--jobs", "1", "--json"]) == 0
    record = json.loads(capfdbinary.readouterr().out)
    assert len(record["findings"]) == 47 and set(record["findings"][0]) == {
        "claim", "reported", "emulated", "expression", "verdict", "reason", "role",
    }  # fmt: skip
