"""PGI's library stages pageable memory in one pinned buffer of each device: threads that copy wait for one another."""

import pytest

from offloadrt import Run
from offloadrt import openacc as acc

N = 6
KIB = 1 << 10
FREE = dict.fromkeys(
    ["driver.copy_submit", "driver.stream_create", "driver.sync_idle", "sync.latency", "copy.latency", "table.lookup",
     "table.handover", "driver.handover", "runtime.directive"],
    "0",
)  # fmt: skip
OWN = {
    "host_memory.uncontended": "true",
    "link.uncontended": "true",
    "copy_engine.uncontended": "true",
    "pcie_switch.uncontended": "true",
    "table.uncontended": "true",
    "driver.context.uncontended": "true",
    "entry.uncontended": "true",
}
"""Threads contend for the buffer only."""


def updates(threads, compiler="pgi", **settings):
    """Each thread updates an array of its own once; seconds of the slowest, and the run."""
    run = Run(machine="dgx1-v100", overrides={**FREE, **OWN, **settings})
    run.options = acc.OpenACCOptions(phantom=True, compiler=compiler)

    async def main():
        async def body(t):
            mine = t.array(f"a{t.number}", 8 * KIB)
            await t.enter_data(acc.create(mine))
            await t.barrier()
            begin = run.sim.now
            await t.update(acc.device(mine))
            return run.sim.now - begin

        took = await run.parallel(body, num_threads=threads)
        await run.finish()
        return took

    return max(run.sim.run(main)), run


def test_a_thread_alone_copies_as_with_the_drivers_own_staging():
    assert updates(1)[0] == pytest.approx(updates(1, "gcc")[0])


@pytest.mark.parametrize("memory", ["stream", "context"])
def test_the_service_does_not_depend_on_the_number_of_threads(memory):
    """Whosever the driver's own buffers are: the library's comes before them."""
    (alone, one), (together, many) = (updates(threads, **{"staging.memory": memory}) for threads in (1, N))
    single, shared = (run.locks["pinned buffer"] for run in (one, many))
    assert together > 0.6 * N * alone, "copies are staged one after the other"
    assert shared.acquired == N * single.acquired
    assert shared.hold_s / shared.acquired == pytest.approx(single.hold_s / single.acquired)


def test_without_it_every_thread_takes_the_time_of_one():
    alone, _ = updates(1)
    assert updates(N, **{"acc.pinned_buffer.uncontended": "true"})[0] == pytest.approx(alone)
    assert updates(N, "gcc")[0] == pytest.approx(updates(1, "gcc")[0]), "libgomp leaves staging to the driver"
