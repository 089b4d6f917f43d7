"""Executors of sweeps beyond one machine: `--executor dask` and `--executor mpi`."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from concurrent.futures import Executor
from typing import Any, cast

from offloadrt.study.errors import UserError


@contextlib.contextmanager
def dask(jobs: int) -> Iterator[Executor]:
    """Yield an executor that makes runs on the workers of a Dask cluster, for the body of ``with``.

    It connects to the cluster that Dask's configuration names, or else starts `jobs` workers on this machine. Raises
    UserError without Dask.
    """
    with _cluster(jobs) as client:
        yield cast(Executor, client.get_executor())


@contextlib.contextmanager
def mpi(jobs: int) -> Iterator[Executor]:
    """Yield an executor that makes runs on the program's MPI ranks, for the body of ``with``.

    jobs: ignored, since there are as many workers as `mpiexec` has started ranks. Raises UserError on ranks other than
    0, which work for rank 0, and without mpi4py.
    """
    with _library("mpi4py.futures", "mpi").MPICommExecutor() as pool:
        if pool is None:
            raise UserError(
                "--executor mpi: only rank 0 runs the sweep; start it with `mpiexec -n N python -m mpi4py.futures`"
            )
        yield cast(Executor, pool)


def _cluster(jobs: int) -> contextlib.AbstractContextManager[Any]:
    """Connect to the cluster that Dask's configuration names, or start one with `jobs` workers on this machine.

    A cluster is named by ``DASK_SCHEDULER_ADDRESS``, or by ``DASK_SCHEDULER_FILE``, which the scheduler writes. Workers
    that are started here have one thread each, since runs are pure Python.
    """
    distributed, config = _library("distributed", "dask"), _library("dask", "dask").config
    if config.get("scheduler-address", None):
        client = distributed.Client()
    elif file := config.get("scheduler-file", None):
        client = distributed.Client(scheduler_file=file)
    else:
        client = distributed.Client(n_workers=jobs, threads_per_worker=1, dashboard_address=None)
    return cast(contextlib.AbstractContextManager[Any], client)


def _library(name: str, kind: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise UserError(
            f"--executor {kind} needs the package {package}, which is not installed: pip install 'offloadrt[{kind}]'"
        ) from None
