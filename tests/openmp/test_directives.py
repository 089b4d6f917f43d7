"""What directives do to host and device values, beyond what the recordings hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from openmp_rig import MakeRig, Rig

from offloadrt import kernel
from offloadrt import openmp as omp
from offloadrt.trace import events


@kernel
def scale(a, s):  # type: ignore[no-untyped-def]  # a kernel's arguments are views of device memory
    a[:] = s * a[:]


@kernel
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
            await t.target(scale, p, 2.0, defaultmap="tofrom")
            assert p[0] == 2.0
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


class TestTargetData:
    def test_use_device_ptr(self, rig: MakeRig) -> None:
        made = rig()

        async def body(t: omp.HostThread) -> None:
            a, b = t.array("a", 4, fill=3.0), t.array("b", 4)
            async with t.target_data(omp.map(tofrom=a), omp.use_device_addr(a), omp.use_device_ptr(b)) as pointers:
                assert pointers[b] is None
                pointer = pointers[a]
                assert pointer is not None
                await t.target(scale, pointer, 2.0, is_device_ptr=pointer)
            assert a[3] == 6.0

        made.alone(body)

    def test_a_program_that_fails_inside_ends_there(self, rig: MakeRig) -> None:
        made = rig()

        async def body(t: omp.HostThread) -> None:
            async with t.target_data(omp.map(tofrom=t.array("a", 4))):
                raise KeyError("mine")

        with pytest.raises(KeyError):
            made.alone(body)

    def test_clauses_that_a_compiler_refuses(self, rig: MakeRig) -> None:
        made = rig()

        async def body(t: omp.HostThread) -> None:
            a = t.array("a", 4)
            with pytest.raises(ValueError, match=r"map\(delete: …\) is not allowed on target enter data"):
                await t.target_enter_data(omp.map(delete=a))
            with pytest.raises(ValueError, match="only on target data"):
                await t.target_exit_data(omp.use_device_ptr(a))
            with pytest.raises(ValueError, match="only on target update"):
                await t.target_enter_data(omp.to(a))
            with pytest.raises(ValueError, match="without list items"):
                omp.map(always=True)
            with pytest.raises(ValueError, match=r"a\[2:3\] reaches beyond the 4 elements"):
                omp.section(a, 2, 3)

        made.alone(body)


class TestUpdate:
    @pytest.mark.parametrize(("strided_update", "expected"), [("llvm", [2, 4]), ("specification", [1, 3])])
    def test_strides(self, rig: MakeRig, strided_update: Any, expected: list[int]) -> None:
        made = rig({"runtime.strided_update": strided_update})

        async def body(t: omp.HostThread) -> list[int]:
            a = t.array("a", 8, fill=0.0)
            async with t.target_data(omp.map(to=a)):
                a[:] = 1.0
                await t.target_update(omp.to(omp.section(a, 1, 2, stride=2)))
                a[:] = 0.0
                await t.target_update(omp.from_(a))
            return [int(i) for i in np.flatnonzero(a.data)]

        assert made.alone(body) == expected

    def test_multidimensional_sections_are_of_rows(self, rig: MakeRig) -> None:
        made = rig()

        async def body(t: omp.HostThread) -> None:
            a = t.array("a", (4, 3), fill=1.0)
            await t.target(scale, a, 2.0, maps=[omp.map(tofrom=omp.section(a, 0, 4))])
            rows = omp.section(a, 1, 2)
            await t.target(middle, a, maps=[omp.map(tofrom=rows)])
            assert a.data.tolist() == [[2.0] * 3, [7.0] * 3, [7.0] * 3, [2.0] * 3]

        @kernel
        def middle(a: Any) -> None:
            a[1:3] = 7.0
            a[-2, 1] = 7.0

        made.alone(body)


class TestDeclareTarget:
    def test_a_global_lives_on_the_device(self, rig: MakeRig) -> None:
        made = rig()
        g = made.program.declare_target("g", 4, fill=1.0)

        async def body(t: omp.HostThread) -> None:
            await t.target(scale, g, 2.0)
            assert g[0] == 1.0
            await t.target_update(omp.from_(g))
            assert g[0] == 0.0, "the device image starts at zero"
            g[:] = 5.0
            await t.target_update(omp.to(g))
            await t.target(scale, g, 2.0)
            await t.target_update(omp.from_(g))
            assert g[0] == 10.0

        made.alone(body)

    def test_a_global_after_one_of_no_bytes_lives_there_too(self, rig: MakeRig) -> None:
        made = rig()
        nothing, g = made.program.declare_target("nothing", 0), made.program.declare_target("g", 4, fill=1.0)
        assert nothing.address != g.address

        async def body(t: omp.HostThread) -> None:
            await t.target_update(omp.to(g))
            await t.target(scale, g, 2.0)
            await t.target_update(omp.from_(g))
            assert g[0] == 2.0

        made.alone(body)

    def test_under_usm_the_device_uses_the_hosts(self, rig: MakeRig) -> None:
        made = rig(configuration="usm", machine_name="mi300a")
        g = made.program.declare_target("g", 4, fill=1.0)

        async def body(t: omp.HostThread) -> None:
            a = t.array("a", 4, fill=3.0)
            await t.target(scale, g, 2.0)
            await t.target(scale, a, 2.0, maps=[omp.map(tofrom=a)])
            assert (g[0], a[0]) == (2.0, 6.0)
            assert not await t.omp_target_is_present(a)
            assert await t.omp_target_is_accessible(a, 32)

        made.alone(body)
        assert not of(made, events.MapInsert)

    def test_a_linked_one_only_while_mapped(self, rig: MakeRig) -> None:
        made = rig()
        k = made.program.declare_target_link("k", 4, fill=2.0)

        async def body(t: omp.HostThread) -> None:
            await t.target(scale, k, 2.0, maps=[omp.map(tofrom=k)])
            assert k[0] == 4.0

        made.alone(body)
        assert any(isinstance(event, events.Attach) for event in made.trace.events)


class TestAttachment:
    def test_a_mapped_pointer_is_attached_to_its_section(self, rig: MakeRig) -> None:
        made = rig()

        @kernel
        def follow(behind: Any) -> None:
            behind[0][1] = 5.0

        async def body(t: omp.HostThread) -> None:
            p = t.array("p", 4, fill=1.0, kind="heap")
            pointer = t.pointer(p)
            await t.target_enter_data(omp.map(to=[pointer, p]))
            await t.target(follow, omp.pointees(pointer, 4, np.float64), maps=[omp.map(alloc=pointer)])
            await t.target_exit_data(omp.map(from_=[pointer, p]))
            assert p.data.tolist() == [1.0, 5.0, 1.0, 1.0]
            assert pointer[0] == p.address, "the host's pointer keeps the host's address"
            with pytest.raises(ValueError, match="is no pointer"):
                t.pointer(t.array("c", 4))

        made.alone(body)
        made.assert_clean()
        attached = [event for event in made.trace.events if isinstance(event, events.Attach)]
        assert len(attached) == 1

    def test_an_update_of_the_pointer_does_not_detach_it(self, rig: MakeRig) -> None:
        made = rig()

        @kernel
        def follow(behind: Any) -> None:
            behind[0][0] += 1.0

        async def body(t: omp.HostThread) -> None:
            p = t.array("p", 4, fill=1.0, kind="heap")
            pointer = t.pointer(p)
            async with t.target_data(omp.map(tofrom=[pointer, p])):
                await t.target_update(omp.to(pointer))
                await t.target(follow, omp.pointees(pointer, 4, np.float64), maps=[omp.map(alloc=pointer)])
                await t.target_update(omp.from_(pointer))
                assert pointer[0] == p.address
            assert p[0] == 2.0

        made.alone(body)
        made.assert_clean()


class TestMapper:
    def test_an_object_stands_for_its_arrays(self, rig: MakeRig) -> None:
        made = rig()

        class Patch:
            def __init__(self, t: omp.HostThread) -> None:
                self.values = t.array("values", 4, fill=1.0)
                self.neighbours = t.array("neighbours", 2, np.int64)

        async def body(t: omp.HostThread) -> None:
            patch = Patch(t)
            with pytest.raises(TypeError, match="declare one for Patch"):
                await t.target_enter_data(omp.map(to=patch))
            made.program.declare_mapper(Patch, lambda p: [omp.map(tofrom=p.values), omp.map(to=p.neighbours)])
            async with t.target_data(omp.map(tofrom=patch)):
                assert await t.omp_target_is_present(patch.neighbours)
                await t.target(scale, patch.values, 4.0)
            assert patch.values[0] == 4.0
            await t.target_enter_data(omp.map(to=patch, mapper=lambda p: [p.values]))
            assert not await t.omp_target_is_present(patch.neighbours)
            await t.target_exit_data(omp.map(delete=patch))

        made.alone(body)
        made.assert_clean()


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


def test_directives_are_numbered_and_cause_what_they_cause(rig: MakeRig) -> None:
    made = rig()

    async def body(t: omp.HostThread) -> None:
        async with t.target_data(omp.map(tofrom=t.array("a", 4))):
            pass

    made.alone(body)
    begins = [event for event in made.trace.events if isinstance(event, events.DirectiveBegin)]
    assert [(event.directive, event.name) for event in begins] == [(1, "target data"), (2, "target data end")]
    copies = [event for event in made.trace.events if isinstance(event, events.CopyBegin)]
    assert [(copy.cause, copy.direction) for copy in copies] == [(1, "h2d"), (2, "d2h")]
