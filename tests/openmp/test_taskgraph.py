"""taskgraph: target tasks that are recorded once and replayed as a graph of the driver."""

import pytest

from offloadrt import Run, kernel
from offloadrt import openmp as omp

N = 64
FREE = {"driver.handover": "0 us", "table.handover": "0 us"}


@kernel
def add_one(a):
    for i in range(len(a)):
        a[i] += 1.0


@kernel
def double(a):
    for i in range(len(a)):
        a[i] *= 2.0


@kernel
def add(a, b):
    for i in range(len(a)):
        a[i] += b[i]


def run_of(body, threads=1, machine="alex-a100", gear="turbo", devices=1, **settings):
    """Run ``body(t)`` in each thread; returns what thread 0 returns, and the run."""
    overrides = {**FREE, **{key.replace("__", "."): str(value) for key, value in settings.items()}}
    run = Run(machine=machine, overrides=overrides, gear=gear, record=True)
    run.configure(num_devices=devices)

    async def main():
        results = await run.parallel(body, num_threads=threads)
        await run.finish()
        return results[0]

    return run.sim.run(main), run


def task(t, work, *arrays, **clauses):
    return t.target(work, *arrays, nowait=True, depend=omp.depend(inout=arrays[0], in_=list(arrays[1:])), **clauses)


def stepping(t, a, b, calls):
    async def diamond():
        calls.append(t.sim.now)
        await task(t, add_one, a)
        await task(t, add_one, b)
        await task(t, add, a, b)
        await task(t, double, a)

    return diamond


def program(steps, graphs=True):
    async def body(t):
        a, b = t.array("a", N, fill=1.0), t.array("b", N, fill=2.0)
        calls = []
        diamond = stepping(t, a, b, calls)
        async with t.target_data(omp.map(tofrom=[a, b])):
            for _ in range(steps):
                if graphs:
                    await t.taskgraph(diamond)
                else:
                    await diamond()
                    await t.taskwait()
        return a[0], b[0], len(calls)

    return body


def test_replays_compute_what_the_tasks_compute_and_the_body_is_called_once():
    (a, b, calls), run = run_of(program(4))
    (expected_a, expected_b, every), _ = run_of(program(4, graphs=False))
    assert (a, b) == (expected_a, expected_b) and (calls, every) == (1, 4)
    assert run.calls.count("cuGraphLaunch") == 3 and run.calls.count("cuGraphAddKernelNode") == 4
    assert run.calls.count("cuLaunchKernel") == 4


def test_it_is_the_same_in_both_gears():
    assert run_of(program(3))[1].trace.hash() == run_of(program(3), gear="native")[1].trace.hash()


def step_s(threads=1, tasks=10, **settings):
    """Seconds of a replay of so many tasks, of the slowest thread."""
    took = []

    async def body(t):
        a = t.array(f"a{t.number}", N, fill=0.0)

        async def chain():
            for _ in range(tasks):
                await task(t, add_one, a, teams=1)

        async with t.target_data(omp.map(tofrom=a)):
            await t.taskgraph(chain)
            await t.barrier()
            begin = t.sim.now
            await t.taskgraph(chain)
            took.append(t.sim.now - begin)

    _, run = run_of(body, threads, **settings)
    return max(took), run


def test_a_replay_costs_a_directive_and_a_launch_of_the_graph_whatever_tasks_cost():
    settings = {"graph__launch": "1 ms", "graph__node": "1 us"}
    (alone, run), (costly, _) = step_s(**settings), step_s(**settings, runtime__task="5 ms", table__lookup="5 ms")
    assert alone == pytest.approx(costly)
    assert alone == pytest.approx(1e-3 + 10e-6 + run.spec.value("runtime.directive"), rel=0.05)


def test_threads_that_replay_wait_for_one_another_at_the_context_lock():
    alone, _ = step_s(graph__launch="1 ms")
    together, _ = step_s(5, graph__launch="1 ms")
    assert together == pytest.approx(5 * alone, rel=0.05)
    apart, _ = step_s(5, graph__launch="1 ms", driver__context__uncontended="true")
    assert apart == pytest.approx(alone, rel=0.05)


def test_graph_id_tells_records_apart_and_graph_reset_records_anew():
    async def body(t):
        a, b = t.array("a", N, fill=1.0), t.array("b", N, fill=2.0)
        calls = []
        diamond = stepping(t, a, b, calls)
        async with t.target_data(omp.map(tofrom=[a, b])):
            for graph_id in (0, 1, 0, 1):
                await t.taskgraph(diamond, graph_id=graph_id)
            before = len(calls)
            await t.taskgraph(diamond, graph_reset=True)
        return before, len(calls)

    result, run = run_of(body)
    assert result == (2, 3) and run.calls.count("cuGraphExecDestroy") == 1


def test_a_region_without_tasks_runs_each_time():
    async def body(t):
        calls = []

        async def nothing():
            calls.append(1)

        for _ in range(3):
            await t.taskgraph(nothing)
        return len(calls)

    assert run_of(body)[0] == 3


async def updates(t, a, b):
    await t.target_update(omp.to(a), nowait=True)


async def waits(t, a, b):
    await t.target(add_one, a)


async def on_the_host(t, a, b):
    await t.target(add_one, a, nowait=True, if_=False)


async def on_two_devices(t, a, b):
    await t.target(add_one, a, nowait=True)
    await t.target(add_one, a, nowait=True, device=1)


async def private(t, a, b):
    await t.target(add_one, a, nowait=True, firstprivate=a)


async def not_mapped(t, a, b):
    await t.target(add_one, b, nowait=True)


async def nested(t, a, b):
    await t.taskgraph(lambda: updates(t, a, b))


@pytest.mark.parametrize(
    ("region", "why"),
    [
        (updates, "a target update is no replayable task here: only target with nowait is"),
        (waits, "a target is no replayable task here: only target with nowait is"),
        (on_the_host, "a target on the initial device is no replayable task here"),
        (on_two_devices, "tasks of devices 0 and 1 in one graph"),
        (private, "private arrays of a target are not replayed here"),
        (not_mapped, "array 'b' is on the device only while its task runs"),
        (nested, "regions within a taskgraph region are not emulated"),
    ],
    ids=lambda one: getattr(one, "__name__", None),
)
def test_what_is_not_replayed_is_refused(region, why):
    async def body(t):
        a, b = t.array("a", N), t.array("b", N)
        async with t.target_data(omp.map(tofrom=a)):
            await t.taskgraph(lambda: region(t, a, b))

    with pytest.raises(ValueError, match=f"taskgraph: .*{why}"):
        run_of(body, machine="a100-node4", devices=2)


def test_data_that_has_left_the_device_is_refused_at_the_replay():
    async def body(t):
        a = t.array("a", N)

        async def one():
            await t.target(add_one, a, nowait=True)

        for _ in range(2):
            async with t.target_data(omp.map(tofrom=a)):
                await t.taskgraph(one)
            await t.target_enter_data(omp.map(alloc=t.array("other", N)))

    with pytest.raises(ValueError, match="array 'a' is not where it was on the device"):
        run_of(body)


def test_rocr_has_no_graphs_here():
    async def body(t):
        a = t.array("a", N)

        async def one():
            await t.target(add_one, a, nowait=True)

        async with t.target_data(omp.map(tofrom=a)):
            await t.taskgraph(one)

    with pytest.raises(ValueError, match="mi300a has ROCr, whose graphs are not emulated"):
        run_of(body, machine="mi300a")
