"""A recording is input of every command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from raw_program import BEGIN, END, FROM, KERNEL, PARAM, TO, RawProgram

from offloadrt.cli import main
from offloadrt.extensions.recording.doubts import stragglers_of
from offloadrt.extensions.recording.format import convert
from offloadrt.extensions.recording.format.summary import ThreadSummary

X, DEVICE, SIZE = 1 << 20, 1 << 40, 1 << 20
USE = {
    "host": X,
    "dev": DEVICE,
    "size": SIZE,
    "ldB": SIZE,
    "stB": SIZE,
    "rd": [1 << 15, 256, 16],
    "wr": [1 << 15, 256, 16],
}


def program(*, touches: bool = True, costs: bool = True, times: int = 1) -> RawProgram:
    made = RawProgram()
    made.malloc(X, SIZE)
    if touches:
        made.touches(X, SIZE, 2)
    made.work(1_000_000)
    for _ in range(times):
        made.directive(BEGIN, (X, SIZE, TO | FROM), line=10, ops=[("alloc", X, DEVICE, SIZE), ("h2d", X, DEVICE, SIZE)])
        made.directive(KERNEL, (X, SIZE, PARAM), line=11, cost={"f64": 2000, "arrays": [USE]} if costs else None)
        made.directive(END, (X, SIZE, FROM), line=12, ops=[("d2h", DEVICE, X, SIZE), ("delete", DEVICE, 0, 0)])
    return made


@pytest.fixture(autouse=True)
def _wide(monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")


def output(capsys, *words: object) -> tuple[int, str, str]:
    code = main([str(word) for word in words])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_run_compares_with_the_real_runtime(tmp_path: Path, capsys) -> None:
    code, out, _ = output(capsys, "run", program().recorded(tmp_path), "--json")
    measured = json.loads(out)["measured"]
    assert code == 0
    assert measured == {"directives": 3, "operations_equal": 3, "operations_moved": 0, "operations_different": 0}


@pytest.mark.parametrize("gear", ["native", "turbo"])
@pytest.mark.parametrize("configuration", ["managed", "managed+prefetch"])
def test_run_takes_another_configuration(tmp_path: Path, capsys, gear: str, configuration: str) -> None:
    path = program().recorded(tmp_path)
    code, out, _ = output(capsys, "run", path, f"configuration={configuration}", "--gear", gear, "--json", "--hash")
    assert code == 0 and json.loads(out)["measured"] == {"directives": 3}


def test_compare_sets_configurations_side_by_side(tmp_path: Path, capsys) -> None:
    path = program().recorded(tmp_path)
    words = "compare", path, "configuration=copy,usm,implicit_zero_copy,eager_maps", "--machine", "mi300a"
    code, out, _ = output(capsys, *words, "--jobs", 1, "--draws", 4)
    assert code == 0 and "implicit_zero_copy" in out


def test_sweep_runs_over_values(tmp_path: Path, capsys) -> None:
    path = program().recorded(tmp_path)
    words = "sweep", path, "host_compute=0,1", "--out", tmp_path / "out", "--jobs", 1, "--draws", 0
    assert output(capsys, *words)[0] == 0
    assert len((tmp_path / "out" / "points.jsonl").read_text().splitlines()) == 2


def test_show_says_what_is_in_a_recording(tmp_path: Path, capsys) -> None:
    code, out, _ = output(capsys, "show", program().recorded(tmp_path))
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert code == 0
    assert "app.c:11 target_kernel 1 1 1 MiB 1 submit" in lines
    assert "saxpy 1 1 8 x 128 1,000 2,000 0 0 B 2 MiB 0.000954" in lines
    assert "a100000 1 MiB 1 malloc 1 w saxpy rw" in lines
    assert "0 1 3 1 ms" in lines
    assert any("threads" in line and "recorded" in line for line in lines)


def test_stats_says_what_the_real_runtime_did(tmp_path: Path, capsys) -> None:
    code, out, _ = output(capsys, "stats", program(times=5).recorded(tmp_path))
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert code == 0 and "h2d 5 5 MiB" in lines and "submit 5" in lines


def test_kernels_have_their_counted_costs(tmp_path: Path, capsys) -> None:
    code, out, _ = output(capsys, "kernels", program().recorded(tmp_path))
    assert code == 0 and "saxpy 1 1 8 x 128 1,000 2,000 0 0 B 2 MiB 0.000954" in " ".join(out.split())


def test_runs_with_other_threads_are_chosen_and_compared(tmp_path: Path, capsys) -> None:
    for number, times in enumerate((1, 2)):
        program(times=times).write(tmp_path / "raw" / f"run-{number}")
    runs = [{"folder": f"run-{number}", "threads": threads} for number, threads in enumerate((1, 4))]
    (tmp_path / "raw" / "record.json").write_text(json.dumps({"version": 1, "command": ["./app"], "runs": runs}))
    path = tmp_path / "app.rec"
    convert(tmp_path / "raw", path)
    assert json.loads(output(capsys, "run", path, "threads=4", "--json")[1])["measured"]["directives"] == 6
    code, _, err = output(capsys, "run", path, "threads=3")
    assert code == 2 and "was recorded with 1, 4; which thread does what is known of no other number" in err
    assert "run-1/1: 1 more of __tgt_target_kernel at app.c:11 than in run-0/1" in output(capsys, "show", path)[1]


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: program(touches=False), "the host's touches between directives were not recorded"),
        (lambda: program(costs=False), "has no costs of kernels"),
    ],
)
def test_a_configuration_that_is_not_known_enough_is_refused(tmp_path: Path, capsys, made, message: str) -> None:
    code, _, err = output(capsys, "run", made().recorded(tmp_path), "configuration=managed")
    assert (code == 2 and f"configuration=managed: {message}" in err) or message in err


def test_a_program_that_relies_on_separate_copies_keeps_them(tmp_path: Path, capsys) -> None:
    made = program()
    made.directive(BEGIN, (X, SIZE, TO), line=20, ops=[("alloc", X, DEVICE, SIZE), ("h2d", X, DEVICE, SIZE)])
    made.touches(X, SIZE, 2)
    made.directive(KERNEL, (X, SIZE, PARAM), line=21, cost={"arrays": [USE]})
    code, _, err = output(capsys, "run", made.recorded(tmp_path), "configuration=managed")
    assert code == 2
    assert "relies on host and device having copies of their own: the kernel at app.c:21 uses 'a100000'" in err


def test_kernels_are_declared_by_name(tmp_path: Path, capsys) -> None:
    path = program(costs=False).recorded(tmp_path)
    code, _, err = output(capsys, "run", path)
    assert code == 2 and "no costs were recorded of the kernels saxpy; declare them" in err
    costs = tmp_path / "costs.toml"
    costs.write_text("[kernel.saxpy]\nflops_per_iteration = 2\nbytes_per_iteration = 24\n")
    assert output(capsys, "run", path, f"costs={costs}")[0] == 0
    costs.write_text("[kernel.saxpy]\nflops = 2\n")
    code, _, err = output(capsys, "run", path, f"costs={costs}")
    assert code == 2 and f"{costs}: kernel 'saxpy': no field 'flops'; there are" in err


@pytest.mark.parametrize("command", ["run", "show", "stats", "compare"])
def test_a_file_that_is_no_recording_is_one_message(tmp_path: Path, capsys, command: str) -> None:
    (tmp_path / "app.rec").write_text("nothing")
    code, _, err = output(capsys, command, tmp_path / "app.rec")
    assert code == 2 and err.strip().endswith("app.rec: is no recording")


def test_a_recording_that_was_cut_off_says_so(tmp_path: Path, capsys) -> None:
    made = program()
    made.rare = [line for line in made.rare if line["k"] != "end"]
    path = made.recorded(tmp_path)
    measured = json.loads(output(capsys, "run", path, "--json")[1])["measured"]
    assert measured["recording"] == "cut off: the program crashed or was killed"
    assert "cut off" in output(capsys, "show", path)[1]


def test_a_program_that_requires_one_memory_gets_it(tmp_path: Path, capsys) -> None:
    made = program()
    made.rare.append({"k": "requires", "flags": 8})
    path = made.recorded(tmp_path)
    for machine, configuration in (("mi300a", "usm"), ("gh200", "usm"), ("alex-a100", "managed")):
        code, out, _ = output(capsys, "run", path, "--machine", machine, "--json")
        said = f"unified_shared_memory, so configuration {configuration}"
        assert (code, json.loads(out)["measured"]["requires"]) == (0, said)
        code, out, _ = output(capsys, "check", path, "--machine", machine)
        assert code == 0 and out.endswith(f"the program requires {said}\n")
    code, _, err = output(capsys, "run", path, "configuration=copy", "--machine", "mi300a")
    assert code == 2 and "configuration=copy: the program requires unified shared memory" in err


def test_kernels_that_were_never_traced_allow_no_other_configuration(tmp_path: Path, capsys) -> None:
    made = program()
    made.directive(KERNEL, (X, SIZE, TO | PARAM), line=30, tripcount=77, cost={"trip": 77})
    code, _, err = output(capsys, "run", made.recorded(tmp_path), "configuration=managed")
    assert code == 2 and "of 1 launches" in err and "which pages they touch" in err


@pytest.mark.parametrize(
    ("milliseconds", "late"),
    [
        ((1.0, 1.1, 0.9, 8.0), [3]),
        ((1.0, 1.1, 0.9, 1.8), []),  # less than twice as long
        ((0.01, 0.01, 0.5, 0.01), []),  # less than a millisecond more
        ((1.0, 8.0), []),  # nobody can say which of two is usual
        ((6.0, 1.0, 1.0, 7.0), [0, 3]),
    ],
)
def test_a_thread_that_took_far_longer_than_its_like_is_a_straggler(
    milliseconds: tuple[float, ...], late: list[int]
) -> None:
    threads = [ThreadSummary(number, 1, 100, 1e-3 * ms) for number, ms in enumerate(milliseconds)]
    assert [int(text.split()[1]) for text in stragglers_of(threads)] == late
    busier = [*threads, ThreadSummary(9, 1, 500, 1.0)]
    assert [int(text.split()[1]) for text in stragglers_of(busier)] == late, "a thread with more to do is none"
