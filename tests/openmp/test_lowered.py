"""Directives as clang and flang lowered them do here what LLVM's runtime did.

The programs were recorded on LLVM 22.1.8 with host offload: members of structs, classes and Fortran descriptors,
attached pointers, private arguments, captures of lambdas, and mapper functions. `ops` are the operations that OMPT told
of, in order; the host address is null where the runtime copied from a buffer of its own.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from offloadrt import Run
from offloadrt import openmp as omp
from offloadrt.extensions.recording.ompt import start_tool
from offloadrt.kernels import Kernel
from offloadrt.runtime.mapping.map_types import FIRST_MEMBER, IMPLICIT, LITERAL, PTR_AND_OBJ, TARGET_PARAM, TO

PROGRAMS = [
    json.loads(line)
    for line in (Path(__file__).parent.parent / "data" / "lowered" / "programs.jsonl").read_text().splitlines()
]
CALLS: dict[str, Any] = {"data_begin": "begin", "data_end": "end", "data_update": "update"}


class Operations:
    """A tool that notes operations as the recordings have them."""

    def __init__(self) -> None:
        self.seen: list[list[Any]] = []

    def target_map(self, device: int, call: str, items: object) -> None:
        pass

    def target_data_op(
        self, device: int, op: str, array: object, host_address: int, device_address: int, nbytes: int
    ) -> None:
        if op == "delete":
            self.seen.append([op, nbytes])
        else:
            name = "h2d" if op == "attach" else op
            self.seen.append([name, None if array is None else host_address, nbytes])

    def target_submit(self, device: int, kernel: str) -> None:
        self.seen.append(["kernel"])


def item(row: list[Any]) -> omp.LoweredItem:
    base, begin, size, bits, name, *rest = row
    components = tuple(item(component) for pushed in rest for component in pushed)
    return omp.LoweredItem(base, begin, size, bits, name, components=components)


@pytest.mark.parametrize("gear", ["native", "turbo"])
@pytest.mark.parametrize("recorded", PROGRAMS, ids=lambda recorded: recorded["name"])
def test_a_recorded_program_does_the_same_operations(recorded: Any, gear: str) -> None:
    run = Run(gear=gear)
    run.allocator = "malloc"
    program = omp.LoweredProgram(run.openmp)
    start_tool(run.openmp.devices[0], tool := Operations())
    done: list[list[list[Any]]] = []

    async def body(t: omp.HostThread) -> None:
        for name, address, nbytes in recorded["arrays"]:
            program.array(name, address, nbytes)
        for call in recorded["calls"]:
            items = program.items(item(row) for row in call["maps"])
            tool.seen = []
            if call["fn"] == "kernel":
                step = program.target(Kernel("region", None), items, trip_count=call["trip"])
            else:
                step = program.data(CALLS[call["fn"]], items)
            await t.run(step)
            done.append(tool.seen)

    run.sim.run(lambda: run.parallel(body, num_threads=1))
    assert done == [call["ops"] for call in recorded["calls"]]


def test_an_array_is_found_by_any_byte_of_it_and_by_none_beside_it() -> None:
    run = Run()
    program = omp.LoweredProgram(run.openmp)
    low, high = program.array("low", 0x1000, 64), program.array("high", 0x1040, 64)
    for address in range(0xFF0, 0x1090, 8):
        for nbytes in (0, 1, 8, 80):
            last = address + max(nbytes, 1)
            meets = [one for one in (low, high) if address < one.address + 64 and one.address < last]
            assert program.overlapped(address, nbytes) is (meets[-1] if meets else None)
    with pytest.raises(ValueError, match="array 'low' lies there"):
        program.array("middle", 0x103F, 1)


@pytest.mark.parametrize("variable", [0x0FFC, 0x1008, 0x2000], ids=["on its edge", "right behind it", "elsewhere"])
def test_a_lambda_keeps_the_hosts_address_of_a_variable_that_is_in_no_array(variable: int) -> None:
    program = omp.LoweredProgram(Run().openmp)
    function = program.array("lambda", 0x1000, 8)
    captured = PTR_AND_OBJ | LITERAL | IMPLICIT | FIRST_MEMBER
    items = [omp.LoweredItem(0x1000, 0x1000, 8, TO | TARGET_PARAM), omp.LoweredItem(0x1000, variable, 8, captured)]
    assert [one.array for one in program.items(items)] == [function, None]
