"""A small fraction of a QMCPACK run: the calls it makes, what is measured, and that kernels vary."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from offloadrt.papers.zerocopy.qmcpack import QmcpackExperiment, QmcpackSetup
from offloadrt.papers.zerocopy.qmcpack.structure import SIZES
from offloadrt.study import Run
from offloadrt.study.running.execution import execute
from offloadrt.study.scripts.registry import find

RunProgram = Callable[..., Any]
FRACTION = 0.001


async def whole(run: Run, **parameters: Any) -> QmcpackExperiment:
    """Initialisation and steps, the latter measured."""
    experiment = QmcpackExperiment(run.openmp, QmcpackSetup.create(fraction=FRACTION, **parameters))
    await experiment.initialise()
    async with run.measure():
        await experiment.advance()
    return experiment


def test_the_plan_is_what_runs(run_program: RunProgram) -> None:
    ran = run_program(lambda run: whole(run, threads=3), record=True)
    plan = ran.returned.setup.plan
    copies = Counter(event.direction for event in ran.events("CopyBegin"))
    assert len(ran.events("KernelSubmit")) == plan.kernels
    assert copies["h2d"] + copies["d2h"] == pytest.approx(plan.copies, abs=4), "and the runtime's at its start"


def test_the_measured_time_starts_behind_the_initialisation_of_all_threads(run_program: RunProgram) -> None:
    began: list[float] = []

    async def program(run: Run) -> QmcpackExperiment:
        experiment = QmcpackExperiment(run.openmp, QmcpackSetup.create(fraction=FRACTION, threads=3))
        await experiment.initialise()
        began.append(run.sim.now)
        async with run.measure():
            await experiment.advance()
        return experiment

    ran = run_program(program, record=True)
    counts = ran.returned.assumed()
    border = round(began[0] * 1e12)
    own = {event.kernel for event in ran.events("KernelSubmit")}  # blit copies are kernels, but not the program's
    starts = [event.time_ps for event in ran.events("KernelStart") if event.kernel in own]
    ends = [event.time_ps for event in ran.events("KernelEnd") if event.kernel in own]
    assert sum(at >= border for at in starts) == counts["kernels"] - counts["kernels_in_initialisation"]
    assert sum(at <= border for at in ends) == counts["kernels_in_initialisation"]
    assert sum(event.time_ps >= border for event in ran.events("Allocate")) == counts["reallocations"]


def test_zero_copy_moves_nothing_in_the_steps(run_program: RunProgram) -> None:
    for configuration in ("usm", "implicit_zero_copy", "eager_maps"):
        ran = run_program(lambda run: whole(run, threads=2), configuration)
        assert ran.run.measured.calls.count("memory_async_copy") == 0
        assert ran.run.measured.calls.count("memory_pool_allocate") == 0


def test_usm_and_implicit_zero_copy_are_the_same_without_globals(run_program: RunProgram) -> None:
    usm, implicit = (
        run_program(lambda run: whole(run, threads=2), configuration, record=True)
        for configuration in ("usm", "implicit_zero_copy")
    )
    assert usm.run.trace.hash() == implicit.run.trace.hash()


def test_there_is_a_prefault_for_each_map(run_program: RunProgram) -> None:
    ran = run_program(lambda run: whole(run, threads=2), "eager_maps")
    assert ran.calls("svm_attributes_set") == ran.returned.assumed()["map_items"]
    assert ran.run.device().fault_statistics().faults == 0, "all that kernels touch is mapped"


def test_one_host_thread_waits_for_no_lock(run_program: RunProgram, configuration: str) -> None:
    ran = run_program(lambda run: whole(run, threads=1), configuration)
    assert {name: lock.contended for name, lock in ran.run.locks.items() if lock.contended} == {}


def test_larger_supercells_copy_more_bytes_by_as_many_copies(run_program: RunProgram) -> None:
    moved = {}
    for size in ("S2", "S24"):
        ran = run_program(lambda run, size=size: whole(run, threads=1, size=size), record=True)
        sizes = [event.bytes for event in ran.events("CopyBegin")]
        moved[size] = (ran.returned.setup.plan.copies, sum(sizes))
    assert moved["S24"][0] == pytest.approx(moved["S2"][0], rel=0.1), "fewer walkers are set up"
    assert moved["S24"][1] > 3 * moved["S2"][1]


def test_launches_of_one_kernel_differ(run_program: RunProgram) -> None:
    ran = run_program(lambda run: whole(run, threads=1), record=True)
    began: dict[int, tuple[str, int]] = {}
    durations: dict[str, set[int]] = defaultdict(set)
    for event in ran.run.trace.events:
        kind = type(event).__name__
        if kind == "KernelStart":
            began[event.kernel] = (event.name, event.time_ps)
        elif kind == "KernelEnd":
            name, since = began.pop(event.kernel)
            durations[name].add(event.time_ps - since)
    assert len(durations["gradient"]) > 4


def test_same_seed_same_history_in_both_gears(run_program: RunProgram) -> None:
    def hash_of(gear: str, seed: int) -> str:
        ran = run_program(lambda run: whole(run, threads=2), record=True, gear=gear, seed=seed)
        return str(ran.run.trace.hash())

    assert hash_of("turbo", 3) == hash_of("native", 3)
    assert hash_of("turbo", 3) != hash_of("turbo", 4)


@pytest.mark.slow
def test_eight_threads_at_a_hundredth_have_one_history_in_both_gears() -> None:
    histories = [
        execute(find("qmcpack"), {"threads": 8, "fraction": 0.01}, gear=gear, hash=True) for gear in ("turbo", "native")
    ]
    assert histories[0].trace_hash == histories[1].trace_hash
    assert histories[0].measured == histories[1].measured


def test_walkers_fit_twice_into_the_machine() -> None:
    for size in SIZES.values():
        per_walker = 2 * (1 + 5) * size.matrix_bytes
        assert 2 * (size.spline_bytes + size.walkers() * per_walker) < 128 * 2**30
    assert SIZES["S2"].walkers() == 512
    assert SIZES["S128"].walkers() == 8


def test_progress_is_told_up_to_the_end(run_program: RunProgram) -> None:
    told: list[tuple[int, int]] = []

    async def program(run: Run) -> None:
        setup = QmcpackSetup.create(fraction=0.005, threads=2)
        experiment = QmcpackExperiment(run.openmp, setup, lambda done, total: told.append((done, total)))
        await experiment.initialise()
        await experiment.advance()

    run_program(program)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1][0] == told[-1][1] > 0
    assert len(told) > 2
