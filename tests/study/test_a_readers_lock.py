"""A lock policy of one's own that shares, and lets those who are woken up try again: results, and counts by hand."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pytest

from offloadrt import Run, execute, kernel, scenario
from offloadrt import openmp as omp
from offloadrt.machine.host_lock import LockRequest

PIECES, EACH = 48, 4096


class Barge:
    """Readers share. Whoever may not enter tries again; somebody is let in whenever nobody holds the lock."""

    name = "barge"
    hands_over = False
    shares = True

    def admit(self, holders: Collection[LockRequest], waiting: Sequence[LockRequest]) -> Sequence[LockRequest]:
        if any(holder.changes for holder in holders):
            return ()
        readers = [request for request in waiting if not request.changes]
        return readers or (() if holders else waiting[:1])


class Over(Barge):
    hands_over = True


class One(Barge):
    def admit(self, holders: Collection[LockRequest], waiting: Sequence[LockRequest]) -> Sequence[LockRequest]:
        return super().admit(holders, waiting)[:1]


@kernel(flops_per_iteration=2, bytes_per_iteration=16)
def double(a: Any) -> None:
    a *= 2.0


@scenario(machine="h100")
async def pieces(run: Run, threads: int = 16, policy: str = "Barge") -> dict[str, float]:
    run.table_policy = {made.__name__: made for made in (Barge, Over, One)}[policy]()

    async def body(t: omp.HostThread) -> float:
        a = t.array("a", EACH, fill=1.0)
        for _ in range(PIECES // threads):
            await t.target(double, a, maps=omp.map(tofrom=a), iterations=EACH)
        return float(a[0])

    return {"smallest": min(await run.parallel(body, num_threads=threads))}


@pytest.mark.parametrize("threads", [1, 6, 8, 12, 16])
@pytest.mark.parametrize("policy", ["Barge", "Over", "One"])
def test_it_gives_the_same_result_in_both_gears_with_the_calls_that_one_counts_by_hand(
    policy: str, threads: int
) -> None:
    turbo, native = (execute(pieces, threads=threads, policy=policy, gear=gear) for gear in ("turbo", "native"))
    assert (turbo.elapsed_s, turbo.locks) == (native.elapsed_s, native.locks)
    assert turbo.measured["smallest"] == 2.0 ** (PIECES // threads)
    for call in ("cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemAlloc", "cuMemFree", "cuLaunchKernel"):
        assert turbo.calls[call].count == PIECES, "once a piece"
    assert (turbo.bytes.h2d, turbo.bytes.d2h) == (PIECES * EACH * 8, PIECES * EACH * 8)
    assert turbo.locks["device table"].acquired == 4 * PIECES, "to enter, for the kernel, to count down, to erase"
