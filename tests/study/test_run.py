"""A run with a machine: what it counts, and where its time went."""

from __future__ import annotations

import math
from typing import Any

import attrs
import pytest

from offloadrt import Run, kernel, scenario
from offloadrt import openmp as omp
from offloadrt.study import Result, UserError, execute


@kernel(flops_per_iteration=1, bytes_per_iteration=16)
def double(a):  # type: ignore[no-untyped-def]  # a kernel's arguments are views of device memory
    a *= 2.0


@scenario
async def doubling(
    run: Run, threads: int = 4, n: int = 4096, configuration: str = "copy", phantom: bool = False
) -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", n, fill=1.0)
        await t.target(double, a, maps=[omp.map(tofrom=a)], teams=8)
        assert run.phantom or a[0] == 2.0

    await run.parallel(body, num_threads=threads)


@pytest.fixture(scope="module")
def result() -> Result:
    return execute(doubling)


def test_calls_have_their_real_names(result: Result) -> None:
    assert result.calls["cuLaunchKernel"].count == 4
    call = result.calls["cuMemcpyHtoDAsync"]
    assert call.count == 4 and call.min_s <= call.mean_s <= call.max_s
    assert call.mean_s == pytest.approx(call.total_s / 4)


def test_locks_and_engines(result: Result) -> None:
    assert result.locks["device table"].contended > 0 and "driver context" in result.locks
    for engine in result.devices.values():
        assert engine.busy_s >= 0 and engine.busy_s + engine.idle_s == pytest.approx(
            result.elapsed_s * round((engine.busy_s + engine.idle_s) / result.elapsed_s)
        )


def test_bytes_are_those_of_the_arrays(result: Result) -> None:
    assert (result.bytes.h2d, result.bytes.d2h, result.bytes.d2d, result.bytes.p2p) == (4 * 32768, 4 * 32768, 0, 0)


def test_the_host_threads_time_is_accounted_for(result: Result) -> None:
    shares = [part.share for part in result.where_time_went.values()]
    assert shares == sorted(shares, reverse=True)
    assert math.fsum(shares) == pytest.approx(1.0)
    assert "table lock" in result.where_time_went


def test_parameters_of_a_run_set_it_up() -> None:
    in_place = execute(doubling, {"configuration": "usm"}, machine="mi300a")
    assert in_place.bytes.h2d < 4 * 32768 and execute(doubling, machine="mi300a").bytes.h2d > 4 * 32768
    assert execute(doubling, {"phantom": True}).bytes.h2d == 4 * 32768
    with pytest.raises(UserError, match="nonsense"):
        execute(doubling, {"configuration": "nonsense"})


def test_gears_and_observers_change_nothing() -> None:
    turbo, native = (execute(doubling, hash=True, gear=gear) for gear in ("turbo", "native"))
    assert native.options == {"gear": "native"} and attrs.evolve(native, options={}) == turbo
    silent = execute(doubling)
    assert silent.elapsed_s == turbo.elapsed_s and silent.events == turbo.events


def test_an_override_changes_the_machine(result: Result) -> None:
    slower = execute(doubling, overrides={"alloc.cudaMalloc_large": "50 ms"})
    assert slower.elapsed_s > result.elapsed_s + 0.04


def test_a_range_may_run_at_an_end(result: Result) -> None:
    low, high = (execute(doubling, range_end={"alloc.cudaFree": end}).elapsed_s for end in ("low", "high"))
    assert low < result.elapsed_s < high


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": 1.5}, "--seed 1.5: it is no whole number"),
        ({"range_end": "middle"}, "range_end of all ranges: 'middle' is neither low, mean, high nor a number from 0"),
        ({"range_end": {"alloc.cudaFree": 2.0}}, "range_end of alloc.cudaFree: 2.0 is neither"),
        ({"environment": {"HSA_XNACK": 1}}, "--env HSA_XNACK=1: the value of an environment variable is a text"),
    ],
)
def test_options_that_no_run_can_have(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        execute(doubling, **options)


@pytest.mark.parametrize("threads", [0, -1])
def test_no_threads_are_too_few(threads: int) -> None:
    with pytest.raises(UserError, match="at least one"):
        execute(doubling, {"threads": threads})


def test_the_machine_is_fixed_once_it_runs() -> None:
    @scenario
    async def late(run: Run) -> None:
        assert len(run.machine.devices) == 1 and run.device(0) is run.machine.devices[0]
        run.set("alloc.cudaFree", "1 us")

    with pytest.raises(UserError, match=r"set alloc\.cudaFree: the machine runs already"):
        execute(late)


def test_locks_of_entries_are_named_by_device_and_process() -> None:
    run = Run(machine="a100-node4")
    run.configure(num_devices=2, num_processes=2)
    first, second = ({name for name in process.program.locks() if "entry" in name} for process in run.processes)
    assert first == {"entry locks", "entry locks 1"}
    assert second == {"entry locks of process 1", "entry locks 1 of process 1"}
