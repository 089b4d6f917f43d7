"""When kernels try again after faults, by the policies of ``uvm_perf_fault_replay_policy``."""

from __future__ import annotations

import pytest
from managed_rig import BLOCK, SWEEP, assert_sound

from offloadrt.driver.uvm.faults import REPLAY_POLICIES
from offloadrt.machine import ProfileError
from offloadrt.machine.managed.sweep import ManagedAccess

PAGE = 4096
PLAIN = {
    "page.uvm_page": "4 KiB", "prefetch.tree": False, "fault.reports": 1, "utlb.outstanding_faults": 1000,
    "fault.arrival": "0 s", "fault.look": "0 s",
}  # fmt: skip
ONE = SWEEP.launch(1, 128, 1)


def rig_with(uvm, policy, **overrides):
    return uvm(PLAIN | {"fault.replay_policy": policy} | {key.replace("__", "."): v for key, v in overrides.items()})


def ends_of_kernels_on_two_blocks(uvm, policy):
    """When two kernels end whose faults, on a block each, are in one batch; the batch, and the rig."""
    rig = rig_with(uvm, policy)
    blocks = [rig.array(BLOCK, touched=True) for _ in range(2)]
    ends = {}

    async def on(block):
        await rig.kernel(ONE, ManagedAccess(block, PAGE))
        ends[block] = rig.sim.now

    rig.together(*[lambda block=block: on(block) for block in blocks])
    (batch,) = rig.driver.fault_batches()
    return [ends[block] for block in blocks], batch, rig


def test_by_block_a_kernel_goes_on_before_the_next_block_is_served(uvm):
    (first, second), batch, rig = ends_of_kernels_on_two_blocks(uvm, "block")
    value = rig.machine.spec.value
    each = (batch.served - batch.locked) / 2  # with a replay for each
    assert batch.end == batch.served
    assert second - first == pytest.approx(each)
    assert first == pytest.approx(
        batch.locked + each - value("fault.replay") + copy_s(value), abs=value("fault.replay")
    )


@pytest.mark.parametrize("policy", ["batch", "batch_flush", "once"])
def test_otherwise_both_kernels_go_on_when_both_blocks_are_there(uvm, policy):
    (first, second), batch, _ = ends_of_kernels_on_two_blocks(uvm, policy)
    assert first == second > batch.served


def copy_s(value):
    return value("copy.latency") + PAGE / value("link.h2d_pinned")


@pytest.mark.parametrize("policy", ["batch_flush", "once", "batch"])
def test_what_a_batch_leaves_out_stays_in_the_buffer_unless_it_is_flushed(uvm, policy):
    """25 pages. After a replay of "batch" the kernel reports again what it lacks, while the entries lie there."""
    rig = rig_with(uvm, policy, fault__batch_max=10)
    address = rig.array(BLOCK, touched=True)

    async def main():
        await rig.kernel(ONE, ManagedAccess(address, 25 * PAGE))
        await rig.sim.sleep(1e-2)  # the handler has entries of pages that are there by now

    rig.run(main)
    fetched = [batch.faults for batch in rig.driver.fault_batches()]
    assert fetched[:3] == [10, 10, 5]
    assert (len(fetched) > 3) == (rig.counters.duplicates > 0) == (policy == "batch")
    assert rig.counters.faults == 25
    assert rig.counters.bytes_htod == rig.machine.devices[0].bytes_moved()["h2d"] == 25 * PAGE


def test_once_a_kernel_waits_until_all_that_the_buffer_held_is_served(uvm):
    """The first kernel's page is in the first batch, the second one's in the last; both go on together."""
    rig = rig_with(uvm, "once", fault__batch_max=4)
    first, second = (rig.array(BLOCK, touched=True) for _ in range(2))
    ends = []

    async def on(block, pages):
        await rig.kernel(ONE, ManagedAccess(block, pages * PAGE))
        ends.append(rig.sim.now)

    rig.together(lambda: on(first, 4), lambda: on(second, 4))
    batches = rig.driver.fault_batches()
    assert [(batch.faults, batch.blocks) for batch in batches] == [(4, 1), (4, 1)]
    assert [batch.end for batch in batches] == [batch.served for batch in batches]  # nothing is flushed
    assert ends[0] == ends[1] > batches[-1].end + rig.machine.spec.value("fault.replay")


def test_a_replay_waits_for_the_copies_of_its_batch_and_the_handler_does_not(uvm):
    """With "batch" the handler serves what is left while the pages of the first batch are on their way."""
    rig = rig_with(uvm, "batch", fault__batch_max=10, copy__latency="1 ms")
    second_block = rig.array(2 * BLOCK, touched=True) + BLOCK
    rig.run(lambda: rig.kernel(ONE, ManagedAccess(second_block - 10 * PAGE, 20 * PAGE)))
    first, second = rig.driver.fault_batches()[:2]
    assert second.begin == first.end
    assert second.end - first.begin < 1e-3 < rig.sim.now


@pytest.mark.parametrize("policy", REPLAY_POLICIES)
def test_all_pages_come_under_any_policy_also_when_blocks_are_evicted(uvm, policy):
    rig = uvm({
        "fault.replay_policy": policy, "mem.size": f"{3 * BLOCK} B", "mem.reserved": 0, "fault.batch_max": 20,
    })  # fmt: skip
    address = rig.array(6 * BLOCK, touched=True)
    launch = SWEEP.launch(6 * BLOCK // 1024, 128, 6 * BLOCK // 8)
    rig.run(lambda: rig.kernel(launch, ManagedAccess(address, 6 * BLOCK)))
    assert rig.counters.bytes_htod >= 6 * BLOCK and rig.counters.evictions >= 3
    assert_sound(rig)


def test_a_policy_that_there_is_not_is_refused(uvm):
    with pytest.raises(ProfileError, match=r"fault.replay_policy.*'never'.*batch_flush"):
        rig_with(uvm, "never")
