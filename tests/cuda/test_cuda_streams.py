"""Streams of CUDA programs: who waits for whom, on which hardware queue, and what is refused."""

import pytest
from cuda_rig import run_of, small

from offloadrt import cuda
from offloadrt import openmp as omp
from offloadrt.driver import DriverError
from offloadrt.machine import load
from offloadrt.study import execute, find_scenario


async def in_streams(t, first, second):
    """Seconds that two small kernels take, one in each stream."""
    begin = t.sim.now
    await small(t, first, 10)
    await small(t, second, 10)
    for stream in (first, second):
        await t.stream_synchronize(stream)
    return t.sim.now - begin


async def alone(t, stream):
    begin = t.sim.now
    await small(t, stream, 10)
    await t.stream_synchronize(stream)
    return t.sim.now - begin


async def streams_of(t, kind):
    if kind == "legacy":
        return cuda.STREAM_LEGACY
    if kind == "per-thread":
        return cuda.STREAM_PER_THREAD
    return await t.stream_create(non_blocking=kind == "non-blocking")


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        ("blocking", "blocking", True),
        ("legacy", "blocking", False),
        ("blocking", "legacy", False),
        ("legacy", "non-blocking", True),
        ("non-blocking", "legacy", True),
        ("legacy", "per-thread", False),
        ("per-thread", "blocking", True),
        ("legacy", "legacy", False),
    ],
)
def test_the_legacy_default_stream_and_blocking_streams_wait_for_one_another(first, second, together):
    async def body(t):
        streams = [await streams_of(t, kind) for kind in (first, second)]
        one = await alone(t, streams[0])
        return one, await in_streams(t, *streams)

    _, (one, two) = run_of(body)
    assert two < 1.3 * one if together else two > 1.8 * one


def test_a_call_without_a_stream_means_the_threads_own_when_the_program_is_compiled_so():
    async def body(t):
        await t.barrier()
        begin = t.sim.now
        await small(t, size=10)
        await t.stream_synchronize()
        await t.barrier()
        return t.sim.now - begin

    _, shared = run_of(body, threads=4)
    _, own = run_of(body, threads=4, default_stream="per-thread")
    assert shared > 3 * own


def test_waiting_for_the_legacy_stream_waits_for_blocking_streams_only():
    async def body(t):
        blocking, other = await t.stream_create(), await t.stream_create(non_blocking=True)
        await small(t, other, 40)
        await small(t, blocking, 20)
        await t.stream_synchronize()
        return await t.stream_query(blocking), await t.stream_query(other)

    assert run_of(body)[1] == (True, False)


def test_a_stream_waits_for_an_event_of_another_and_the_host_does_not():
    async def body(t):
        first, second = [await t.stream_create(non_blocking=True) for _ in "ab"]
        middle, end = await t.event_create(), await t.event_create()
        await small(t, first, 20)
        await t.event_record(middle, first)
        await t.stream_wait_event(second, middle)
        await t.event_record(end, second)
        submitted = await t.event_query(end)
        await t.event_synchronize(end)
        return submitted, await t.event_elapsed_time(middle, end)

    _, (submitted, elapsed_ms) = run_of(body)
    assert not submitted and 0.0 <= elapsed_ms < 1e-3


def test_events_measure_what_lies_between_them_on_the_device():
    async def body(t):
        begin, end = await t.event_create(), await t.event_create()
        await t.event_record(begin)
        await small(t, size=10)
        await t.event_record(end)
        await t.event_synchronize(end)
        one = await t.event_elapsed_time(begin, end)
        await t.event_record(end)  # recorded again: the first mark is forgotten
        await t.event_synchronize(end)
        return one, await t.event_elapsed_time(begin, end)

    run, (one, longer) = run_of(body)
    compute = run.machine.devices[0].compute
    assert one * 1e-3 == pytest.approx(compute.statistics().alone_s, rel=0.2) and longer > one


def test_waiting_for_an_event_that_was_never_recorded_does_nothing_as_in_cuda():
    async def body(t):
        event = await t.event_create()
        await t.stream_wait_event(None, event)
        await t.event_synchronize(event)
        return await t.event_query(event)

    assert run_of(body)[1]


@pytest.mark.parametrize(("machine", "queues"), [("alex-a100", [0, 1, 2, 3, 4, 5, 6, 7, 0]), ("isambard-mi100", None)])
def test_streams_share_hardware_queues_when_there_are_more_of_them(machine, queues):
    async def body(t):
        return [(await t.stream_create(non_blocking=True)).queue.number for _ in range(8)]

    _, numbers = run_of(body, machine)
    # The default stream has queue 0. HIP has 4 queues (GPU_MAX_HW_QUEUES).
    assert numbers == (queues[1:] if queues else [1, 2, 3, 0, 1, 2, 3, 0])


def test_hip_gives_a_new_stream_the_queue_that_the_fewest_streams_use():
    async def body(t):
        streams = [await t.stream_create(non_blocking=True) for _ in range(7)]
        await t.stream_destroy(streams[1])  # of queue 2
        return streams[1].queue.number, (await t.stream_create()).queue.number

    _, (left, new) = run_of(body, "isambard-mi100")
    assert left == new == 2
    _, (left, new) = run_of(body)
    assert left != new  # round robin goes on


def test_streams_of_one_hardware_queue_hold_one_another_up():
    def elapsed(queues):
        async def body(t):
            streams = [await t.stream_create(non_blocking=True) for _ in range(4)]
            begin = t.sim.now
            for stream in streams:
                await small(t, stream, 10)
                await small(t, stream, 10)
            await t.device_synchronize()
            return t.sim.now - begin

        return run_of(body, settings={"gpu.max_connections": queues})[1]

    assert elapsed(1) > 2 * elapsed(8)


def test_streams_of_another_priority_have_queues_of_their_own():
    async def body(t):
        assert t.device_get_stream_priority_range() == (0, -5)
        usual, urgent = await t.stream_create(), await t.stream_create(priority=-9)
        return usual.queue.number, urgent.queue.number, urgent.priority

    assert run_of(body, settings={"gpu.max_connections": 1})[1] == (0, 1, -5)


def test_calls_on_amds_gpus_have_hips_names():
    async def body(t):
        event, stream = await t.event_create(), await t.stream_create(priority=-1)
        await t.event_record(event, stream)
        await t.event_synchronize(event)

    run, _ = run_of(body, "isambard-mi100")
    assert run.calls.count("hipEventRecord") == run.calls.count("hipStreamCreateWithPriority") == 1


# bad use


async def never_recorded(t):
    await t.event_elapsed_time(await t.event_create(), await t.event_create())


async def not_reached(t):
    event = await t.event_create()
    await small(t)
    await t.event_record(event)
    await t.event_elapsed_time(event, event)


async def without_timing(t):
    event = await t.event_create(timing=False)
    await t.event_record(event)
    await t.event_synchronize(event)
    await t.event_elapsed_time(event, event)


async def destroyed_event(t):
    event = await t.event_create()
    await t.event_destroy(event)
    await t.event_record(event)


async def waits_for_a_destroyed_event(t):
    event = await t.event_create()
    await t.event_destroy(event)
    await t.stream_wait_event(None, event)


async def destroyed_stream(t):
    stream = await t.stream_create()
    await t.stream_destroy(stream)
    await small(t, stream)


async def stream_of_another_device(t):
    stream = await t.stream_create()
    await t.set_device(1)
    await small(t, stream)


async def event_of_another_device(t):
    event = await t.event_create()
    await t.set_device(1)
    await t.event_record(event)


async def no_device(t):
    await t.set_device(2)


async def destroys_the_default_stream(t):
    await t.stream_destroy(cuda.STREAM_LEGACY)


@pytest.mark.parametrize(
    ("body", "call", "code", "why"),
    [
        (never_recorded, "cuEventElapsedTime", "INVALID_HANDLE", "event 0 was never recorded"),
        (not_reached, "cuEventElapsedTime", "NOT_READY", "the device has yet to come to event 0"),
        (without_timing, "cuEventElapsedTime", "INVALID_HANDLE", "event 0 was made without timing"),
        (destroyed_event, "cuEventRecord", "INVALID_HANDLE", "event 0 is destroyed"),
        (waits_for_a_destroyed_event, "cuStreamWaitEvent", "INVALID_HANDLE", "event 0 is destroyed"),
        (destroyed_stream, "cuLaunchKernel", "INVALID_HANDLE", "stream 1 was destroyed"),
        (stream_of_another_device, "cuLaunchKernel", "INVALID_HANDLE", "stream 1 belongs to device 0"),
        (event_of_another_device, "cuEventRecord", "INVALID_HANDLE", "event 0 belongs to device 0"),
        (no_device, "cudaSetDevice", "INVALID_DEVICE", "2 is no device: the program has 2"),
        (destroys_the_default_stream, "cuStreamDestroy", "INVALID_HANDLE", "it is the default stream"),
    ],
    ids=lambda one: getattr(one, "__name__", None),
)
def test_bad_use_is_refused_with_call_thread_and_time(body, call, code, why):
    with pytest.raises(DriverError) as caught:
        run_of(body, "a100-node4", num_devices=2)
    assert str(caught.value).startswith(f"{call} failed with CUDA_ERROR_{code}: {why} (host thread 0 at 0.0")


def test_a_default_stream_that_does_not_exist_is_refused():
    with pytest.raises(Exception, match="default_stream is 'own'; it can be legacy or per-thread"):
        run_of(never_recorded, default_stream="own")


@pytest.mark.parametrize(
    ("scenario", "parameters", "figure", "added"),
    [
        pytest.param(
            "link_copies", {"memory": "pinned", "nbytes": 4096}, "copy_s", 1e-3, marks=pytest.mark.needs_extensions
        ),
        ("questions/mapped_scalar", {"kernels": 20}, "per_kernel_s", 0.0),
    ],
)
def test_only_a_program_that_calls_hip_pays_for_what_its_library_does_for_a_copy(scenario, parameters, figure, added):
    """LLVM's plugin calls HSA itself."""
    without, with_it = (
        execute(find_scenario(scenario), parameters, machine="mi250x", overrides={"hip.copy": cost}).measured[figure]
        for cost in ("0 us", "1 ms")
    )
    assert with_it - without == pytest.approx(added, abs=1e-9)


def test_the_environment_chooses_the_default_stream_and_for_openmp_the_device_and_its_memory():
    apu, gpu = load("mi300a"), load("alex-a100")
    assert cuda.CUDAOptions().chosen_on(gpu, {}).default_stream == "legacy"
    assert cuda.CUDAOptions().chosen_on(gpu, {"CUDA_API_PER_THREAD_DEFAULT_STREAM": "1"}).default_stream == "per-thread"
    assert omp.OpenMPOptions().chosen_on(gpu, {"OMP_TARGET_OFFLOAD": "Disabled"}).target_offload == "disabled"
    assert (
        omp.OpenMPOptions(configuration="environment").chosen_on(apu, {"HSA_XNACK": "1"}).configuration
        == "implicit_zero_copy"
    )
    with pytest.raises(ValueError, match="OMP_TARGET_OFFLOAD is 'often'"):
        omp.OpenMPOptions().chosen_on(gpu, {"OMP_TARGET_OFFLOAD": "often"})


@pytest.mark.parametrize(("machine", "together"), [("alex-a100", 3), ("mi250x", 4)])
def test_in_hip_kernels_of_two_streams_on_one_queue_never_run_at_the_same_time(machine, together):
    """Two kernels of each: in CUDA the second one of the first stream runs beside the first one of the second."""

    async def body(t):
        streams = [await t.stream_create(non_blocking=True) for _ in range(2)]
        begin = t.sim.now
        for stream in (streams[0], streams[0], streams[1], streams[1]):
            await small(t, stream, 1000)
        await t.device_synchronize()
        both = t.sim.now - begin
        begin = t.sim.now
        await small(t, streams[0], 1000)
        await t.device_synchronize()
        return both / (t.sim.now - begin)

    free = dict.fromkeys(["launch.latency", "launch.gap", "driver.launch", "sync.latency"], 0)
    assert run_of(body, machine, settings={"gpu.max_connections": 1, **free})[1] == pytest.approx(together, rel=0.01)
