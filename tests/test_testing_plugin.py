"""The pytest plugin: a machine in virtual time as a fixture."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from offloadrt import Run
from offloadrt.sim import Lock

pytest_plugins = ["pytester"]


async def test_time_is_virtual(offload: Run) -> None:
    await offload.sim.sleep(3600.0)
    assert offload.sim.now == offload.elapsed == trio.current_time() == 3600.0


async def test_plain_trio_is_virtual_too(offload: Run) -> None:
    async with offload.sim.attached():
        with trio.move_on_after(60) as scope:
            await trio.sleep(3600)
    assert scope.cancelled_caught and offload.sim.now == 60.0


async def test_the_test_is_the_first_actor(offload: Run) -> None:
    assert offload.sim.current.name == "test"
    lock = Lock(offload.sim, "the lock")

    async def body() -> None:
        async with lock:
            await offload.sim.sleep(1.0)

    for _ in range(3):
        offload.sim.spawn(body)
    async with offload.measure():
        await offload.sim.sleep(0.5)
        async with lock:
            pass
    assert lock.statistics().contended == 3 and offload.elapsed == 3.0


@pytest.mark.offload(gear="turbo", seed=5, overrides={"alloc.cudaFree": "20 us"}, phantom=True, record=True)
async def test_the_mark_says_how_the_run_is_made(offload: Run) -> None:
    assert (offload.sim.gear, offload.seed, offload.phantom) == ("turbo", 5, True)
    assert offload.spec.value("alloc.cudaFree") == pytest.approx(20e-6)
    await offload.sim.sleep(1.0)
    assert offload.trace is not None


class TestParametrized:
    @pytest.fixture(params=["native", "turbo"])
    def offload_options(self, request: pytest.FixtureRequest) -> dict[str, Any]:
        return {"gear": request.param, "seed": 3}

    seen: list[float] = []  # noqa: RUF012 - shared on purpose: what each gear drew

    async def test_options_come_from_a_fixture(self, offload: Run) -> None:
        await offload.sim.sleep(float(offload.sim.rng.uniform()))
        self.seen.append(offload.sim.now)
        assert len(set(self.seen)) == 1


def test_failures_read_like_any_others(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from offloadrt.sim import Signal

        async def test_assertion(offload):
            await offload.sim.sleep(1)
            assert offload.sim.now == 2

        async def test_deadlock(offload):
            await Signal(offload.sim, "a signal that nobody sets").wait()

        async def test_skipped(offload):
            pytest.skip("a test of the plugin looks at how a skipped test is reported")

        async def test_crash(offload):
            async def body():
                await offload.sim.sleep(1)
                raise ZeroDivisionError("in an actor")
            offload.sim.spawn(body)
            await offload.sim.sleep(10)

        @pytest.mark.offload(gears="turbo")
        async def test_bad_mark(offload):
            pass

        @pytest.mark.offload(overrides={3: 4})
        async def test_bad_overrides(offload):
            pass

        @pytest.mark.offload(faults=3)
        async def test_bad_faults(offload):
            pass

        async def test_set(offload):
            offload.set("alloc.cudaFre", "1 us")
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(failed=4, skipped=1, errors=3)
    result.stdout.fnmatch_lines_random(
        [
            "E*assert 1.0 == 2",
            "*Deadlock*",
            "*a signal that nobody sets*",
            "E*ZeroDivisionError: in an actor",
            "*offload: no option 'gears'*",
            "*offload: overrides is {3: 4}; it takes a dict by names of entries*",
            "*offload: faults is 3; it takes a list of faults, or 'everywhere'*",
            "*alloc.cudaFre: no such entry; did you mean*",
        ]
    )
    assert "ExceptionGroup" not in result.stdout.str()


def test_without_pytest_trio_it_says_so(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("async def test_nothing(offload): ...")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:trio", "-W", "ignore")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines_random(["*tests in virtual time need pytest-trio*"])
