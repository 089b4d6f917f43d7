"""A sweep on a Dask cluster, and on the ranks of an MPI job, writes what it writes on this machine's processes."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import polars
import pytest

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


def test_the_ranks_of_an_mpi_job(tmp_path: Path) -> None:
    mpiexec = shutil.which("mpiexec")
    if mpiexec is None or importlib.util.find_spec("mpi4py") is None:
        pytest.skip("the extra 'mpi', or an MPI library, is not installed")
    there = table([mpiexec, "-n", "3", sys.executable, "-m", "mpi4py.futures"], "mpi", tmp_path / "mpi")
    assert there.equals(table([sys.executable], "process", tmp_path / "process"))
