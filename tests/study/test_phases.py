"""A few instances of a long program's repeated phases stand for all of them."""

from __future__ import annotations

import pytest

from offloadrt import Run, scenario
from offloadrt import openmp as omp
from offloadrt.extensions.explaining.sentence import observe
from offloadrt.extensions.sampling import phases
from offloadrt.kernels import kernel
from offloadrt.study import execute
from offloadrt.study.spec import RunSpec


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
    ("asked", "run"),
    [
        ({"threads": 1}, 7),
        ({"threads": 4}, 15),
        ({"threads": 4, "meet": True}, 7),
        ({"threads": 4, "uneven": 1}, 7),
        ({"threads": 4, "uneven": 1, "meet": True}, 7),
    ],
)
def test_windows_stand_for_the_whole(asked: dict[str, int], run: int) -> None:
    whole, few = execute(looped, asked), execute(looped, asked, sample_phases=True)
    assert whole.measured["ran"] == 60 * asked["threads"] and not whole.phases
    assert few.measured["ran"] == run * asked["threads"]
    (phase,) = few.phases
    assert (phase.threads, phase.instances, phase.skipped) == (asked["threads"], 60, 60 - run)
    drift = asked.get("uneven") and not asked.get("meet")  # apart, threads come to wait less than in the first phases
    assert few.elapsed_s == pytest.approx(whole.elapsed_s, rel=0.05 if drift else 0.03)
    assert few.options == {"phases": "sampled"}
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

    (phase,) = execute(noisy, sample_phases=True).phases
    assert phase.skipped_s == pytest.approx(493 * 1.5e-3) and phase.error_s == pytest.approx(
        493 * 0.577e-3 / 2, rel=0.01
    )


@pytest.mark.parametrize(("warm", "sampled"), [(6, 4), (10, 2)])
def test_threads_that_never_meet_are_one_phase_however_many_instances_are_run(
    monkeypatch: pytest.MonkeyPatch, warm: int, sampled: int
) -> None:
    monkeypatch.setattr(phases, "WARM", warm)
    monkeypatch.setattr(phases, "SAMPLED", sampled)
    asked = {"threads": 4, "uneven": 1}
    whole, few = execute(looped, asked), execute(looped, asked, sample_phases=True)
    (phase,) = few.phases
    assert phase.threads == 4
    assert few.elapsed_s == pytest.approx(whole.elapsed_s, rel=0.06)


def test_time_passes_once_for_different_loops_at_the_same_time() -> None:
    @scenario(machine="alex-a100")
    async def two_at_once(run: Run) -> None:
        async def body(t: omp.HostThread) -> None:
            for _ in run.steps(500 if t.number else 400):
                await t.compute(1e-5 if t.number else 1e-6)

        await run.parallel(body, num_threads=2)

    whole, few = execute(two_at_once, {}), execute(two_at_once, {}, sample_phases=True)
    assert len(few.phases) == 1
    assert few.elapsed_s == pytest.approx(whole.elapsed_s, rel=1e-3)


def test_one_long_phase_and_several_short_ones_add_up() -> None:
    @scenario(machine="alex-a100")
    async def several(run: Run) -> None:
        for region in range(3):  # as many loops of one length, by other threads each time

            async def body(t: omp.HostThread, seconds: float = 1e-6 * (1 + region)) -> None:
                for _ in run.steps(300):
                    await t.compute(seconds)
                for _ in run.steps(900):
                    await t.compute(5e-6)

            await run.parallel(body, num_threads=2)

    whole, few = execute(several, {}), execute(several, {}, sample_phases=True)
    assert [phase.instances for phase in few.phases] == [300, 900] * 3
    assert few.elapsed_s == pytest.approx(whole.elapsed_s, rel=1e-3)


def test_threads_that_begin_in_step_are_run_until_they_are_out_of_it() -> None:
    @scenario(machine="alex-a100")
    async def in_step(run: Run, steps: int) -> dict[str, int]:
        ran = 0

        async def body(t: omp.HostThread) -> None:
            nonlocal ran
            for step in run.steps(steps):
                ran += 1
                slow = 1.2 if step < 10 else 1.0  # what waiting for one another would be
                await t.compute(1e-4 * slow * (1 + 0.02 * (t.number % 2) + 0.001 * t.number))

        await run.parallel(body, num_threads=8)
        return {"ran": ran // 8}

    whole, few = execute(in_step, {"steps": 400}), execute(in_step, {"steps": 400}, sample_phases=True)
    (phase,) = few.phases
    assert phase.settled and 14 < few.measured["ran"] < 30
    assert few.elapsed_s == pytest.approx(whole.elapsed_s, rel=0.02)
    short = execute(in_step, {"steps": 50}, sample_phases=True)
    (phase,) = short.phases
    assert short.measured["ran"] == 12 and not phase.settled
    assert "still falling out of step" in str(phase) and "still falling" not in str(few.phases[0])


@pytest.mark.parametrize("threads", [2, 3, 8])
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_threads_that_meet_leave_out_the_same_instances(threads: int, noise: float) -> None:
    @scenario(machine="alex-a100")
    async def meeting(run: Run) -> None:
        async def body(t: omp.HostThread) -> None:
            for step in run.steps(80):
                await t.compute(1e-5 * (1 + noise * (step * 7 + t.number * 3) % 5))
                await t.barrier()
                await t.compute(1e-6 * (1 + t.number))

        await run.parallel(body, num_threads=threads)

    whole, few = execute(meeting, {}), execute(meeting, {}, sample_phases=True)
    (phase,) = few.phases
    assert phase.threads == threads
    assert few.elapsed_s == pytest.approx(whole.elapsed_s, abs=4 * phase.error_s + 1e-6)


def test_what_is_short_is_run_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = execute(looped, {"threads": 2}, hash=True)
    monkeypatch.setattr(phases, "WORTH_TIMERS", 1_000_000)
    assert execute(looped, {"threads": 2}, hash=True, sample_phases=True) == whole


def test_a_path_through_windows_is_as_long_as_the_whole() -> None:
    few = observe(looped, {"threads": 4}, RunSpec(sample_phases=True))
    assert few.elapsed_ps == pytest.approx(few.result.elapsed_s * 1e12, rel=1e-9)
    whole = observe(looped, {"threads": 4}, RunSpec())
    assert few.elapsed_ps == pytest.approx(whole.elapsed_ps, rel=0.03)
    assert few.resources[0].name == whole.resources[0].name
    assert few.resources[0].utilisation == pytest.approx(whole.resources[0].utilisation, rel=0.05)


@scenario(machine="alex-a100")
async def with_known_work(run: Run, told: bool = True) -> dict[str, int]:
    """Steps whose own work differs from one to the next; `told`: whether the loop says so."""
    run.phantom = True
    work = [(10 + (7 * step) % 11) * 1e-5 for step in range(60)]

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 1 << 16, fill=1.0)
        for step in run.windows.phases.steps(60, work=work if told else ()):
            await t.target(scale, a, 1.5, maps=omp.map(tofrom=a), teams=8, iterations=1 << 16)
            await t.compute(work[step])

    await run.parallel(body)
    return {}


def test_work_that_is_known_leaves_no_doubt() -> None:
    whole = execute(with_known_work, {})
    told, untold = (execute(with_known_work, {"told": told}, sample_phases=True) for told in (True, False))
    (known,), (unknown,) = told.phases, untold.phases
    assert known.error_s < unknown.error_s / 10
    assert told.elapsed_s == pytest.approx(whole.elapsed_s, rel=1e-9)
    assert abs(untold.elapsed_s - whole.elapsed_s) <= 4 * unknown.error_s
