"""Messages between ranks: what they carry, what they take, when a call returns, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rank_runs import finished, run_of

from offloadrt import kernel
from offloadrt import openmp as omp
from offloadrt.extensions import mpi
from offloadrt.extensions.checking.checker import Checker
from offloadrt.sim import Deadlock

EXACT = {
    "shm__latency": "1 us", "shm__short": "2 us", "shm__short_limit": "64 B", "shm__message": "3 us",
    "shm__copy_bw": "10 GB/s", "shm__eager_limit": "4096 B", "shm__rendezvous": "5 us", "shm__single_copy_bw": "8 GB/s",
}  # fmt: skip


def one_way(nbytes: int) -> list[float]:
    """When the sender's and the receiver's call returns, with a receiver who waits."""

    async def main(process: Any) -> float:
        a = process.program.host_thread(0).array("a", nbytes, np.uint8, fill=process.rank + 1)
        if process.rank == 0:
            await process.world.Send(a, 1)
        else:
            await process.world.Recv(a, 0)
            assert (a.data == 1).all()
        return float(process.program.sim.now)

    return finished(run_of(2, **EXACT), main)


def test_a_message_through_shared_memory_takes_what_the_profile_says() -> None:
    us = 1e-6
    assert one_way(8) == pytest.approx([2 * us, 2 * us + 1 * us + 2 * us])
    copy = 4096 / 10e9
    assert one_way(4096) == pytest.approx([3 * us + copy, 3 * us + copy + 1 * us + 3 * us + copy])
    single = (1 << 20) / 8e9
    received = 3 * us + 1 * us + 5 * us + single
    assert one_way(1 << 20) == pytest.approx([received + 1 * us, received])


def test_neighbours_exchange_in_a_ring() -> None:
    async def main(process: Any) -> float:
        t, world = process.program.host_thread(0), process.world
        sent, received = t.array("sent", 1000, fill=float(process.rank)), t.array("received", 1000, fill=-1.0)
        right, left = (world.rank + 1) % world.size, (world.rank - 1) % world.size
        await world.Sendrecv(sent, right, 0, received, left)
        return float(received[999])

    assert finished(run_of(4), main) == [3.0, 0.0, 1.0, 2.0]


def test_a_barrier_takes_rounds_of_messages() -> None:
    async def main(process: Any) -> float:
        await process.program.sim.sleep(process.rank * 1e-3)
        await process.world.Barrier()
        return float(process.program.sim.now)

    ends = finished(run_of(5, **EXACT, mpi__collectives="mpich"), main)
    assert min(ends) > 4e-3 and max(ends) == pytest.approx(4e-3 + 3 * (2e-6 + 1e-6 + 2e-6))
    assert finished(run_of(1), main) == [0.0]


def test_a_section_with_gaps_arrives_in_its_places() -> None:
    async def main(process: Any) -> Any:
        a = process.program.host_thread(0).array("a", (4, 6), fill=float(process.rank))
        column = omp.array_section(a, (0, 4), (2, 1))
        if process.rank == 0:
            await process.world.Send(column, 1)
        else:
            await process.world.Recv(column, 0)
        return a.data.copy()

    received = finished(run_of(2), main)[1]
    assert (received[:, 2] == 0.0).all() and (np.delete(received, 2, axis=1) == 1.0).all()


def test_a_status_says_what_came_from_whom() -> None:
    async def main(process: Any) -> Any:
        a, world, status = process.program.host_thread(0).array("a", 8), process.world, mpi.Status()
        if process.rank:
            await world.Send(omp.section(a, 0, process.rank), 0, tag=process.rank * 7)
            return None
        seen = []
        for _ in range(2):
            await world.Probe(status=status)
            probed = (status.source, status.tag, status.nbytes)
            await world.Recv(a, status=status)
            assert probed == (status.source, status.tag, status.nbytes)
            seen.append(probed)
        return seen

    assert finished(run_of(3), main)[0] == [(1, 7, 8), (2, 14, 16)]


def test_persistent_requests_are_started_again_and_again() -> None:
    async def main(process: Any) -> list[float]:
        t, world = process.program.host_thread(0), process.world
        a, b = t.array("a", 4), t.array("b", 4)
        there = 1 - world.rank
        requests = [world.Recv_init(b, there), world.Send_init(a, there)]
        seen = []
        for step in range(3):
            a[:] = 10 * world.rank + step
            await mpi.PersistentRequest.Startall(requests)
            await mpi.Request.Waitall(requests)
            seen.append(float(b[0]))
        return seen

    assert finished(run_of(2), main) == [[10.0, 11.0, 12.0], [0.0, 1.0, 2.0]]


def test_a_receive_can_be_cancelled_before_its_message_comes() -> None:
    async def main(process: Any) -> Any:
        status = mpi.Status()
        request = await process.world.Irecv(process.program.host_thread(0).array("a", 1), 1)
        request.Cancel()
        await request.Wait(status)
        return status.is_cancelled

    assert finished(run_of(2), main) == [True, True]


def test_two_ranks_that_send_long_messages_to_each_other_wait_for_ever() -> None:
    async def main(process: Any) -> None:
        a = process.program.host_thread(0).array("a", 1 << 20)
        await process.world.Send(a, 1 - process.rank, at=f"halo.c:{10 + process.rank}")
        await process.world.Recv(a, 1 - process.rank)

    with pytest.raises(Deadlock) as raised:
        finished(run_of(2), main)
    story = str(raised.value)
    for rank in range(2):
        call = f"rank {rank} waits on MPI_Send to rank {1 - rank} with tag 0 on MPI_COMM_WORLD (halo.c:{10 + rank})"
        assert call in story and f"held by rank {1 - rank}" in story
    assert "test_point_to_point.py:" in story and "t=" in story


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda world, a: world.Send(a, 2), r"MPI_ERR_RANK: no rank 2 in MPI_COMM_WORLD, which has 2 \(in MPI_Send"),
        (lambda world, a: world.Recv(a, -7), r"MPI_ERR_RANK.*in MPI_Recv"),
        (lambda world, a: world.Send(a, 1, tag=-1), r"MPI_ERR_TAG: tag -1; it is 0 to 2147483647"),
        (lambda world, a: world.Put(a, 1), r"one-sided communication is not emulated \(in MPI_Put"),
        (lambda world, a: world.Gatherv(a, a, [1, 2, 3]), r"MPI_ERR_COUNT: 3 counts with 6 bytes, for 2 ranks"),
        (lambda world, a: world.Bcast(a, root=5), r"MPI_ERR_RANK: no rank 5"),
        (
            lambda world, a: world.Send(mpi.Buffer(8, device=3), 1),
            r"MPI_ERR_BUFFER: memory of device 3; the process has 1",
        ),
        (
            lambda world, a: world.Allreduce(mpi.IN_PLACE, mpi.Buffer(8, device=3)),
            r"MPI_ERR_BUFFER: memory of device 3",
        ),
        (lambda world, a: world.Send(np.zeros(3), 1), r"^Send: buf cannot be array\(\[0., 0., 0.\]\); it takes"),
    ],
)
def test_a_call_that_cannot_be_is_refused(call: Any, reason: str) -> None:
    async def main(process: Any) -> None:
        a = process.program.host_thread(0).array("a", 8)
        if process.rank == 0:
            await call(process.world, a)

    with pytest.raises((mpi.MpiError, TypeError), match=reason):
        finished(run_of(2), main)


@pytest.mark.parametrize("elements", [9, 1 << 16])
def test_a_longer_message_than_the_receiver_has_room_for_is_refused(elements: int) -> None:
    async def main(process: Any) -> None:
        a = process.program.host_thread(0).array("a", 8 if process.rank else elements)
        if process.rank:
            await process.world.Recv(a, 0, at="there.c:9")
        else:
            await process.world.Isend(a, 1, at="here.c:8")

    said = rf"MPI_ERR_TRUNCATE: a message of {elements * 8} bytes.*here.c:8.*there.c:9.*in MPI_Recv.*array 'a'"
    with pytest.raises(mpi.MpiError, match=said):
        finished(run_of(2), main)


def test_ranks_that_disagree_on_a_collective_are_told_so() -> None:
    async def main(process: Any) -> None:
        a = process.program.host_thread(0).array("a", 8)
        if process.rank:
            await process.world.Barrier(at="main.c:7")
        else:
            await process.world.Bcast(a, at="main.c:5")

    with pytest.raises(mpi.MpiError, match=r"rank 1 calls MPI_Barrier where rank 0 calls MPI_Bcast at main.c:5"):
        finished(run_of(2), main)


def test_both_gears_give_one_history() -> None:
    def hash_of(gear: str) -> tuple[str, float]:
        async def main(process: Any) -> None:
            t, world = process.program.host_thread(0), process.world
            a, b = t.array("a", 1 << 14, fill=1.0), t.array("b", 1 << 14)
            await world.Sendrecv(a, (world.rank + 1) % 3, 0, b, (world.rank - 1) % 3)
            await world.Allreduce(a, b)
            await (await world.Ibarrier()).Wait()

        run = run_of(3, gear)
        finished(run, main)
        assert run.trace is not None
        return run.trace.hash(), run.elapsed

    assert hash_of("native") == hash_of("turbo")


@kernel(flops_per_iteration=1, bytes_per_iteration=16)
def double(a: Any) -> None:
    a *= 2.0


def kinds_found(wrong: Any) -> set[str]:
    """What the checker finds of two ranks that call `wrong(world, right, thread, a, b)` with the rank to the right."""

    async def main(process: Any) -> None:
        t, world = process.program.host_thread(0), process.world
        await wrong(world, 1 - world.rank, t, t.array("a", 8, fill=1.0), t.array("b", 8, fill=0.0))

    run = run_of(2)
    run.observe(checker := Checker(run.sim))
    finished(run, main)
    return {mistake.kind for mistake in checker.finish()}


def test_the_check_knows_the_arrays_of_messages() -> None:
    async def stale(world: Any, right: int, t: Any, a: Any, b: Any) -> None:
        await t.target_enter_data(omp.map(to=a))
        await t.target(double, a, iterations=8)
        await world.Sendrecv(a, right, 0, b, right, 0)
        await t.target_exit_data(omp.map(release=a))

    async def not_updated(world: Any, right: int, t: Any, a: Any, b: Any) -> None:
        await t.target_enter_data(omp.map(to=b))
        await world.Sendrecv(a, right, 0, b, right, 0)
        await t.target(double, b, iterations=8)
        await t.target_exit_data(omp.map(from_=b))

    async def early(world: Any, right: int, t: Any, a: Any, b: Any) -> None:
        request = await world.Irecv(b, right)
        b[0] = 2.0
        await world.Send(a, right)
        await request.Wait()

    async def one_buffer(world: Any, right: int, t: Any, a: Any, b: Any) -> None:
        await world.Sendrecv(a, right, 0, a, right, 0)

    async def right_one(world: Any, right: int, t: Any, a: Any, b: Any) -> None:
        request = await world.Irecv(b, right)
        await world.Send(a, right)
        await request.Wait()
        b[0] = 2.0
        await world.Sendrecv_replace(b, right, 0, right, 0)
        assert b[1] == 1.0

    assert kinds_found(stale) == kinds_found(not_updated) == {"stale data"}
    assert kinds_found(early) == kinds_found(one_buffer) == {"race"}
    assert kinds_found(right_one) == set()


def test_one_buffer_is_sent_and_replaced() -> None:
    async def main(process: Any) -> float:
        world, a = process.world, process.program.host_thread(0).array("a", 1000, fill=float(process.rank))
        status = mpi.Status()
        await world.Sendrecv_replace(a, (world.rank + 1) % 3, 7, (world.rank - 1) % 3, 7, status)
        assert (status.Get_source(), status.Get_count()) == ((world.rank - 1) % 3, 8000)
        return float(a[999])

    assert finished(run_of(3), main) == [2.0, 0.0, 1.0]
