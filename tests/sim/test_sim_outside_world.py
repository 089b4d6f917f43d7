"""Waits for the world outside virtual time, and primitives awaited outside their run, are errors that say so."""

import multiprocessing
import os
import socket
import threading

import pytest
import trio

from offloadrt.sim import Lock, RealInputOutput, Simulation, SimulationError, UnregisteredTask


def test_a_primitive_in_a_plain_task_is_an_error_that_says_so(sim):
    async def child(lock):
        await lock.acquire()

    async def main():
        async with sim.attached(), trio.open_nursery() as nursery:
            nursery.start_soon(child, Lock(sim, "lock"))

    with pytest.raises(UnregisteredTask, match=r"a plain Trio task \(a child of 'main'\).*sim\.open_nursery\(\)"):
        sim.run(main)


def test_a_primitive_in_a_task_of_trio_beside_a_waiting_parent_is_told_the_same(sim):
    async def child():
        await sim.sleep(1)

    async def main():
        async with sim.attached(), trio.open_nursery() as nursery:
            nursery.start_soon(child)
            await sim.sleep(2)

    with pytest.raises(UnregisteredTask, match=r"^t=0: .* a plain Trio task \(a child of 'main'\)"):
        sim.run(main)


def test_a_primitive_in_a_system_task_of_trio_is_told_the_same(sim):
    async def child():
        await sim.sleep(1)

    async def main():
        trio.lowlevel.spawn_system_task(child)
        await sim.sleep(2)

    with pytest.raises(UnregisteredTask, match=r"outside its actors; use .*sim\.spawn\(fn\)"):
        sim.run(main)


@pytest.mark.parametrize("gear", ["native", "turbo"])
def test_a_primitive_given_to_a_nursery_of_trio_is_told_the_same(gear):
    sim = Simulation(gear=gear)

    async def main():
        async with sim.attached(), trio.open_nursery() as nursery:
            nursery.start_soon(sim.sleep, 1)

    with pytest.raises(UnregisteredTask, match=r"^t=0: .* a plain Trio task \(a child of 'main'\); start it as"):
        sim.run(main)


def test_a_fork_ends_the_run_and_the_new_process(sim):
    ended = []

    async def main():
        child = os.fork()
        await sim.sleep(1)
        ended.append(os.waitpid(child, 0)[1])

    with pytest.raises(SimulationError, match=r"^test_sim_outside_world\.py:\d+: t=0: main calls os\.fork"):
        sim.run(main)
    assert ended in ([], [0])


def test_processes_of_the_standard_library_are_none_of_the_run(sim):
    async def main():
        process = multiprocessing.get_context("fork").Process(target=os.getpid)
        process.start()
        process.join()
        await sim.sleep(1)
        return process.exitcode, sim.now

    assert sim.run(main) == (0, 1)


@pytest.mark.parametrize("seconds", [1e10, 1e300])
def test_trio_sleeps_no_longer_than_the_primitives_do(sim, seconds):
    async def main():
        async with sim.attached():
            await trio.sleep(seconds)

    with pytest.raises(SimulationError, match=r"trio\.sleep or a deadline of Trio ends at t=1e\+.*at most 1e9"):
        sim.run(main)


def test_a_deadline_of_trio_that_never_comes_may_be_far(sim):
    async def main():
        async with sim.attached():
            with trio.move_on_after(1e12):
                await trio.sleep(1)
        return sim.now

    assert sim.run(main) == 1.0


def test_a_primitive_outside_the_run_is_an_error_that_says_so(sim):
    async def main():
        await sim.sleep(1)

    with pytest.raises(UnregisteredTask, match=r"outside its actors; use sim\.run"):
        trio.run(main)


def test_a_primitive_of_another_run_is_an_error(sim):
    async def main():
        await Simulation().sleep(1)

    with pytest.raises(UnregisteredTask):
        sim.run(main)


def test_a_thread_is_an_error_and_no_deadlock(sim):
    async def main():
        async with sim.attached():
            await trio.to_thread.run_sync(lambda: None)

    with pytest.raises(RealInputOutput, match=r"t=0: 'main' .* outside virtual time \(a thread"):
        sim.run(main)


def test_a_call_in_another_thread_is_refused_and_ends_the_run(sim):
    """The thread would otherwise change the order of the actors while one of them runs."""
    refused = []

    def elsewhere():
        try:
            sim.current  # noqa: B018  # every call of a programming model asks for it
        except UnregisteredTask as error:
            refused.append(error)

    async def main():
        thread = threading.Thread(target=elsewhere, name="mine")
        thread.start()
        thread.join()

    with pytest.raises(UnregisteredTask, match=r"^t=0: a call of the run was made in thread 'mine' .* await run"):
        sim.run(main)
    assert len(refused) == 1


def test_a_thread_beside_actors_whose_time_passes_is_an_error_too(sim):
    async def busy():
        while True:
            await sim.sleep(1)

    async def main():
        sim.spawn(busy)
        async with sim.attached():
            await trio.to_thread.run_sync(lambda: None)

    with pytest.raises(RealInputOutput, match=r"'main' (waits for|was woken by) something outside virtual time"):
        sim.run(main)


def test_a_socket_is_an_error_and_no_deadlock(sim):
    async def main():
        left, right = socket.socketpair()
        with left, right:
            stream = trio.SocketStream(trio.socket.from_stdlib_socket(left))
            async with sim.attached():
                await stream.receive_some(1)

    with pytest.raises(RealInputOutput, match="'main' waits for something outside virtual time"):
        sim.run(main)


def test_a_plain_task_that_uses_a_thread_is_found_below_its_actor(sim):
    async def main():
        async with sim.attached(), trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, lambda: None, name="reader")

    with pytest.raises(RealInputOutput, match="reader"):
        sim.run(main)


@pytest.mark.parametrize("ticks", [5, 10**9])
def test_wait_all_tasks_blocked_is_an_error_that_says_so(sim, ticks):
    async def neighbour():
        for _ in range(ticks):
            await sim.sleep(1)

    async def main():
        sim.spawn(neighbour)
        async with sim.attached():
            await trio.testing.wait_all_tasks_blocked()

    with pytest.raises(SimulationError, match=r"'main' waits in trio\.testing\.wait_all_tasks_blocked\(\)"):
        sim.run(main)
