"""What the AMDGPU plugin calls for a copy, a kernel and a wait, and in which order."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from offloadrt import openmp as omp
from offloadrt.kernels import Kernel
from offloadrt.runtime.plugins.amdgpu import AmdgpuResources
from offloadrt.study.running.run import Run

LIMIT = 1 << 20
SMALL = 4096
TOUCH = Kernel("touch", flops_per_iteration=1e6)
ONE = TOUCH.launch(1)
Body = Callable[[omp.HostThread], Awaitable[None]]


def run_body(body: Body, threads: int = 1, configuration: str = "copy", **overrides: Any) -> Run:
    """`body` in host threads on an MI300A, measured without what loads the program."""
    run = Run(machine="mi300a", record=True)
    run.configuration, run.phantom = configuration, True
    for key, value in overrides.items():
        run.set(key.replace("__", "."), value)

    async def first(t: omp.HostThread) -> None:
        await t.target(TOUCH)

    async def main() -> None:
        await run.parallel(first, threads)
        async with run.measure():
            await run.parallel(body, threads)

    run.sim.run(main)
    return run


def counts(run: Run) -> dict[str, int]:
    """Calls of the measured part."""
    return {name: call.count for name, call in run.measured.calls.table().items()}


def story(run: Run) -> list[str]:
    """What ended in the measured directive, in order."""
    assert run.trace is not None
    what = {"CallEnd": 6, "KernelSubmit": 7, "KernelEnd": 7, "CopyEnd": 7}
    rows = list(run.trace.rows)
    begin = max(place for place, row in enumerate(rows) if row[0] == "DirectiveBegin")
    return [f"{row[0]} {row[what[row[0]]]}" for row in rows[begin:] if row[0] in what]


def test_a_map_allocates_and_copies_then_launches_and_copies_back_when_the_kernel_has_ended() -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", SMALL, fill=0.0)  # 32 KiB: not pooled
        for _ in range(2):  # the first allocates the plugin's blocks, too
            await t.target(TOUCH, a, maps=omp.map(tofrom=a), teams=100)

    assert story(run_body(body)) == [
        "CallEnd memory_pool_allocate",
        "CallEnd memory_async_copy",  # to the device
        "KernelSubmit touch",
        "CallEnd memory_async_copy",  # back: it waits in the ring
        "CallEnd signal_async_handler",
        "CopyEnd h2d",
        "KernelEnd touch",
        "CopyEnd d2h",
        "CallEnd signal_wait_scacquire",
        "CallEnd memory_pool_free",
    ]


def test_a_directive_waits_once() -> None:
    async def body(t: omp.HostThread) -> None:
        a, b = t.array("a", SMALL, fill=0.0), t.array("b", SMALL, fill=0.0)
        await t.target(TOUCH, a, b, maps=omp.map(tofrom=[a, b]))
        await t.target_enter_data(omp.map(alloc=a))  # nothing to wait for
        await t.target_update(omp.to(a), omp.from_(a))

    assert counts(run_body(body))["signal_wait_scacquire"] == 2


def test_each_copy_from_the_device_has_a_handler() -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", SMALL, fill=0.0)
        await t.target_enter_data(omp.map(to=a))
        for _ in range(7):
            await t.target_update(omp.from_(a))
        for _ in range(5):
            await t.target_update(omp.to(a))  # the stream is idle: the thread stages it itself

    found = counts(run_body(body))
    assert found["memory_async_copy"] == 1 + 7 + 5
    assert found["signal_async_handler"] == 7


@pytest.mark.parametrize(("sync_back", "waits"), [(False, 1), (True, 2)])
def test_amd_s_branch_waits_for_the_kernel_before_it_submits_a_copy_back(sync_back: bool, waits: int) -> None:
    """The thread waits for the kernel, submits the copy, and waits for that; otherwise it waits once for both."""

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", SMALL, fill=0.0)
        await t.target_enter_data(omp.map(to=a))
        await t.target(TOUCH, a, maps=omp.map(always=True, from_=a), teams=100)

    run = run_body(body, stream__sync_copy_back=sync_back)
    rows = story(run)
    submitted = rows.index("CallEnd memory_async_copy")
    assert (rows.index("KernelEnd touch") < submitted) is sync_back
    assert sum(row == "CallEnd signal_wait_scacquire" for row in rows) == waits


@pytest.mark.parametrize("sync_back", [False, True])
def test_a_copy_waits_in_the_ring_for_another_thread_s_kernel_unless_its_submitter_waited(sync_back: bool) -> None:
    """Thread 0 copies back what a long kernel makes; thread 1 copies beside it, through the same ring."""
    long = Kernel("long", flops_per_iteration=1e11)
    beside: list[float] = []

    async def body(t: omp.HostThread) -> None:
        a = t.array(f"a{t.number}", SMALL, fill=0.0)
        await t.target_enter_data(omp.map(to=a))
        await t.barrier()
        if t.number == 0:
            await t.target(long, a, maps=omp.map(always=True, from_=a), teams=1)
        else:
            await t.sleep(100e-6)
            begin = t.sim.now
            await t.target_update(omp.to(a))
            beside.append(t.sim.now - begin)

    run = run_body(body, threads=2, stream__sync_copy_back=sync_back)
    kernel_s = run.measured.elapsed_s
    assert (beside[0] < 0.01 * kernel_s) is sync_back


def test_a_copy_to_the_device_on_a_busy_stream_is_staged_by_a_handler() -> None:
    async def body(t: omp.HostThread) -> None:
        a, b = t.array("a", SMALL, fill=0.0), t.array("b", SMALL, fill=0.0)
        await t.target_enter_data(omp.map(to=[a, b]))
        await t.target_update(omp.to(a), omp.to(b))

    found = counts(run_body(body))
    assert found["memory_async_copy"] == 4
    assert found["signal_async_handler"] == 1  # the last: the second one allocated staging memory and found it idle


@pytest.mark.parametrize(("nbytes", "synchronous"), [(LIMIT - 8, False), (LIMIT, True)])
def test_large_copies_are_synchronous_and_pin_the_host_s_memory(nbytes: int, synchronous: bool) -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", nbytes // 8, fill=0.0)
        await t.target(TOUCH, a, maps=omp.map(tofrom=a))

    run = run_body(body)
    found = counts(run)
    assert found["memory_async_copy"] == 2
    assert found.get("memory_lock", 0) == found.get("memory_unlock", 0) == (2 if synchronous else 0)
    assert found.get("signal_async_handler", 0) == (0 if synchronous else 1)
    assert found["signal_wait_scacquire"] == (3 if synchronous else 1)  # the kernel is drained before the copy back
    assert run.measured.bytes["h2d"] == run.measured.bytes["d2h"] == nbytes
    assert (run.statistics.engines["device 0 dma ring 0"].transfers == 3) == synchronous  # those of the program's image


@pytest.mark.parametrize(("nbytes", "ring"), [(LIMIT - 8, True), (LIMIT, False)])
def test_a_synchronous_copy_takes_a_ring_or_a_kernel_by_its_size(nbytes: int, ring: bool) -> None:
    """ROCr decides it (GpuAgent::GetBlitObject), not the plugin's limit for staging."""

    async def body(t: omp.HostThread) -> None:
        await t.target_enter_data(omp.map(to=t.array("a", nbytes // 8, fill=0.0)))

    run = run_body(body, copy__async_limit=0)
    assert counts(run)["memory_lock"] == counts(run)["memory_unlock"] == 1
    busy = {name: spent.busy_s > 0.0 for name, spent in run.measured.engines.items()}
    assert (busy["device 0 dma ring 0"], busy["device 0 compute units"]) == (ring, not ring)


@pytest.mark.parametrize("nbytes", [SMALL * 8, LIMIT])
def test_where_the_plugin_names_engines_copies_of_any_size_take_two_rings_in_turn(nbytes: int) -> None:
    """No kernel copies (asyncMemCopy: hsa_amd_memory_async_copy_on_engine with force_copy_on_sdma)."""

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", nbytes // 8, fill=0.0)
        await t.target_enter_data(omp.map(to=a))
        for _ in range(9):
            await t.target_update(omp.from_(a))

    run = run_body(body, dma__multiple_engines=True)
    did = run.measured.engines
    rings = [did[f"device 0 dma ring {number}"] for number in (0, 1)]
    assert did["device 0 compute units"].busy_s == 0.0
    each = nbytes / run.spec.value("dma.bw") + run.spec.value("dma.occupancy")
    assert [ring.busy_s for ring in rings] == pytest.approx([5 * each] * 2)


def test_two_rings_halve_the_wait_of_copies_that_fill_one() -> None:
    """Eight threads copy 4 MiB in pieces of 512 KiB: the bytes pass one ring, or two at one time."""

    async def body(t: omp.HostThread) -> None:
        a = t.array(f"a{t.number}", LIMIT // 16, fill=0.0)
        await t.target_enter_data(omp.map(alloc=a))
        for _ in range(8):
            await t.target_update(omp.to(a))

    def seconds(several: bool) -> float:
        run = run_body(body, 8, dma__multiple_engines=several, dma__bw="2GB/s")
        return float(run.measured.elapsed_s)

    assert seconds(False) == pytest.approx(2 * seconds(True), rel=0.05)


def test_a_large_copy_moves_its_bytes_twice_through_memory() -> None:
    nbytes = 1 << 30

    async def body(t: omp.HostThread) -> None:
        await t.target_enter_data(omp.map(to=t.array("a", nbytes // 8, fill=0.0)))

    run = run_body(body)
    spec = run.spec
    working = run.measured.engines["device 0 compute units"].busy_s
    assert working == pytest.approx(2 * nbytes / spec.value("mem.bw"), rel=0.01)


def test_threads_share_one_handler_thread() -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", SMALL, fill=0.0)
        await t.target_enter_data(omp.map(to=a))
        for _ in range(20):
            await t.target_update(omp.from_(a))

    def waited(threads: int) -> float:
        run = run_body(body, threads, dma__rings=8, dma__multiple_engines=True)
        return float(run.statistics.engines["device 0 async handler"].wait_s)

    assert waited(1) == 0.0
    assert waited(8) > 0.0


def test_a_kernel_behind_unfinished_work_waits_at_a_barrier() -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", SMALL, fill=0.0)
        for _ in range(2):  # the first allocates memory for the kernel's arguments while the copy ends
            await t.target(TOUCH, a, maps=omp.map(to=a))

    run = run_body(body)
    queue = run.statistics.engines["device 0 hsa queue 0"]
    assert queue.blocked == 1
    assert queue.packets == 1 + 2 + 1


def test_streams_take_another_queue_each_when_there_are_enough() -> None:
    async def body(t: omp.HostThread) -> None:
        for _ in range(3):
            await t.target(TOUCH, teams=10, iterations=1 << 20)

    found = run_body(body, 6).statistics.engines
    assert [name for name in found if "hsa queue" in name] == [f"device 0 hsa queue {n}" for n in range(4)]


def test_data_that_another_thread_is_copying_is_waited_for_on_the_device() -> None:
    shared: list[omp.HostArray] = []

    async def body(t: omp.HostThread) -> None:
        if t.number == 0:
            shared.append(t.array("a", SMALL, fill=0.0))
        await t.barrier()
        await t.sleep(t.number * 8e-6)
        await t.target_enter_data(omp.map(to=shared[0]))
        await t.target(TOUCH, shared[0])

    run = run_body(body, 2)
    assert counts(run)["memory_async_copy"] == 1
    assert run.trace is not None
    copied = [row[1] for row in run.trace.rows if row[0] == "CopyEnd"][-1]
    started = [row[1] for row in run.trace.rows if row[0] == "KernelStart"][-2:]
    assert min(started) >= copied


def test_the_image_is_loaded_once() -> None:
    async def body(t: omp.HostThread) -> None:
        await t.target(TOUCH)

    run = run_body(body, 1, "implicit_zero_copy")
    of_copies, of_the_kernel = 1, 1
    assert (
        run.calls.count("memory_pool_allocate")
        == run.spec.count("runtime.image_allocations") + of_copies + of_the_kernel
    )
    assert run.calls.count("memory_async_copy") == 3
    assert run.calls.count("signal_async_handler") == 0


def test_the_image_has_a_buffer_of_a_port_for_each_wavefront_of_the_device() -> None:
    """`rpc::Process::allocation_size`: two words, a header of 16 bytes and 64 bytes for each of 64 lanes."""

    async def body(t: omp.HostThread) -> None:
        await t.target(TOUCH)

    def loading(**entries: object) -> float:
        costs = {"alloc__host_pool": 0, "alloc__host_pinned_per_gib": 1.0, **entries}
        run = run_body(body, 1, "implicit_zero_copy", **costs)
        return run.calls.table()["memory_pool_allocate"].total_s

    def ports(number: int) -> float:
        return number * (2 * 4 + 16 + 64 * 64) / 2**30

    most, a_few = loading(), loading(runtime__rpc_ports=10)
    assert most - a_few == pytest.approx(ports(4096) - ports(10))
    small = loading(gpu__sms=4, sm__max_warps=32)
    assert small - a_few == pytest.approx(ports(4 * 32) - ports(10)), "a small device asks for fewer"


@pytest.mark.parametrize("threads", [1, 3, 16])
def test_a_launch_reuses_a_block_of_arguments_of_its_size_that_is_free(threads: int) -> None:
    """`MemoryManagerTy` finds blocks of exactly a size, so that kernels in flight at a time and sizes count."""

    async def body(t: omp.HostThread) -> None:
        a, b = t.array("a", SMALL, fill=0.0), t.array("b", SMALL, fill=0.0)
        for _ in range(5):
            await t.target(TOUCH, a)
            await t.target(TOUCH, a, b)
            await t.barrier()  # so that every thread has a kernel in flight

    run = run_body(body, threads, "implicit_zero_copy", runtime__kernel_args="10 us", launch__latency="10 ms")
    assert counts(run)["memory_pool_allocate"] == 2 * threads


def test_a_new_stream_of_a_thread_costs_one_block_for_its_kernel() -> None:
    async def body(t: omp.HostThread) -> None:
        await t.target(TOUCH)

    run = run_body(body, 16, "implicit_zero_copy")
    allocate = run.calls.table()["memory_pool_allocate"]
    start = run.spec.count("runtime.image_allocations") + 1
    assert start < allocate.count <= start + 16
    assert run.locks["stream pool"].hold_s == 0.0


def test_signals_are_created_when_the_pool_is_empty() -> None:
    async def body(t: omp.HostThread) -> None:
        arrays = [t.array(f"a{i}", SMALL, fill=0.0) for i in range(40)]
        await t.target_enter_data(omp.map(to=arrays))

    assert counts(run_body(body, signal__initial=64))["signal_create"] >= 64
    assert "signal_create" not in counts(run_body(body, signal__initial=80))


@pytest.mark.parametrize("initial", [1, 64])
def test_the_pool_of_signals_grows_to_twice_those_in_use(initial: int, monkeypatch: pytest.MonkeyPatch) -> None:
    free: list[int] = []
    in_use: list[int] = []

    def note(resources: AmdgpuResources, number: int) -> None:
        free.append(number)
        in_use.append(resources._signals - number if hasattr(resources, "_signals") else 0)

    monkeypatch.setattr(AmdgpuResources, "_free_signals", property(lambda _: free[-1], note), raising=False)

    async def body(t: omp.HostThread) -> None:
        arrays = [t.array(f"a{i}", SMALL, fill=0.0) for i in range(8)]
        for _ in range(3):
            await t.target(TOUCH, *arrays, maps=omp.map(tofrom=arrays))

    run = run_body(body, 16, signal__initial=initial)
    made, pool = run.calls.count("signal_create"), run.locks["signal pool"]
    assert 0 < made <= 2 * max(in_use) + initial
    assert min(free) >= 0 and in_use[-1] == 0 and free[-1] == initial + made
    assert pool.contended > 0 and pool.owner is None


def test_first_touches_by_the_handler_thread_are_no_time_of_the_program() -> None:
    async def body(t: omp.HostThread) -> None:
        for number in range(50):
            a = t.array(f"a{number}", LIMIT // 16)  # nobody has touched it
            await t.target(TOUCH, a, maps=omp.map(from_=a))

    run = run_body(body)
    host_time = run.machine.host_time
    assert run.statistics.faults["cpu_pages"] > 0
    assert math.fsum(host_time.seconds.values()) <= host_time.lived_s * (1 + 1e-9)
    assert sum(host_time.seconds.values()) > 0.99 * host_time.lived_s


def test_a_large_copy_is_a_copy_and_no_kernel() -> None:
    nbytes = 1 << 30

    async def body(t: omp.HostThread) -> None:
        await t.target_enter_data(omp.map(to=t.array("a", nbytes // 8, fill=0.0)))

    run = run_body(body)
    assert run.trace is not None
    units = run.device().compute.statistics()
    assert (units.kernels, units.blits) == (1, 1), "only that of the directive before is a kernel of the program"
    alone = run.device().compute.spec.seconds_on_idle_device(ONE)
    assert units.wall_s == pytest.approx(units.alone_s) == pytest.approx(alone)
    rows = [row for row in run.trace.rows if row[9:] == (nbytes, "pinned")]
    (copy, begin, _), (same, end, _) = [(row[6], row[1], row[0]) for row in rows]
    assert copy == same and [row[0] for row in rows] == ["CopyBegin", "CopyEnd"]
    assert (end - begin) * 1e-12 == pytest.approx(2 * nbytes / run.spec.value("mem.bw"), rel=1e-9)
    assert not any("blit" in str(row) for row in run.trace.rows if row[0].startswith("Kernel"))
