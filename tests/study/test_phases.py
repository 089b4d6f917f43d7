"""A few instances of a long program's repeated phases stand for all of them."""

from __future__ import annotations

import pytest

from offloadrt import Run, scenario
from offloadrt import openmp as omp
from offloadrt.kernels import kernel
from offloadrt.study import execute
from offloadrt.study.points import Options
from offloadrt.study.running import phases
from offloadrt.study.why.observed import observe


@kernel(flops_per_iteration=1, bytes_per_iteration=16)
def scale(a, s):
    a *= s


@scenario(machine="alex-a100")
async def looped(run: Run, threads: int = 1, steps: int = 60, uneven: int = 0, meet: bool = False) -> dict[str, int]:
    run.phantom = True
    ran = 0

    async def body(t: omp.HostThread) -> None:
        nonlocal ran
        a = t.array("a", 1 << 16, fill=1.0)
        for _ in run.steps(steps):
            ran += 1
            await t.target(scale, a, 1.5, maps=omp.map(tofrom=a), teams=8, iterations=1 << 16)
            await t.compute(1e-6 + 2e-4 * uneven * t.number)
            for _ in run.steps(20):  # an inner loop is part of the step
                await t.compute(1e-7)
            if meet:
                await t.barrier()

    await run.parallel(body, num_threads=threads)
    return {"ran": ran}


@pytest.fixture(autouse=True)
def short_programs_are_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phases, "WORTH_TIMERS", 100)


@pytest.mark.parametrize(
    "asked", [{"threads": 1}, {"threads": 4}, {"threads": 4, "uneven": 1}, {"threads": 4, "uneven": 1, "meet": True}]
)
def test_windows_stand_for_the_whole(asked: dict[str, int]) -> None:
    whole, few = execute(looped, asked), execute(looped, asked, windows=True)
    assert whole.measured["ran"] == 60 * asked["threads"] and not whole.phases
    assert few.measured["ran"] == 7 * asked["threads"]
    (phase,) = few.phases
    assert (phase.threads, phase.instances, phase.skipped) == (asked["threads"], 60, 53)
    assert few.elapsed_s == pytest.approx(whole.elapsed_s, rel=0.03)
    assert few.options == {"windows": "sampled"}
    if not asked.get("uneven"):
        for name, call in whole.calls.items():
            assert few.calls[name].count == pytest.approx(call.count, abs=0.08 * call.count + 4)
        assert few.bytes.h2d == pytest.approx(whole.bytes.h2d, rel=0.03)
        assert few.locks["device table"].hold_s == pytest.approx(whole.locks["device table"].hold_s, rel=0.03)


def test_the_error_is_that_of_steps_that_differ() -> None:
    @scenario(machine="alex-a100")
    async def noisy(run: Run) -> None:
        for step in run.steps(500):
            await run.machine.cores.compute(1e-3 * (1 + step % 2))

    (phase,) = execute(noisy, windows=True).phases
    assert phase.skipped_s == pytest.approx(493 * 1.5e-3) and phase.error_s == pytest.approx(
        493 * 0.577e-3 / 2, rel=0.01
    )


def test_what_is_short_is_run_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = execute(looped, {"threads": 2}, hash=True)
    monkeypatch.setattr(phases, "WORTH_TIMERS", 1_000_000)
    assert execute(looped, {"threads": 2}, hash=True, windows=True) == whole


def test_a_path_through_windows_is_as_long_as_the_whole() -> None:
    few = observe(looped, {"threads": 4}, Options(windows=True))
    assert few.elapsed_ps == pytest.approx(few.result.elapsed_s * 1e12, rel=1e-9)
    whole = observe(looped, {"threads": 4}, Options())
    assert few.elapsed_ps == pytest.approx(whole.elapsed_ps, rel=0.03)
    assert few.resources[0].name == whole.resources[0].name
    assert few.resources[0].utilisation == pytest.approx(whole.resources[0].utilisation, rel=0.05)
