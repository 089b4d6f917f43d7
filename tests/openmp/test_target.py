"""What `target` does to host and device values, beyond what the recordings hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from openmp_rig import MakeRig, Rig, scale

from offloadrt import kernel
from offloadrt import openmp as omp
from offloadrt.trace import events


@kernel(bytes_per_iteration=24)
def gather(blocks, out):  # type: ignore[no-untyped-def]
    for i, block in enumerate(blocks):
        out[i] = block[0] + block[1]


def of(rig: Rig, kind: type) -> list[Any]:
    """The events of a kind so far."""
    return [event for event in rig.trace.events if isinstance(event, kind)]


class TestTarget:
    def test_a_c_array_is_mapped_by_its_use(self, rig: MakeRig) -> None:
        made = rig()

        async def body(t: omp.HostThread) -> list[float]:
            a = t.array("a", 4, fill=[1.0, 2.0, 3.0, 4.0])
            await t.target(scale, a, 2.0)
            return [float(x) for x in a.data]

        assert made.alone(body) == [2.0, 4.0, 6.0, 8.0]
        made.assert_clean()

    def test_a_pointer_finds_what_is_mapped(self, rig: MakeRig) -> None:
        made = rig()

        async def body(t: omp.HostThread) -> None:
            p = t.array("p", 4, fill=1.0, kind="heap")
            async with t.target_data(omp.map(tofrom=omp.section(p, 1, 2))):
                await t.target(touch_second, p)
            assert p.data.tolist() == [1.0, 9.0, 1.0, 1.0]

        @kernel
        def touch_second(p: Any) -> None:
            p[1] = 9.0

        made.alone(body)
        made.assert_clean()

    def test_small_firstprivate_arrays_travel_in_one_copy(self, rig: MakeRig) -> None:
        made = rig()
        seen: list[float] = []

        @kernel
        def read(a: Any, b: Any, c: Any) -> None:
            seen.extend([a[0], b[0], c[0]])
            a[0] = b[0] = c[0] = -1.0

        async def body(t: omp.HostThread) -> None:
            a, b = t.array("a", 3, fill=1.0), t.array("b", 5, fill=2.0)
            c = t.array("c", 200, fill=3.0)
            await t.target(read, a, b, c, firstprivate=[a, b, c])
            assert (a[0], b[0], c[0]) == (1.0, 2.0, 3.0), "a region changes its own copies"

        made.alone(body)
        assert seen == [1.0, 2.0, 3.0]
        assert made.calls.count("cuMemcpyHtoDAsync") == 2, "a and b packed, c of 1600 bytes alone"
        assert made.calls.count("cuMemcpyDtoHAsync") == 0
        made.assert_clean()

    def test_private_arrays_are_not_copied(self, rig: MakeRig) -> None:
        made = rig()

        async def body(t: omp.HostThread) -> None:
            a = t.array("a", 8, fill=1.0)
            await t.target(scale, a, 5.0, private=a)
            assert a[0] == 1.0

        made.alone(body)
        assert made.calls.count("cuMemcpyHtoDAsync") == 0
        made.assert_clean()

    def test_has_nothing_to_do_with_a_phantom_but_its_costs(self, rig: MakeRig) -> None:
        made = rig(phantom=True)

        async def body(t: omp.HostThread) -> None:
            a = t.array("a", 1 << 20)
            async with t.target_data(omp.map(tofrom=a)):
                await t.target(scale, a, 2.0, teams=108)
            with pytest.raises(TypeError, match="'a' is a phantom"):
                a[0]

        made.alone(body)
        assert sum(event.bytes for event in made.trace.events if isinstance(event, events.CopyBegin)) == 2 * (8 << 20)
        made.assert_clean()

    def test_defaultmap(self, rig: MakeRig) -> None:
        made = rig()

        async def body(t: omp.HostThread) -> None:
            p = t.array("p", 4, fill=1.0, kind="heap")
            with pytest.raises(ValueError, match="no clause names it"):
                await t.target(scale, p, 2.0, defaultmap="none")

        made.alone(body)

    def test_pointees_follow_device_pointers(self, rig: MakeRig) -> None:
        made = rig()

        async def body(t: omp.HostThread) -> list[float]:
            patches = [t.array(f"patch {i}", 2, fill=float(i), kind="heap") for i in range(3)]
            pointers = t.array("pointers", 3, np.uint64)
            for i, patch in enumerate(patches):
                await t.target_enter_data(omp.map(to=patch))
                pointer = await t.omp_get_mapped_ptr(patch)
                assert pointer is not None
                pointers[i] = int(pointer)
            out = t.array("out", 3)
            maps = [omp.map(to=pointers), omp.map(from_=out)]
            await t.target(gather, omp.pointees(pointers, 2, np.float64), out, maps=maps)
            for patch in patches:
                await t.target_exit_data(omp.map(from_=patch))
            return [float(x) for x in out.data]

        assert made.alone(body) == [0.0, 2.0, 4.0]
        made.assert_clean()


class TestHasDeviceAddr:
    def test_the_kernel_gets_the_address_that_is_in_hand(self, rig: MakeRig) -> None:
        made = rig()

        async def body(t: omp.HostThread) -> None:
            a = t.array("a", 4, fill=3.0)
            async with t.target_data(omp.map(tofrom=a), omp.use_device_addr(a)):
                before = len(of(made, events.MapLookup))
                await t.target(scale, a, 2.0, has_device_addr=a)
                assert len(of(made, events.MapLookup)) == before, "nothing is searched"
                assert a[3] == 3.0
            assert a[3] == 6.0

        made.alone(body)
        made.assert_clean()

    def test_unified_memory(self, rig: MakeRig) -> None:
        made = rig(configuration="usm", machine_name="mi300a")

        async def body(t: omp.HostThread) -> None:
            a = t.array("a", 4, fill=3.0)
            async with t.target_data(omp.map(tofrom=a), omp.use_device_addr(a)):
                await t.target(scale, a, 2.0, has_device_addr=a)
            assert a[3] == 6.0

        made.alone(body)

    def test_of_a_section_the_device_has_only_that(self, rig: MakeRig) -> None:
        made = rig()

        @kernel
        def second(a: Any) -> None:
            a[1] = 9.0

        async def body(t: omp.HostThread) -> None:
            a = t.array("a", 4, fill=3.0)
            async with t.target_data(omp.map(tofrom=omp.section(a, 1, 2)), omp.use_device_addr(a)):
                await t.target(second, a, has_device_addr=a)
            assert a.data.tolist() == [3.0, 9.0, 3.0, 3.0]

        made.alone(body)

    def test_of_what_is_not_mapped(self, rig: MakeRig) -> None:
        made = rig()

        async def body(t: omp.HostThread) -> None:
            a = t.array("a", 4)
            with pytest.raises(omp.IllegalAddress, match="a is not mapped"):
                await t.target(scale, a, 2.0, has_device_addr=a)

        made.alone(body)
