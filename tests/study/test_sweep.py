"""Sweeps: every combination once, kept as it finishes, resumed where it stopped."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest

from offloadrt.cli import main
from offloadrt.study import ParameterError, UserError, find_scenario
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import InProcess, executor, finished_points, grid, sweep

TOYS = Path(__file__).with_name("toys.py")
QUEUEING = find_scenario(f"{TOYS}:queueing")
AXES = {"threads": (1, 2, 4), "policy": ("fair", "rude")}


class Counting(InProcess):
    """Counts what it is asked to run; interrupts before number `stop`."""

    def __init__(self, stop: int | None = None) -> None:
        self.count = 0
        self.stop = stop

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self.count == self.stop:
            raise KeyboardInterrupt
        self.count += 1
        return super().submit(fn, *args, **kwargs)


def test_a_grid_is_every_combination() -> None:
    points = grid(QUEUEING, AXES, RunSpec(seed=3))
    assert [(point.parameters["threads"], point.parameters["policy"]) for point in points] == [
        (1, "fair"), (1, "rude"), (2, "fair"), (2, "rude"), (4, "fair"), (4, "rude"),
    ]  # fmt: skip
    assert len({point.key for point in points}) == 6
    assert points[0].key != grid(QUEUEING, AXES, RunSpec(seed=4))[0].key


def test_a_bad_value_is_found_before_anything_runs() -> None:
    with pytest.raises(ParameterError, match="threads: 0 is out of range"):
        grid(QUEUEING, {"threads": ("1", "0")}, RunSpec())


def test_a_sweep_gives_results_in_the_order_of_its_points() -> None:
    seen: list[int] = []
    outcome = sweep(
        grid(QUEUEING, AXES, RunSpec()), InProcess(), advanced=lambda outcome: seen.append(len(outcome.finished))
    )
    assert [result.elapsed_s for result in outcome.finished] == [0.5, 0.5, 1.0, 1.0, 2.0, 2.0]
    assert seen == [0, 1, 2, 3, 4, 5, 6]


def test_an_interrupted_sweep_goes_on_where_it_stopped(tmp_path: Path) -> None:
    points, file = grid(QUEUEING, AXES, RunSpec()), tmp_path / "deep" / "points.jsonl"
    with pytest.raises(KeyboardInterrupt):
        sweep(points, Counting(stop=4), file=file)
    assert len(finished_points(file)) == 4
    pool = Counting()
    outcome = sweep(points, pool, file=file)
    assert (pool.count, outcome.kept, len(outcome.finished)) == (2, 4, 6)
    pool = Counting()
    again = sweep(points, pool, file=file)
    assert pool.count == 0 and again.finished == outcome.finished


def test_a_line_that_was_cut_short_is_run_again(tmp_path: Path) -> None:
    points, file = grid(QUEUEING, AXES, RunSpec()), tmp_path / "points.jsonl"
    sweep(points, InProcess(), file=file)
    file.write_bytes(file.read_bytes()[:-40])
    pool = Counting()
    outcome = sweep(points, pool, file=file)
    assert pool.count == 1 and len(outcome.finished) == 6
    assert len(finished_points(file)) == 6


def test_a_line_whose_result_is_edited_or_of_another_run_is_run_again(tmp_path: Path) -> None:
    points, file = grid(QUEUEING, AXES, RunSpec()), tmp_path / "points.jsonl"
    first = sweep(points, InProcess(), file=file)
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    rows[0]["result"], rows[1]["result"] = rows[1]["result"], rows[0]["result"]
    rows[2]["result"]["elapsed_s"] *= 2
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    pool = Counting()
    again = sweep(points, pool, file=file)
    assert pool.count == 3 and again.kept == 3
    assert [result.elapsed_s for result in again.finished] == [result.elapsed_s for result in first.finished]


def test_other_lines_of_the_file_are_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "points.jsonl"
    sweep(grid(QUEUEING, {"threads": (1, 2)}, RunSpec()), InProcess(), file=file)
    pool = Counting()
    outcome = sweep(grid(QUEUEING, {"threads": (2, 4)}, RunSpec()), pool, file=file)
    assert pool.count == 1 and outcome.kept == 1
    assert len(file.read_text().splitlines()) == 3


def test_a_changed_script_is_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from offloadrt.study import sweep as points_module

    file = tmp_path / "points.jsonl"
    points = grid(QUEUEING, {"threads": (1,)}, RunSpec())
    sweep(points, InProcess(), file=file)
    monkeypatch.setattr(points_module, "digest_of_file", lambda path: "another")
    pool = Counting()
    sweep(points, pool, file=file)
    assert pool.count == 1


def test_a_changed_machine_is_run_again_whoever_names_it(tmp_path: Path) -> None:
    machine, script = tmp_path / "mine.toml", tmp_path / "slow_free.py"
    script.write_text(
        f"from offloadrt import Run, scenario\n\n@scenario(machine={str(machine)!r})\nasync def slow_free(run: Run):\n"
        '    """A machine of my own."""\n    await run.sim.sleep(run.spec.value("alloc.cudaFree"))\n'
    )

    def took(free_us: int, options: RunSpec) -> list[float]:
        machine.write_text(
            '[machine]\nname = "mine"\nbase = "alex-a100"\n[sources]\nme = "me"\n[entry."alloc.cudaFree"]\n'
            f'value = {free_us}\nunit = "us"\nsource = "me"\nsource_type = "measured"\n'
        )
        points = grid(find_scenario(str(script)), {}, options)
        return [one.elapsed_s for one in sweep(points, InProcess(), file=tmp_path / "points.jsonl").finished]

    for options in (RunSpec(), RunSpec(machine=str(machine))):
        assert [took(10, options), took(99, options)] == [pytest.approx([10e-6]), pytest.approx([99e-6])]


def test_the_key_of_a_run_holds_its_runtime(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"

    def keys(lookup_us: float) -> list[str]:
        mine.write_text(
            '[runtime]\nname = "mine"\nbase = "llvm22"\n[sources]\nme = "me"\n[entry."table.lookup"]\n'
            f'value = {lookup_us}\nunit = "us"\nsource = "me"\nsource_type = "measured"\n'
        )
        return [
            grid(QUEUEING, {"threads": (1,)}, RunSpec(machine="mi300a", runtime=runtime))[0].key
            for runtime in ("llvm22", "nvhpc", str(mine))
        ]

    assert len({*keys(1.0), *keys(2.0)}) == 4


def test_a_point_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    picky = find_scenario(f"{TOYS}:picky")
    file = tmp_path / "points.jsonl"
    points = grid(picky, {"left": (1, 2), "bang": (False, True)}, RunSpec())
    outcome = sweep(points, InProcess(), file=file)
    assert [result is not None for result in outcome.results] == [True, False, False, False]
    assert "ZeroDivisionError: as told" in outcome.failures[0].message
    assert [failure.message for failure in outcome.failures[1:]] == ["parameter right: must differ from left"] * 2
    assert len(finished_points(file)) == 1


def test_each_line_is_a_point_and_its_result(tmp_path: Path) -> None:
    file = tmp_path / "points.jsonl"
    sweep(grid(QUEUEING, {"threads": (2,)}, RunSpec(overrides={"alloc.cudaFree": "20us"})), InProcess(), file=file)
    row = json.loads(file.read_text())
    assert row["point"]["parameters"]["threads"] == 2
    assert row["point"]["options"]["overrides"] == {"alloc.cudaFree": "20us"}
    assert row["result"]["measured"]["contended"] == 1


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        sweep(grid(QUEUEING, {"threads": (1,)}, RunSpec()), InProcess(), file=tmp_path / "file" / "points.jsonl")


def test_a_pool_of_processes_gives_the_same() -> None:
    points = grid(QUEUEING, {"threads": (1, 2)}, RunSpec(hash=True))
    with executor("process", 2) as pool:
        elsewhere = sweep(points, pool, jobs=2)
    assert not elsewhere.failures
    assert elsewhere.finished == sweep(points, InProcess()).finished


@pytest.mark.parametrize(("kind", "package"), [("dask", "distributed"), ("mpi", "mpi4py")])
def test_an_executor_that_is_not_installed_is_said(kind: Any, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setitem(sys.modules, f"{package}.futures", None)
    with pytest.raises(UserError, match=f"--executor {kind} needs the package {package}"), executor(kind):
        pass


def test_no_jobs_are_too_few() -> None:
    with pytest.raises(UserError, match="--jobs 0"), executor("process", 0):
        pass


def test_any_executor_will_do() -> None:
    assert issubclass(InProcess, Executor)


ENDLESS = """
import signal
import sys
from pathlib import Path

from offloadrt import Run, scenario
from offloadrt.cli import main


@scenario
async def endless(run: Run, number: int = 0) -> None:
    Path(__file__).with_name(f"begun {number}").touch()
    while True:
        await run.sim.sleep(1.0)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    out = str(Path(__file__).with_name("out"))
    sys.exit(main(["sweep", __file__, "number=1,2", "--jobs", "2", "--out", out]))
"""


@pytest.mark.parametrize("kind", ["SIGINT", "SIGKILL"])
def test_a_sweep_that_is_stopped_leaves_nobody_behind(kind: str, tmp_path: Path) -> None:
    """polars has waits go on after a Ctrl-C; and workers must end even if the parent cannot tell them."""
    script = tmp_path / "endless.py"
    script.write_text(ENDLESS)
    path = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, str(script)]
    with subprocess.Popen(command, env=path, stderr=subprocess.PIPE, start_new_session=True) as stopped:
        try:
            while len(list(tmp_path.glob("begun *"))) < 2:
                assert stopped.poll() is None
                with contextlib.suppress(subprocess.TimeoutExpired):
                    stopped.wait(0.05)
            stopped.send_signal(getattr(signal, kind))
            _, told = stopped.communicate(timeout=60)  # until the workers, who inherited the pipe, have ended too
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(stopped.pid, signal.SIGKILL)
    assert stopped.returncode == (130 if kind == "SIGINT" else -signal.SIGKILL)
    assert kind == "SIGKILL" or b"interrupted: 0 of 2 runs are kept" in told


def blocked_signals(_: int) -> set[signal.Signals]:
    return {signal.Signals(one) for one in signal.pthread_sigmask(signal.SIG_BLOCK, [])}


def test_only_the_parent_hears_a_ctrl_c_also_while_its_workers_start() -> None:
    """A worker that imported modules when Ctrl-C came wrote its traceback between the command's lines."""
    with executor(jobs=2) as pool:
        assert signal.SIGINT in pool.submit(blocked_signals, 0).result()
    assert signal.SIGINT not in blocked_signals(0)


def test_a_pool_that_is_terminated_leaves_nothing_behind(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import os, signal\n"
        "from offloadrt.study.sweep import executor\n"
        "if __name__ == '__main__':\n"
        "    with executor(jobs=2) as pool:\n"
        "        assert pool.submit(abs, -1).result() == 1\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (128 + signal.SIGTERM, "")


MORTAL = """
import os
import signal
from pathlib import Path

from offloadrt import Run, scenario


@scenario
async def mortal(run: Run, number: int = 0, deadly: int = -1, deaths: int = 1) -> None:
    died = list(Path(__file__).parent.glob("died *"))
    if number == deadly and len(died) < deaths:
        Path(__file__).with_name(f"died {len(died)}").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    await run.sim.sleep(1.0 + number)
"""


def test_a_run_whose_worker_was_killed_is_made_again(tmp_path: Path) -> None:
    script = tmp_path / "mortal.py"
    script.write_text(MORTAL)
    points = grid(find_scenario(str(script)), {"number": range(6), "deadly": [3]}, RunSpec())
    with executor(jobs=2) as pool:
        outcome = sweep(points, pool, jobs=2, file=tmp_path / "points.jsonl")
    assert [result.elapsed_s for result in outcome.finished] == [1, 2, 3, 4, 5, 6]
    assert not outcome.failures


def test_a_run_that_always_kills_its_worker_fails_alone(tmp_path: Path) -> None:
    script = tmp_path / "mortal.py"
    script.write_text(MORTAL)
    points = grid(find_scenario(str(script)), {"number": range(6), "deadly": [3], "deaths": [99]}, RunSpec())
    with executor(jobs=2) as pool:
        outcome = sweep(points, pool, jobs=2)
    assert [result.elapsed_s for result in outcome.finished] == [1, 2, 3, 5, 6]
    (failure,) = outcome.failures
    assert failure.point.parameters["number"] == 3 and "worker process died each time" in failure.message


FULL_DISK = """
import resource
import sys

from offloadrt.cli import main

resource.setrlimit(resource.RLIMIT_FSIZE, (3000, resource.RLIM_INFINITY))  # no file may get longer, as on a full disk
sys.exit(main(sys.argv[1:]))
"""


def test_a_full_disk_loses_no_finished_run(tmp_path: Path) -> None:
    command = ["sweep", f"{TOYS}:queueing", "threads=1,2,4", "policy=fair,rude", "--jobs", "1", "--out", str(tmp_path)]
    command += ["--draws", "0"]
    full = subprocess.run([sys.executable, "-c", FULL_DISK, *command], capture_output=True, text=True)
    assert full.returncode == 2
    assert "points.jsonl: cannot be written" in full.stderr and "of 6 runs are kept" in full.stderr
    kept = len(finished_points(tmp_path / "points.jsonl"))
    assert 0 < kept < 6
    assert main(command) == 0
    assert len(finished_points(tmp_path / "points.jsonl")) == 6
