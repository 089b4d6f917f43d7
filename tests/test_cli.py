"""The command line: what it prints, what it writes, and its exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from offloadrt.cli import main
from offloadrt.study.scripts import listing, registry

TOYS = Path(__file__).parent / "study" / "toys.py"
QUEUEING, PICKY, DRAWN = (f"{TOYS}:{name}" for name in ("queueing", "picky", "drawn"))


def run_in_new_python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_help_needs_no_emulator() -> None:
    code = (
        "import sys\nfrom offloadrt.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print(sorted({'numpy', 'trio', 'structlog', 'polars', 'offloadrt.study.running.run'} & set(sys.modules)))"
    )
    assert run_in_new_python(code).splitlines()[-1] == "[]"


def test_recording_a_program_needs_no_machine_and_no_actors() -> None:
    """`record` is run often, on programs that end in no time."""
    code = (
        "import sys, offloadrt.extensions.recording.toolchain, offloadrt.extensions.recording.doubts\n"
        "print(sorted({'trio', 'offloadrt.kernels', 'offloadrt.machine', 'offloadrt.driver'} & set(sys.modules)))"
    )
    assert run_in_new_python(code) == "[]\n"


def test_importing_offloadrt_imports_nothing_else() -> None:
    code = "import sys, offloadrt\nprint(sorted({'numpy', 'trio', 'offloadrt.study'} & set(sys.modules)))"
    assert run_in_new_python(code) == "[]\n"
    assert (
        run_in_new_python("from offloadrt import scenario, Range\nprint(scenario.__name__, Range(1, 2))")
        == "scenario 1 to 2\n"
    )


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    import offloadrt

    main(["--version"])
    assert capsys.readouterr().out.strip() == offloadrt.__version__


def test_run_prints_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", QUEUEING, "threads=4"]) == 0
    shown = capsys.readouterr().out
    assert "queueing threads=4" in shown and "elapsed (virtual time)" in shown
    assert "per_thread_s" in shown and "500 ms" in shown and "2 s" in shown


def test_run_prints_one_json_object(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["run", QUEUEING, "threads=4", "--seed", "7", "--hash", "--json"]) == 0
    record = json.loads(capsysbinary.readouterr().out)
    assert record["seed"] == 7 and record["parameters"]["threads"] == 4 and record["elapsed_s"] == 2.0
    assert isinstance(record["trace_hash"], str) and isinstance(record["events"], int)


def test_gears_and_runs_agree_on_the_hash(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    hashes = set()
    for gear in ("native", "turbo", "turbo"):
        main(["run", QUEUEING, "threads=8", "--seed", "7", "--gear", gear, "--hash", "--json"])
        hashes.add(json.loads(capsysbinary.readouterr().out)["trace_hash"])
    assert len(hashes) == 1


def test_a_log_is_written_and_its_statistics_are_read_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "a.jsonl"
    assert main(["run", QUEUEING, "threads=4", "--log", str(log)]) == 0
    assert "trace hash" in capsys.readouterr().out
    assert all("time_ns" in json.loads(line) for line in log.read_text().splitlines())
    assert main(["stats", str(log)]) == 0
    shown = capsys.readouterr().out
    assert "the lock" in shown and "API calls" in shown


def test_a_perfetto_file_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("perfetto")
    file = tmp_path / "a.pftrace"
    assert main(["run", QUEUEING, "--perfetto", str(file)]) == 0
    assert file.stat().st_size > 100


def test_repeats_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", DRAWN, "--repeat", "3"]) == 0
    shown = capsys.readouterr().out
    assert "3 runs, of which this is the median" in shown
    assert "coefficient of variation" in shown and "elapsed_s" in shown


def test_runs_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["compare", QUEUEING, "threads=2,4", "policy=fair,rude", "--baseline", "threads=4", "--jobs", "1"]
    assert main([*command, "--measure", "contended"]) == 0
    shown = capsys.readouterr().out
    assert "baseline: threads=4" in shown and "hold_s=0.5" in shown
    lines = [line.split() for line in shown.splitlines()]
    assert ["fair", "4", "2", "s", "1", "3", "1"] in lines
    assert ["fair", "2", "1", "s", "2", "1", "3"] in lines
    assert ["policy", "4", "2"] in lines


def test_many_figures_stand_below_one_another(capsys: pytest.CaptureFixture[str]) -> None:
    measures = ["per_thread_s", "contended", "events", "seed", "threads"]
    command = ["compare", QUEUEING, "threads=2,4", "policy=fair,rude", "--baseline", "threads=4", "--jobs", "1"]
    assert main([*command, *(word for name in measures for word in ("--measure", name))]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines.count(["4", "2", "4", "/", "2"]) == 2 and lines.count(["elapsed_s", "2", "s", "1", "s", "2"]) == 2
    assert ["contended", "3", "1", "3"] in lines and ["policy", "4", "2"] in lines


def test_repeated_runs_are_compared_by_their_medians(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", QUEUEING, "threads=2,4", "--repeat", "3", "--jobs", "1"]) == 0
    shown = capsys.readouterr().out
    assert "the median of 3 runs" in shown and "CoV" in shown and "0.000" in shown


def test_a_comparison_takes_the_program_s_environment(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["compare", "fig2_zerocopy", "n=64", "iterations=1,2", "configuration=usm", "--jobs", "1"]
    assert main([*command, "--env", "HSA_XNACK=1"]) == 0
    assert "baseline: iterations=1" in capsys.readouterr().out
    assert main([*command, "--env", "HSA_XNACK=0"]) == 2
    assert "XNACK is off" in capsys.readouterr().err
    assert main([*command, "--env", "HSA_XNAK=0"]) == 2
    assert "--env HSA_XNAK: nothing reads it; did you mean HSA_XNACK?; there are" in capsys.readouterr().err


def test_a_comparison_writes_tables_and_a_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", QUEUEING, "--baseline", "threads=4", "--jobs", "1", "--out", str(tmp_path)]) == 0
    assert "comparison_calls.csv" in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == {
        "comparison.csv", "comparison_calls.csv", "comparison.png", "comparison.svg", "comparison.pdf",
    }  # fmt: skip
    assert (tmp_path / "comparison.csv").read_text().splitlines()[:3] == [
        "policy,threads,elapsed_s,elapsed_s_ratio,elapsed_s_cov", "fair,4,2.0,1.0,", "fair,1,0.5,4.0,",
    ]  # fmt: skip


def test_a_comparison_as_json(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["compare", QUEUEING, "threads=2,4", "--jobs", "1", "--json"]) == 0
    record = json.loads(capsysbinary.readouterr().out)
    assert record["baseline"] == {"threads": 2} and len(record["cases"][0]["variants"]) == 2


def test_show_says_what_a_scenario_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", QUEUEING]) == 0
    shown = capsys.readouterr().out
    for text in (
        "nothing else takes time",
        "int, 1 to 64",
        "how many queue at the lock",
        "threads=1,2,4 policy=fair,rude",
    ):
        assert text in shown


def test_list_shows_what_comes_with_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "toys.py").write_text(TOYS.read_text())
    monkeypatch.setattr("offloadrt.study.scripts.listing.folder", lambda: tmp_path)
    assert main(["list"]) == 0
    assert "Threads that queue at one lock." in capsys.readouterr().out


def test_the_listing_is_what_the_files_hold() -> None:
    """Run `python tests/scenarios/index.py` when a scenario or its description has changed."""
    entries = listing.from_index()
    assert entries is not None and sorted(entries, key=str) == sorted(
        (entry for path in listing.files() for entry in registry.listed_in(path)), key=str
    )
    assert [entry.name for entry in entries if entry.group == "figures of papers, for `sweep`"][:2] == [
        "exahype_fig1", "exahype_fig2",
    ]  # fmt: skip


def test_machines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["machines"]) == 0
    assert "alex-a100" in capsys.readouterr().out
    assert main(["machines", "alex-a100", "--set", "alloc.cudaFree=123us"]) == 0
    shown = capsys.readouterr().out
    assert "123 µs" in shown and "driver.halt" in shown and "sources" in shown


BAD = [
    (["run", "no-such-scenario"], "no scenario is called no-such-scenario"),
    (["run", "no/such/file.py"], "no/such/file.py: cannot be read"),
    (["show", f"{TOYS}:nothing"], "holds no scenario nothing"),
    (["run", QUEUEING, "treads=2"], "no such parameter; did you mean threads?"),
    (["run", QUEUEING, "threads=many"], "'many' is not a value: expected int, 1 to 64"),
    (["run", QUEUEING, "threads=65"], "65 is out of range"),
    (["run", QUEUEING, "threads"], "'threads': a parameter is written name=value"),
    (["run", QUEUEING, "policy=fare"], "did you mean fair?"),
    (["run", PICKY, "right=1"], "parameter right: must differ from left"),
    (["run", QUEUEING, "--machine", "alex"], "alex"),
    (["run", QUEUEING, "--machine", "no/such.toml"], "no/such.toml"),
    (["run", QUEUEING, "--set", "alloc.cudaFree"], "an override is written --set key=value"),
    (["run", QUEUEING, "--set", "alloc.cudaFree=1kg"], "alloc.cudaFree"),
    (["run", QUEUEING, "--set", "aloc.cudaFree=1us"], "did you mean alloc.cudaFree"),
    (["run", QUEUEING, "--gear", "third"], "--gear"),
    (["run", QUEUEING, "--strategy", "lifo"], "--strategy lifo"),
    (["run", QUEUEING, "--seed", "x"], "--seed"),
    (["run", QUEUEING, "--repeat", "0"], "--repeat 0"),
    (["run", QUEUEING, "--no-such-option"], "--no-such-option"),
    (["run", QUEUEING, "--log", "/no/such/folder/a.jsonl"], "a.jsonl: there is no folder /no/such/folder"),
    (["run"], "SCENARIO"),
    (["runn", QUEUEING], 'Did you mean "run"?'),
    (["stats", "/no/such/log.jsonl"], "cannot be read"),
    (["stats", str(TOYS)], "not an event"),
    (["machines", "alex-a10"], "did you mean alex-a100"),
    (["machines", "MI300"], "did you mean mi300a or mi300x or mi300a-hip?"),
    (["run", QUEUEING, "--machine", "A100"], "did you mean alex-a100 or a100-node4 or a100-node8 or isambard-a100?"),
    (["list", "overlap"], "offloadrt: list: takes no overlap"),
    (
        ["run", QUEUEING, "--set", "fault.batch_max=abc"],
        "'abc' is not one number and one unit of count, as 2faults",
    ),
    (["conform"], "name at least one file"),
    (["conform", "/no/such/cases.jsonl"], "cannot be read"),
    (["conform", str(TOYS)], "toys.py: line 1"),
    (["validate", "--paper", "exahip"], "did you mean exahype?"),
    (["compare", PICKY], "give a parameter the values to compare"),
    (["compare", PICKY, "left=3"], "give a parameter the values to compare"),
    (["compare", QUEUEING, "threads=2,4", "--baseline", "threads"], "a baseline is written name=value"),
    (["compare", QUEUEING, "threads=2,4", "--baseline", "threads=8"], "8 is not among the values 2, 4"),
    (["compare", QUEUEING, "threads=2,4", "--repeat", "0"], "--repeat 0"),
    (["sweep", DRAWN, "--out", "/tmp/never-made"], "no sweep of its own"),
    (["sweep", QUEUEING, "threads=1,0", "--out", "/tmp/never-made"], "0 is out of range"),
    (["sweep", QUEUEING, "--out", "/tmp/never-made", "--jobs", "0"], "--jobs 0"),
]


@pytest.mark.parametrize(
    ("tokens", "message"), BAD, ids=lambda value: " ".join(value[-2:]) if isinstance(value, list) else ""
)
def test_what_is_asked_wrongly_is_one_message_and_exit_code_2(
    tokens: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(tokens) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and message in shown.err and shown.err.startswith("offloadrt: ")
    assert "Traceback" not in shown.err and len(shown.err.splitlines()) <= 2


def test_a_script_that_raises_shows_its_own_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", PICKY, "bang=true"]) == 3
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.startswith("Traceback (most recent call last):")
    assert "toys.py" in shown.err and "ZeroDivisionError: as told" in shown.err
    assert "offloadrt/sim" not in shown.err and "offloadrt/study" not in shown.err and "site-packages" not in shown.err


def test_a_machine_file_with_a_bad_unit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        '[machine]\nname = "mine"\nbase = "alex-a100"\n[sources]\nme = "me"\n'
        '[entry."alloc.cudaFree"]\nvalue = 3\nunit = "kg"\nsource = "me"\nsource_type = "measured"\n'
    )
    assert main(["run", QUEUEING, "--machine", str(file)]) == 2
    message = capsys.readouterr().err
    assert "mine.toml" in message and "alloc.cudaFree" in message and "kg" in message and "Traceback" not in message


def test_a_sweep_writes_tables_and_a_figure_and_resumes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    command = ["sweep", QUEUEING, "threads=1,2", "--jobs", "1", "--out", str(out)]
    assert main(command) == 0
    assert "4 of 4 runs (0 from earlier)" in capsys.readouterr().out
    assert {path.name for path in out.iterdir()} == {
        "points.jsonl", "results.parquet", "results.csv", "figure.png", "figure.svg", "figure.pdf",
    }  # fmt: skip
    assert main(command) == 0
    assert "4 of 4 runs (4 from earlier)" in capsys.readouterr().out


def test_a_figure_of_an_earlier_sweep_does_not_stay_beside_another_table(tmp_path: Path) -> None:
    assert main(["sweep", QUEUEING, "threads=1,2", "policy=fair", "--jobs", "1", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "figure.png").is_file() and (tmp_path / "figure.svg").is_file()
    assert main(["sweep", QUEUEING, "threads=2", "policy=fair", "--jobs", "1", "--out", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"points.jsonl", "results.parquet", "results.csv"}


def test_windows_without_repeated_phases_are_noted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", QUEUEING, "--sample-phases"]) == 0
    assert "note: --sample-phases: no repeated phase was left out" in capsys.readouterr().err
    assert main(["run", QUEUEING]) == 0
    assert "no repeated phase" not in capsys.readouterr().err


def test_one_run_is_no_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", QUEUEING, "threads=2", "policy=fair", "--jobs", "1", "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr()
    assert shown.err.splitlines()[0] == "sweep queueing: 1 run" and "1 of 1 run (0 from earlier)" in shown.out


def test_a_sweep_with_failing_points_says_which(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", PICKY, "left=1,2", "--jobs", "1", "--out", str(tmp_path)]) == 2
    shown = capsys.readouterr()
    assert "1 of 2 runs" in shown.out and "left=2: parameter right: must differ from left" in shown.err


def test_an_interrupted_sweep_keeps_what_it_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from offloadrt.study import sweep

    run_point, calls = sweep.run_point, []

    def interrupted(point: object) -> bytes:
        calls.append(point)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return run_point(point)  # type: ignore[arg-type]  # the sweep gives points

    monkeypatch.setattr(sweep, "run_point", interrupted)
    command = ["sweep", QUEUEING, "--jobs", "1", "--out", str(tmp_path)]
    assert main(command) == 130
    assert "interrupted: 3 of 6 runs are kept" in capsys.readouterr().err
    assert main(command) == 0
    assert "6 of 6 runs (3 from earlier)" in capsys.readouterr().out


def test_names_in_brackets_are_shown_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "brackets.py"
    script.write_text(
        "from offloadrt import Run, scenario\n"
        "from offloadrt.sim import Lock\n\n"
        "@scenario\n"
        "async def brackets(run: Run) -> None:\n"
        "    lock = Lock(run.sim, '[/my]')\n\n"
        "    async def body(t):\n"
        "        await lock.acquire()\n"
        "        await run.sim.sleep(1e-6)\n"
        "        lock.release()\n\n"
        "    await run.parallel(body, num_threads=2)\n"
    )
    log = tmp_path / "log.jsonl"
    assert main(["run", str(script), "--log", str(log)]) == 0
    assert main(["stats", str(log)]) == 0
    assert "[/my]" in capsys.readouterr().out
