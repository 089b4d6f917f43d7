"""A program with several devices: each has its table, each thread its default device."""

from __future__ import annotations

import pytest
from openmp_rig import MakeRig, scale

from offloadrt import openmp as omp


class TestSeveralDevices:
    def test_each_has_its_own_table(self, rig: MakeRig) -> None:
        made = rig(devices=2)

        async def body(t: omp.HostThread) -> None:
            a = t.array("a", 4, fill=1.0)
            assert t.omp_get_num_devices() == 2
            await t.target_enter_data(omp.map(to=a), device=1)
            assert await t.omp_target_is_present(a, device=1)
            assert not await t.omp_target_is_present(a)
            t.omp_set_default_device(1)
            await t.target(scale, a, 3.0, maps=[omp.map(alloc=a)])
            await t.target_exit_data(omp.map(from_=a))
            assert a[0] == 3.0
            with pytest.raises(omp.InvalidDevice, match="device number 17 is invalid, only 2 devices are available"):
                await t.target(scale, a, 3.0, device=17)

        made.alone(body)
        made.assert_clean()
        assert set(made.program.locks()) >= {"device table", "device table 1"}

    def test_each_thread_has_its_own_default(self, rig: MakeRig) -> None:
        made = rig(devices=2)

        async def body(t: omp.HostThread) -> tuple[int, bool, bool]:
            assert t.omp_get_default_device() == 0
            t.omp_set_default_device(t.number)
            await t.barrier()
            a = t.array("a", 4)
            await t.target_enter_data(omp.map(to=a), nowait=True)
            await t.taskwait()
            there = [await t.omp_target_is_present(a, device=device) for device in range(2)]
            await t.target_exit_data(omp.map(delete=a))
            return t.omp_get_default_device(), *there

        assert made.run(body, 2) == [(0, True, False), (1, False, True)]
        made.assert_clean()
