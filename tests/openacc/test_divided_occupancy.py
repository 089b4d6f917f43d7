"""How far a kernel that several devices share fills each of them: threads that access nothing draw no bandwidth."""

from __future__ import annotations

import pytest
from openacc_rig import MakeRig

from offloadrt import kernel
from offloadrt import openacc as acc
from offloadrt.kernels import Kernel

COLUMNS = 512
DISPATCH_S = 1e-9
"""Seconds from one team's begin to the next one's."""


@kernel
def copy_rows(a, b, rows, columns):  # type: ignore[no-untyped-def]
    for i in range(rows):
        for j in range(columns):
            a[i, j] = b[i, j]


@kernel(collapse=2)
def copy_points(a, b, rows, columns):  # type: ignore[no-untyped-def]
    for i in range(rows):
        for j in range(columns):
            a[i, j] = b[i, j]


@kernel
def copy_columns(a, b, rows, columns):  # type: ignore[no-untyped-def]
    for i in range(rows):
        for j in range(columns):
            a[j, i] = b[j, i]


@kernel
def add_planes(a, b, rows, columns):  # type: ignore[no-untyped-def]
    for i in range(rows):
        for j in range(columns):
            a[j, i] = (
                b[0, j, i] + b[1, j, i] + b[2, j, i] + b[3, j, i] + b[4, j, i] + b[5, j, i] + b[6, j, i] + b[7, j, i]
            )


def seconds(acc_rig: MakeRig, code: Kernel, rows: int, strategy: str) -> float:
    """Of an execution on the slowest of four devices, without its launch."""

    async def body(t: acc.HostThread) -> None:
        jacc = acc.Jacc(t, devices=4, strategy=strategy)
        shape = (rows, COLUMNS) if code in (copy_rows, copy_points) else (COLUMNS, rows)
        a, b = t.array("a", shape), t.array("b", (8, *shape) if code is add_planes else shape)
        await jacc.jacc_create(a, b)
        await jacc.jacc_kernel_push(code, acc.jacc_args(code, a, b, rows, COLUMNS))
        await jacc.jacc_wait()
        times = jacc.times[code.name]
        await jacc.jacc_delete(a, b)
        assert times.divided == (strategy != "duplicated")

    costs = {
        "jit.compile": 0,
        "mem.latency": "0.45 us",
        "mem.bw": "900 GB/s",
        "gpu.team_dispatch": f"{DISPATCH_S} s",
    }
    rig = acc_rig(costs, devices=4, machine_name="dgx1-v100", phantom=True)
    rig.alone(body)
    return max(end - begin for _, begin, end in rig.kernel_spans()) * 1e-12


@pytest.mark.parametrize("rows", [2560, 40_960, 163_840])
def test_teams_without_their_rows_only_have_to_begin_and_end(acc_rig: MakeRig, rows: int) -> None:
    """A row a thread, 128 threads a team: a loop that is split leaves each device a quarter of the teams."""
    predicated, split = (seconds(acc_rig, copy_rows, rows, strategy) for strategy in ("always", "macc"))
    assert predicated - split == pytest.approx(rows // 128 * 3 / 4 * DISPATCH_S, rel=1e-6)


def test_a_point_a_thread_gains_less_than_a_row_a_thread_for_it_begins_more_teams(acc_rig: MakeRig) -> None:
    """Both move the same bytes. A team of 128 points takes 2.3 ns of the memory, and 1 ns if it accesses nothing."""
    rows = 163_840
    gain = {}
    for code in (copy_points, copy_rows):
        whole, part = (seconds(acc_rig, code, rows, strategy) for strategy in ("duplicated", "always"))
        gain[code.name] = whole / part
    team_s = 128 * 16 / 900e9
    assert gain["copy_points"] == pytest.approx(team_s / (team_s / 4 + DISPATCH_S * 3 / 4), rel=1e-3)
    assert 3.98 < gain["copy_rows"] < 4.0


def test_a_kernel_that_waits_for_memory_gains_nothing_by_fewer_threads(acc_rig: MakeRig) -> None:
    whole, part = (seconds(acc_rig, copy_rows, 2560, strategy) for strategy in ("duplicated", "always"))
    assert part == pytest.approx(whole + 15 * DISPATCH_S)


def test_one_with_more_loads_in_flight_gains_where_a_part_of_its_threads_keeps_the_memory_busy(
    acc_rig: MakeRig,
) -> None:
    """Neither fills a device with teams: a load a thread does not keep the memory busy, eight do."""
    for code, gain in ((copy_columns, 1.0), (add_planes, 4.0)):
        whole, part = (seconds(acc_rig, code, 24_576, strategy) for strategy in ("duplicated", "macc"))
        assert whole / part == pytest.approx(gain, rel=0.02)


def test_a_divided_kernel_gains_where_each_thread_does_a_part(acc_rig: MakeRig) -> None:
    whole, part = (seconds(acc_rig, copy_columns, 2560, strategy) for strategy in ("duplicated", "always"))
    assert part == pytest.approx(whole / 4)
