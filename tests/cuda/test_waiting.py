"""How host threads wait for the device, and functions of the host in streams."""

import pytest
from cuda_rig import run_of, small

SLICE = {"stream.time_slice": "0.05 ms"}


def team_s(schedule, settings=None, cores=2):
    """Seconds that four threads on few cores take: two wait for kernels, two compute."""

    async def body(t):
        if t.number == 0:
            await t.set_device_flags(schedule)
        await t.barrier()
        begin = t.sim.now
        if t.number % 2:
            await t.sleep(50e-6)
            for _ in range(10):
                await t.compute(1e-4)
            computed = t.sim.now - begin
        else:
            stream = await t.stream_create(non_blocking=True)
            await small(t, stream, 40)
            await t.stream_synchronize(stream)
            computed = 0.0
        await t.barrier()
        return (t.sim.now - begin, computed)

    async def computing(t):
        results.append((await body(t))[1])
        return results

    results: list[float] = []
    run_of(computing, threads=4, settings={"cpu.cores": cores, **SLICE, **(settings or {})})
    return max(results)


def test_threads_that_spin_keep_cores_that_others_need():
    assert team_s("yield") == pytest.approx(1e-3 + 50e-6, rel=0.05)
    assert team_s("blocking_sync") == pytest.approx(team_s("yield"), rel=0.05)
    assert team_s("spin") > 1.3 * team_s("yield")


def test_spinning_hurts_nobody_where_every_thread_has_a_core():
    assert team_s("spin", cores=4) == pytest.approx(team_s("yield"), rel=0.05)
    assert team_s("spin", {"core.uncontended": True}) == pytest.approx(team_s("yield"), rel=0.05)


def test_a_thread_that_computes_gets_the_core_of_one_that_spins_after_its_time_slice():
    shorter, longer = (team_s("spin", {"stream.time_slice": f"{us} us"}) for us in (20, 200))
    assert shorter < longer


def waiting_s(schedule, blocking_sync=False):
    async def body(t):
        await t.set_device_flags(schedule)
        event = await t.event_create(blocking_sync=blocking_sync)
        begin = t.sim.now
        await small(t)
        await t.event_record(event)
        await t.event_synchronize(event)
        return t.sim.now - begin

    return run_of(body)


@pytest.mark.parametrize(("schedule", "blocking_sync"), [("blocking_sync", False), ("auto", True), ("spin", True)])
def test_a_thread_that_sleeps_returns_later_by_the_interrupt(schedule, blocking_sync):
    (run, spinning), (_, sleeping) = waiting_s("spin"), waiting_s(schedule, blocking_sync)
    assert sleeping - spinning == pytest.approx(run.spec.value("stream.interrupt"))
    assert waiting_s("yield")[1] == pytest.approx(spinning) == pytest.approx(waiting_s("auto")[1])


@pytest.mark.parametrize("schedule", ["spin", "yield"])
def test_waits_end_when_the_only_core_is_spun_on_and_a_host_function_needs_it(schedule):
    async def body(t):
        called = []
        await t.set_device_flags(schedule)
        await t.launch_host_func(lambda: called.append(t.sim.now), seconds=1e-4)
        await t.stream_synchronize()
        return called

    assert len(run_of(body, settings={"cpu.cores": 1, **SLICE})[1]) == 1


def test_a_host_function_runs_between_what_is_before_and_behind_it_in_its_stream():
    async def body(t):
        before, behind = await t.event_create(), await t.event_create()
        at = []
        await small(t)
        await t.event_record(before)
        await t.launch_host_func(lambda: at.append(t.sim.now), seconds=1e-3)
        launched = t.sim.now
        await t.event_record(behind)
        await t.event_synchronize(behind)
        return launched, before.reached, at[0], behind.reached

    run, (launched, before, called, behind) = run_of(body)
    assert launched < before < called <= behind
    assert called - before == pytest.approx(1e-3 + run.spec.value("stream.host_function"))


def functions_s(streams, uncontended=False):
    """Seconds of a host function in each stream, and what the callback thread did."""

    async def body(t):
        made = [await t.stream_create(non_blocking=True) for _ in range(streams)]
        begin = t.sim.now
        for stream in made:
            await t.launch_host_func(None, stream=stream, seconds=1e-3)
        await t.device_synchronize()
        return t.sim.now - begin, t.program.driver.engines()["device 0 callback thread"]

    return run_of(body, settings={"stream.callback_thread.uncontended": uncontended, "driver.event_record": 0})[1]


def test_functions_of_all_streams_run_one_after_the_other():
    (alone, _), (together, did), (free, _) = functions_s(1), functions_s(5), functions_s(5, uncontended=True)
    assert together == pytest.approx(5 * alone, rel=0.05) and free == pytest.approx(alone, rel=0.05)
    assert did.functions == 5 and did.busy_s / did.functions == pytest.approx(functions_s(1)[1].busy_s)
    assert did.wait_s > 0.0


async def a_coroutine():
    """Make no call."""


@pytest.mark.parametrize(
    ("function", "seconds", "message"),
    [
        (a_coroutine, 0.0, "no plain function"),
        (3, 0.0, "function cannot be 3; it takes"),
        (None, -1.0, "seconds is -1.0"),
    ],
)
def test_what_is_no_host_function_is_refused(function, seconds, message):
    async def body(t):
        await t.launch_host_func(function, seconds=seconds)

    with pytest.raises((TypeError, ValueError), match=message):
        run_of(body)


def test_a_way_of_waiting_that_does_not_exist_is_refused():
    async def body(t):
        await t.set_device_flags("doze")

    takes = r"Literal\['auto', 'spin', 'yield', 'blocking_sync'\]"
    with pytest.raises(TypeError, match=f"set_device_flags: schedule cannot be 'doze'; it takes {takes}"):
        run_of(body)


@pytest.mark.parametrize(
    ("machine", "variable", "waits"),
    [("alex-a100", "CUDA", True), ("mi250x", "HIP", True), ("alex-a100", "HIP", False), ("mi250x", "CUDA", False)],
)
def test_a_blocking_launch_returns_when_its_kernel_has_ended(machine, variable, waits):
    async def body(t):
        stream = await t.stream_create(non_blocking=True)
        await small(t, stream, 1e4)
        return await t.stream_query(stream)

    assert run_of(body, machine, made={"environment": {f"{variable}_LAUNCH_BLOCKING": "1"}})[1] == waits


def test_a_captured_launch_does_not_block():
    async def body(t):
        stream = await t.stream_create()
        await t.stream_begin_capture(stream)
        await small(t, stream)
        return len((await t.stream_end_capture(stream)).nodes)

    assert run_of(body, settings={"driver.launch_blocking": True})[1] == 1
