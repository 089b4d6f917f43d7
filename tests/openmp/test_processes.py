"""Several processes of an OpenMP program: what each has of its own, and what they share."""

import numpy as np
import pytest

from offloadrt import Run, kernel
from offloadrt import openmp as omp
from offloadrt.runtime.errors import ArrayOutOfDeviceMemory
from offloadrt.study.errors import UserError

needs_mpi = pytest.mark.needs_extensions  # messages between ranks

MIB = 1 << 20


@kernel(flops_per_iteration=1, bytes_per_iteration=16)
def scale(a, s):
    a *= s


def run_of(processes, gear="turbo", **entries):
    run = Run(overrides={key.replace("__", "."): str(value) for key, value in entries.items()}, gear=gear, record=True)
    run.configure(num_processes=processes)
    return run


def finished(run, main):
    """Run the processes to their end, and return what they return."""

    async def all_of_it():
        results = await run.mpiexec(main)
        await run.finish()
        return results

    return run.sim.run(all_of_it)


async def scaled(t, n=1 << 14, times=2):
    a = t.array("a", n, fill=1.0)
    for _ in range(times):
        async with t.target_data(omp.map(tofrom=a)):
            await t.target(scale, a, 2.0, teams=108, iterations=n)
    assert a[0] == 2.0**times
    return a


def test_every_process_has_a_runtime_and_an_address_space_of_its_own():
    run = run_of(3)
    arrays = finished(run, lambda process: process.parallel(scaled, num_threads=2))
    for rank, own in enumerate(arrays):
        for number, array in enumerate(own):
            assert array.address - arrays[0][number].address == rank << 48
    names = ["device table", "device table of process 1", "device table of process 2"]
    locks = [run.locks[name] for name in names]
    assert [lock.acquired for lock in locks] == [locks[0].acquired] * 3
    assert run.locks["driver context"].acquired == run.locks["driver context of process 2"].acquired
    assert run.statistics.bytes_moved["h2d"] == 3 * 2 * 2 * 8 * (1 << 14)


def test_one_process_is_the_program_as_it_was():
    def of_mpiexec(run):
        finished(run, lambda process: process.parallel(scaled, num_threads=3))

    def of_parallel(run):
        async def main():
            await run.parallel(scaled, num_threads=3)
            await run.finish()

        run.sim.run(main)

    one, plain = run_of(1), run_of(1)
    of_mpiexec(one)
    of_parallel(plain)
    assert one.elapsed == plain.elapsed
    assert {name: lock.acquired for name, lock in one.locks.items()} == {
        name: lock.acquired for name, lock in plain.locks.items()
    }


def test_ranks_do_not_wait_for_one_another_s_runtime():
    def waits(processes, threads, **entries):
        run = run_of(processes, process__sharing="mps", **entries)
        finished(run, lambda process: process.parallel(scaled, num_threads=threads))
        return run.measured.host_time

    threads, ranks = waits(1, 8), waits(8, 1)
    assert threads["table lock"] > 0.0 and ranks["table lock"] == 0.0
    assert ranks["driver lock"] > 0.0, "the kernel driver is one for all"
    assert waits(8, 1, process__kernel_driver__uncontended=True)["driver lock"] == 0.0


def test_the_device_has_one_memory_for_all_processes():
    async def half(process):
        async def body(t):
            a = t.array(f"a{process.rank}", (50 * 10**9,), np.uint8, phantom=True)
            async with t.target_data(omp.map(to=a)):
                await t.sleep(1e-3)
                await process.world.Barrier()

        await process.parallel(body)

    with pytest.raises((ArrayOutOfDeviceMemory, ExceptionGroup)) as raised:
        finished(run_of(2), half)
    error = raised.value
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, ArrayOutOfDeviceMemory)


async def long_kernel(t):
    a = t.array("a", 1 << 22, fill=1.0)
    async with t.target_data(omp.map(tofrom=a)):
        await t.target(scale, a, 2.0, teams=1, iterations=1 << 22)


async def frees(t):
    """Allocate and free again and again; return when each free began and ended."""
    spans = []
    for _ in range(30):
        block = await t.omp_target_alloc(64 * MIB)
        await t.sleep(2e-4)
        begin = t.sim.now
        await t.omp_target_free(block)
        spans.append((begin, t.sim.now))
    return spans


def frees_within_the_kernel(run, spans):
    times = {
        type(event).__name__: event.time_ps * 1e-12 for event in run.trace.events if "Kernel" in type(event).__name__
    }
    return [begin for begin, end in spans if times["KernelStart"] < begin and end < times["KernelEnd"]]


def test_a_free_waits_for_the_kernels_of_its_own_process_only():
    """cudaFree synchronizes the context that it is called in."""
    ranks = run_of(2, process__sharing="mps")
    spans = finished(ranks, lambda process: process.parallel(frees if process.rank else long_kernel))[1][0]
    assert frees_within_the_kernel(ranks, spans)
    threads = run_of(1)
    (_, spans), *_ = finished(
        threads, lambda process: process.parallel(lambda t: frees(t) if t.number else long_kernel(t), 2)
    )
    assert not frees_within_the_kernel(threads, spans)


@needs_mpi
@pytest.mark.parametrize("sharing", ["time_slices", "mps"])
def test_both_gears_give_one_history(sharing):
    def hash_of(gear):
        run = run_of(3, gear, process__sharing=sharing)

        async def main(process):
            await process.parallel(scaled, num_threads=2)
            await process.world.Barrier()

        finished(run, main)
        return run.trace.hash(), run.elapsed

    assert hash_of("native") == hash_of("turbo")


def test_managed_memory_of_all_processes_has_one_fault_handler():
    run = run_of(2)
    run.configuration = "managed"
    finished(run, lambda process: process.parallel(scaled))
    alone = run_of(1)
    alone.configuration = "managed"
    finished(alone, lambda process: process.parallel(scaled))
    assert run.statistics.faults["fault_batches"] > alone.statistics.faults["fault_batches"] > 0
    assert run.statistics.faults["bytes_transfer_htod"] == 2 * alone.statistics.faults["bytes_transfer_htod"]
    assert len([name for name in run.statistics.engines if "page fault handler" in name]) == 1


# what the user asks wrongly


def test_a_parallel_region_belongs_to_a_process():
    run = run_of(2)
    with pytest.raises(UserError, match=r"2 processes run the program; start them with `await run.mpiexec\(main\)`"):
        run.sim.run(lambda: run.parallel(scaled))


def test_processes_are_a_whole_number():
    with pytest.raises(UserError, match="num_processes is 0"):
        _ = run_of(0).processes


@needs_mpi
@pytest.mark.parametrize("machine", ["a100-node4", "mi300a"])
def test_devices_of_every_node_copy_within_themselves(machine):
    """A device's number in the program is that on its node, on every node."""

    async def body(t):
        device = 0
        one, other = [await t.omp_target_alloc(1 << 20, device) for _ in range(2)]
        return await t.omp_target_memcpy(other, one, 1 << 20)

    run = Run(machine=machine, record=True)
    run.configure(num_processes=2, num_nodes=2, num_devices=1)
    assert finished(run, lambda process: process.parallel(body, num_threads=1)) == [[0], [0]]
    assert run.statistics.bytes_moved["d2d"] == 2 * MIB and not run.statistics.bytes_moved["p2p"]


@needs_mpi
def test_devices_of_every_node_reach_their_neighbours():
    async def body(t):
        (one, other) = [await t.omp_target_alloc(1 << 20, device) for device in range(2)]
        return await t.omp_target_memcpy(other, one, 1 << 20)

    run = Run(machine="a100-node4", record=True)
    run.configure(num_processes=2, num_nodes=2, num_devices=2)
    assert finished(run, lambda process: process.parallel(body, num_threads=1)) == [[0], [0]]
    assert run.statistics.bytes_moved["p2p"] == 2 * (1 << 20)
