"""CUDA and HIP programs of several processes: each group of calls gives every rank its own right values."""

import numpy as np
import pytest
from cuda_rig import add, double

from offloadrt import cuda
from offloadrt.driver import DriverError
from offloadrt.study import Run

needs_mpi = pytest.mark.needs_extensions  # messages between ranks

N = 512
SHAPE = {"grid": 2, "block": 256}


async def copies(t, rank, x):
    """Pinned and pageable memory, copies with and without waiting, and within the device."""
    here = await t.host_alloc("here", N, np.float64, fill=x)
    a, b = await t.malloc(N, np.float64), await t.malloc(N, np.float64)
    await t.memcpy_async(a, here)
    await t.launch(double, a, **SHAPE)
    await t.memcpy(b, a)
    await t.launch(add, b, a, **SHAPE)
    back = t.array("back", N, np.float64)
    await t.memcpy(back, b)
    for memory in (a, b):
        await t.free(memory)
    await t.free_host(here)
    return back.data - 4 * x


async def events_and_streams(t, rank, x):
    """Two streams that an event orders, a host function between, and times that events tell."""
    first, second = [await t.stream_create(non_blocking=True) for _ in "ab"]
    begin, end = [await t.event_create() for _ in "ab"]
    source = t.array("x", N, np.float64, fill=x)
    a, told = await t.malloc(N, np.float64), []
    await t.memcpy_async(a, source, stream=first)
    await t.event_record(begin, first)
    await t.launch(double, a, **SHAPE, stream=first)
    await t.event_record(end, first)
    await t.stream_wait_event(second, end)
    await t.launch(double, a, **SHAPE, stream=second)
    await t.launch_host_func(lambda: told.append(rank), seconds=1e-6, stream=second)
    await t.stream_synchronize(second)
    await t.event_synchronize(end)
    assert told == [rank] and await t.event_query(end) and await t.event_elapsed_time(begin, end) > 0
    await t.memcpy(source, a)
    for one in (begin, end):
        await t.event_destroy(one)
    for one in (first, second):
        await t.stream_destroy(one)
    return source.data - 4 * x


async def managed(t, rank, x):
    m = await t.malloc_managed("m", N, np.float64, fill=x)
    await t.mem_prefetch(m)
    await t.launch(double, m, **SHAPE)
    await t.device_synchronize()
    await t.host_access(m)
    values = m.data.copy()
    await t.free(m)
    return values - 2 * x


async def pools(t, rank, x):
    stream, source = await t.stream_create(), t.array("x", N, np.float64, fill=x)
    for _ in range(3):
        a = await t.malloc_async(N, np.float64, stream=stream)
        await t.memset_async(a, 0, stream=stream)
        await t.memcpy_async(a, source, stream=stream)
        await t.launch(double, a, **SHAPE, stream=stream)
        await t.memcpy_async(source, a, stream=stream)
        await t.free_async(a, stream=stream)
    await t.stream_synchronize(stream)
    return source.data - 8 * x


async def graphs(t, rank, x):
    """A graph that is captured, and one that is built, each launched twice."""
    stream, here = await t.stream_create(), await t.host_alloc("here", N, np.float64, fill=x)
    a = await t.malloc(N, np.float64)
    await t.stream_begin_capture(stream)
    await t.memcpy_async(a, here, stream=stream)
    await t.launch(double, a, **SHAPE, stream=stream)
    captured = await t.stream_end_capture(stream)
    built = await t.graph_create()
    doubled = await t.graph_add_kernel_node(built, double, a, **SHAPE)
    cleared = await t.graph_add_memset_node(built, await t.malloc(8), 0)
    await t.graph_add_memcpy_node(built, here, a, after=[doubled, cleared])
    for graph in (captured, built):
        ready = await t.graph_instantiate(graph)
        for _ in range(2):
            await t.graph_launch(ready, stream=stream)
        await t.stream_synchronize(stream)
        await t.graph_exec_destroy(ready)
    return here.values - 8 * x  # the second launch of the captured one begins anew; the built one goes on


async def in_place(t, rank, x):
    here, a = await t.host_alloc("here", N, np.float64, fill=x), await t.malloc(N, np.float64)
    await t.memset_async(a, 0)
    await t.launch(add, a, here, **SHAPE)
    await t.launch(double, here, **SHAPE)
    back = t.array("back", N, np.float64)
    await t.host_register(back)
    await t.memcpy(back, a)
    await t.host_unregister(back)
    return here.values + back.data - 3 * x


async def peers(t, rank, x):
    """From each device to the next, over links where there are any."""
    devices, memory = t.get_device_count(), []
    linked = t.program.machine.spec.name != "isambard-mi100"
    for device in range(devices):
        await t.set_device(device)
        memory.append(await t.malloc(N, np.float64))
    source = t.array("x", N, np.float64, fill=x)
    for device in range(devices):
        await t.set_device(device)
        if device:
            if linked:
                await t.device_enable_peer_access(device - 1)
            await t.memcpy(memory[device], memory[device - 1])
        else:
            await t.memcpy(memory[0], source)
        await t.launch(double, memory[device], **SHAPE)
        await t.device_synchronize()
    await t.memcpy(source, memory[-1])
    for device in range(devices):
        await t.set_device(device)
        await t.free(memory[device])
    return source.data - 2**devices * x


GROUPS = (copies, events_and_streams, managed, pools, graphs, in_place, peers)


def wrong(machine, ranks, devices, gear="turbo", groups=GROUPS, threads=1, **settings):
    """Run every group of calls in every rank; return the run, and by how much the worst value is wrong."""
    run = Run(machine=machine, gear=gear, record=True)
    for key, value in settings.items():
        run.set(key.replace("__", "."), value)
    run.options = cuda.CUDAOptions(num_processes=ranks, num_devices=devices)

    async def main(process):
        async def body(t):
            x = (1.0 + process.rank) * np.arange(1.0, N + 1)
            await t.set_device((process.rank + t.number) % devices)
            return np.max([np.abs(await group(t, process.rank, x)) for group in groups])

        found = await process.parallel(body, num_threads=threads)
        await process.world.Barrier()
        return found

    async def all_of_it():
        found = await run.mpiexec(main)
        await run.finish()
        return found

    found = run.sim.run(all_of_it)
    assert len(found) == ranks
    return run, np.max(found)


@needs_mpi
@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize(
    ("machine", "devices"), [("alex-a100", 1), ("a100-node4", 3), ("isambard-mi100", 2), ("mi250x", 2)]
)
def test_every_call_gives_every_rank_its_own_values(machine, devices, ranks):
    (run, worst), (other, _) = (wrong(machine, ranks, devices, gear) for gear in ("turbo", "native"))
    assert worst == 0.0
    assert run.trace.hash() == other.trace.hash()


@needs_mpi
@pytest.mark.parametrize("sharing", ["time_slices", "mps", "mig"])
def test_the_values_are_right_however_the_ranks_share_the_gpu(sharing):
    instances = {"mig__instances": "3g.40gb 3g.40gb"} if sharing == "mig" else {}
    assert wrong("alex-a100", 4, 1, threads=2, process__sharing=sharing, **instances)[1] == 0.0


@needs_mpi
@pytest.mark.parametrize(
    ("use", "complaint"),
    [
        ("launch", "argument 1 of kernel 'double', .* is no memory of a device of process [01]"),
        ("copy", "its source, .* is no memory of a device of process [01]"),
        ("free", "no block begins at"),
    ],
)
def test_memory_of_another_rank_is_refused(use, complaint):
    memory = {}

    async def main(process):
        async def body(t):
            memory[process.rank] = await t.malloc(N, np.float64)
            await process.world.Barrier()
            foreign = memory[1 - process.rank]
            match use:
                case "launch":
                    await t.launch(double, foreign, **SHAPE)
                case "copy":
                    await t.memcpy(memory[process.rank], foreign)
                case "free":
                    await t.free(foreign)

        await process.parallel(body)

    run = Run()
    run.options = cuda.CUDAOptions(num_processes=2)
    with pytest.raises(DriverError, match=complaint):
        run.sim.run(run.mpiexec, main)
