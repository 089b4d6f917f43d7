"""Who has which bytes right, byte by byte: each device has a copy, in which a byte says when it was stored."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from offloadrt.extensions.openacc.multi_device import Holders

SIZE, DEVICES = 40, 3


def pieces_of(chosen: Any) -> tuple[tuple[int, int], ...]:
    """Offset and length of the contiguous pieces of a set of bytes."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], chosen, [0]))))
    return tuple((int(low), int(high - low)) for low, high in zip(edges[::2], edges[1::2], strict=True))


owners = st.lists(st.integers(-1, DEVICES - 1), min_size=SIZE, max_size=SIZE).map(np.array)
reads = st.lists(st.booleans(), min_size=SIZE, max_size=SIZE).map(lambda chosen: np.array(chosen, int))
steps = st.lists(st.one_of(owners, st.tuples(st.integers(0, DEVICES - 1), st.none() | reads)), max_size=8)


@given(steps)
def test_whoever_has_fetched_what_it_reads_has_what_was_stored_last(history: list[Any]) -> None:
    holders, memories, newest = Holders(), np.zeros((DEVICES, SIZE), int), np.zeros(SIZE, int)
    for time, step in enumerate(history, 1):
        if isinstance(step, np.ndarray):  # by byte the device that stores to it
            holders.wrote("array", [pieces_of(step == device) for device in range(DEVICES)])
            newest[step >= 0] = time
            for device in range(DEVICES):
                memories[device, step == device] = time
            continue
        device, read = step
        wanted = np.ones(SIZE, bool) if read is None else read == 1
        got = np.zeros(SIZE, int)
        for one in holders.fetch("array", device, None if read is None else pieces_of(read)):
            sent = slice(one.offset, one.offset + one.nbytes)
            assert one.target == device != one.source
            memories[device, sent] = memories[one.source, sent]
            got[sent] += 1
        assert (memories[device] == newest)[wanted].all()
        assert got.max() <= 1 and not got[~wanted].any(), "once, and nothing that is not read"
        assert holders.fetch("array", device, None if read is None else pieces_of(read)) == []
