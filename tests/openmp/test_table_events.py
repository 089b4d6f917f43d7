"""The events of the present table say what their documentation says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from openmp_rig import MakeRig, Rig

from offloadrt import kernel
from offloadrt import openmp as omp
from offloadrt.trace import events


def of(rig: Rig, kind: Any, array: str) -> list[Any]:
    return [event for event in rig.trace.events if isinstance(event, kind) and event.array == array]


def test_an_attachment_names_the_pointer_and_what_is_written_into_it(rig: MakeRig) -> None:
    made = rig()

    async def body(t: omp.HostThread) -> tuple[int, int]:
        p = t.array("p", 8, kind="heap")
        async with t.target_data(omp.map(to=[t.pointer(p), omp.section(p, 2, 4)])):
            section = await t.omp_get_mapped_ptr(omp.section(p, 2, 1))
            assert section is not None
            return p.pointer_address, int(section) - 2 * p.itemsize

    pointer, value = made.alone(body)
    (attach,) = of(made, events.Attach, "p")
    assert (attach.begin, attach.device_address) == (pointer, value)


def test_offsets_are_those_in_the_array_throughout(rig: MakeRig) -> None:
    made = rig()

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 8)
        async with t.target_data(omp.map(to=omp.section(a, 2, 4))):
            async with t.target_data(omp.map(to=omp.section(a, 3, 1))):
                pass
        pointer = await t.omp_target_alloc(16)
        assert pointer is not None
        await t.omp_target_associate_ptr(omp.section(a, 4, 2), pointer, 16)
        async with t.target_data(omp.map(to=omp.section(a, 4, 2), hold=True)):
            pass
        await t.omp_target_disassociate_ptr(omp.section(a, 4, 2))

    made.alone(body)
    inserted = [(event.begin, event.size, event.dynamic) for event in of(made, events.MapInsert, "a")]
    assert inserted == [(16, 32, 1), (32, 16, -1)]
    assert [(event.begin, event.size) for event in of(made, events.MapRemove, "a")] == inserted_sections(inserted)
    assert {event.begin for event in of(made, events.MapCount, "a")} == {16, 32}
    assert 24 in {event.begin for event in of(made, events.MapLookup, "a")}


def inserted_sections(inserted: list[tuple[int, int, int]]) -> list[tuple[int, int]]:
    return [(begin, size) for begin, size, _ in inserted]


def test_globals_are_inserted(rig: MakeRig) -> None:
    made = rig()
    made.program.declare_target("g", 4)
    made.program.declare_target_link("k", 4)

    @kernel
    def nothing() -> None:
        pass

    async def body(t: omp.HostThread) -> None:
        await t.target(nothing)

    made.alone(body)
    for name, size in (("g", 32), ("k_decl_tgt_ref_ptr", 8)):
        (insert,) = of(made, events.MapInsert, name)
        assert (insert.begin, insert.size, insert.dynamic, insert.hold) == (0, size, -1, 0)


def test_what_is_no_array_is_given_by_its_host_address(rig: MakeRig) -> None:
    made = rig()

    async def body(t: omp.HostThread) -> int:
        p = t.array("p", 8, np.float64, kind="heap")
        async with t.target_data(omp.map(to=p)):
            pass
        return p.pointer_address

    pointer = made.alone(body)
    assert [event.begin for event in of(made, events.MapLookup, "")] == [pointer]


@pytest.mark.parametrize(("routine", "name"), [("memcpy", "omp_target_memcpy"), ("memset", "omp_target_memset")])
def test_routines_are_directives_of_their_own_name_and_cost(rig: MakeRig, routine: str, name: str) -> None:
    made = rig({"runtime.directive": "1 ms"})

    async def body(t: omp.HostThread) -> float:
        a = t.array("a", 4)
        pointer = await t.omp_target_alloc(32)
        assert pointer is not None
        begin = t.sim.now
        if routine == "memcpy":
            await t.omp_target_memcpy(pointer, a, 32)
        else:
            await t.omp_target_memset(pointer, 0, 32)
        return t.sim.now - begin

    assert 1e-3 < made.alone(body) < 2e-3
    assert [event.name for event in made.trace.events if isinstance(event, events.DirectiveBegin)][-1] == name
