"""What users do wrong in scripts, files and options: one message each, that names the place."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from offloadrt.cli import main
from offloadrt.extensions.exploring.schedules import ScheduleCase, Token

QUEUEING = f"{Path(__file__).parent / 'study' / 'toys.py'}:queueing"
MANY_DEVICES = ["run", "overlap", "n=64", "threads=2"]
SCRIPT = str(Path(__file__).parent / "test_cli.py")
CASES = Path(__file__).parent / "data" / "conformance"

ASKED = [
    (["run", QUEUEING, "threads=4", "threads=8"], "parameter threads: is given twice, as 4 and as 8"),
    (["run", QUEUEING, "--set", "alloc.cudaFree=1us", "--set", "alloc.cudaFree=2us"], "--set alloc.cudaFree: is given"),
    (["run", QUEUEING, "--env", "A=1", "--env", "A=1"], "--env A: is given twice"),
    (["compare", QUEUEING, "threads=1,2", "threads=4"], "parameter threads: is given twice"),
    (["compare", QUEUEING, "threads=1,2", "--baseline", "threads=1", "--baseline", "threads=2"], "--baseline threads"),
    (["run", "fig2_zerocopy", "n=64", "--env", "HSA_XNACK=2"], "--env HSA_XNACK=2: it can be 0 or 1"),
    (["run", "overlap", "--env", "OMPX_APU_MAPS=maybe"], "--env OMPX_APU_MAPS=maybe: it can be 0 or 1"),
    (["run", QUEUEING, "--log", "/tmp/a", "--perfetto", "/tmp/../tmp/a"], "--log and --perfetto both name /tmp/a"),
    (
        ["run", QUEUEING, "--perfetto", "/tmp/a.png", "--figure", "/tmp/a.png"],
        "--perfetto and --figure both name /tmp/a",
    ),
    (
        ["run", QUEUEING, "--log", QUEUEING.rpartition(":")[0]],
        "toys.py: would overwrite what is read; name another file",
    ),
    (["run", QUEUEING, "--figure", "/tmp/a.gif"], "--figure /tmp/a.gif: a figure is a file that ends with .png, "),
    (["run", QUEUEING, "--log", "/tmp"], "--log /tmp: is a folder; name a file in it"),
    (["run", QUEUEING, "--log", "/nosuch/a.jsonl"], "--log /nosuch/a.jsonl: there is no folder /nosuch"),
    (["report", "/nosuch/a.html", QUEUEING], "report /nosuch/a.html: there is no folder /nosuch"),
    (["sweep", QUEUEING, "threads=1,2", "--out", SCRIPT], "test_cli.py: is a file; name a folder"),
    (["compare", QUEUEING, "threads=1,2", "--out", "/proc/x"], "--out /proc/x: cannot be made: No such file"),
    (["run", "."], ". is a folder; give the path of a script in it"),
    (["run", "app.cpp"], "app.cpp: is no Python script; build it with `offloadrt cxx -fopenmp app.cpp -o app`, record"),
    (["run", "/bin/true"], "(not UTF-8); a program is recorded with `offloadrt record -o true.rec /"),
    (["record", "-o", "/tmp", "true"], "-o /tmp: is a folder and no recording; name a file, as in app.rec"),
    (["record", "-o", SCRIPT, "true", SCRIPT], "test_cli.py: would overwrite what is read; name another file"),
    (["run", "overlap", "--machine", "t4,h100"], "--machine t4,h100: one run takes one; compare, sweep and report"),
    (["compare", "overlap", "--machine", "t4,h10"], "h10: is neither a machine that comes with offloadrt nor a file"),
    (["compare", "overlap", "--machine", "t4,t4"], "parameter machine: t4 is given twice"),
    (["compare", "overlap", "threads=1,2", "--machine", "t4,"], "t4,: is neither a machine that comes with offloadrt"),
    (
        ["run", "overlap", "n=64", "--allocator", "nosuch"],
        "no allocator 'nosuch'; there are: direct, llvm, ",
    ),
    (
        ["run", "fig2_zerocopy", "n=64", "--configuration", "keep"],
        "no memory configuration 'keep'; there",
    ),
    (["run", QUEUEING, "--faults", "slow:h2d:0x"], "slow:h2d:0x: how much slower is written 10x, and at least 1x"),
    (["run", QUEUEING, "--strategy", "random(x)"], "--strategy random(x): it can be fifo, random or random(N)"),
    (["timeline", "/tmp/a.svg", QUEUEING, "--window", "1ms:"], "--window 1ms:: a window is written FROM:TO in virtual"),
    (["sweep", QUEUEING, "threads=1,2", "--x", "nosuch"], "--x nosuch: is no parameter of this sweep (it has: threads"),
    (["run", "overlap", "--env", "CUDA_MODULE_LOADING=now"], "module.loading: 'now' is none of lazy, eager"),
    (["compare", "overlap", "threads=1,2", "--draws", "-1"], "--draws -1: it can be 0 to 1,000,000"),
    (["run", "overlap", "--draws", "99999999999999999999"], "--draws 99999999999999999999: it can be 0 to 1,000,000"),
    (["run", "overlap", "--repeat", "10000000"], "--repeat 10000000: it can be 1 to 1,000,000"),
    (["run", "overlap", "--budget", "soon"], "--budget soon: a time is written as in 60s, 5min or 1h"),
    (["sweep", QUEUEING, "threads=1,1", "--out", "/tmp"], "parameter threads: 1 is given twice"),
    (["run", "overlap", "--configuration", "managed", "--machine", "mi300a"], "is true); take 'usm' or"),
    (["run", "overlap", "--set", "jitter=2"], "--set jitter: '2' must be at most 1"),
    (["run", "overlap", "--set", "runtime.image_copies=1073741824"], "'1073741824' must be at most 1024"),
    (["run", "overlap", "--set", "alloc.segment=0"], "--set alloc.segment: '0' must be positive"),
    (["run", "overlap", "--set", "staging.chunk=0"], "--set staging.chunk: '0' must be positive"),
    (["run", "overlap", "--set", "alloc.segment=0"], "--set alloc.segment: '0' must be positive"),
    (["run", "overlap", "--set", "mem.size=1MiB"], "mem.size: is 1048576 bytes, less than mem.reserved"),
    (["run", "overlap", "--set", "alloc.cudaFre=1us"], "--set alloc.cudaFre: no such entry"),
    (["run", "overlap", "--env", "LIBOMP_NUM_HIDDEN_HELPER_THREADS=abc"], "--env LIBOMP_NUM_HIDDEN_HELPER_THREADS, "),
    (["run", "overlap", "--machine", "/tmp/none.toml"], "/tmp/none.toml: cannot be read: No such file or directory"),
    (["run", "overlap", "n=0"], "parameter n: 0 is out of range"),
    (["run", "fig2_zerocopy", "iterations=-3"], "parameter iterations: -3 is out of range"),
    (["run", "fig2_zerocopy", "n=64", "configuration=usm", "--env", "HSA_XNACK=0"], "Memory access fault by GPU"),
    (["run", "overlap", "n=64", "--log", "/dev/full"], "/dev/full: cannot be written: No space left on device"),
    (
        ["run", "overlap", "--thread", "4"],
        "nor a parameter thread of overlap; did you mean threads=4?",
    ),
    (
        ["run", "overlap", "machine=t4"],
        "(it has: threads, n, configuration, phantom); it is an option: --machine t4",
    ),
    (["run", "overlap", "n=64KiB"], "'64KiB' is a quantity of data, and this is a plain number; write n=64Ki for"),
    (["run", "overlap", "n=some"], "parameter n: 'some' is not a value: expected int, 1 or more"),
    (["run", "overlap", "n=1m"], "parameter n: '1m' is not a value: expected int, 1 or more (1M is 1000000"),
    (["run", "stream", "elements=1us"], "parameter elements: '1us' is a quantity of time, and this is a plain number"),
    (["run", "rodinia", "size_gb=3us"], "parameter size_gb: '3us' is a quantity of time, and this is a number of GB"),
    (
        ["run", "overlap", "--set", "alloc.cudaFree=20"],
        "has no unit, and this is a quantity of time; write alloc",
    ),
    (["run", "overlap", "--configuration", "zero"], "no memory configuration 'zero'; there are: copy, "),
    (
        ["run", "stdpar", "--configuration", "usm"],
        "it is for OpenMP programs; one of stdpar has none",
    ),
    (["run", "overlap", "configuration=copy", "--configuration", "usm"], "--configuration usm sets it as well"),
    (["compare", "overlap", "configuration=copy,usm", "--configuration", "usm"], "--configuration usm sets it for all"),
    (["run", "overlap", "threads=1,2"], "; one run takes one value, and compare, sweep and report take several"),
    (
        ["run", "my-a100.toml"],
        "my-a100.toml: is the file of a machine or a runtime, and no scenario; after a scenario's",
    ),
    (["stats", SCRIPT], "test_cli.py, line 1: not an event of a trace, as `run --log` writes them (Expected"),
    (["calibrate", SCRIPT, "--base", "t4", "-o", "/tmp/none.toml"], "test_cli.py, line 1: is no micro-benchmark of"),
    (["conform", str(CASES)], "is a directory; name the files in it"),
]


@pytest.fixture(autouse=True)
def no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """No lines of progress on standard error, which a loaded machine would get."""
    monkeypatch.setattr("offloadrt.cli.terminal._NOW_AND_THEN_S", 3600.0)


UNREADABLE = [
    (["record", "true"], "record: --output is missing"),
    (["why"], "why: SCENARIO is missing"),
    (
        ["why", "overlap", "--budget", "-5s"],
        "why: --budget needs a value; one that begins with - is written --budget=-",
    ),
    (["compare", "overlap", "--machine", "t4", "--machine", "h100"], "several values are written with commas"),
]


@pytest.mark.parametrize(("tokens", "message"), UNREADABLE)
def test_what_no_command_can_read(tokens: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(tokens) == 2
    told = capsys.readouterr().err
    assert message in told and told.endswith(f"\nTry offloadrt {tokens[0]} --help.\n")


@pytest.mark.parametrize(("tokens", "message"), ASKED, ids=lambda value: value[-1] if isinstance(value, list) else "")
def test_options(tokens: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(tokens) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and message in shown.err and shown.err.startswith("offloadrt: ")
    assert len(shown.err.splitlines()) == 1


HEAD = """
import numpy as np
from offloadrt import Run, kernel, scenario
from offloadrt import openmp as omp

@kernel(flops_per_iteration=1, bytes_per_iteration=16)
def scale(a, s):
    a *= s

"""
BODY = """
@scenario
async def mine(run: Run, n: int = 8) -> None:
    async def body(t):
        a = t.array("a", n, fill=1.0)
        {0}
    await run.parallel(body, num_threads=3)
"""

RAISES = [
    ("await t.target(scale, np.ones(3), 2.0)", "argument 'a' is a NumPy array of shape (3,), which no device has"),
    ("await t.target(scale, [1.0], 2.0)", "argument 'a' is a list"),
    ("await t.target(scale, a)", "kernel 'scale' takes 2 arguments (a, s), not 1"),
    ("await t.target(lambda: 0, a)", "TypeError: <lambda> is no kernel: decorate its function with @kernel"),
    ("await t.target_enter_data(omp.map(to=a[2:4]))", "is written omp.section(a, lower, length)"),
    ("await t.target(scale, a, 2.0, device=7)", "device number 7 is invalid"),
    ("raise SystemExit(3)", "SystemExit: 3"),
    ("await run.parallel(3)", "run.parallel(body, num_threads) takes an async function first, not 3"),
    ("await run.mpiexec(3)", "run.mpiexec(main, n) takes an async function first, not 3"),
    ("await run.parallel(lambda t: 3)", "returned 3, nothing to await; write it as `async def`"),
    ("await t.target_dta(a)", "target_data"),
    ("t.array('b', n / 2)", "array 'b': its size is 4.0, but a size is a whole number"),
    ("t.array('b', -1)", "array 'b': its size is -1, but a size is a whole number from 0"),
    ("t.array(5, n)", "array 5: its name comes first"),
    ("t.array('b', n, kind='hepa')", "array 'b': no kind 'hepa'; there are heap, static, global, link"),
    ("t.array('b', n, 'flaot64')", "array 'b': data type 'flaot64' not understood"),
    ("t.array('b', n, object)", "array 'b': elements of type object are references"),
    ("t.array('b', n, fill='x')", "array 'b': could not convert string to float"),
    ("t.array('b', n, fill=np.zeros(3))", "array 'b': fill has shape (3,), the array has (8,)"),
    ("t.array('b', 10**14, fill=1.0)", "array 'b': Unable to allocate"),
    ("await t.target(scale, a, 2.0, team=4)", "target: no clause 'team'; did you mean teams?"),
    ("await t.target(scale, a, 2.0, teams=2.5)", "target: teams is 2.5, but must be a whole number from 1"),
    ("await t.target(scale, a, 2.0, teams=0)", "target: teams is 0, but must be a whole number from 1"),
    ("await t.target(scale, a, 2.0, iterations='4')", "target: iterations is '4', but must be a whole number from 0"),
    ("omp.section(a, -1, 2)", "a[-1:2] is no array section"),
    ("await t.host_access(np.zeros(3))", "host_access takes an array of the program or a section of one, not a NumPy"),
    ("await t.prefetch(3)", "prefetch: place cannot be 3; it takes HostArray | Section"),
    ("kernel(flops_per_iteration='1')(scale.body)", "flops_per_iteration is '1', but must be a number"),
    ("await t.compute('10us')", "compute: seconds cannot be '10us'; it takes float"),
    ("await run.sim.sleep('1ms')", "sleep('1ms'): takes virtual seconds as a number"),
    ("run.sim.fail_after('1ms')", "fail_after('1ms'): takes virtual seconds as a number"),
    ("with t.target_data(omp.map(to=a)): pass", "target_data: write `async with`, not `with`"),
    ("with run.measure(): pass", "run.measure(): write `async with`, not `with`"),
    ("with run.sim.open_nursery(): pass", "Nursery: write `async with`, not `with`"),
    ("await t.omp_target_memcpy(1, 2, 3)", "omp_target_memcpy: dst cannot be 1; it takes HostArray | Section | "),
    ("await t.omp_target_is_present(3)", "omp_target_is_present: place cannot be 3; it takes HostArray | Section | "),
    ("raise GeneratorExit", "GeneratorExit"),
    ("t.free(3)", "free: array cannot be 3; it takes HostArray"),
    ("await t.omp_alloc('b', n, allocator=3)", "omp_alloc: allocator cannot be 3; it takes OmpAllocator"),
    ("run.locks['devicetable']", "no lock 'devicetable'; did you mean device table?; there are: device table, "),
    ("run.locks[3]", "no lock 3; there are: "),
    ("a[8]", "IndexError: array 'a': index 8 is out of bounds for axis 0 with size 8"),
    ("a[-9] = 1.0", "IndexError: array 'a': index -9 is out of bounds for axis 0 with size 8"),
    ("a['x']", "IndexError: array 'a': only integers, slices"),
    ("a[0] = 'x'", "ValueError: array 'a': could not convert string to float: 'x'"),
    ("a[:] = [1, 2, 3]", "ValueError: array 'a': could not broadcast input array from shape (3,) into shape (8,)"),
    ("t.array('b', n, phantom=a)", "array 'b': phantom is HostArray(name='a'"),
    ("t.array('b', n, phantom='yes')", "array 'b': phantom is 'yes', but must be True, False or None"),
    ("t.array('b', n, 'u1', fill=300)", "ValueError: array 'b': Python integer 300 out of bounds for uint8"),
    ("t.array('b', n, 'i4', fill=float('nan'))", "ValueError: array 'b': invalid value encountered in cast"),
    ("omp.section(a, 0, None, 0)", "a[0:0:0] is no array section"),
    ("omp.section(a, None)", "a[None:0] is no array section: its numbers are whole"),
    ("omp.map(to=a, always=3)", "omp.map: always is 3, but must be True or False"),
    ("await t.target(scale, a, 2.0, defaultmap=3)", "defaultmap(3): there are alloc, to, from, tofrom, present, "),
    ("await t.run(3)", "TypeError: run: construct cannot be 3"),
    ("run.nosuch", "AttributeError: 'Run' object has no attribute 'nosuch'"),
    ("kernel(3)", "kernel: 3 is no function; write @kernel above a `def`"),
    ("kernel(scale)", "is no function; write @kernel above a `def`"),
    ("kernel(body)", "kernel 'body': awaits or yields, and would do nothing; write a plain `def`"),
    ("run.statistics.engines['core']", "no part 'core'; did you mean cores?; there are: cores, "),
]


@pytest.mark.parametrize(("line", "message"), RAISES)
def test_programs(line: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The program's own frames and one error, however many threads raise it."""
    script = tmp_path / "script.py"
    script.write_text(HEAD + BODY.format(line))
    assert main(["run", str(script)]) == 3
    told = capsys.readouterr().err
    assert message in told and "raised 3 times" in told and str(script) in told
    assert "offloadrt/sim" not in told and "attrs generated" not in told and len(told.splitlines()) <= 8


REFUSED = [
    ("@scenario\ndef s(run: Run) -> None: ...", "scenario s: write it as `async def`"),
    ("@scenario\nasync def s(run: Run, n=3) -> None: ...", "scenario s: parameter n has no type"),
    (
        "@scenario\nasync def s(run: Run) -> None:\n    return run.sim.sleep",
        "scenario s returned function; it returns a",
    ),
    (
        "async def q(): ...\n\n@scenario\nasync def s(run: Run) -> None:\n    return q()",
        "scenario s returned coroutine",
    ),
    ("s = scenario(scenario)", "scenario scenario: write it as `async def`"),
    ("s = scenario('t4')", "@scenario('t4'): its options have names, as in @scenario(machine='t4')"),
    (
        "@scenario\nasync def s(run: Run) -> 'Nosuch': ...",
        "scenario s: a type in its signature is unknown: name 'Nosuch'",
    ),
    ("@scenario\n@scenario\nasync def s(run: Run) -> None: ...", "write it as `async def`"),
    ("@scenario\nasync def s(run: Run) -> int:\n    return 3", "scenario s returned int; it returns a dict of figures"),
    (
        "@scenario\nasync def s(run: Run) -> dict[str, float]:\n    return {'x': float('nan')}",
        "scenario s returned 'x': nan; a figure is finite",
    ),
    (
        "@scenario(machine='nosuch')\nasync def s(run: Run) -> None: ...",
        "scenario s, machine='nosuch': nosuch: is neither",
    ),
    (
        "@kernel\ndef k(a, n):\n    for i in range(n):\n        while a[i]:\n            pass",
        "13: kernel 'k': while a[i]",
    ),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_scripts_that_are_refused(text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.py"
    script.write_text(HEAD + text)
    assert main(["run", str(script)]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"offloadrt: {script}:") and message in told and len(told.splitlines()) == 1


def test_the_token_of_a_test_is_for_pytest(capsys: pytest.CaptureFixture[str]) -> None:
    token = Token("test_a.py::test_b", {}, {}, (), ScheduleCase(), {}, "", "").encode()
    assert main(["replay", token]) == 2
    assert "is of a test; run it with `pytest test_a.py --offload-replay TOKEN`" in capsys.readouterr().err


EVENT = {"event": "DirectiveBegin", "time_ns": 1, "actor": 0, "directive": 1, "name": "target"}
LOGS = [
    ([], "holds no event"),
    ([EVENT, EVENT | {"time_ns": "x"}], "log.jsonl, line 2: not an event of a trace"),
    ([EVENT | {"time_ns": -7}], "log.jsonl, line 1: not an event of a trace"),
    ([EVENT | {"directive": "x"}], "log.jsonl, line 1: not an event of a trace"),
]


@pytest.mark.parametrize(("lines", "message"), LOGS)
def test_logs(lines: list[object], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main(["stats", str(log)]) == 2
    assert message in capsys.readouterr().err


def test_a_file_without_cases_proves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.jsonl").write_text("\n")
    assert main(["conform", str(tmp_path / "empty.jsonl")]) == 2
    assert "empty.jsonl: holds no case" in capsys.readouterr().err


MACHINES = [
    ('base = "nosuch"', "mine.toml: machine.base: 'nosuch' is neither a machine that comes with offloadrt nor a file"),
    ('base = "alex-a100"\ntitle = 3', "mine.toml: Expected `str`, got `int` (machine.title)"),
    (
        'base = "alex-a100"\n[entry."alloc.cudaFree"]\nvalue = "x"\nunit = "us"\nsource = "me"\nsource_type = "user"',
        "mine.toml: alloc.cudaFree: is 'x', which is no number, but has the unit 'us'",
    ),
]


OF_MINE = 'base = "alex-a100"\n[sources]\nme = "I"\n[entry."{0}"]\nvalue = {1}\nsource = "me"\nsource_type = "{2}"'
MACHINES += [
    (
        OF_MINE.format("alloc.cudaFree", '20\nunit = "GB"', "user"),
        "alloc.cudaFree: is a quantity of data, but in the base",
    ),
    (OF_MINE.format("mem.bw", '1e-6\nunit = "s"', "user"), "in the base it is a quantity of data / time"),
    (
        OF_MINE.format("machine.apu", '1\nunit = "fraction"', "user"),
        "a quantity of fraction, but in the base it is true",
    ),
    (OF_MINE.format("driver.halt", '"no"\nchoices = ["no"]', "user"), "driver.halt: 'no' is none of none, "),
    (
        OF_MINE.format("mem.bw", '1\nunit = "GB/s"', "guess"),
        "(source_type); there are datasheet, published measurement, ",
    ),
    (
        'base = "alex-a100"\n[entry."alloc.cudaFree"]\nvalu = 3',
        "alloc.cudaFree: Object contains unknown field `valu`; an entry has source, source_type, value, range, ",
    ),
    ("", "mine.toml: cpu.cores: no such entry; the file has no `base = "),
]


@pytest.mark.parametrize(("text", "message"), MACHINES)
def test_machine_files(text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.toml").write_text(f'[machine]\nname = "mine"\n{text}\n')
    assert main(["run", "overlap", "--machine", str(tmp_path / "mine.toml")]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("asked", [["list"], ["stats", "none.jsonl"]])
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_stream_that_the_shell_has_closed_changes_no_exit_code(asked: list[str], stream: str) -> None:
    code = f"import sys; from offloadrt.cli import main; sys.{stream} = None; sys.exit(main({asked!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == (0 if asked == ["list"] else 2)
    assert "Traceback" not in done.stderr
    assert done.stdout == ("" if stream == "stdout" or asked != ["list"] else done.stdout)


def test_who_reads_one_line_of_a_table_is_no_finding() -> None:
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m offloadrt machines | head -1; echo ${{PIPESTATUS[0]}}"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "0" and done.stderr == ""


def test_a_full_disk_below_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    import subprocess
    import sys

    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "offloadrt", "list"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 2
    assert done.stderr == "offloadrt: standard output: cannot be written: No space left on device\n"


@pytest.mark.parametrize("devices", ["0", "-1", "1.5"])
def test_a_run_has_at_least_one_device(devices: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        HEAD
        + BODY.format("pass").replace(
            "    async def body", f"    run.configure(num_devices={devices})\n    async def body"
        )
    )
    assert main(["run", str(script)]) == 2
    assert f"num_devices is {devices}, but must be a whole number from 1" in capsys.readouterr().err


@pytest.mark.parametrize("threads", ["'4'", "2.5", "0"])
def test_a_team_has_a_whole_number_of_threads(threads: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.py"
    script.write_text(HEAD + BODY.format("pass").replace("num_threads=3", f"num_threads={threads}"))
    assert main(["run", str(script)]) == 2
    assert f"a parallel region of {threads} threads: a whole number, and at least one" in capsys.readouterr().err


def test_numpy_s_whole_numbers_are_sizes(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    line = "assert t.array('b', np.int64(n)).shape == (8,) and t.array('c', (np.int32(2), 3)).nbytes == 48"
    script.write_text(HEAD + BODY.format(line))
    assert main(["run", str(script)]) == 0


def test_an_array_without_elements_is_no_error(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    nest = "@kernel\ndef fill(a):\n    for i in range(len(a)):\n        a[i] = 1.0\n"
    script.write_text(HEAD + nest + BODY.format("await t.target(fill, a)"))
    assert main(["run", str(script), "n=0"]) == 0


def test_what_cannot_be_opened_is_not_called_unwritable(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def out_of_files(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files", "worker.py")

    monkeypatch.setattr("offloadrt.cli._run", out_of_files)
    with os.fdopen(os.dup(1), "w") as kept:
        assert main(["list"]) == 2
        os.dup2(kept.fileno(), 1)
    assert capfd.readouterr().err == "offloadrt: worker.py: Too many open files\n"


def test_a_deadlock_at_a_barrier_names_who_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.py"
    script.write_text(HEAD + BODY.format("await (t.sim.sleep(1.0) if t.number == 1 else t.barrier())"))
    assert main(["run", str(script)]) == 3
    told = capsys.readouterr().err
    assert told.count("waits on barrier (script.py:15) since t=0, to which host thread 1 has not come") == 2
    assert "main waits in run.parallel (script.py:16)" in told


def test_different_errors_of_many_threads_are_shown_once_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "script.py"
    raising = "raise ValueError(f'{t.number} is bad')\n        await t.sim.sleep(0)"
    script.write_text(HEAD + BODY.format(f"if t.number == 2:\n            raise KeyError('two')\n        {raising}"))
    assert main(["run", str(script)]) == 3
    told = capsys.readouterr().err
    assert told.count("Traceback") == 2 and told.count("KeyError: 'two'") == 1
    assert "ValueError: 0 is bad" in told and "raised 2 times, with other words by others" in told


def test_a_log_is_no_scenario_that_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.jsonl").write_text("{}")
    assert main(["show", "a.jsonl"]) == 2
    assert "a.jsonl is no script (.py) and no recording (.rec); `stats` reads a log" in capsys.readouterr().err


def test_names_that_are_no_text_in_utf_8(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/f\xff"))
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this file system takes no such name")
    machine, script = folder / "mine.toml", folder / "mine.py"
    machine.write_text('[machine]\nname = "mine"\nbase = "t4"\n')
    script.write_text(HEAD + BODY.format("await t.target(scale, a, 2.0)"))
    assert main(["run", str(script), "--machine", str(machine), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["machine"] == "mine"
    assert main(["machines", str(machine), "--json"]) == 2
    assert "\\udcff/mine.toml': is no text in UTF-8; rename" in capsys.readouterr().err


def test_a_range_of_values_is_told_how_to_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "mutex", "threads=1..8"]) == 2
    assert "a range is written as its values, as in 1,2,4,8" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--log", "--perfetto", "--figure"])
def test_no_output_overwrites_a_source(option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (source := tmp_path / "mine.py").write_text("mine\n")
    assert main(["run", "mutex", option, str(source)]) == 2
    assert "would overwrite a source; name another file" in capsys.readouterr().err
    assert source.read_text() == "mine\n"


def test_a_log_that_is_cut_off_is_read_up_to_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole, cut = tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    assert main(["run", "launches", "--log", str(whole)]) == 0
    lines = whole.read_bytes().splitlines(keepends=True)
    cut.write_bytes(b"".join(lines[:-1]) + lines[-1][:-9])
    whole.write_bytes(b"".join(lines[:-1]))
    capsys.readouterr()
    assert main(["stats", str(whole)]) == 0
    expected = capsys.readouterr()
    assert main(["stats", str(cut)]) == 0
    told = capsys.readouterr()
    assert told.out == expected.out and expected.err == ""
    assert f"is cut off in line {len(lines)}" in told.err


def test_a_terminal_of_ascii_only_gets_a_table(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "offloadrt", "run", "launches"]
    done = subprocess.run(command, env=environment, capture_output=True, cwd=tmp_path, check=False)
    assert (done.returncode, b"Error" in done.stderr) == (0, False)
    assert b" ?s " in done.stdout and done.stdout.isascii()


@pytest.mark.parametrize("raised", ["BaseException('mine')", "GeneratorExit('mine')", "SystemExit('mine')"])
def test_a_script_that_ends_python_while_it_is_read(
    raised: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"raise {raised}\n")
    assert main(["run", str(script)]) == 3
    assert capsys.readouterr().err.endswith(f"{raised.partition('(')[0]}: mine\n")
