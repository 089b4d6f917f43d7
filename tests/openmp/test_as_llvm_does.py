"""What LLVM 22.1.8 does where one would expect something else; each was seen in small C programs with host offload."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from openmp_rig import MakeRig, scale

from offloadrt import kernel
from offloadrt import openmp as omp
from offloadrt.extensions.recording.ompt import start_tool
from offloadrt.kernels.execution import MappedSection
from offloadrt.runtime.mapping.map_types import ALWAYS, FROM, IMPLICIT, PRESENT, PRIVATE, TARGET_PARAM, TO


class Lowered:
    """A tool that keeps the items of the directives."""

    def __init__(self) -> None:
        self.items: list[Any] = []

    def target_map(self, device: int, call: str, items: Any) -> None:
        self.items = list(items)

    def target_data_op(self, *given: object) -> None:
        pass

    def target_submit(self, device: int, kernel: str) -> None:
        pass


@kernel
def nothing(a):  # type: ignore[no-untyped-def]
    pass


class TestDefaultmap:
    @pytest.mark.parametrize(
        ("behaviour", "heap", "static"),
        [
            ("tofrom", (8, 0x223), (32, 0x223)),
            ("firstprivate", (0, 0x220), (32, 0x2A1)),
            ({"pointer": "to"}, (8, 0x221), (32, 0x223)),
            ({"pointer": "alloc"}, (8, 0x220), (32, 0x223)),
            ({"aggregate": "to"}, (0, 0x220), (32, 0x221)),
            ({"aggregate": "to", "all": "from"}, (8, 0x222), (32, 0x221)),
        ],
    )
    def test_a_pointer_is_a_variable_of_eight_bytes(
        self, rig: MakeRig, behaviour: Any, heap: tuple[int, int], static: tuple[int, int]
    ) -> None:
        made = rig()
        start_tool(made.device, tool := Lowered())

        async def body(t: omp.HostThread) -> None:
            for kind, expected in (("heap", heap), ("static", static)):
                a: Any = t.array("a", 4, fill=1.0, kind=kind)
                await t.target(nothing, a, defaultmap=behaviour)
                (item,) = tool.items
                assert (item.size, item.type) == expected
                assert item.begin == (a.pointer_address if item.size == 8 else a.address)

        made.alone(body)
        made.assert_clean()

    def test_what_the_pointer_leads_to_is_not_mapped(self, rig: MakeRig) -> None:
        made = rig()

        async def body(t: omp.HostThread) -> None:
            with pytest.raises(omp.IllegalAddress, match="is not mapped"):
                await t.target(scale, t.array("p", 4, fill=1.0, kind="heap"), 2.0, defaultmap="tofrom")

        made.alone(body)

    @pytest.mark.parametrize("behaviour", ["both", {"scalar": "to"}, {"pointer": "some"}])
    def test_one_that_does_not_exist(self, rig: MakeRig, behaviour: Any) -> None:
        made = rig()

        async def body(t: omp.HostThread) -> None:
            with pytest.raises(ValueError, match="defaultmap"):
                await t.target(nothing, t.array("p", 4), defaultmap=behaviour)

        made.alone(body)


def test_a_mapper_s_modifiers_are_its_own(rig: MakeRig) -> None:
    made = rig()
    start_tool(made.device, tool := Lowered())

    async def body(t: omp.HostThread) -> None:
        a, b = t.array("a", 4, kind="static"), t.array("b", 4, kind="static")
        mapper = lambda _: [omp.map(tofrom=a), omp.map(always=True, to=b)]  # noqa: E731
        await t.target_enter_data(omp.map(to="v", present=True, hold=True, mapper=mapper))
        assert [item.type for item in tool.items] == [TO, TO | ALWAYS]
        await t.target_exit_data(omp.map(delete="v", mapper=mapper))
        assert [item.type for item in tool.items] == [0, ALWAYS], "members are released, not deleted"

    made.alone(body)
    made.assert_clean()


@pytest.mark.parametrize("also_mapped", [False, True])
def test_use_device_ptr_of_a_partly_mapped_array(rig: MakeRig, also_mapped: bool) -> None:
    made = rig()

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 10, fill=np.arange(10.0))
        part = omp.section(a, 2, 6)
        await t.target_enter_data(omp.map(to=part))
        clauses = [omp.map(to=part)] if also_mapped else []
        async with t.target_data(*clauses, omp.use_device_ptr(a)) as pointers:
            pointer = pointers[a]
            assert pointer is not None
            entry = made.device.table.lookup(a.address + 16, 8).entry
            assert pointer.address == entry.device_begin - 16, "as if all of the array were there"

            @kernel
            def add(view):  # type: ignore[no-untyped-def]
                assert isinstance(view, MappedSection)
                view[3] += 10.0

            await t.target(add, pointer, is_device_ptr=pointer)
        await t.target_exit_data(omp.map(from_=part))
        assert a[3] == 13.0

    made.alone(body)
    made.assert_clean()


class Copies(Lowered):
    """A tool that keeps the offsets and sizes of the copies to the device."""

    def __init__(self) -> None:
        super().__init__()
        self.copies: list[tuple[int, int]] = []

    def target_data_op(self, *given: Any) -> None:
        _, op, array, address, _, nbytes = given
        if op == "h2d":
            self.copies.append((address - array.address, nbytes))


PIECES: list[tuple[tuple[int, ...], tuple[Any, ...], list[tuple[int, int]], list[tuple[int, int]]]] = [
    # shape, section, the copies of clang-22 and libomptarget 22.1.8, and those of the specification
    ((4, 4), ((1, 2), (1, 2)), [(40, 8), (72, 8)], [(40, 8), (48, 8), (72, 8), (80, 8)]),
    ((4, 4), ((0, 4), (1, 1)), [(8, 8), (40, 8), (72, 8), (104, 8)], [(8, 8), (40, 8), (72, 8), (104, 8)]),
    ((4, 4), ((1, 2), (0, 4)), [(32, 64)], [(32, 64)]),
    ((4, 4), ((1, 2), 2), [(48, 8), (80, 8)], [(48, 8), (80, 8)]),
    ((3, 4, 5), ((1, 2), (1, 2), (0, 5)), [(200, 8), (360, 8)], []),
    ((3, 4, 5), (1, (1, 2), (1, 2)), [(48, 8), (88, 8)], [(208, 8), (216, 8), (248, 8), (256, 8)]),
    ((3, 4, 5), ((0, 2), (1, 3), (2, 2)), [(offset, 8) for offset in (56, 96, 136, 216, 256, 296)], []),
]


@pytest.mark.parametrize("strided_update", ["llvm", "specification"])
@pytest.mark.parametrize(("shape", "section", "llvm", "specified"), PIECES)
def test_updates_of_sections_in_several_dimensions(
    rig: MakeRig, shape: Any, section: Any, llvm: Any, specified: Any, strided_update: str
) -> None:
    made = rig({"runtime.strided_update": strided_update})
    start_tool(made.device, tool := Copies())

    async def body(t: omp.HostThread) -> None:
        b = t.array("b", shape)
        await t.target_enter_data(omp.map(to=b))
        tool.copies.clear()
        await t.target_update(omp.to(omp.array_section(b, *section)))
        copied = list(tool.copies)
        if strided_update == "llvm":
            assert copied == llvm
            return
        assert not specified or copied == specified
        wanted = np.zeros(shape, bool)
        wanted[tuple(one if isinstance(one, int) else slice(one[0], one[0] + one[1]) for one in section)] = True
        elements = [offset // 8 + k for offset, nbytes in copied for k in range(nbytes // 8)]
        assert elements == np.flatnonzero(wanted).tolist()

    made.alone(body)


def test_sections_in_several_dimensions_that_are_refused(rig: MakeRig) -> None:
    made = rig()

    async def body(t: omp.HostThread) -> None:
        b = t.array("b", (4, 4))
        assert str(omp.array_section(b, 1, (0, 2))) == "b[1][0:2]"
        await t.target_enter_data(omp.map(to=omp.array_section(b, 1, (1, 2))))
        assert [(entry.offset, entry.size) for entry in made.device.table] == [(40, 16)]
        with pytest.raises(ValueError, match=r"b\[0:2\]\[0:2\]\): the section is not contiguous storage"):
            await t.target_enter_data(omp.map(to=omp.array_section(b, (0, 2), (0, 2))))
        with pytest.raises(ValueError, match="beyond the 4 elements of the second dimension"):
            omp.array_section(b, 0, (3, 2))
        with pytest.raises(ValueError, match="is no array section"):
            omp.array_section(b, 0, 0, 0)

    made.alone(body)


async def order_of(t: omp.HostThread, first: Any, second: Any) -> list[str]:
    order: list[str] = []

    def noting(name: str, flops: float) -> Any:
        @kernel(name=name, flops_per_iteration=flops)
        def body(a: Any) -> None:
            order.append(name)

        return body

    a = t.array("mapped", 1)
    await t.target(noting("first", 1e9), a, nowait=True, depend=omp.depend(out=first))
    await t.target(noting("second", 1.0), a, nowait=True, depend=omp.depend(in_=second))
    await t.taskwait()
    return order


@pytest.mark.parametrize("pair", ["array and section", "sections", "pointers", "address"])
def test_dependences_are_compared_by_address(rig: MakeRig, pair: str) -> None:
    made = rig()

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 16)
        first, second = {
            "array and section": (a, omp.section(a, 0, 4)),
            "sections": (omp.section(a, 4, 2), omp.section(a, 4, 8)),
            "pointers": (await t.omp_get_mapped_ptr(a, 1), await t.omp_get_mapped_ptr(a, 1)),
            "address": (omp.section(a, 1), a.address + 8),
        }[pair]
        assert await order_of(t, first, second) == ["first", "second"]
        assert await order_of(t, first, a.address + 4) == ["second", "first"]

    made.alone(body)


def test_routines_answer_null_to_what_is_none(rig: MakeRig) -> None:
    made = rig()

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 4)
        pointer = await t.omp_target_alloc(32)
        assert pointer is not None
        assert [await t.omp_target_associate_ptr(a, pointer, nbytes) for nbytes in (0, -8)] == [-1, -1]
        assert await t.omp_target_associate_ptr(a, None, 8) == -1
        assert await t.omp_target_associate_ptr(None, pointer, 8) == -1
        assert len(made.device.table) == 0
        asked: Any = pointer
        assert [await t.omp_get_mapped_ptr(*given) for given in ((a, 7), (a, -3), (asked,), (None,))] == [None] * 4
        assert not await t.omp_target_is_present(None)
        assert not await t.omp_target_is_present(asked)
        assert await t.omp_target_memset(None, 0, 8) is None
        await t.omp_target_free(pointer)

    made.alone(body)


class TestRefused:
    def test_what_a_compiler_refuses(self, rig: MakeRig) -> None:
        made = rig()

        async def body(t: omp.HostThread) -> None:
            a, b = t.array("a", 4), t.array("b", 4)
            with pytest.raises(ValueError, match="'a' is in a map clause, so it cannot be private"):
                await t.target(nothing, a, maps=omp.map(tofrom=a), firstprivate=a)
            with pytest.raises(ValueError, match=r"private\(b\): the kernel has no such argument"):
                await t.target(nothing, a, private=b)
            with pytest.raises(TypeError, match="has_device_addr takes arrays"):
                await t.target(nothing, a, has_device_addr="a")
            with pytest.raises(TypeError, match="no array section"):
                omp.section(a, 0.5, 2)  # type: ignore[arg-type]

        made.alone(body)

    def test_what_is_no_number(self, rig: MakeRig) -> None:
        made = rig()

        async def body(t: omp.HostThread) -> None:
            a: Any = t.array("a", 4)
            with pytest.raises(TypeError, match=r"nbytes cannot be 1\.5"):
                await t.omp_target_alloc(1.5)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match=r"device: its number is .0."):
                await t.target(nothing, a, device="0")  # type: ignore[arg-type]
            with pytest.raises(ValueError, match="src_offsets has 1"):
                await t.omp_target_memcpy_rect(a, a, 8, (2, 2), (0, 0), (0,), (2, 2), (2, 2))

        made.alone(body)


def test_bits_are_those_of_clang() -> None:
    assert (TO | FROM | IMPLICIT | TARGET_PARAM, PRIVATE | TO | IMPLICIT | TARGET_PARAM, PRESENT) == (
        0x223,
        0x2A1,
        0x1000,
    )
