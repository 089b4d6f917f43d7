"""What differs between the machines: where shared memory lies, and what that does to a stream of kernels."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from stdpar_rig import MACHINES, made, play, scale, triad

from offloadrt import stdpar as std
from offloadrt.driver import OutOfDeviceMemory
from offloadrt.machine import available, load

N = 1 << 25
XNACK = {"usm.shared": "migrates"}


def bandwidth(machine: str, implementation: str | std.Implementation, **options: Any) -> float:
    """Bytes a second of twenty triads over arrays that the host has written, the first not counted."""

    async def body(t: std.HostThread) -> float:
        a, b, c = [await t.new_array(name, N, fill=1.0, phantom=True) for name in "abc"]
        begin = 0.0
        for number in range(21):
            await t.transform(std.par_unseq, triad, a, b, c, 0.4)
            if number in (0, 20):
                await t.wait()
                begin = t.sim.now if number == 0 else begin
        return 20 * 24 * N / (t.sim.now - begin)

    found: float = play(made(machine, implementation, **options), body)[0]
    return found


def prefetching(mode: std.PrefetchMode) -> std.Implementation:
    return attrs.evolve(std.implementation("acpp"), prefetch=mode)


@pytest.mark.parametrize("machine", MACHINES)
def test_profiles_are_there_with_all_that_a_program_needs(machine: str) -> None:
    assert machine in available()
    for end in ("low", "mean", "high"):
        assert bandwidth(machine, "acpp") > 0.0 and load(machine, range_end=end).title


@pytest.mark.parametrize("machine", ["isambard-a100", "idc-max1550", "integrated-gpu"])
@pytest.mark.parametrize("implementation", ["acpp", "nvcpp", "native"])
def test_memory_where_the_kernel_runs_gives_nearly_its_bandwidth(machine: str, implementation: str) -> None:
    peak = load(machine).value("mem.bw")
    assert 0.8 * peak < bandwidth(machine, implementation) <= peak


def test_without_xnack_every_access_crosses_the_link() -> None:
    spec = load("isambard-mi100")
    read = bandwidth("isambard-mi100", "rocstdpar") * 2 / 3
    assert read <= spec.value("remote.access_bw")
    assert read > 0.8 * spec.value("remote.access_bw")
    assert bandwidth("isambard-mi100", prefetching(std.PrefetchMode.NEVER)) == pytest.approx(read * 3 / 2, rel=0.02)


def test_a_prefetch_that_moves_pages_makes_up_for_it() -> None:
    explicit = bandwidth("isambard-mi100", "sycl")
    assert bandwidth("isambard-mi100", "acpp") > 0.8 * explicit
    assert bandwidth("isambard-mi100", "acpp", overrides={"usm.prefetch": "nothing"}) < 0.1 * explicit


def test_with_xnack_pages_migrate_by_faults() -> None:
    assert bandwidth("isambard-mi100", "rocstdpar", overrides=XNACK) > 0.8 * bandwidth("isambard-mi100", "sycl")


def test_nothing_migrates_within_one_memory() -> None:
    async def body(t: std.HostThread) -> Any:
        a = await t.new_array("a", 1 << 20, fill=1.0)
        await t.transform(std.par_unseq, triad, a, a, a, 1.0)
        return (await t.read(a)).sum()

    run = made("integrated-gpu")
    assert play(run, body)[0] == 2.0 * (1 << 20)
    assert sum(run.device().bytes_moved().values()) == 0
    assert run.statistics.faults["gpu_page_fault"] == 0


def test_without_a_device_all_runs_on_the_host() -> None:
    async def body(t: std.HostThread) -> Any:
        a = await t.new_array("a", 1 << 16, fill=1.0)
        await t.transform(std.par_unseq, triad, a, a, a, 1.0)
        with pytest.raises(ValueError, match="isambard-milan has no device"):
            t.queue()
        return (await t.read(a)).sum()

    run = made("isambard-milan")
    assert play(run, body)[0] == 2.0 * (1 << 16)
    assert run.stdpar.counts.on_host == 1 and not run.machine.devices


@pytest.mark.parametrize("implementation", ["acpp", "sycl"])
def test_on_the_host_every_command_passes_the_layers_of_sycl(implementation: str) -> None:
    async def body(t: std.HostThread) -> float:
        a = await t.new_array("a", 64)
        await t.fill(std.par_unseq, a, 1.0)
        return t.sim.now

    layered, plain = made("isambard-milan", implementation), made("isambard-milan", "host")
    longer = play(layered, body)[0] - play(plain, body)[0]
    layers = layered.spec.value("sycl.submit") + 3 * layered.spec.value("driver.handover")
    assert longer == pytest.approx(layers, rel=0.1)


@pytest.mark.parametrize(("overrides", "stops"), [({}, 1), ({"usm.restore": 0.0}, 0), (XNACK, 0)])
def test_taking_pages_from_a_device_that_cannot_fault_stops_its_queues(overrides: Any, stops: int) -> None:
    async def body(t: std.HostThread) -> float:
        a, b = [await t.new_array(name, 1 << 16) for name in "ab"]
        await t.fill(std.par_unseq, a, 1.0)
        await t.read(a)
        begin = t.sim.now
        await t.fill(std.par_unseq, b, 1.0)
        await t.wait()
        return t.sim.now - begin

    run = made("isambard-mi100", overrides=overrides)
    seconds = play(run, body)[0]
    delay = load("isambard-mi100").value("usm.restore")
    assert run.statistics.engines["device 0 compute units"].suspensions == stops
    assert (seconds > 0.8 * delay) == bool(stops)


@pytest.mark.parametrize(
    ("machine", "calls"),
    [
        ("isambard-a100", {"cuMemAllocManaged", "cuLaunchKernel", "cuStreamSynchronize"}),
        ("isambard-mi100", {"hipMallocManaged", "hipModuleLaunchKernel", "hipStreamSynchronize"}),
        ("idc-max1550", {"zeMemAllocShared", "zeCommandListAppendLaunchKernel", "zeCommandListHostSynchronize"}),
    ],
)
def test_calls_have_the_names_of_the_machines_library(machine: str, calls: set[str]) -> None:
    async def body(t: std.HostThread) -> None:
        await t.fill(std.par_unseq, await t.new_array("a", 64), 1.0)

    run = made(machine)
    play(run, body)
    assert calls <= set(run.calls.table())


def test_errors_have_the_names_of_the_machines_library() -> None:
    async def body(t: std.HostThread) -> None:
        await t.queue().malloc_device("a", 1 << 40, phantom=True)

    complaint = r"hipMalloc failed with hipErrorOutOfMemory: array 'a': .*host thread 0"
    with pytest.raises(OutOfDeviceMemory, match=complaint):
        play(made("isambard-mi100"), body)


@pytest.mark.parametrize("machine", ["isambard-a100", "integrated-gpu"])
def test_a_cold_start_pays_before_the_first_region_and_for_each_kernel(machine: str) -> None:
    async def body(t: std.HostThread) -> tuple[float, float]:
        begin = t.sim.now
        a = await t.new_array("a", 8, fill=0.0, phantom=True)
        for _ in range(2):
            await t.for_each_n(std.par_unseq, 8, scale, a, 3.0)
            await t.wait()
        return begin, t.sim.now - begin

    warm, cold = [play(made(machine, overrides={"runtime.start": how}), body)[0] for how in ("warm", "cold")]
    run = load(machine)
    parts = ("init.library", "init.device", "init.context", "module.load")
    assert cold[0] - warm[0] == pytest.approx(sum(map(run.value, parts)))
    # The kernel follows a prefetch, for which its loading waits, where a launch does not.
    assert cold[1] - warm[1] == pytest.approx(run.value("module.kernel"), rel=0.06)
