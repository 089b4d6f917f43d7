"""A sweep on a Dask cluster, and on the ranks of an MPI job, writes what it writes on this machine's processes."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import polars
import pytest

from offloadrt.study.sweep import finished_points

pytestmark = pytest.mark.slow
TOYS = Path(__file__).with_name("toys.py")


def table(launcher: list[str], executor: str, out: Path) -> polars.DataFrame:
    """The rows of a sweep, in the order of its points."""
    sweep = ["offloadrt", "sweep", f"{TOYS}:queueing", "threads=1,2,4", "policy=fair,rude", "--hash", "--jobs", "2"]
    subprocess.run(
        [*launcher, "-m", *sweep, "--executor", executor, "--out", str(out)],
        check=True,
        capture_output=True,
        timeout=300,
    )
    return polars.read_parquet(out / "results.parquet").sort("threads", "policy")


def test_a_dask_cluster(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="the extra 'dask' is not installed")
    there = table([sys.executable], "dask", tmp_path / "dask")
    assert there.equals(table([sys.executable], "process", tmp_path / "process"))


def test_the_ranks_of_an_mpi_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mpiexec = shutil.which("mpiexec")
    if mpiexec is None or importlib.util.find_spec("mpi4py") is None:
        pytest.skip("the extra 'mpi', or an MPI library, is not installed")
    # Open MPI starts nothing for root, and no more ranks than there are cores, unless it is told to.
    for name in ("ALLOW_RUN_AS_ROOT", "ALLOW_RUN_AS_ROOT_CONFIRM", "MCA_rmaps_base_oversubscribe"):
        monkeypatch.setenv(f"OMPI_{name}", "1")
    there = table([mpiexec, "-n", "3", sys.executable, "-m", "mpi4py.futures"], "mpi", tmp_path / "mpi")
    assert there.equals(table([sys.executable], "process", tmp_path / "process"))


@pytest.mark.parametrize("command", [["compare", "threads=2,4"], ["why", "threads=2", "--budget", "600s"]])
def test_draws_and_changes_of_other_commands_on_a_cluster(command: list[str]) -> None:
    pytest.importorskip("distributed", reason="the extra 'dask' is not installed")
    name, *rest = command
    asked = ["-m", "offloadrt", name, "overlap", "n=1024", *rest, "--draws", "8", "--jobs", "2", "--json"]
    dask, process = (
        subprocess.run([sys.executable, *asked, "--executor", kind], check=True, capture_output=True, timeout=300)
        for kind in ("dask", "process")
    )
    assert dask.stdout == process.stdout
    assert b'"draws":8' in dask.stdout.replace(b" ", b"")


DEADLY = """
import os
import signal
from pathlib import Path

from offloadrt import Run, scenario


@scenario
async def deadly(run: Run, number: int = 0, victim: str = "worker") -> None:
    here = Path(__file__).parent
    died = here / "died"
    if number == 4 and not died.exists():
        died.touch()
        os.kill(int((here / "scheduler.pid").read_text()) if victim == "scheduler" else os.getpid(), signal.SIGKILL)
    await run.sim.sleep(1.0 + number)
"""


@contextlib.contextmanager
def cluster(folder: Path, workers: int) -> Iterator[dict[str, str]]:
    """Start a scheduler and workers, each a process of its own, and yield the environment of who is to use them."""
    address = folder / "scheduler.json"
    dask = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard"]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", "--no-nanny", "--nthreads", "1", "--no-dashboard"]
    with contextlib.ExitStack() as ended:

        def start(command: list[str]) -> subprocess.Popen[bytes]:
            quiet = subprocess.DEVNULL
            process = subprocess.Popen([*command, "--scheduler-file", str(address)], stdout=quiet, stderr=quiet)
            ended.callback(process.wait)
            ended.callback(process.kill)
            return process

        (folder / "scheduler.pid").write_text(str(start(dask).pid))
        for _ in range(workers):
            start(worker)
        yield {**os.environ, "DASK_SCHEDULER_FILE": str(address), "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "60s"}


def deadly_sweep(
    folder: Path, victim: str, executor: str, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Sweep over a program that kills somebody in its fifth run, if nobody has died yet."""
    (folder / "deadly.py").write_text(DEADLY)
    sweep = ["-m", "offloadrt", "sweep", str(folder / "deadly.py"), "number=" + ",".join(map(str, range(12)))]
    options = [f"victim={victim}", "--executor", executor, "--jobs", "2", "--draws", "0", "--out", str(folder / "out")]
    return subprocess.run(
        [sys.executable, *sweep, *options], env=environment, capture_output=True, text=True, timeout=300
    )


def test_a_lost_worker_of_a_cluster_loses_no_run(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="the extra 'dask' is not installed")
    with cluster(tmp_path, workers=2) as environment:
        swept = deadly_sweep(tmp_path, "worker", "dask", environment)
    assert (tmp_path / "died").exists()
    assert swept.returncode == 0, swept.stderr
    assert len(finished_points(tmp_path / "out/points.jsonl")) == 12


def test_a_killed_scheduler_loses_no_finished_run(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="the extra 'dask' is not installed")
    with cluster(tmp_path, workers=2) as environment:
        swept = deadly_sweep(tmp_path, "scheduler", "dask", environment)
    kept = len(finished_points(tmp_path / "out/points.jsonl"))
    assert swept.returncode == 2 and 0 < kept < 12
    assert f"{kept} of 12 runs are kept; the same command goes on from there" in swept.stderr
    again = deadly_sweep(tmp_path, "scheduler", "process", environment)
    assert again.returncode == 0 and f"12 of 12 runs ({kept} from earlier)" in again.stdout
