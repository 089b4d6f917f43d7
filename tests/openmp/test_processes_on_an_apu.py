"""Several processes of an OpenMP program on an APU: what each has of its own, and where they meet."""

import pytest

from offloadrt import Run, kernel
from offloadrt import openmp as omp

RANGE = 2 << 20
"""What one service of a page fault maps."""


@kernel(flops_per_iteration=0, bytes_per_iteration=16)
def scale(a, s):
    a *= s


@kernel(flops_per_iteration=1e6, bytes_per_iteration=0)
def compute(a):
    a += 1.0


def run_of(processes, configuration="implicit_zero_copy", gear="turbo", **entries):
    overrides = {key.replace("__", "."): str(value) for key, value in entries.items()}
    run = Run(machine="mi300a", overrides=overrides, gear=gear, record=True)
    run.configure(num_processes=processes)
    run.configuration = configuration
    return run


def finished(run, body, threads=1):
    """Run a team of each process to its end, and return what the threads return, by rank."""

    async def all_of_it():
        results = await run.mpiexec(lambda process: process.parallel(body, num_threads=threads))
        await run.finish()
        return results

    return run.sim.run(all_of_it)


async def scaled(t, n=1 << 14):
    a = t.array("a", n, fill=1.0)
    for _ in range(2):
        await t.target(scale, a, 2.0, teams=8, iterations=n, maps=omp.map(tofrom=a))
    assert a[0] == 4.0
    return a


async def untouched(t):
    """A kernel in memory of which the GPU has no translation yet."""
    a = t.array("a", 8 * RANGE // 8, phantom=True, align=RANGE)
    await t.target(scale, a, 2.0, teams=8, iterations=RANGE)


async def long_kernel(t):
    a = t.array("a", 64, fill=0.0)
    await t.target(compute, a, teams=1, iterations=64)


@pytest.mark.parametrize("configuration", ["copy", "implicit_zero_copy", "eager_maps"])
def test_each_process_has_a_runtime_and_kernel_driver_locks_of_its_own(configuration):
    run = run_of(3, configuration)
    arrays = finished(run, scaled, threads=2)
    assert [own[0].address - arrays[0][0].address for own in arrays] == [rank << 48 for rank in range(3)]
    for lock in ("device table", "stream pool", "kfd process lock", "mmap lock"):
        counts = [run.locks[lock if not rank else f"{lock} of process {rank}"].acquired for rank in range(3)]
        assert counts == [counts[0]] * 3, lock


def test_threads_wait_for_one_device_table_and_ranks_do_not():
    def wait(processes, threads):
        run = run_of(processes)
        finished(run, scaled, threads=threads)
        return run.measured.host_time["table lock"]

    assert wait(1, 8) > 0.0 == wait(8, 1)


def test_the_faults_of_all_processes_are_served_one_after_the_other():
    def faults(**entries):
        run = run_of(4, **entries)
        finished(run, untouched)
        (handler,) = [part for name, part in run.statistics.engines.items() if "page fault handler" in name]
        assert run.statistics.faults["gpu"] == 4 * 8
        return handler.wait_s, run.elapsed

    alone = run_of(1)
    finished(alone, untouched)
    (wait_s, elapsed), (no_wait_s, shorter) = faults(), faults(fault_handler__uncontended=True)
    assert wait_s > 0.0 == pytest.approx(no_wait_s, abs=1e-12)
    assert alone.elapsed <= shorter < elapsed


def kernels_at_one_time(run):
    """The most kernels that were on the device at one time."""
    now = most = 0
    for event in run.trace.events:
        now += {"KernelStart": 1, "KernelEnd": -1}.get(type(event).__name__, 0)
        most = max(most, now)
    return most


def test_kernels_of_different_processes_run_at_one_time_unless_they_take_time_slices():
    together, slices = (
        run_of(4, process__sharing=sharing, runtime__rpc_ports=1) for sharing in ("concurrent", "time_slices")
    )
    for run in together, slices:
        finished(run, long_kernel)
    assert kernels_at_one_time(together) == 4
    assert slices.elapsed > 2 * together.elapsed


def test_more_processes_than_the_scheduler_has_address_spaces_take_turns():
    def slicer(processes):
        run = run_of(processes, process__concurrent=2)
        finished(run, long_kernel)
        return [part for name, part in run.statistics.engines.items() if "time slicer" in name], run.elapsed

    (two, elapsed), (three, longer) = slicer(2), slicer(3)
    assert not two and three[0].busy_s > 0.0 and longer > elapsed


def test_the_queues_of_all_processes_share_the_hardware_queues():
    def swaps(processes):
        run = run_of(processes, hsa__queues=2, runlist__hardware_queues=2, runlist__quantum="0.1 ms")
        finished(run, long_kernel, threads=2)
        schedulers = [part for name, part in run.statistics.engines.items() if "queue scheduler" in name]
        queues = [name for name in run.statistics.engines if "hsa queue" in name]
        assert len(queues) == len(set(queues)) == 2 * processes
        return [scheduler.swaps for scheduler in schedulers]

    assert swaps(1) == []
    assert swaps(2)[0] > 0


@pytest.mark.parametrize("configuration", ["copy", "implicit_zero_copy"])
def test_both_gears_give_one_history(configuration):
    def history(gear):
        run = run_of(3, configuration, gear)
        finished(run, scaled, threads=2)
        return run.trace.hash(), run.elapsed

    assert history("native") == history("turbo")


def test_one_process_is_the_program_as_it_was():
    ranks, plain = run_of(1), run_of(1)
    finished(ranks, scaled, threads=3)

    async def main():
        await plain.parallel(scaled, num_threads=3)
        await plain.finish()

    plain.sim.run(main)
    assert ranks.elapsed == plain.elapsed
