"""Contention for managed memory emerges: serving a block takes the same however many kernels fault, only the waiting
differs; without its contention everybody takes the time of one; and what is lost is the waiting that is reported.
"""

import attrs
import pytest

from offloadrt.kernels import Kernel
from offloadrt.machine.managed.sweep import ManagedAccess

BLOCK = 2 << 20
PAGE = 64 << 10
N = 7
EMPTY = Kernel("empty").launch(1)


@attrs.frozen
class Contended:
    """An object X that several contend for."""

    key: str
    thread: object
    """What a thread does, ``await thread(rig, number)``, without contending for anything but X."""
    service: object
    """rig -> what X gave to each operation, in seconds."""
    waited: object
    """rig -> seconds of waiting that X reports."""


async def faults(rig, number):
    """Each kernel has a block of its own, which nobody has touched: no bytes move."""
    await rig.kernel(EMPTY, ManagedAccess(rig.array(BLOCK), PAGE))


async def advises(rig, number):
    await rig.uvm.advise(rig.array(BLOCK), BLOCK, "prefer_host")


def handler(rig):
    return rig.uvm.handler.statistics()


def lock(rig):
    return rig.uvm.blocks.locks.space.statistics()


OBJECTS = [
    Contended(
        "fault_handler", faults, lambda rig: handler(rig).block_s / handler(rig).blocks, lambda rig: handler(rig).wait_s
    ),
    Contended(
        "uvm_lock",
        advises,
        lambda rig: lock(rig).write_hold_s / lock(rig).write_acquired,
        lambda rig: lock(rig).wait_s,
    ),
]


def elapsed(make_rig, contended, threads, uncontended=False):
    """(virtual seconds that each of the threads takes, the rig afterwards)."""
    rig = make_rig({f"{contended.key}.uncontended": True} if uncontended else {})
    return rig.together(*[lambda number=number: contended.thread(rig, number) for number in range(threads)]), rig


@pytest.mark.parametrize("contended", OBJECTS, ids=lambda one: one.key)
def test_service_does_not_depend_on_the_number_of_threads(uvm, contended):
    (alone, one), (together, many) = (elapsed(uvm, contended, threads) for threads in (1, N))
    assert max(together) > 1.5 * max(alone), "this test contends for nothing"
    assert contended.service(many) == pytest.approx(contended.service(one))


@pytest.mark.parametrize("contended", OBJECTS, ids=lambda one: one.key)
def test_without_contention_everybody_takes_the_time_of_one(uvm, contended):
    alone, _ = elapsed(uvm, contended, 1)
    assert elapsed(uvm, contended, 1, uncontended=True)[0] == pytest.approx(alone)
    assert elapsed(uvm, contended, N, uncontended=True)[0] == pytest.approx(alone * N, rel=1e-5)


@pytest.mark.parametrize("contended", OBJECTS, ids=lambda one: one.key)
def test_what_is_lost_is_the_waiting(uvm, contended):
    (alone, _), (together, many) = (elapsed(uvm, contended, threads) for threads in (1, N))
    assert sum(together) - N * alone[0] == pytest.approx(contended.waited(many))


@pytest.mark.parametrize("threads", [1, N])
def test_a_batch_takes_its_unit_costs_besides_its_blocks_however_many_kernels_fault(uvm, threads):
    _, rig = elapsed(uvm, OBJECTS[0], threads)
    costs, (batch,) = rig.uvm.handler.costs, rig.driver.fault_batches()
    assert batch.faults == threads * PAGE / rig.machine.spec.value("page.gpu_fault")
    assert batch.fetched - batch.begin == pytest.approx(costs.fetch + batch.faults * costs.fetch_entry)
    assert batch.preprocessed - batch.fetched == pytest.approx(threads * costs.preprocess_entry)
    assert batch.served - batch.locked == pytest.approx(handler(rig).block_s)
    assert batch.end - batch.served == pytest.approx(costs.flush)
    assert handler(rig).busy_s == pytest.approx(costs.interrupt + batch.end - batch.begin)
