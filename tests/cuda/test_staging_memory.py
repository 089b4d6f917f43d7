"""Copies of pageable memory by several threads: each stream has pinned buffers, or the context has them for all."""

import numpy as np
import pytest
from cuda_rig import run_of

MIB = 1 << 20
OF_CONTEXT = {"staging.memory": "context", "driver.handover": "0 us", "staging.chunk": "1 MiB"}
OF_STREAMS = OF_CONTEXT | {"staging.memory": "stream"}
"""No jitter of hand-overs, and host memory that serves all cores, so that only the buffers are short."""


def times(threads, nbytes, settings, to_device=True, last=None):
    """Seconds of each thread's copy when all copy at once; `last`: what the last thread does instead."""
    found = {}

    async def body(t):
        host, there = t.array("host", nbytes, np.uint8, fill=0), await t.malloc(nbytes)
        stream = await t.stream_create(non_blocking=True)
        await t.barrier()
        begin = t.sim.now
        if last is not None and t.number == threads - 1:
            await last(t, stream)
        else:
            await t.memcpy_async(*((there, host) if to_device else (host, there)), stream=stream)
            await t.stream_synchronize(stream)
        found[t.number] = t.sim.now - begin

    run_of(body, threads=threads, settings=settings)
    return [found[number] for number in range(threads)]


@pytest.mark.parametrize("to_device", [True, False])
def test_buffers_of_the_context_serve_one_copy_at_a_time(to_device):
    alone = times(1, 16 * MIB, OF_CONTEXT, to_device)[0]
    assert max(times(4, 16 * MIB, OF_CONTEXT, to_device)) > 3 * alone
    assert max(times(4, 16 * MIB, OF_STREAMS, to_device)) < 2.5 * times(1, 16 * MIB, OF_STREAMS, to_device)[0]


def test_small_copies_to_the_device_need_no_buffer():
    async def small(t, stream):
        await t.memcpy_async(await t.malloc(4096), t.array("small", 4096, np.uint8), stream=stream)

    async def large(t, stream):
        await t.memcpy_async(await t.malloc(MIB), t.array("large", MIB, np.uint8), stream=stream)

    waited = times(2, 64 * MIB, OF_CONTEXT, last=large)
    assert waited[1] > 0.9 * waited[0], "the whole copy of the other thread"
    beside = times(2, 64 * MIB, OF_CONTEXT, last=small)
    assert beside[1] < 0.1 * beside[0]


@pytest.mark.parametrize(("to_device", "waits"), [(True, False), (False, True)])
def test_other_calls_wait_for_a_piece_from_the_device_and_not_for_one_to_it(to_device, waits):
    """As a launch did on an H200 (bench/hardware/h200, rows beside_pageable)."""

    async def record(t, stream):
        await t.sleep(1e-3)
        begin = t.sim.now
        await t.event_record(await t.event_create(timing=False), stream)
        calls.append(t.sim.now - begin)

    calls = []
    times(2, 64 * MIB, OF_CONTEXT, to_device, last=record)
    alone = calls.pop()
    times(1, 64 * MIB, OF_CONTEXT, to_device, last=record)
    assert (alone > 5 * calls.pop()) == waits


def test_staging_can_be_faster_than_copies_within_the_host():
    half = {"host.memcpy_1t": "5 GB/s", "link.h2d_pinned": "50 GB/s"}
    slow = times(1, 64 * MIB, OF_CONTEXT | half)[0]
    fast = times(1, 64 * MIB, OF_CONTEXT | half | {"staging.copy_per_gib": "0.1 s/GiB"})[0]
    assert (slow / (64 * MIB / 5e9), fast / (64 / 1024 * 0.1)) == (pytest.approx(1, rel=0.1), pytest.approx(1, rel=0.1))
