"""What the page-fault handler notes of each batch agrees with what the driver counts."""

from __future__ import annotations

import itertools
import math

from managed_rig import BLOCK, sweep

from offloadrt.machine.managed.sweep import ManagedAccess


def test_batches_add_up_to_the_counters_and_their_phases_follow_one_another(uvm):
    rig = uvm()
    first, second = rig.array(8 * BLOCK, touched=True), rig.array(4 * BLOCK, touched=True)

    async def main():
        await rig.kernel(sweep(8 * BLOCK), ManagedAccess(first, 8 * BLOCK), ManagedAccess(second, 4 * BLOCK))

    rig.run(main)
    batches, counters = rig.driver.fault_batches(), rig.counters
    assert len(batches) == counters.batches > 1
    assert math.fsum(batch.nbytes for batch in batches) == counters.bytes_htod == 12 * BLOCK
    assert math.fsum(batch.pages for batch in batches) == counters.faults
    assert math.fsum(batch.faults - batch.pages for batch in batches) == counters.duplicates
    assert math.fsum(batch.blocks for batch in batches) >= 12
    for batch in batches:
        phases = [batch.begin, batch.fetched, batch.preprocessed, batch.locked, batch.served, batch.end]
        assert phases == sorted(phases)
    assert all(batch.end <= after.begin for batch, after in itertools.pairwise(batches))
