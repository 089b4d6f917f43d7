"""What directives that map and update do to host and device values, beyond what the recordings hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from openmp_rig import MakeRig, scale

from offloadrt import kernel
from offloadrt import openmp as omp
from offloadrt.trace import events


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
    def test_several_items_may_be_a_list(self, rig: MakeRig) -> None:
        made = rig()

        async def body(t: omp.HostThread) -> list[float]:
            a, b = t.array("a", 4, fill=0.0), t.array("b", 4, fill=0.0)
            async with t.target_data(omp.map(to=[a, b]), omp.use_device_ptr([a, b])) as pointers:
                assert set(pointers) == {a, b}
                a[:] = b[:] = 1.0
                await t.target_update(omp.to([a, b]))
                a[:] = b[:] = 0.0
                await t.target_update(omp.from_([a], b))
            return [*a.data, *b.data]

        assert made.alone(body) == [1.0] * 8
        with pytest.raises(TypeError, match="use_device_ptr takes arrays of the program, not 'a'"):
            omp.use_device_ptr("a")

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
