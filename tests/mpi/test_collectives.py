"""Collectives compute what MPI says, with each library's algorithms; alone, these take what their messages take."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from rank_runs import finished, run_of

from offloadrt.extensions import mpi
from offloadrt.extensions.mpi import collectives as a


@pytest.mark.parametrize("library", ["mpich", "openmpi"])
@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 8])
def test_values(ranks: int, library: str) -> None:
    async def main(process: Any) -> None:
        world, t = process.world, process.program.host_thread(0)
        rank = world.rank

        def array(values: Any) -> Any:
            return t.array("a", len(values), fill=np.asarray(values, float))

        for n in (3, 3000):
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

    finished(run_of(ranks, mpi__collectives=library), main)


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

    def test_pairwise_exchange(self, ranks: int) -> None:
        def exchange(c: a.Channel, b: mpi.Buffer) -> Any:
            parts = a.split(b, ranks)
            return a.alltoall_pairwise(c, parts, parts)

        assert longest(ranks, exchange, 16_000) == pytest.approx((ranks - 1) * ROUND, rel=1e-3)


def test_a_library_takes_its_algorithm_by_size() -> None:
    from offloadrt.extensions.mpi.choices import algorithm

    assert algorithm("mpich", "MPI_Allreduce", 8, 2048, 256) is a.allreduce_recursive_doubling
    assert algorithm("mpich", "MPI_Allreduce", 8, 2056, 257) is a.allreduce_rabenseifner
    assert algorithm("openmpi", "MPI_Allreduce", 8, 1 << 20, 1 << 17) is a.allreduce_ring
    assert algorithm("mpich", "MPI_Alltoall", 8, 256, 32) is a.alltoall_bruck
    assert algorithm("mpich", "MPI_Alltoall", 8, 1 << 20, 1 << 17) is a.alltoall_pairwise


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
