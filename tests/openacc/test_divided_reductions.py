"""Reductions that several devices share: partial values, and a kernel that combines them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from acc_kernels import scale, sum_of
from divided_rig import step
from openacc_rig import MakeRig

from offloadrt import openacc as acc
from offloadrt.trace import events


def test_the_array_that_gets_the_result_is_reducted(acc_rig: MakeRig) -> None:
    async def body(t: acc.HostThread) -> list[list[bool]]:
        a, b, c = (t.array(name, 8) for name in "abc")
        made = [acc.jacc_args(sum_of, a, b), acc.jacc_args(step, a, b, c, a, 8), acc.jacc_args(scale, a, b, 1.0)]
        return [[bool(one.attributes & acc.Attribute.REDUCTED) for one in args if one.is_array] for args in made]

    assert acc_rig().alone(body) == [[False, True], [False, False, True, True], [False, False]]


async def two_sums(t: acc.HostThread, n: int, **options: Any) -> tuple[acc.Jacc, list[float]]:
    """Into one array, which is then made anew and summed into again."""
    jacc = acc.Jacc(t, **options)
    a, total = t.array("a", n, fill=None if t.program.phantom else np.arange(n)), t.array("total", 1)
    seen = []
    await jacc.jacc_copyin(a)
    for _ in range(2):
        await jacc.jacc_create(total)
        await jacc.jacc_kernel_push(sum_of, acc.jacc_args(sum_of, a, total))
        await jacc.jacc_copyout(total)
        seen.append(0.0 if t.program.phantom else float(total[0]))
    await jacc.jacc_delete(a)
    return jacc, seen


@pytest.mark.parametrize("strategy", ["always", "macc"])
@pytest.mark.parametrize("communication", ["all-to-all", "needed"])
@pytest.mark.parametrize("devices", [1, 2, 4])
def test_partial_values_go_by_the_host_and_live_as_long_as_their_result(
    acc_rig: MakeRig, devices: int, strategy: str, communication: str
) -> None:
    rig = acc_rig({"jit.compile": 0}, devices=devices, machine_name="dgx1-v100")
    jacc, seen = rig.alone(lambda t: two_sums(t, 64, devices=devices, strategy=strategy, communication=communication))
    assert seen == [64 * 63 / 2] * 2
    moved = [device.bytes_moved() for device in rig.machine.devices]
    shared = devices if devices > 1 else 0
    assert jacc.times["sum_of"].sent_bytes == sum(each["p2p"] for each in moved) == 0
    assert sum(each["d2h"] for each in moved) == 2 * 8 * (shared + 1)
    assert sum(each["h2d"] for each in moved) == 64 * 8 * devices + 2 * 8 * shared * devices
    rig.assert_clean()


def test_a_combination_comes_after_the_partial_values_of_all(acc_rig: MakeRig) -> None:
    rig = acc_rig({"jit.compile": 0}, devices=4, machine_name="dgx1-v100")
    jacc, _ = rig.alone(lambda t: two_sums(t, 64, devices=4, strategy="always"))
    spans = rig.kernel_spans()
    copies = [event.time_ps for event in rig.events(events.CopyEnd) if event.direction == "d2h"]
    back = [event.time_ps for event in rig.events(events.CopyBegin) if event.direction == "h2d" and event.bytes == 32]
    assert len(spans) == 2 * 8 and len(copies) == 2 * 5 and len(back) == 2 * 4
    assert max(copies[:4]) <= min(back[:4]) <= min(begin for _, begin, _ in spans[4:8])
    assert jacc.times["sum_of"].executions == 2


def test_a_large_sum_takes_its_part_of_the_time_and_launches(acc_rig: MakeRig) -> None:
    def run(devices: int, strategy: str) -> acc.KernelTimes:
        rig = acc_rig(
            {"jit.compile": 0, "gpu.team_dispatch": "0.01 ns"}, devices=devices, machine_name="dgx1-v100", phantom=True
        )
        jacc, _ = rig.alone(lambda t: two_sums(t, 1 << 26, devices=devices, strategy=strategy))
        found: acc.KernelTimes = jacc.times["sum_of"]
        return found

    alone, shared = run(1, "single"), run(4, "always")
    assert 0 < shared.kernel_s / 2 - alone.kernel_s / 8 < 150e-6  # the host's time, of the first launches as well
    assert shared.communication_s == 0.0  # the host adds up
