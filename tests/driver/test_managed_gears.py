"""Managed memory is the same in both gears, for slices of any length, and whether an observer listens or not."""

from __future__ import annotations

import attrs
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st
from property_examples import examples

from offloadrt.kernels import Kernel
from offloadrt.machine.managed.sweep import ByteRuns, ManagedAccess

PAGE, BLOCK = 64 << 10, 2 << 20
SWEEP = Kernel("sweep", bytes_per_iteration=16.0)


def sweep(nbytes):
    """A launch with an iteration for every 8 bytes."""
    return SWEEP.launch(max(1, nbytes // 1024), 128, nbytes // 8)


def small(blocks, **more):
    """Overrides for a device with so many blocks of free memory."""
    return {"mem.size": f"{blocks * BLOCK} B", "mem.reserved": 0, **more}


def seen(rig):
    """All that a run leaves behind."""
    blocks = [
        (block.index, block.valid, block.populated, block.resident, block.remote, block.host_mapped)
        for block in rig.uvm.pages.blocks.values()
    ]
    return {
        "now": rig.sim.now,
        "events": rig.sim.timers_set,
        "drawn": rig.sim.rng.random(),
        "number": rig.machine.next_number(),
        "blocks": blocks,
        "lru": list(rig.uvm.pages.chunks),
        "managed": rig.machine.devices[0].memory.managed,
        "counters": rig.counters.table(),
        "usage": attrs.asdict(rig.uvm.pages.usage[""]),
        "lock": rig.uvm.blocks.locks.space.statistics(),
        "handler": rig.uvm.handler.statistics(),
        "machine": rig.machine.statistics(),
    }


@examples(6, HealthCheck.function_scoped_fixture)
@given(
    operations=st.lists(
        st.tuples(st.integers(0, 11), st.integers(1, 12 * 32), st.sampled_from(["sweep", "scatter", "pick", "host",
            "prefetch", "prefer_host", "accessed_by", "prefer_nothing", "back"])),
        min_size=1, max_size=12,
    ),
    blocks=st.integers(2, 14),
    threads=st.integers(1, 3),
    overrides=st.sampled_from(
        [
            {}, {"fault.batch_max": 5}, {"jitter": 0.1}, {"prefetch.tree": False}, {"noise.run": 0.2},
            *[{"fault.batch_max": 50, "fault.replay_policy": policy} for policy in ("block", "batch", "once")],
        ]
    ),
)  # fmt: skip
@example(
    operations=[
        (0, 1, "host"), (5, 297, "sweep"), (0, 163, "pick"), (0, 225, "back"), (9, 307, "back"), (0, 1, "sweep"),
    ],
    blocks=4, threads=2, overrides={},
)  # fmt: skip
def test_whatever_happens_at_once_is_the_same_in_both_gears(uvm, operations, blocks, threads, overrides):
    def ran(gear, **options):
        rig = uvm(small(blocks, **overrides), gear=gear, **options)
        address, fresh = rig.array(12 * BLOCK, touched=True), rig.array(12 * BLOCK)

        async def thread(number):
            stream = await rig.driver.streams.create()
            for place, pages, what in operations[number::threads]:
                begin = (fresh if pages % 2 else address) + place * BLOCK
                nbytes = min(pages * PAGE, (12 - place) * BLOCK)
                if what in ("sweep", "scatter", "pick"):
                    scattered, picked = (nbytes / 8 * (what == "scatter"), nbytes / 1e5 * (what == "pick"))
                    access = ManagedAccess(
                        begin, nbytes, 0, scattered, picked=ByteRuns(picked, 64.0) if picked else None
                    )
                    await rig.kernel(sweep(nbytes), access, ManagedAccess(address, BLOCK, 1))
                elif what == "host":
                    await rig.uvm.host_access(begin, nbytes)
                elif what in ("prefetch", "back"):
                    await rig.driver.managed.prefetch(begin, nbytes, stream, what == "back")
                    await rig.driver.streams.synchronize(stream)
                else:
                    await rig.driver.managed.advise(begin, nbytes, what)

        rig.together(*[lambda number=number: thread(number) for number in range(threads)])
        return seen(rig)

    expected = ran("native")
    assert ran("turbo") == expected
    assert ran("turbo", slice=7, record=True) == expected


def test_each_batch_is_announced_to_the_handler(uvm):
    rig = uvm(small(8))
    address = rig.array(40 * BLOCK, touched=True)

    async def main():
        for _ in range(10):
            await rig.kernel(
                sweep(40 * BLOCK), ManagedAccess(address, 40 * BLOCK, 0, 1e3), ManagedAccess(address, 40 * BLOCK)
            )

    rig.run(main)
    assert rig.counters.evictions > 100
    assert rig.uvm.handler.mailbox.statistics().put == rig.counters.batches > 100
