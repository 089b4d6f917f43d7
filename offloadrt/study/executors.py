"""Where the points of a sweep run: anything that is a `concurrent.futures.Executor`.

`process` is a pool of processes on this machine, `dask` a cluster (`dask.distributed`'s own executor), `mpi` the
ranks of an MPI job (`mpi4py.futures`). Nothing else in the project distributes work.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from typing import Any, Literal, ParamSpec, TypeVar, cast

from offloadrt.study.errors import UserError

P = ParamSpec("P")
T = TypeVar("T")
Kind = Literal["process", "dask", "mpi"]


class InProcess(Executor):
    """Runs each call at once in this process: one job needs no pool, and a debugger can follow it."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run the call, and return a future that is done."""
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class Processes(Executor):
    """A pool of processes that is made anew when one of them has died, as ProcessPoolExecutor is not.

    The calls that the old pool had fail with BrokenExecutor.
    """

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._pool = self._new()

    def _new(self) -> ProcessPoolExecutor:
        spawn = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self._jobs, mp_context=spawn, initializer=_live_as_a_worker)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Give a call to one of the processes."""
        try:
            return self._pool.submit(fn, *args, **kwargs)
        except BrokenExecutor:
            self._pool.shutdown()
            self._pool = self._new()
            return self._pool.submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes."""
        self._pool.shutdown(wait, cancel_futures=cancel_futures)


def killed_its_workers(error: Exception) -> bool:
    """Tell whether a cluster gave a call up because workers died under it again and again (Dask's KilledWorker)."""
    distributed = sys.modules.get("distributed.scheduler")
    return distributed is not None and isinstance(error, distributed.KilledWorker)


def processors() -> int:
    """Count the processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _live_as_a_worker() -> None:
    """Leave interrupts to the parent; where it is gone, however it ended, the worker ends too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def end_with_parent() -> None:
        assert parent is not None
        parent.join()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


@contextlib.contextmanager
def executor(kind: Kind = "process", jobs: int = 1) -> Iterator[Executor]:
    """Make an executor for as long as the block lasts; leaving it by an exception drops what has not run.

    Raises UserError when `kind` needs a package that is not installed.
    """
    if jobs < 1:
        raise UserError(f"--jobs {jobs}: at least one")
    if kind == "dask":
        with _cluster(jobs) as client:
            yield cast(Executor, client.get_executor())
    elif kind == "mpi":
        futures = _library("mpi4py.futures", kind)
        with futures.MPICommExecutor() as pool:
            if pool is None:
                raise UserError(
                    "--executor mpi: only rank 0 runs the sweep; start it with `mpiexec -n N python -m mpi4py.futures`"
                )
            yield cast(Executor, pool)
    elif jobs == 1:
        yield InProcess()
    else:
        with _processes(jobs) as pool:
            yield pool


def _cluster(jobs: int) -> contextlib.AbstractContextManager[Any]:
    """Join the cluster that Dask's configuration names, or start one on this machine.

    It is named by ``DASK_SCHEDULER_ADDRESS``, or by ``DASK_SCHEDULER_FILE``, which the scheduler writes.

    A worker of the latter has one thread: runs are Python from end to end.
    """
    distributed, config = _library("distributed", "dask"), _library("dask", "dask").config
    if config.get("scheduler-address", None):
        client = distributed.Client()
    elif file := config.get("scheduler-file", None):
        client = distributed.Client(scheduler_file=file)
    else:
        client = distributed.Client(n_workers=jobs, threads_per_worker=1, dashboard_address=None)
    return cast(contextlib.AbstractContextManager[Any], client)


@contextlib.contextmanager
def _processes(jobs: int) -> Iterator[Executor]:
    before = set(multiprocessing.active_children())
    pool = Processes(jobs)
    try:
        with _terminated_in_order():
            yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():
            if child not in before:
                child.terminate()
        raise
    else:
        pool.shutdown()


@contextlib.contextmanager
def _terminated_in_order() -> Iterator[None]:
    """While the body runs, let SIGTERM leave it as an interrupt does, so that the pool can give back what it holds."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _library(name: str, kind: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise UserError(
            f"--executor {kind} needs the package {package}, which is not installed: pip install 'offloadrt[{kind}]'"
        ) from None
