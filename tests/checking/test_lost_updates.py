"""LLVM counts a region's mapping down when its kernel is launched, so the last of several users may copy too early.

A program that OpenMP allows then loses an update. The oracle is the values, and the runtime without the fault.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from checked_programs import add

from offloadrt import Run, kernel
from offloadrt import openmp as omp
from offloadrt.cli import main
from offloadrt.extensions.checking.checker import Checker
from offloadrt.extensions.checking.mistakes import Mistake
from offloadrt.study import execute, find_scenario

LATE = {"table.count_down": "kernel"}
"""The runtime without the fault."""
N = 4096


@kernel
def increment(a: Any, first: int, last: int) -> None:
    for i in range(first, last):
        a[i] = a[i] + 1.0


@kernel
def slow(a: Any, first: int, last: int) -> None:
    for i in range(first, last):
        for _ in range(2000):
            a[i] = a[i] + 1.0


Body = Callable[[omp.HostThread], Awaitable[Any]]


def runtime_faults(body: Body, threads: int = 2, machine: str = "alex-a100", **overrides: Any) -> list[Mistake]:
    """Run a program in which the checker finds no mistake, and return what the runtime does wrong."""
    run = Run(machine=machine, overrides=overrides)
    checker = Checker(run.sim)
    run.observe(checker)

    async def program() -> None:
        await run.parallel(body, num_threads=threads)
        await run.finish()

    run.sim.run(program)
    assert not [mistake.lines() for mistake in checker.finish()]
    return checker.runtime_faults()


def sharing(
    later_s: float, unmap: str = "target", outer: bool = False, barrier: bool = False
) -> tuple[Body, list[float]]:
    """Make a program whose first thread has a long kernel; the second one unmaps the same array a little later.

    Returns its body, and the list that gets the first and the last value of the array.
    """
    shared: list[omp.HostArray] = []
    values: list[float] = []

    async def body(t: omp.HostThread) -> None:
        if t.number == 0:
            shared.append(t.array("a", N, fill=0.0))
            if outer:
                await t.target_enter_data(omp.map(to=shared[0]))
        await t.barrier()
        a = shared[0]
        if t.number == 0:
            await t.target(slow, a, 0, N // 2, maps=omp.map(tofrom=a), teams=1, threads=32)
        else:
            await t.sleep(later_s)
            if barrier:
                await t.barrier()
            if unmap == "target":
                await t.target(increment, a, N // 2, N, maps=omp.map(tofrom=a))
            else:
                await t.target_enter_data(omp.map(to=a))
                await t.sleep(later_s)
                await t.target_exit_data(omp.map(from_=a))
        if barrier and t.number == 0:
            await t.barrier()
        await t.barrier()
        if t.number == 0:
            if outer:
                await t.target_exit_data(omp.map(from_=a))
            values.extend((float(a[0]), float(a[N - 1])))

    return body, values


@pytest.mark.parametrize("unmap", ["target", "exit data"])
def test_the_copy_of_the_last_user_does_not_wait_for_another_threads_kernel(unmap: str) -> None:
    body, values = sharing(20e-6, unmap)
    (fault,) = runtime_faults(body)
    assert fault.kind == "lost update" and fault.subject == "a on device 0, by the runtime"
    written, copied = (story.did for story in fault.stories)
    assert written == "writes a in kernel 'slow' of target"
    assert copied == "copies a from the device in target" + (" exit data" if unmap == "exit data" else "")
    assert "LLVM counts the mapping down before the kernel has ended" in fault.advice
    assert values[0] == 0.0, "the update of the long kernel is lost"


@pytest.mark.parametrize("unmap", ["target", "exit data"])
def test_nothing_is_lost_where_a_region_keeps_its_references_until_its_kernel_has_ended(unmap: str) -> None:
    body, values = sharing(20e-6, unmap)
    assert not [fault for fault in runtime_faults(body, **LATE) if fault.happened]
    assert values[0] == 2000.0


@pytest.mark.parametrize(("later_s", "kind"), [(20e-6, "lost update"), (1.0, None)])
def test_only_what_happened_counts_as_lost(later_s: float, kind: str | None) -> None:
    body, _ = sharing(later_s)
    assert [fault.kind for fault in runtime_faults(body) if fault.happened] == ([kind] if kind else [])


def test_another_reference_that_outlasts_the_kernel_prevents_it() -> None:
    body, values = sharing(20e-6, outer=True)
    assert not runtime_faults(body)
    assert values == [2000.0, 1.0]


def test_a_barrier_between_the_kernel_and_the_unmap_prevents_it() -> None:
    body, _ = sharing(0.0, "exit data", barrier=True)
    assert not runtime_faults(body)


@pytest.mark.parametrize("waits", [True, False])
def test_so_it_is_with_deferred_regions(waits: bool) -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", N, fill=0.0)
        await t.target(slow, a, 0, N // 2, maps=omp.map(tofrom=a), teams=1, threads=32, nowait=True)
        if waits:
            await t.taskwait()
        else:
            await t.sleep(20e-6)
        await t.target(increment, a, N // 2, N, maps=omp.map(tofrom=a), nowait=True)
        await t.taskwait()

    assert [fault.kind for fault in runtime_faults(body, 1)] == ([] if waits else ["lost update"])


def test_a_kernel_that_only_reads_loses_nothing() -> None:
    shared: dict[str, omp.HostArray] = {}

    async def body(t: omp.HostThread) -> None:
        if t.number == 0:
            shared["a"] = t.array("a", N, fill=1.0)
        await t.barrier()
        mine = t.array(f"b{t.number}", N, fill=0.0)
        await t.sleep(5e-6 * t.number)
        await t.target(add, mine, shared["a"], N, maps=omp.map(from_=mine, tofrom=shared["a"]))

    assert not runtime_faults(body)


def test_the_shipped_program_loses_one_increment_and_check_says_whose_fault_that_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["check", "lost_update"]) == 1
    told = capsys.readouterr().out
    assert "writes a in kernel 'increment' of target at lost_update.py:36" in told
    assert "copies a from the device in target exit data at lost_update.py:39" in told
    assert "no mistake of the program's, 1 lost update of the runtime's" in told and "race" not in told
    assert main(["check", "lost_update", "--set", "table.count_down=kernel"]) == 0
    assert capsys.readouterr().out == "lost_update on mi300x: nothing to report\n"


def test_check_names_what_another_schedule_can_lose(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "lost_update", "gap_us=100"]) == 0
    first, note = capsys.readouterr().out.splitlines()[:2]
    assert first == "lost_update on mi300x: nothing to report"
    assert note.startswith("LLVM can lose an update of a on device 0 under another schedule: host thread 0 writes")


@pytest.mark.parametrize("machine", ["mi300x", "alex-a100", "h100"])
def test_the_shipped_program_keeps_all_under_the_other_runtime(machine: str) -> None:
    lost = find_scenario("lost_update")
    for gap_us in (0.0, 2.0, 5.0, 10.0, 11.0, 50.0):
        measured = execute(lost, {"gap_us": gap_us}, machine=machine, overrides=LATE).measured
        assert measured["arrived"] == 4.0


def test_explore_says_that_a_differing_result_is_the_runtimes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["explore", "lost_update", "gap_us=100", "--runs", "120", "--jobs", "1"]) == 1
    told = capsys.readouterr().out
    assert "lost_update gap_us=100: increments=4.0 arrived=3.0" in told or "arrived=3.0" in told
    assert "in this schedule, lost update: a on device 0, by the runtime" in told
    same = ["--runs", "120", "--jobs", "1", "--set", "table.count_down=kernel"]
    assert main(["explore", "lost_update", "gap_us=100", *same]) == 0


def test_the_other_runtime_costs_a_synchronization_more_for_each_region_that_copies_back() -> None:
    lost = find_scenario("lost_update")

    def synchronizations(**overrides: Any) -> int:
        return execute(lost, {"gap_us": 100.0}, overrides=overrides).calls["hipStreamSynchronize"].count

    early, late = synchronizations(), synchronizations(**LATE)
    assert early <= late <= early + 4
