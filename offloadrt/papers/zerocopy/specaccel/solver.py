"""457.spC and 470.bt: each call of a function maps arrays on its stack, runs its kernels, and unmaps them.

The paper: gigabytes are allocated and deleted every 13 kernels (spC), 10 kernels (bt), whose largest allocation is
above 2 GB and whose largest kernel takes about 30 % of its time; in spC no kernel takes more than 6 % of an allocation.
It also says that the device touches the arrays for the first time in every call, although pages of a stack outlive
a return: `forget` may drop the device's translation at the return, an ablation.
"""

from __future__ import annotations

import attrs

from offloadrt.kernels import Kernel
from offloadrt.models import openmp as omp
from offloadrt.papers.zerocopy.specaccel.base import Assumed, Ends, Forget, array, sweep
from offloadrt.papers.zerocopy.specaccel.inputs import (
    BT_CALLS,
    BT_CELLS,
    BT_STRIDE,
    DOUBLE,
    SP_ARRAY,
    SP_CALLS,
    THREADS,
)
from offloadrt.study.running.phases import StepNumbers

UNKNOWNS = 5
FIELD_BYTES = UNKNOWNS * DOUBLE
"""Bytes of a cell in the arrays that live through the whole run."""


@attrs.frozen
class CellSweep:
    """A kernel over all cells: the stack arrays that it uses, and its work for a cell."""

    name: str
    uses: tuple[str, ...]
    flops: float
    bytes: float
    lines: bool = False
    """Whether it sweeps over the ends of a cube's lines only, with its work for one line."""


@attrs.frozen
class Solver:
    """A function that is called `calls` times, with its stack arrays (bytes for each cell) and its kernels."""

    name: str
    cells: int
    calls: int
    stack: dict[str, int]
    sweeps: tuple[CellSweep, ...]
    forget: Forget | None = None
    """What happens to each stack array when the function returns; nothing, unless an ablation asks for it."""
    step_numbers: StepNumbers = range

    async def run(self, t: omp.HostThread) -> None:
        """Run the whole code: the fields are mapped around all calls."""
        cells = self.cells
        state = array(t, "state", cells * FIELD_BYTES, filled=True)
        right = array(t, "right-hand side", cells * FIELD_BYTES, filled=False)
        # The stack arrays are made once and keep their addresses, as the locals of a function do that is always called
        # from the same place. What stays in page tables after a return is therefore met again in the next call.
        stack = {name: array(t, name, cells * size, filled=False) for name, size in self.stack.items()}
        kernels = [self._kernel(t, part, stack, (state, right)) for part in self.sweeps]
        frame = t.target_data(omp.map(alloc=list(stack.values())))
        async with t.target_data(omp.map(tofrom=state), omp.map(alloc=right)):
            for _ in self.step_numbers(self.calls):
                async with frame:
                    for kernel in kernels:
                        await t.run(kernel)
                if self.forget is not None:
                    for local in stack.values():
                        self.forget(local)

    def _kernel(
        self, t: omp.HostThread, part: CellSweep, stack: dict[str, omp.HostArray], fields: tuple[omp.HostArray, ...]
    ) -> omp.Construct:
        kernel = Kernel(
            part.name, flops_per_iteration=part.flops, bytes_per_iteration=part.bytes, threads_per_team=THREADS
        )
        iterations = round(self.cells ** (2 / 3)) if part.lines else self.cells
        return sweep(t, kernel, iterations, *(stack[name] for name in part.uses), *fields)

    def assumed(self) -> Assumed:
        """Return the calls, the kernels in a call, and the bytes on the stack."""
        return {
            "calls": self.calls,
            "kernels_per_call": len(self.sweeps),
            "cells": self.cells,
            "stack_arrays": len(self.stack),
            "stack_bytes": sum(self.stack.values()) * self.cells,
            "largest_stack_array_bytes": max(self.stack.values()) * self.cells,
        }


def spc(ends: Ends, forget: Forget | None = None) -> Solver:
    """Make 457.spC: scalar pentadiagonal systems; four arrays of five diagonals, swept without striding."""
    cells = ends.size(SP_ARRAY) // FIELD_BYTES
    stack = dict.fromkeys(("lhs", "lhs plus", "lhs minus", "work"), FIELD_BYTES)
    both, all_three = ("lhs plus", "lhs minus"), ("lhs", "lhs plus", "lhs minus")
    used: tuple[tuple[str, tuple[str, ...]], ...] = (
        ("initialise lhs", all_three),
        ("speeds", ("work",)),
        ("diagonals", ("lhs", "work")),
        ("dissipation", ("lhs",)),
        ("acoustic diagonals", all_three),
        ("first rows", ("lhs",)),
        ("eliminate", ("lhs", "work")),
        ("last rows", ("lhs",)),
        ("eliminate acoustic", both),
        ("last rows acoustic", both),
        ("substitute", ("lhs",)),
        ("substitute acoustic", both),
        ("add", ("work",)),
    )
    # Each array costs 10 flops and 80 bytes per cell. At an eighth of a flop per byte memory bounds these kernels by a
    # wide margin, so that the number of flops needs no better estimate.
    sweeps = tuple(CellSweep(name, uses, 10.0 * len(uses), 2.0 * FIELD_BYTES * len(uses)) for name, uses in used)
    return Solver("spC", cells, ends.length(SP_CALLS), stack, sweeps, forget, ends.step_numbers)


def bt(ends: Ends, forget: Forget | None = None) -> Solver:
    """Make 470.bt: block-tridiagonal systems; three 5 by 5 blocks per cell in the largest array.

    The public code of the same family (uhhpctools/openacc-npb a1980fb, BT/BT/x_solve.c) has the paper's structure: a
    solve makes three arrays on its stack and runs ten kernels on them, six of which touch the ends of lines only. What
    a kernel moves is counted there, a neighbour's values coming from caches. Its elimination and substitution read
    blocks side by side, and would be ten times shorter than the paper says; `BT_STRIDE` stands for the difference.
    """
    block = UNKNOWNS * UNKNOWNS * DOUBLE
    stack = {"blocks": 3 * block, "flux jacobian": block, "viscous jacobian": block}
    stride, jacobians = ends.work(BT_STRIDE), ("flux jacobian", "viscous jacobian")
    product, inversion, row = 2.0 * UNKNOWNS**3, 365.0, 2.0 * UNKNOWNS**2
    sweeps = (
        CellSweep("jacobians", jacobians, 150, 2 * block + 8 * DOUBLE),
        CellSweep("clear ends", ("blocks",), 0, 6 * block, lines=True),
        CellSweep("diagonals of ends", ("blocks",), 0, 2 * UNKNOWNS * DOUBLE, lines=True),
        CellSweep("form blocks", ("blocks", *jacobians), 200, 5 * block),
        CellSweep("invert first blocks", ("blocks",), inversion, 4 * block + 2 * FIELD_BYTES, lines=True),
        CellSweep("eliminate", ("blocks",), row + product + inversion, stride * 4 * 3 * block + 2 * FIELD_BYTES),
        CellSweep("multiply last vectors", ("blocks",), row, block + 2 * FIELD_BYTES, lines=True),
        CellSweep("multiply last blocks", ("blocks",), product, 4 * block, lines=True),
        CellSweep("invert last blocks", ("blocks",), inversion / 2, 2 * block + 2 * FIELD_BYTES, lines=True),
        CellSweep("substitute", ("blocks",), row, stride * block + 2 * FIELD_BYTES),
    )
    return Solver("bt", ends.size(BT_CELLS), ends.length(BT_CALLS), stack, sweeps, forget, ends.step_numbers)
