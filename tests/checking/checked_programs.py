"""Programs of one or several host threads, run under the checker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from offloadrt import Run, kernel
from offloadrt import openmp as omp
from offloadrt.extensions.checking.checker import Checker
from offloadrt.extensions.checking.mistakes import Mistake
from offloadrt.extensions.checking.repairs import Costs

N = 1024

Body = Callable[[omp.HostThread], Awaitable[Any]]


@kernel
def double(a: Any, n: int) -> None:
    for i in range(n):
        a[i] = a[i] * 2.0


@kernel
def fill(a: Any, n: int) -> None:
    for i in range(n):
        a[i] = 1.0


@kernel
def fill_part(a: Any, first: int, count: int) -> None:
    for i in range(first, first + count):
        a[i] = 3.0


@kernel
def add(into: Any, a: Any, n: int) -> None:
    for i in range(n):
        into[i] = a[i]


@kernel
def total(a: Any, s: Any, n: int) -> None:
    for i in range(n):
        s[0] = s[0] + a[i]


@kernel(flops_per_iteration=1, bytes_per_iteration=16)
def double_views(a: Any) -> None:
    a *= 2.0


def run_checked(body: Body, threads: int = 1, **options: Any) -> tuple[list[Mistake], Run]:
    """Run a program to its end, and return what the checker found."""
    program_options = {name: options.pop(name) for name in ("phantom", "configuration") if name in options}
    run = Run(**options)
    run.configure(**program_options)
    checker = Checker(run.sim)
    run.observe(checker)

    async def main() -> None:
        await run.parallel(body, num_threads=threads)
        await run.finish()

    run.sim.run(main)
    return checker.finish(), run


def found(body: Body, threads: int = 1, **options: Any) -> list[tuple[str, str]]:
    """Return kind and subject of each mistake."""
    return [(mistake.kind, mistake.subject) for mistake in run_checked(body, threads, **options)[0]]


def kinds(body: Body, threads: int = 1, **options: Any) -> list[str]:
    """Return the kinds of the mistakes, each once."""
    return list(dict.fromkeys(kind for kind, _ in found(body, threads, **options)))


def finished(body: Body) -> tuple[Checker, Costs]:
    """Run a program of one thread to its end under a checker; return that, and what its operations took."""
    run = Run()
    run.trace = costs = Costs(run.sim)
    checker = Checker(run.sim)
    run.observe(checker)

    async def program() -> None:
        await run.parallel(body, num_threads=1)
        await run.finish()

    run.sim.run(program)
    costs.close()
    checker.finish()
    return checker, costs
