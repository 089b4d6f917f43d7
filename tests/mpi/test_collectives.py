"""Collectives compute what MPI says, with each library's algorithms; alone, these take what their messages take."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from rank_runs import finished, run_of

from offloadrt import openmp as omp
from offloadrt.extensions import mpi
from offloadrt.extensions.mpi import collectives as a
from offloadrt.sim.errors import Deadlock


@pytest.mark.parametrize("library", ["mpich", "cray", "openmpi"])
@pytest.mark.parametrize(("ranks", "nodes"), [(1, 1), (2, 2), (3, 1), (5, 2), (8, 4), (12, 3)])
def test_values(ranks: int, nodes: int, library: str) -> None:
    async def main(process: Any) -> None:
        world, t = process.world, process.program.host_thread(0)
        rank = world.rank

        def array(values: Any) -> Any:
            return t.array("a", len(values), fill=np.asarray(values, float))

        for n in (3, 3000, 20_000)[: 3 if ranks < 4 else 2]:
            own = [np.arange(n) * (other + 1.0) for other in range(ranks)]
            mine, total, joined = own[rank], sum(own), np.concatenate(own)
            result = array(np.zeros(n))
            await world.Allreduce(array(mine), result)
            assert (result.data == total).all()
            result = array(mine)
            await (await world.Iallreduce(mpi.IN_PLACE, result, mpi.MAX)).Wait()
            assert (result.data == own[-1]).all()
            for root in {0, ranks - 1}:
                result, gathered = array(np.zeros(n)), array(np.zeros(n * ranks))
                await world.Reduce(array(mine), result, root=root)
                await world.Gather(array(mine), gathered, root)
                assert rank != root or ((result.data == total).all() and (gathered.data == joined).all())
                result = array(mine)
                await world.Bcast(result, root)
                assert (result.data == own[root]).all()
                await world.Scatter(array(joined), result, root)
                assert (result.data == mine).all()
                counts = [8 * (n - other % 2) for other in range(ranks)]
                gathered = array(np.zeros(sum(counts) // 8))
                await world.Gatherv(array(mine[: counts[rank] // 8]), gathered, counts, root)
                parts = np.concatenate([own[other][: counts[other] // 8] for other in range(ranks)])
                assert rank != root or (gathered.data == parts).all()
            gathered = array(np.zeros(n * ranks))
            await world.Allgather(array(mine), gathered)
            assert (gathered.data == joined).all()
            await world.Alltoall(array(joined + 7 * rank), gathered)
            assert (gathered.data == np.concatenate([mine + 7 * other for other in range(ranks)])).all()
            result = array(np.zeros(n))
            await world.Reduce_scatter(array(joined), result)
            assert (result.data == ranks * mine).all()
            await world.Scan(array(mine), result)
            assert (result.data == sum(own[: rank + 1])).all()
            await world.Exscan(array(mine), result)
            assert rank == 0 or (result.data == sum(own[:rank])).all()
        halves = await world.Split(rank % 2, -rank)
        count = array([1.0])
        await halves.Allreduce(mpi.IN_PLACE, count)
        assert count[0] == halves.size == (ranks + 1 - rank % 2) // 2
        assert list(halves.group) == sorted(halves.group, reverse=True)
        assert (await world.Dup()).context != world.context
        assert (await world.Split(mpi.UNDEFINED if rank else 0)) is None or rank == 0

    run = run_of(ranks, mpi__collectives=library)
    run.configure(num_nodes=nodes)
    finished(run, main)


def test_values_of_what_few_sizes_take() -> None:
    """Each algorithm that a table of Open MPI names for a length or a number of ranks that the test above has not."""

    async def main(process: Any) -> None:
        world, t = process.world, process.program.host_thread(0)
        rank, size = world.rank, world.size

        def array(values: Any) -> Any:
            return t.array("a", len(values), fill=np.asarray(values, float))

        channel = world._channel("test", "", background=False)
        mine = np.arange(10.0) + 100 * rank
        own = [np.arange(10.0) + 100 * other for other in range(size)]
        for tree in (a.binary_tree, a.near_binomial_tree, a.four_nomial_tree, a.star):
            for root in (0, size - 1):
                into = array(mine)
                await a.bcast_tree(channel, mpi.buffer_of(into), root, tree=tree)
                assert (into.data == own[root]).all()
                into = array(mine)
                await a.reduce_tree(channel, mpi.buffer_of(into), a.SUM, root, tree=tree)
                assert rank != root or (into.data == sum(own)).all()
        for gather in (a.allgather_neighbours, a.allgather_ring, a.allgather_bruck):
            everything = np.zeros(10 * size)
            everything[10 * rank : 10 * rank + 10] = mine
            into = array(everything)
            await gather(channel, mpi.buffer_of(into), a.split(mpi.buffer_of(into), size))
            assert (into.data == np.concatenate(own)).all()
        for scatter in (a.reduce_scatter_ring, a.reduce_scatter_halving, a.reduce_scatter_pairwise):
            work, into = mpi.buffer_of(array(np.concatenate(own) + rank)), array(np.zeros(10))
            await scatter(channel, work, a.split(work, size), mpi.buffer_of(into), a.SUM)
            assert (into.data == size * mine + sum(range(size))).all()
        long = np.arange(20_000.0) + rank
        into = array(np.zeros(20_000 * size))
        parts = a.split(mpi.buffer_of(into), size) if rank == 1 else None
        await a.gather_synchronized(channel, mpi.buffer_of(array(long)), parts, 1)
        assert rank != 1 or (into.data == np.concatenate([np.arange(20_000.0) + other for other in range(size)])).all()
        for barrier in (a.barrier_linear, a.barrier_doubling, a.barrier_dissemination):
            await process.program.machine.cores.compute(1e-3 * rank)
            last = process.program.sim.now if rank == size - 1 else 0.0
            await barrier(channel)
            came.append((barrier, last, process.program.sim.now))

    for ranks in (2, 3, 6, 11):
        came: list[tuple[Any, float, float]] = []
        run = run_of(ranks)
        run.configure(num_nodes=2)
        finished(run, main)
        for barrier in {entry[0] for entry in came}:  # nobody leaves before the last one has come
            times = [entry for entry in came if entry[0] is barrier]
            assert min(left for _, _, left in times) > max(last for _, last, _ in times)


@pytest.mark.parametrize("tree", [a.binary_tree, a.near_binomial_tree, a.four_nomial_tree, a.star])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 16, 37, 128])
def test_each_rank_of_a_tree_is_its_parents_child(tree: Any, size: int) -> None:
    assert sorted(child for rank in range(size) for child in tree(rank, size)[1]) == list(range(1, size))
    assert all(tree(child, size)[0] == rank for rank in range(size) for child in tree(rank, size)[1])


US = 1e-6
ALONE = {
    "shm__short": "1 us", "shm__short_limit": "1 GiB", "shm__eager_limit": "1 GiB", "shm__latency": "10 us",
    "mpi__reduce_bw": "1 GB/s", "mpi__copy_bw": "1e9 GB/s", "host__memcpy_max": "1e9 GB/s", "cpu__cores": 4096,
}  # fmt: skip
"""A message takes 1 us of both cores and 10 us between them, and a combined byte 1 ns."""


def longest(ranks: int, algorithm: Any, nbytes: int) -> float:
    """When the last rank has left an algorithm."""

    async def main(process: Any) -> float:
        world = process.world
        channel = world._channel("test", "", background=False)
        await algorithm(channel, mpi.Buffer(nbytes))
        return float(process.program.sim.now)

    return max(finished(run_of(ranks, **ALONE), main))


ROUND = 12 * US
"""A message alone: sent, under way, taken in."""


@pytest.mark.parametrize("ranks", [2, 4, 8, 16])
class TestAlone:
    """Closed forms of Thakur, Rabenseifner and Gropp (2005), for messages that take as long whatever they hold."""

    def test_binomial_tree(self, ranks: int) -> None:
        """The root sends for 1 us to each child; the last leaf hears after log2 p messages."""
        took = longest(ranks, lambda c, b: a.bcast_binomial(c, b, 0), 8)
        assert took == pytest.approx(math.log2(ranks) * ROUND)

    def test_recursive_doubling(self, ranks: int) -> None:
        nbytes = 1000
        took = longest(ranks, lambda c, b: a.allreduce_recursive_doubling(c, b, a.SUM), nbytes)
        assert took == pytest.approx(math.log2(ranks) * (ROUND + nbytes * 1e-9))

    def test_rabenseifner(self, ranks: int) -> None:
        nbytes = 16_000
        took = longest(ranks, lambda c, b: a.allreduce_rabenseifner(c, b, a.SUM), nbytes)
        combined = nbytes * (1 - 1 / ranks) * 1e-9
        assert took == pytest.approx(2 * math.log2(ranks) * ROUND + combined)

    def test_ring(self, ranks: int) -> None:
        nbytes = 16_000
        took = longest(ranks, lambda c, b: a.allreduce_ring(c, b, a.SUM), nbytes)
        steps = ranks - 1
        assert took == pytest.approx(2 * steps * ROUND + steps * nbytes / ranks * 1e-9)

    def test_dissemination(self, ranks: int) -> None:
        assert longest(ranks, lambda c, b: a.barrier_dissemination(c), 0) == pytest.approx(math.log2(ranks) * ROUND)

    @pytest.mark.parametrize("in_pairs", [True, False])
    def test_pairwise_exchange(self, ranks: int, in_pairs: bool) -> None:
        def exchange(c: a.Channel, b: mpi.Buffer) -> Any:
            parts = a.split(b, ranks)
            return a.alltoall_pairwise(c, parts, parts, in_pairs=in_pairs)

        assert longest(ranks, exchange, 16_000) == pytest.approx((ranks - 1) * ROUND, rel=1e-3)

    @pytest.mark.parametrize("throttle", [None, 3])
    def test_scattered(self, ranks: int, throttle: int | None) -> None:
        """Of messages at the same time each core sends and takes in one after the other; the waits overlap."""

        def exchange(c: a.Channel, b: mpi.Buffer) -> Any:
            parts = a.split(b, ranks)
            return a.alltoall_scattered(c, parts, parts, throttle=throttle)

        width = throttle or ranks
        turns = [min(width, ranks - begin) for begin in range(1, ranks, width)]
        alone = sum(max(2 * turn, 12 + turn - 1) * US for turn in turns)
        assert longest(ranks, exchange, 16_000) == pytest.approx(alone, rel=0.15)


@pytest.mark.parametrize("tree", [a.binary_tree, a.near_binomial_tree, a.four_nomial_tree])
def test_a_parent_sends_to_all_its_children_at_once(tree: Any) -> None:
    """Who asks for an announced message copies by itself, so two children take as long as one, but for the calls."""
    entries = {"shm__eager_limit": 0, "shm__rendezvous": "100 us", "shm__message": "1 us", "shm__short_limit": 0}

    def took(ranks: int) -> float:
        async def main(process: Any) -> float:
            channel = process.world._channel("test", "", background=False)
            await a.bcast_tree(channel, mpi.Buffer(8), 0, tree=tree)
            return float(process.program.sim.now)

        return max(finished(run_of(ranks, **{**ALONE, **entries}), main))

    assert took(2) > 100 * US
    assert took(3) < took(2) + 3 * US


def test_a_tree_by_nodes_sends_once_to_each_node() -> None:
    """From a root in the middle, too; its own node's ranks hear of it within the node."""
    entries = {**ALONE, "net__latency": "1 ms", "nic__bw": "1e9 GB/s", "mpi__eager_limit": "1 GiB"}

    async def main(process: Any) -> float:
        await process.world.Bcast(mpi.Buffer(8), 5)
        return float(process.program.sim.now)

    run = run_of(12, mpi__collectives="cray", **entries)
    run.configure(num_nodes=3)
    left = finished(run, main)
    assert max(left[4:8]) < 0.1e-3
    assert all(1e-3 < time < 1.2e-3 for time in left[:4] + left[8:])


def test_a_library_takes_its_algorithm_by_size() -> None:
    from offloadrt.extensions.mpi.choices import algorithm

    assert algorithm("mpich", "MPI_Allreduce", 8, 2048, 256) is a.allreduce_recursive_doubling
    assert algorithm("mpich", "MPI_Allreduce", 8, 2056, 257) is a.allreduce_rabenseifner
    assert algorithm("openmpi", "MPI_Allreduce", 8, 1 << 20, 1 << 17) is a.allreduce_rabenseifner
    assert algorithm("openmpi", "MPI_Allreduce", 2, 8192, 1024) is a.allreduce_recursive_doubling
    assert algorithm("openmpi", "MPI_Allreduce", 2, 4096, 512) is a.allreduce_ring
    assert algorithm("openmpi", "MPI_Allgather", 8, 1 << 20, 1 << 20) is a.allgather_recursive_doubling
    assert algorithm("openmpi", "MPI_Allgather", 12, 8, 96) is a.allgather_bruck
    assert algorithm("openmpi", "MPI_Allgather", 100, 512, 51200) is a.allgather_neighbours
    assert algorithm("openmpi", "MPI_Gather", 128, 1 << 20, 1 << 20) is a.gather_binomial
    assert algorithm("openmpi", "MPI_Barrier", 128, 0, 0) is a.barrier_dissemination
    assert algorithm("mpich", "MPI_Alltoall", 8, 256, 32) is a.alltoall_bruck
    assert algorithm("mpich", "MPI_Alltoall", 8, 1 << 20, 1 << 17) is a.alltoall_pairwise
    assert algorithm("cray", "MPI_Alltoall", 64, 512, 512) is a.alltoall_bruck
    assert algorithm("cray", "MPI_Allgather", 64, 8200, 8200 * 64) is a.allgather_ring
    assert algorithm("cray", "MPI_Allreduce", 64, 8200, 1025) is algorithm("mpich", "MPI_Allreduce", 64, 8200, 1025)


def test_short_reductions_of_device_memory_are_made_at_the_host() -> None:
    def took(nbytes: int) -> float:
        async def main(process: Any) -> float:
            t, world = process.program.host_thread(0), process.world
            pointer = await t.omp_target_alloc(nbytes, phantom=True)
            buffer = mpi.device_buffer(process, pointer)
            await world.Barrier()
            begin = process.program.sim.now
            await world.Allreduce(mpi.IN_PLACE, buffer)
            return float(process.program.sim.now - begin)

        return max(finished(run_of(4, mpi__device__reduce="1 ms"), main))

    assert took(1 << 16) < 1e-3 < took((1 << 16) + 8)


@pytest.mark.parametrize(
    ("calls", "said"),
    [
        (lambda w: w.Bcast(mpi.Buffer(8), w.rank, at=f"a.c:{w.rank}"), "with root 1, 8 bytes where rank 0 calls MPI_B"),
        (lambda w: w.Bcast(mpi.Buffer(8 + w.rank)), "MPI_Bcast with root 0, 9 bytes where rank 0 calls"),
        (lambda w: w.Reduce(mpi.Buffer(8), mpi.Buffer(8), root=1 - w.rank), "root 0, 8 bytes, MPI_SUM where"),
        (lambda w: w.Allreduce(mpi.IN_PLACE, mpi.Buffer(8), (mpi.MAX, mpi.SUM)[w.rank]), "MPI_SUM where .*MPI_MAX"),
        (lambda w: w.Gather(mpi.Buffer(8 + w.rank), mpi.Buffer(16), 0), "root 0, 9 bytes where .* root 0, 8 bytes"),
        (lambda w: w.Alltoall(mpi.Buffer(16 + w.rank), mpi.Buffer(16)), "17 bytes where .*16 bytes"),
        (lambda w: w.Barrier() if w.rank else w.Scan(mpi.Buffer(8), mpi.Buffer(8)), "MPI_Barrier where .* MPI_Scan"),
    ],
)  # fmt: skip
def test_ranks_whose_collectives_differ_are_told_of(calls: Any, said: str) -> None:
    with pytest.raises(mpi.MpiError, match=said):
        finished(run_of(2), lambda process: calls(process.world))


def test_a_collective_to_which_a_rank_never_comes() -> None:
    async def main(process: Any) -> None:
        world = process.world
        if world.rank == 2:
            await world.Send(mpi.Buffer(8), 0, at="c.c:7")
        elif world.rank == 0:
            await world.Recv(mpi.Buffer(8), 2)
            await world.Barrier(at="c.c:9")
        else:
            await world.Barrier(at="c.c:10")

    with pytest.raises(Deadlock) as deadlock:
        finished(run_of(3), main)
    story = str(deadlock.value)
    assert "on MPI_COMM_WORLD (c.c:9)" in story
    assert story.count("to which rank 2 after MPI_Send (c.c:7) has not come") == 2
    assert "on MPI_COMM_WORLD (c.c:10)" in story


def test_what_a_program_has_left_undone() -> None:
    async def main(process: Any) -> list[str]:
        world = process.world
        if world.rank == 0:
            await world.Isend(mpi.Buffer(8), 1, 1, at="d.c:1")
            await world.Send(mpi.Buffer(24), 1, 2, at="d.c:2")
            await world.Send(mpi.Buffer(16, dtype=np.dtype("i4")), 1, 3, at="d.c:3")
        else:
            await world.Recv(mpi.Buffer(8), 0, 1)
            await world.Recv(mpi.Buffer(16, dtype=np.dtype("f8")), 0, 3, at="d.c:4")
            await world.Irecv(mpi.Buffer(8), 0, 9, at="d.c:5")
        await world.Barrier()
        left: list[str] = world.mistakes()
        return left

    assert finished(run_of(2), main)[0] == [
        "rank 0's MPI_Send (d.c:2) is never received, 24 bytes",
        "rank 0's MPI_Isend (d.c:1) is never waited for",
        "rank 0's MPI_Send (d.c:3) of int32 meets rank 1's MPI_Recv (d.c:4) of float64",
        "rank 1's MPI_Irecv (d.c:5) is never waited for",
    ]


DOUBLED = 128 * 7
ALL_PAIRS = 128 * 127
SCATTERED = 127
"""Messages with which 128 ranks double what they have, all exchange with one another, or pass parts down a tree."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("library", "call", "nbytes", "messages", "total"),
    [
        ("mpich", "Allreduce", 8, DOUBLED, 8 * DOUBLED),
        ("mpich", "Allreduce", 1 << 20, 2 * DOUBLED, 2 * 127 << 20),
        ("openmpi", "Allreduce", 8, 2 * SCATTERED, 2 * 127 * 8),
        ("mpich", "Bcast", 8, SCATTERED, 8 * 127),
        ("mpich", "Bcast", 1 << 16, SCATTERED + DOUBLED, (7 * 64 << 9) + (127 << 16)),
        ("mpich", "Bcast", 1 << 20, SCATTERED + ALL_PAIRS, (7 * 64 << 13) + (127 << 20)),
        ("mpich", "Alltoall", 8, DOUBLED, 8 * 64 * DOUBLED),
        ("mpich", "Alltoall", 1 << 10, ALL_PAIRS, ALL_PAIRS << 10),
        ("mpich", "Alltoall", 1 << 16, ALL_PAIRS, ALL_PAIRS << 16),
    ],
)
def test_the_messages_of_128_ranks(library: str, call: str, nbytes: int, messages: int, total: int) -> None:
    """Counts and bytes are the algorithms' closed forms; `nbytes` of an alltoall are those of one part."""
    run = run_of(128, mpi__collectives=library)

    async def main(process: Any) -> None:
        world = process.world
        if call == "Bcast":
            await world.Bcast(mpi.Buffer(nbytes))
        elif call == "Allreduce":
            await world.Allreduce(mpi.IN_PLACE, mpi.Buffer(nbytes))
        else:
            await world.Alltoall(mpi.Buffer(128 * nbytes), mpi.Buffer(128 * nbytes))

    finished(run, main)
    sent = [row for row in run.trace.rows if row[0] == "MessageSent"]
    assert (len(sent), sum(row[-1] for row in sent)) == (messages, total)


@pytest.mark.parametrize("ranks", [2, 5])
def test_buffers_with_gaps_are_gathered_scattered_and_reduced_in_their_places(ranks: int) -> None:
    async def main(process: Any) -> None:
        world, t = process.world, process.program.host_thread(0)

        def column(name: str, n: int, fill: float) -> tuple[Any, Any]:
            whole = t.array(name, (n, 3), fill=fill)
            return whole, omp.array_section(whole, (0, n), (1, 1))

        (_, mine), (joined, into) = column("mine", 4, world.rank + 1.0), column("into", 4 * ranks, -1.0)
        expected = np.full((4 * ranks, 3), -1.0)
        expected[:, 1] = np.repeat(np.arange(ranks) + 1.0, 4)
        await world.Allgather(mine, into)
        assert (joined.data == expected).all()
        await world.Alltoall(into, into)
        expected[:, 1] = world.rank + 1.0
        assert (joined.data == expected).all()
        total, place = column("total", 4, -1.0)
        await (await world.Iallreduce(mine, place)).Wait()
        assert (total.data[:, 1] == sum(range(ranks + 1))).all() and (total.data[:, ::2] == -1.0).all()
        await world.Bcast(place if world.rank else mine, 0)
        assert world.rank == 0 or (total.data[:, 1] == 1.0).all()

    finished(run_of(ranks), main)


REFUSED = [
    (lambda w, a, b, i: w.Allreduce(a, b), r"MPI_ERR_TRUNCATE: 64 bytes, room for 32 \(in MPI_Allreduce, array 'b'"),
    (lambda w, a, b, i: w.Scan(a, b), r"MPI_ERR_TRUNCATE: 64 bytes, room for 32 \(in MPI_Scan, array 'b'"),
    (lambda w, a, b, i: w.Exscan(a, None), r"MPI_ERR_TRUNCATE: 64 bytes, room for 0 \(in MPI_Exscan"),
    (lambda w, a, b, i: w.Reduce(a, b), r"MPI_ERR_TRUNCATE: 64 bytes, room for 32 \(in MPI_Reduce, array 'b'"),
    (lambda w, a, b, i: w.Reduce_scatter(a, None), r"MPI_ERR_TRUNCATE: 32 bytes, room for 0"),
    (
        lambda w, a, b, i: w.Allreduce(b, i),
        r"MPI_ERR_TYPE: a reduction of float64 into int32 \(in MPI_Allreduce, array 'i'",
    ),
    (lambda w, a, b, i: w.Allgather(a, a), r"MPI_ERR_TRUNCATE: 64 bytes, room for 32 \(in MPI_Allgather, array 'a'"),
    (lambda w, a, b, i: w.Gather(b, b), r"MPI_ERR_TRUNCATE: 32 bytes, room for 16 \(in MPI_Gather, array 'b'"),
    (lambda w, a, b, i: w.Scatter(a, None), r"MPI_ERR_TRUNCATE: 32 bytes, room for 0 \(in MPI_Scatter, array 'a'"),
    (lambda w, a, b, i: w.Bcast(a, mpi.PROC_NULL), "MPI_ERR_RANK: no rank -3 in MPI_COMM_WORLD"),
    (lambda w, a, b, i: w.Free(), "MPI_ERR_COMM: MPI_COMM_WORLD is never freed"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_a_collective_with_too_little_room_or_another_type_is_refused(call: Any, message: str) -> None:
    async def main(process: Any) -> None:
        t = process.program.host_thread(0)
        if process.rank == 0:
            await call(process.world, t.array("a", 8), t.array("b", 4), t.array("i", 8, "i4"))

    with pytest.raises(mpi.MpiError, match=message):
        finished(run_of(2), main)


def test_a_communicator_that_was_freed_is_not_used_again() -> None:
    async def main(process: Any) -> None:
        a = process.program.host_thread(0).array("a", 8)
        dup = await process.world.Dup()
        dup.Free()
        for call in (lambda: dup.Barrier(), lambda: dup.Send(a, 0), lambda: dup.Recv(a, 0), lambda: dup.Dup()):
            with pytest.raises(mpi.MpiError, match="MPI_ERR_COMM: MPI_COMM_WORLD dup 1 was freed before"):
                await call()
        with pytest.raises(mpi.MpiError, match=r"MPI_ERR_COMM: .*MPI_Comm_free"):
            dup.Free()

    finished(run_of(2), main)


def test_a_buffer_of_device_memory_ends_where_the_memory_ends() -> None:
    async def main(process: Any) -> None:
        place = await process.program.host_thread(0).omp_target_alloc(64)
        with pytest.raises(mpi.MpiError, match=r"MPI_ERR_BUFFER: .* reaches beyond the block .*\(in device_buffer"):
            mpi.device_buffer(process, place, 1 << 40)
        with pytest.raises(ValueError, match="device_buffer: nbytes is -8, but must be a whole number from 0"):
            mpi.device_buffer(process, place, -8)

    finished(run_of(1), main)
