"""Policies of one's own for the device table: readers and writers, and a table that is sharded by address.

LLVM's runtime guards its table with one mutex. What would a table be worth that several threads may use at once? A
policy is told who asks for which addresses, and whether it may change the table; it says who enters. Nothing in the
emulator is changed for it.
"""

from collections.abc import Collection, Sequence

import pytest

from offloadrt import Kernel, Run
from offloadrt import openmp as omp
from offloadrt.machine.host_lock import LockRequest
from offloadrt.study.errors import UserError

LOOK = Kernel("look", bytes_per_iteration=8.0)
SHARD_BYTES = 1 << 20


class ReadersAndWriters:
    """Look-ups that change nothing share the table; who may change it is alone. Nobody overtakes a waiting writer."""

    name = "readers and writers"
    hands_over = True
    shares = True

    def admit(self, holders: Collection[LockRequest], waiting: Sequence[LockRequest]) -> Sequence[LockRequest]:
        if any(holder.changes for holder in holders):
            return ()
        admitted: list[LockRequest] = []
        for request in waiting:
            if request.changes:
                return admitted if holders or admitted else [request]
            admitted.append(request)
        return admitted


class Sharded:
    """Each megabyte of host memory has a lock of its own; first come, first served for each."""

    name = "sharded"
    hands_over = True
    shares = True

    def admit(self, holders: Collection[LockRequest], waiting: Sequence[LockRequest]) -> Sequence[LockRequest]:
        taken = {shard for holder in holders for shard in shards(holder)}
        admitted: list[LockRequest] = []
        for request in waiting:
            if taken.isdisjoint(shards(request)):
                admitted.append(request)
            taken.update(shards(request))
        return admitted


def shards(request: LockRequest) -> range:
    last = request.begin + max(request.nbytes, 1) - 1
    return range(request.begin // SHARD_BYTES, last // SHARD_BYTES + 1)


def seconds(policy: object, threads: int, *, updates: bool = False) -> float:
    """Threads look up arrays of their own, which are mapped for good, in a table whose look-up takes a millisecond."""
    run = Run()
    run.configure(table_policy=policy, phantom=True)
    run.set("table.lookup", "1 ms")
    run.set("table.handover", "0 us")
    run.set("driver.context.uncontended", True)

    async def body(t: omp.HostThread) -> float:
        mine = [t.array(f"a{i}", 1 << 18) for i in range(8)]
        await t.target_enter_data(omp.map(alloc=mine))
        await t.barrier()
        begin = t.sim.now
        for array in mine:
            if updates:
                await t.target_update(omp.to(omp.section(array, 0, 1)))
            else:
                await t.target(LOOK, array, maps=omp.map(alloc=array), teams=8)
        return t.sim.now - begin

    return max(run.sim.run(run.parallel, body, threads))


@pytest.mark.parametrize(
    "policy", ["fifo", ReadersAndWriters(), Sharded()], ids=["fifo", "readers and writers", "sharded"]
)
def test_a_thread_alone_is_served_as_ever(policy: object) -> None:
    assert seconds(policy, 1) == pytest.approx(seconds("fifo", 1), rel=1e-9)


def test_readers_share_the_table() -> None:
    """An update counts nothing; with one mutex eight threads wait for each other."""
    alone = seconds("fifo", 1, updates=True)
    assert seconds("fifo", 8, updates=True) > 4 * alone
    assert seconds(ReadersAndWriters(), 8, updates=True) < 1.2 * alone


def test_writers_do_not_share_the_table() -> None:
    assert seconds(ReadersAndWriters(), 8) > 0.5 * seconds("fifo", 8)


def test_threads_with_memory_of_their_own_do_not_meet_in_a_sharded_table() -> None:
    alone = seconds("fifo", 1)
    assert seconds("fifo", 8) > 4 * alone
    assert seconds(Sharded(), 8) < 1.2 * alone


def test_a_run_takes_a_policy_as_an_attribute() -> None:
    run = Run()
    run.table_policy = ReadersAndWriters()
    assert run.openmp.devices[0].table_lock.policy is run.table_policy


@pytest.mark.offload(table_policy=ReadersAndWriters())
async def test_the_mark_takes_a_policy_too(offload: Run) -> None:
    assert offload.openmp.devices[0].table_lock.policy.name == "readers and writers"


def test_what_is_no_policy_is_refused_with_what_it_lacks() -> None:
    run = Run()
    run.configure(table_policy=ReadersAndWriters)  # the class, not an object
    with pytest.raises(UserError, match="ReadersAndWriters is no lock policy: it is a class: give an object of it"):
        _ = run.openmp
    run = Run()
    run.configure(table_policy="lifo")
    with pytest.raises(UserError, match="no lock policy 'lifo'; there are: barging, fifo"):
        _ = run.openmp


class Broken(ReadersAndWriters):
    """Fails when somebody waits."""

    def admit(self, holders: Collection[LockRequest], waiting: Sequence[LockRequest]) -> Sequence[LockRequest]:
        raise LookupError("nobody is known")


class Generous(ReadersAndWriters):
    """Says that it does not share the table, and lets all in."""

    shares = False

    def admit(self, holders: Collection[LockRequest], waiting: Sequence[LockRequest]) -> Sequence[LockRequest]:
        return waiting


@pytest.mark.parametrize(
    ("policy", "complaint"),
    [(Broken(), "nobody is known"), (Generous(), "admits [2-7] threads at once, but its `shares` is false")],
)
def test_a_mistake_in_a_policy_ends_the_run_with_what_it_is(policy: object, complaint: str) -> None:
    with pytest.raises((LookupError, RuntimeError), match=complaint):
        seconds(policy, 8)
