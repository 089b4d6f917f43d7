"""Programs, each with one bottleneck that was put there on purpose."""

from __future__ import annotations

from typing import Any

from offloadrt import Run, cuda, kernel, scenario
from offloadrt import openmp as omp
from offloadrt.sim import Lock

MIB = 1 << 17
"""Doubles."""


@kernel(flops_per_iteration=1, bytes_per_iteration=16)
def scale(a: Any) -> None:
    a *= 2.0


@kernel(flops_per_iteration=40_000)
def think(a: Any) -> None:
    a *= 2.0


@kernel(flops_per_iteration=1, bytes_per_iteration=16, reads=("a",), writes=("a",))
def over(a: Any) -> None:
    a *= 2.0


async def in_threads(run: Run, threads: int, body: Any) -> None:
    run.phantom = True
    await run.parallel(body, num_threads=threads)


async def in_cuda_threads(run: Run, threads: int, body: Any, **options: Any) -> None:
    run.options = cuda.CUDAOptions(phantom=True, **options)
    await run.parallel(body, threads)


@scenario
async def slow_free(run: Run) -> None:
    """Frees take 200 us, and all threads need the lock under which they do."""
    run.set("alloc.cudaFree", "200us")
    run.allocator = "direct"

    async def body(t: omp.HostThread) -> None:
        a = t.array(f"a{t.number}", 1000)
        for _ in range(4):
            await t.target(scale, a, maps=omp.map(tofrom=a), teams=108, iterations=1000)

    await in_threads(run, 8, body)


@scenario
async def hot_entry_lock(run: Run) -> None:
    """All threads copy one array again and again, each copy under the lock of its entry."""
    a = None

    async def body(t: omp.HostThread) -> None:
        nonlocal a
        if t.number == 0:
            a = t.array("a", 64 * MIB)
            await t.target_enter_data(omp.map(to=a))
        await t.barrier()
        for _ in range(3):
            await t.target_enter_data(omp.map(to=a, always=True))

    await in_threads(run, 6, body)


@scenario
async def saturated_copy_engine(run: Run) -> None:
    """Many threads copy arrays in pinned memory at the same time."""

    async def body(t: omp.HostThread) -> None:
        a = t.array(f"a{t.number}", 16 * MIB)
        await t.target_enter_data(omp.map(alloc=a))
        for _ in range(4):
            await t.target_update(omp.to(a))

    run.set("host.memcpy_1t", "1000GB/s")
    run.set("host.memcpy_max", "10000GB/s")
    await in_threads(run, 8, body)


@scenario
async def one_core_too_few(run: Run) -> None:
    """Four threads compute for equally long, on three cores."""
    run.set("cpu.cores", 3)

    async def body(t: omp.HostThread) -> None:
        for _ in range(4):
            await t.compute(0.001)
            await t.barrier()

    await in_threads(run, 4, body)


@scenario(machine="mi300a")
async def fault_storm(run: Run) -> None:
    """A kernel is the first to touch all of a large array."""
    run.configuration = "usm"

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 512 * MIB)
        await t.target(scale, a, teams=228, iterations=512 * MIB)

    await in_threads(run, 1, body)


@scenario
async def always_map(run: Run) -> None:
    """Each kernel is preceded and followed by copies that `always` asks for."""

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 16 * MIB)
        await t.target_enter_data(omp.map(to=a))
        for _ in range(5):
            await t.target(scale, a, maps=omp.map(tofrom=a, always=True), teams=108, iterations=MIB)

    await in_threads(run, 1, body)


@scenario
async def underfilled_kernel(run: Run) -> None:
    """A long kernel has four teams, for 108 SMs."""

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 1000)
        await t.target(think, a, maps=omp.map(tofrom=a), teams=4, threads=128, iterations=100_000)

    await in_threads(run, 1, body)


@scenario
async def uneven_work(run: Run) -> None:
    """One of four threads computes four times as long, and the others wait for it."""

    async def body(t: omp.HostThread) -> None:
        await t.compute(0.004 if t.number == 2 else 0.001)
        await t.barrier()

    await in_threads(run, 4, body)


@scenario(machine="mi300a")
async def small_dma_ring(run: Run) -> None:
    """All copies pass one slow ring."""
    run.configuration = "copy"
    run.set("dma.bw", "2GB/s")

    async def body(t: omp.HostThread) -> None:
        a = t.array(f"a{t.number}", MIB // 2)
        async with t.target_data(omp.map(alloc=a)):
            for _ in range(6):
                await t.target_update(omp.to(a))

    await in_threads(run, 6, body)


@scenario(machine="t4")
async def oversubscribed(run: Run) -> None:
    """A managed array has more pages than the device has memory."""
    run.configuration = "managed"
    run.set("mem.size", "96MiB")
    run.set("mem.reserved", "32MiB")

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 96 * MIB)
        await t.host_access(a)
        for _ in range(2):
            await t.target(scale, a, teams=80, iterations=96 * MIB)

    await in_threads(run, 1, body)


# ---------------------------------------------------------------------- what users write


@scenario
async def legacy_default_stream(run: Run) -> None:
    """Sixteen threads launch small kernels without naming a stream: one after the other they go through one."""

    async def body(t: cuda.HostThread) -> None:
        for _ in range(8):
            await t.launch(think, grid=4, block=128, iterations=10_000)
        await t.stream_synchronize()

    await in_cuda_threads(run, 16, body)


@scenario(machine="alex-a100")
async def ranks_without_mps(run: Run) -> None:
    """Four processes whose kernels would fit beside one another have the GPU in turn."""
    run.options = cuda.CUDAOptions(phantom=True, num_processes=4)

    async def main(process: Any) -> None:
        async def body(t: cuda.HostThread) -> None:
            for _ in range(40):
                await t.launch(think, grid=4, block=128, iterations=10_000)
                await t.stream_synchronize()

        await process.parallel(body)

    await run.mpiexec(main)


@scenario
async def openmp_ranks_without_mps(run: Run) -> None:
    """The same four processes, in OpenMP."""
    run.configure(num_processes=4, phantom=True)

    async def main(process: Any) -> None:
        async def body(t: omp.HostThread) -> None:
            a = t.array("a", 1000)
            async with t.target_data(omp.map(tofrom=a)):
                for _ in range(20):
                    await t.target(think, a, teams=4, threads=128, iterations=10_000)

        await process.parallel(body, num_threads=1)

    await run.mpiexec(main)


@scenario
async def pageable_copies(run: Run) -> None:
    """A loop copies from memory that is not pinned, so that the driver copies all of it a second time."""

    async def body(t: cuda.HostThread) -> None:
        source, there = t.array("source", 16 * MIB), await t.malloc(16 * MIB, "f8")
        await t.host_access(source)
        for _ in range(6):
            await t.memcpy(there, source)

    await in_cuda_threads(run, 1, body)


@scenario
async def synchronized_in_a_loop(run: Run) -> None:
    """The host waits for each of many short kernels."""

    async def body(t: cuda.HostThread) -> None:
        for _ in range(100):
            await t.launch(scale, grid=1, block=128, iterations=128)
            await t.stream_synchronize()

    await in_cuda_threads(run, 1, body)


@scenario
async def launched_in_a_loop(run: Run) -> None:
    """Kernels that are shorter than their launches."""

    async def body(t: cuda.HostThread) -> None:
        for _ in range(400):
            await t.launch(scale, grid=1, block=128, iterations=128)
        await t.stream_synchronize()

    await in_cuda_threads(run, 1, body)


@scenario
async def allocated_in_a_loop(run: Run) -> None:
    """Each step allocates device memory and gives it back."""

    async def body(t: cuda.HostThread) -> None:
        for _ in range(20):
            a = await t.malloc(16 * MIB, "f8")
            await t.launch(scale, grid=1, block=128, iterations=128)
            await t.free(a)

    await in_cuda_threads(run, 1, body)


@scenario
async def pinned_at_the_start(run: Run) -> None:
    """A large array is page-locked for one copy."""

    async def body(t: cuda.HostThread) -> None:
        source, there = t.array("source", 64 * MIB), await t.malloc(64 * MIB, "f8")
        await t.host_register(source)
        await t.memcpy_async(there, source)
        await t.stream_synchronize()
        await t.host_unregister(source)

    await in_cuda_threads(run, 1, body)


@scenario
async def slow_callback(run: Run) -> None:
    """Every step of eight streams calls a function on the host, and one thread of the driver runs all of them."""

    async def body(t: cuda.HostThread) -> None:
        stream = await t.stream_create(non_blocking=True)
        for _ in range(4):
            await t.launch(scale, grid=1, block=128, iterations=128, stream=stream)
            await t.launch_host_func(None, seconds=200e-6, stream=stream)
        await t.stream_synchronize(stream)

    await in_cuda_threads(run, 8, body)


@scenario(machine="a100-node4")
async def late_sender(run: Run) -> None:
    """One rank computes for long before it sends what another waits for."""
    run.configure(num_processes=2, phantom=True)

    async def main(process: Any) -> None:
        t = process.program.host_thread(0)
        values = t.array("values", 1024)
        if process.rank == 0:
            await t.compute(0.02)
            await process.world.Send(values, dest=1)
        else:
            await process.world.Recv(values, source=0)

    await run.mpiexec(main)


@scenario(machine="a100-node4")
async def one_nic(run: Run) -> None:
    """Four ranks of one node send large messages to the other node at the same time."""
    run.configure(num_processes=8, num_nodes=2, phantom=True)

    async def main(process: Any) -> None:
        t = process.program.host_thread(0)
        values = t.array("values", 16 * MIB)
        for _ in range(3):
            if process.rank < 4:
                await process.world.Send(values, dest=process.rank + 4)
            else:
                await process.world.Recv(values, source=process.rank - 4)

    await run.mpiexec(main)


@scenario
async def faults_of_the_host(run: Run) -> None:
    """The host reads managed memory that a kernel wrote, page by page."""

    async def body(t: cuda.HostThread) -> None:
        a = await t.malloc_managed("a", 8 * MIB, "f8")
        await t.mem_prefetch(a)
        for _ in range(3):
            await t.launch(scale, a, grid=4096, block=256, iterations=8 * MIB)
            await t.device_synchronize()
            await t.host_access(a)
            await t.mem_prefetch(a)

    await in_cuda_threads(run, 1, body)


async def in_streams(run: Run, threads: int, kernels: int) -> None:
    """Let each thread put small kernels that do not depend on one another into a stream of its own."""

    async def body(t: cuda.HostThread) -> None:
        stream = await t.stream_create(non_blocking=True)
        for _ in range(kernels):
            await t.launch(think, grid=4, block=128, iterations=10_000, stream=stream)
        await t.stream_synchronize(stream)

    await in_cuda_threads(run, threads, body)


@scenario
async def one_stream(run: Run) -> None:
    """A thread puts small kernels that do not depend on one another into one stream."""
    await in_streams(run, threads=1, kernels=16)


@scenario
async def one_thread(run: Run) -> None:
    """A thread runs one small target region after the other."""

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 1000)
        await t.target_enter_data(omp.map(to=a))
        for _ in range(16):
            await t.target(think, a, teams=4, iterations=10_000)

    await in_threads(run, 1, body)


@scenario
async def more_streams_than_queues(run: Run) -> None:
    """Sixteen threads have a stream each, and the streams share the queues that the driver library makes by itself."""
    await in_streams(run, threads=16, kernels=8)


@scenario
async def one_hardware_queue(run: Run) -> None:
    """Eight streams share one connection to the device."""
    run.set("gpu.max_connections", 1)
    await in_streams(run, threads=8, kernels=8)


@scenario
async def bound_by_memory(run: Run) -> None:
    """A kernel streams a large array, again and again."""

    async def body(t: cuda.HostThread) -> None:
        a = await t.malloc(128 * MIB, "f8")
        for _ in range(40):
            await t.launch(scale, a, grid=4096, block=256, iterations=128 * MIB)
        await t.stream_synchronize()

    await in_cuda_threads(run, 1, body)


@scenario
async def first_use(run: Run) -> None:
    """A program whose only kernel is short is started cold."""
    run.set("runtime.start", "cold")

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 1000)
        await t.target(scale, a, maps=omp.map(tofrom=a), teams=108, iterations=1000)

    await in_threads(run, 1, body)


@scenario
async def entries_of_neighbours(run: Run) -> None:
    """Each thread maps an array of its own around each of its kernels."""

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", MIB // 2)
        for _ in range(20):
            await t.target(scale, a, maps=omp.map(tofrom=a), teams=108, iterations=MIB // 2)

    await in_threads(run, 8, body)


@scenario
async def two_near_ties(run: Run) -> None:
    """The program computes for about as long as its kernel runs, and waits for it."""

    async def body(t: cuda.HostThread) -> None:
        for _ in range(10):
            await t.launch(think, grid=4, block=128, iterations=1000)
            await t.stream_synchronize()
            await t.compute(0.9e-3)

    await in_cuda_threads(run, 1, body)


# ---------------------------------------------------------------------- what a sentence has to say more of


@scenario
async def many_tiny_maps(run: Run) -> None:
    """A kernel has 64 tiny arrays in its map clauses."""

    async def body(t: omp.HostThread) -> None:
        arrays = [t.array(f"a{number}", 8) for number in range(64)]
        for _ in range(3):
            await t.target(scale, arrays[0], maps=omp.map(tofrom=arrays), teams=1, iterations=8)

    await in_threads(run, 1, body)


@scenario
async def flag_of_a_loop(run: Run) -> None:
    """A loop copies one flag to the device and back around each kernel."""

    async def body(t: omp.HostThread) -> None:
        a, flag = t.array("a", MIB), t.array("flag", 1)
        async with t.target_data(omp.map(tofrom=a)):
            for _ in range(50):
                await t.target(scale, a, maps=omp.map(tofrom=flag), teams=108, iterations=1000)

    await in_threads(run, 1, body)


@scenario
async def uneven_kernels(run: Run) -> None:
    """One of four threads has a kernel that is 40 times as long, and the others wait for it at a barrier."""

    async def body(t: omp.HostThread) -> None:
        a = t.array(f"a{t.number}", 1000)
        iterations = 20_000 if t.number == 2 else 500
        await t.target(think, a, maps=omp.map(tofrom=a), teams=4, threads=128, iterations=iterations)
        await t.barrier()

    await in_threads(run, 4, body)


@scenario(machine="a100-node4")
async def late_rank(run: Run) -> None:
    """All ranks wait at a barrier for one whose kernel is longer."""
    run.configure(num_processes=4, phantom=True)

    async def main(process: Any) -> None:
        async def body(t: omp.HostThread) -> None:
            a = t.array("a", 1000)
            iterations = 30_000 if process.rank == 3 else 1000
            await t.target(think, a, maps=omp.map(tofrom=a), teams=4, threads=128, iterations=iterations)
            await process.world.Barrier()

        await process.parallel(body, num_threads=1)

    await run.mpiexec(main)


@scenario(machine="a100-node4")
async def one_busy_device(run: Run) -> None:
    """One of four GPUs has six times the work of each other one."""
    run.configure(num_devices=4, phantom=True)

    async def body(t: omp.HostThread) -> None:
        a = t.array(f"a{t.number}", 1000)
        maps = omp.map(tofrom=a)
        for _ in range(6 if t.number == 2 else 1):
            await t.target(think, a, maps=maps, teams=432, threads=128, iterations=1_000_000, device=t.number)

    await run.parallel(body, num_threads=4)


@scenario
async def one_helper_thread(run: Run) -> None:
    """Deferred target tasks share a single hidden helper thread."""
    run.set("runtime.hidden_helper_threads", 1)

    async def body(t: omp.HostThread) -> None:
        arrays = [t.array(f"a{number}", 1000) for number in range(8)]
        for a in arrays:
            await t.target(think, a, maps=omp.map(tofrom=a), teams=4, iterations=1000, nowait=True)
        await t.taskwait()

    await in_threads(run, 1, body)


@scenario
async def mutex_around_target(run: Run) -> None:
    """Eight threads offload under a lock of the program, one after the other."""
    mutex = Lock(run.sim, "my mutex")

    async def body(t: omp.HostThread) -> None:
        a = t.array(f"a{t.number}", 1000)
        async with mutex:
            await t.target(think, a, maps=omp.map(tofrom=a), teams=4, threads=128, iterations=1000)

    await in_threads(run, 8, body)


@scenario
async def graph_of_tiny_kernels(run: Run) -> None:
    """A graph is a chain of 100 kernels that have next to nothing to do."""

    async def body(t: cuda.HostThread) -> None:
        stream = await t.stream_create(non_blocking=True)
        await t.stream_begin_capture(stream)
        for _ in range(100):
            await t.launch(scale, grid=1, block=128, iterations=128, stream=stream)
        graph = await t.graph_instantiate(await t.stream_end_capture(stream))
        for _ in range(10):
            await t.graph_launch(graph, stream=stream)
        await t.stream_synchronize(stream)

    await in_cuda_threads(run, 1, body)


@scenario
async def pinned_in_a_loop(run: Run) -> None:
    """Each step allocates pinned memory for one copy and gives it back."""

    async def body(t: cuda.HostThread) -> None:
        there = await t.malloc(MIB, "f8")
        for _ in range(6):
            host = await t.host_alloc("host", MIB, "f8")
            await t.memcpy_async(there, host)
            await t.stream_synchronize()
            await t.free_host(host)

    await in_cuda_threads(run, 1, body)


@scenario
async def streams_in_a_loop(run: Run) -> None:
    """Four threads make and destroy a stream around each small kernel."""

    async def body(t: cuda.HostThread) -> None:
        for _ in range(20):
            stream = await t.stream_create()
            await t.launch(scale, grid=1, block=128, iterations=128, stream=stream)
            await t.stream_synchronize(stream)
            await t.stream_destroy(stream)

    await in_cuda_threads(run, 4, body)


@scenario(machine="a100-node4")
async def small_messages(run: Run) -> None:
    """Two ranks exchange hundreds of messages of eight bytes."""
    run.configure(num_processes=2, num_nodes=2, phantom=True)

    async def main(process: Any) -> None:
        t = process.program.host_thread(0)
        values = t.array("values", 1)
        for _ in range(200):
            if process.rank == 0:
                await process.world.Send(values, dest=1)
            else:
                await process.world.Recv(values, source=0)

    await run.mpiexec(main)


# ---------------------------------------------------------------------- more of what users write


@scenario
async def residual_each_step(run: Run) -> None:
    """A solver copies its residual, one number, to the host after each short kernel."""

    async def body(t: cuda.HostThread) -> None:
        a, residual, there = await t.malloc(1000, "f8"), t.array("residual", 1), await t.malloc(1, "f8")
        for _ in range(300):
            await t.launch(scale, a, grid=8, block=128, iterations=1000)
            await t.memcpy(residual, there)

    await in_cuda_threads(run, 1, body)


@scenario
async def copies_behind_kernels(run: Run) -> None:
    """Copies of the next chunk stand in one stream behind the kernel of this one, although they could overlap."""

    async def body(t: cuda.HostThread) -> None:
        host, there = await t.host_alloc("chunks", 16 * MIB, "f8"), await t.malloc(16 * MIB, "f8")
        stream = await t.stream_create(non_blocking=True)
        for _ in range(20):
            await t.memcpy_async(there, host, stream=stream)
            await t.launch(think, there, grid=864, block=256, iterations=16 * MIB // 10, stream=stream)
        await t.stream_synchronize(stream)

    await in_cuda_threads(run, 1, body)


@scenario
async def ping_pong(run: Run) -> None:
    """Host and kernel write one managed page in turn."""

    async def body(t: cuda.HostThread) -> None:
        a = await t.malloc_managed("a", 512, "f8")
        for _ in range(20):
            await t.host_access(a)
            await t.launch(scale, a, grid=1, block=256, iterations=512)
            await t.device_synchronize()

    await in_cuda_threads(run, 1, body)


@scenario
async def constants_copied_always(run: Run) -> None:
    """Coefficients that never change are copied for each kernel, since their map says always."""

    async def body(t: omp.HostThread) -> None:
        a, c = t.array("a", 1000), t.array("coefficients", 8 * MIB)
        async with t.target_data(omp.map(tofrom=a), omp.map(to=c)):
            for _ in range(10):
                maps = [omp.map(tofrom=a), omp.map(to=c, always=True)]
                await t.target(scale, a, maps=maps, teams=8, iterations=1000)

    await in_threads(run, 1, body)


@scenario
async def pool_of_threads(run: Run) -> None:
    """Sixteen threads allocate in stream order from one pool all the time."""

    async def body(t: cuda.HostThread) -> None:
        stream = await t.stream_create(non_blocking=True)
        for _ in range(10):
            await t.free_async(await t.malloc_async(1000, "f8", stream=stream), stream=stream)
        await t.stream_synchronize(stream)

    await in_cuda_threads(run, 16, body)


@scenario
async def free_behind_a_kernel(run: Run) -> None:
    """The host has work of its own, and does it after a free, which waits for the kernel."""

    async def body(t: cuda.HostThread) -> None:
        for _ in range(5):
            a = await t.malloc(1000, "f8")
            await t.launch(think, grid=432, block=128, iterations=300_000)
            await t.free(a)
            await t.compute(1e-3)

    await in_cuda_threads(run, 1, body)


@scenario
async def critical_section(run: Run) -> None:
    """Eight threads sum up on the host in a critical section, one after the other, behind their kernels."""
    mutex = Lock(run.sim, "critical")

    async def body(t: omp.HostThread) -> None:
        a = t.array(f"a{t.number}", 1000)
        for _ in range(4):
            await t.target(scale, a, maps=omp.map(tofrom=a), teams=8, iterations=1000)
            async with mutex:
                await t.compute(1e-3)

    await in_threads(run, 8, body)


@scenario
async def chained_tasks(run: Run) -> None:
    """Deferred target tasks depend on one another without need: they run one after the other."""

    async def body(t: omp.HostThread) -> None:
        arrays = [t.array(f"a{number}", 1000) for number in range(8)]
        async with t.target_data(omp.map(tofrom=arrays)):
            for a in arrays:
                depend = omp.depend(inout=arrays[0])
                await t.target(think, a, teams=4, threads=128, iterations=2000, nowait=True, depend=depend)
            await t.taskwait()

    await in_threads(run, 1, body)


@scenario
async def kernel_over_the_link(run: Run) -> None:
    """A kernel uses pinned memory of the host over the link, again and again."""

    async def body(t: cuda.HostThread) -> None:
        a = await t.host_alloc("a", 4 * MIB, "f8")
        for _ in range(20):
            await t.launch(over, a, grid=4096, block=256, iterations=4 * MIB)
        await t.stream_synchronize()

    await in_cuda_threads(run, 1, body)


@scenario(machine="a100-node4")
async def peers_through_the_host(run: Run) -> None:
    """One GPU hands large arrays to another one, and nobody has enabled peer access."""

    async def body(t: cuda.HostThread) -> None:
        here = await t.malloc(32 * MIB, "f8")
        await t.set_device(1)
        there = await t.malloc(32 * MIB, "f8")
        for _ in range(5):
            await t.memcpy_async(there, here)
            await t.device_synchronize()

    await in_cuda_threads(run, 1, body, num_devices=2)


@scenario
async def uneven_streams(run: Run) -> None:
    """One of four streams has nearly all the work."""

    async def body(t: cuda.HostThread) -> None:
        streams = [await t.stream_create(non_blocking=True) for _ in range(4)]
        for step in range(13):
            await t.launch(think, grid=16, block=128, iterations=5000, stream=streams[max(step - 9, 0)])
        await t.device_synchronize()

    await in_cuda_threads(run, 1, body)


@scenario
async def behind_a_long_kernel(run: Run) -> None:
    """A short kernel in a stream of its own waits until a long one, which fills the device, leaves room."""

    async def body(t: cuda.HostThread) -> None:
        stream = await t.stream_create(non_blocking=True)
        await t.compute(1e-4 * t.number)
        size = (400, 4000)[t.number == 0]
        await t.launch(think, grid=size, block=1024, iterations=1000 * size, stream=stream)
        await t.stream_synchronize(stream)

    await in_cuda_threads(run, 2, body)


@scenario(machine="t4")
async def does_not_fit(run: Run) -> None:
    """Two managed arrays that do not fit into the device together are used in turn."""
    run.set("mem.size", "96MiB")
    run.set("mem.reserved", "32MiB")

    async def body(t: cuda.HostThread) -> None:
        a = await t.malloc_managed("a", 40 * MIB, "f8")
        b = await t.malloc_managed("b", 40 * MIB, "f8")
        for _ in range(2):
            await t.launch(scale, a, grid=4096, block=256, iterations=40 * MIB)
            await t.launch(scale, b, grid=4096, block=256, iterations=40 * MIB)
        await t.device_synchronize()

    await in_cuda_threads(run, 1, body)


@scenario(machine="a100-node4")
async def large_allreduce(run: Run) -> None:
    """Eight ranks on two nodes sum up large vectors."""
    run.configure(num_processes=8, num_nodes=2, phantom=True)

    async def main(process: Any) -> None:
        t = process.program.host_thread(0)
        await process.world.Allreduce(t.array("mine", 8 * MIB), t.array("summed", 8 * MIB))

    await run.mpiexec(main)
