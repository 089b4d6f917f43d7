"""What `tests/fuzz/differential.py` found: each case stands for a program that LLVM 22.1.8 ran otherwise."""

from __future__ import annotations

from typing import Any

from offloadrt import Run
from offloadrt import openmp as omp
from offloadrt.runtime.mapping.data_environment import strided_pieces
from offloadrt.runtime.mapping.map_item import MapItem
from offloadrt.runtime.mapping.map_types import FROM, NON_CONTIG, TO
from offloadrt.trace import events

HEAP, OTHER, STRUCT = 0x1000, 0x2000, 0x3000


def events_of(arrays: list[tuple[str, int, int]], calls: list[tuple[Any, list[omp.LoweredItem]]]) -> list[Any]:
    """Run calls about arrays, given as (name, address, bytes), and return the events."""
    run = Run(record=True)
    program = omp.LoweredProgram(run.openmp)

    async def body(t: omp.HostThread) -> None:
        for array in arrays:
            program.array(*array)
        for call, items in calls:
            await t.run(program.data(call, program.items(items)))

    run.sim.run(lambda: run.parallel(body, num_threads=1))
    assert run.trace is not None
    return list(run.trace.events)


def test_what_a_mapper_lists_is_removed_before_what_the_directive_lists() -> None:
    """`exit data map(release: v) map(from: a)` with a mapper for v: unmapping it is a call within the call."""
    listed = (
        omp.LoweredItem(STRUCT, STRUCT, 16, TO | FROM, "v"),
        omp.LoweredItem(HEAP, HEAP, 128, TO | FROM, "v.d"),
    )
    items = [
        omp.LoweredItem(STRUCT, STRUCT, 16, TO | FROM, "v", components=listed),
        omp.LoweredItem(OTHER, OTHER, 128, TO | FROM, "a"),
    ]
    arrays = [("v", STRUCT, 16), ("v.d", HEAP, 128), ("a", OTHER, 128)]
    happened = events_of(arrays, [("begin", items), ("end", items)])
    assert [event.array for event in happened if isinstance(event, events.MapRemove)] == ["v.d", "a"]


def test_a_section_with_gaps_of_an_array_of_which_a_later_part_is_mapped() -> None:
    """`double *c`, `enter data map(to: c[5:8])`, `update to(c[5:4:2])`: LLVM looks for 10, 12, 14 and 16."""
    mapped = omp.LoweredItem(HEAP, HEAP + 5 * 8, 8 * 8, TO, "c")
    update = omp.LoweredItem(
        HEAP, HEAP, 2, TO | NON_CONTIG, "c", dimensions=(omp.Dimension(5, 4, 16), omp.Dimension(0, 1, 8))
    )
    happened = events_of([("c", HEAP + 5 * 8, 8 * 8)], [("begin", [mapped]), ("update", [update])])
    assert [event.bytes for event in happened if isinstance(event, events.CopyBegin)] == [64, 8, 8]


def test_a_dimension_of_no_elements_has_no_piece() -> None:
    """Clang gives a section with gaps beside another item the wrong dimensions, of which one may count nothing."""
    empty = MapItem(None, HEAP, HEAP, 1, FROM | NON_CONTIG, (omp.Dimension(0, 0, 8),))
    assert strided_pieces(empty, specification=False) == []
