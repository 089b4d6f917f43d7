"""Five codes of SPECaccel 2023 as the zero-copy paper describes them: where arrays live, who touches them, what moves.

Source: Bertolli et al., "Performance Analysis of Runtime Handling of Zero-Copy for OpenMP Programs on MI300A APUs",
section V.B. The codes' sources are not public: sizes, run lengths and kernel work are the ranges at the top of the
file, but for ep's size and length, which SPEC's description of it gives, and for the kernels of spC and bt, which are
those of the same NAS benchmarks in public code.

`Stencil`, `Lbm`, `Ep` data on the device for the whole run `Solver` spC and bt: arrays on the stack, mapped in every
call
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import attrs

from offloadrt.kernels import Kernel
from offloadrt.models import openmp as omp
from offloadrt.study.inputs import InputRange
from offloadrt.study.running.statistics import StepNumbers

GIB = float(1 << 30)

STENCIL_GRID = InputRange(
    0.5 * GIB, 4 * GIB, "B",
    "calibrated on mi300a.table3.stencil.copy.mm (two grids, 0.1 to 1 s of allocations and two copies); far below ep's",
    name="specaccel.stencil_grid",
)  # fmt: skip
STENCIL_ITERATIONS = InputRange(
    5e3, 5e4, "sweeps", "engineering estimate: reference runs of tens of seconds and more",
    name="specaccel.stencil_iterations",
)  # fmt: skip

LBM_LATTICE = InputRange(
    2.5 * GIB, 20 * GIB, "B", "engineering estimate: 20 doubles a cell, several to 40 GB in all",
    name="specaccel.lbm_lattice",
)  # fmt: skip
LBM_STEPS = InputRange(
    1e3, 6e3, "steps", "public SPEC CPU lbm: 3000 steps in the reference run", name="specaccel.lbm_steps"
)
LBM_TRAFFIC = InputRange(
    304, 456, "B per cell", "engineering estimate: 19 doubles read and written, two to three times",
    name="specaccel.lbm_traffic",
)  # fmt: skip

# SPEC's description of 452.ep (spec.org/accel2023/docs/benchmarks/452.ep.html): a reference run is class E of NPB, and
# works on BLKSIZE blocks at a time, by default 15,000, each of about 1 MiB. NPB's batch is 2^16 pairs (MK of ep.c), so
# that the array of a block's numbers has 1 MiB.
EP_PAIRS = 2**40
EP_BLOCKS = 15_000
EP_BLOCK_PAIRS = 2**16
EP_FLOPS = InputRange(
    60, 150, "flop per pair", "engineering estimate: two random numbers, logarithm, root, tally",
    name="specaccel.ep_flops",
)  # fmt: skip
EP_EFFICIENCY = InputRange(
    0.1, 0.4, "of peak", "engineering estimate: integer work and divergent branches", name="specaccel.ep_efficiency"
)

SP_ARRAY = InputRange(
    0.5e9, 1.5e9, "B", "engineering estimate; the paper: memory in the order of GBs (1 to 10 in all)",
    name="specaccel.sp_array",
)  # fmt: skip
SP_STEPS = InputRange(
    400, 500, "time steps", "NPB SP: 400 in classes W to C, 500 in D and E", name="specaccel.sp_steps"
)
SP_TRAFFIC = InputRange(
    1.5, 1.85, "bytes moved per byte used",
    "mi300a.spec.spC_kernel_ratio (role input): the longest kernel takes up to 0.06 of an allocation, with this range "
    "0.055 to 0.066, where the bytes of the public code alone would take 0.036. It is said of the kernels of a call",
    name="specaccel.sp_traffic",
)  # fmt: skip

BT_CELLS = InputRange(
    3.4e6, 5.3e6, "cells", "NPB BT class C is 162 cubed; the largest allocation is above 2 GB",
    name="specaccel.bt_cells",
)  # fmt: skip
BT_STEPS = InputRange(
    200, 250, "time steps", "NPB BT: 200 in classes W to C, 250 in D and E", name="specaccel.bt_steps"
)
BT_STRIDE = InputRange(
    8, 16, "bytes moved per byte used",
    "mi300a.spec.bt_kernel_ratio (role input): the longest kernel takes 0.3 of the largest allocation, with this range "
    "0.27 to 0.54. As if strided, 64 to 128 B for each double; the public code's blocks lie side by side",
    name="specaccel.bt_stride",
)  # fmt: skip

DOUBLE = 8
THREADS = 256
"""Threads per team: LLVM's default on AMD devices."""
MAX_TEAMS = 1 << 20


Assumed = dict[str, float | int]
Forget = Callable[[omp.HostArray], None]
"""Called with an array; removes the device's translations of its pages."""


@attrs.frozen
class Ends:
    """Says which value, low, mean or high, a run takes of each uncertain size, number of steps and kernel's work."""

    sizes: str = "mean"
    lengths: str = "mean"
    kernel_work: str = "mean"
    fraction: float = 1.0
    """The part of the run length that is run, from 0 to 1."""
    step_numbers: StepNumbers = range
    """Called with the number of iterations; returns the numbers of those that are run."""

    def size(self, of: InputRange) -> int:
        """Return a size: the value of its range chosen by `sizes`, in bytes rounded down to whole doubles."""
        return round(of.at(self.sizes)) // DOUBLE * DOUBLE

    def length(self, of: InputRange) -> int:
        """Return how many iterations (time steps, or passes over the data) a program runs; at least one.

        of: the range of the run length, in iterations. The value in it that `lengths` chooses is multiplied by
        `fraction`.
        """
        return max(1, round(of.at(self.lengths) * self.fraction))

    def work(self, of: InputRange) -> float:
        """Return the work of a kernel, a value of its range chosen by `kernel_work`, in the range's unit."""
        return of.at(self.kernel_work)


class SpecCode(Protocol):
    """A benchmark of SPECaccel: `run` executes it on one host thread, `assumed` lists the inputs that it ran with."""

    async def run(self, t: omp.HostThread) -> None: ...

    def assumed(self) -> Assumed: ...


def array(t: omp.HostThread, name: str, nbytes: int, *, filled: bool) -> omp.HostArray:
    """Make an array of doubles, as the program's C arrays are. `filled` tells whether the host has written it."""
    return t.array(name, nbytes // DOUBLE, fill=0.0 if filled else None)


def sweep(t: omp.HostThread, kernel: Kernel, iterations: int, *arrays: omp.HostArray) -> omp.Construct:
    """Make a target region that maps these arrays and runs a kernel over `iterations` elements of them."""
    teams = min(MAX_TEAMS, max(1, -(-iterations // THREADS)))
    return t.construct_target(kernel, *arrays, teams=teams, threads=THREADS, iterations=iterations)


PAIR_BYTES = 2 * DOUBLE


@attrs.frozen
class Ep:
    """The benchmark Ep: kernels fill an array of `nbytes` with pairs of numbers and tally them, `chunks` times."""

    nbytes: int
    chunks: int
    flops: float
    """Flops for each pair."""
    efficiency: float
    """The fraction of the device's arithmetic peak that the kernels can reach."""
    step_numbers: StepNumbers = range
    """Called with the number of fillings; returns the numbers of those that are run."""

    @classmethod
    def of(cls, ends: Ends) -> Ep:
        """Make the benchmark Ep, with its kernels' work taken from its ranges at `ends`."""
        pairs = EP_BLOCKS * EP_BLOCK_PAIRS
        chunks = max(1, round(EP_PAIRS * ends.fraction / pairs))
        return cls(pairs * PAIR_BYTES, chunks, ends.work(EP_FLOPS), ends.work(EP_EFFICIENCY), ends.step_numbers)

    async def run(self, t: omp.HostThread) -> None:
        """Run the whole of Ep on one host thread."""
        numbers = array(t, "numbers", self.nbytes, filled=False)
        pairs = self.nbytes // PAIR_BYTES

        def kernel(name: str) -> Kernel:
            # Making and tallying get half of the flops each: only their sum is estimated.
            return Kernel(
                name, flops_per_iteration=self.flops / 2, bytes_per_iteration=PAIR_BYTES, efficiency=self.efficiency,
                threads_per_team=THREADS,
            )  # fmt: skip

        initialise = sweep(t, Kernel("initialise", bytes_per_iteration=PAIR_BYTES), pairs, numbers)
        make, tally = sweep(t, kernel("make numbers"), pairs, numbers), sweep(t, kernel("tally"), pairs, numbers)
        async with t.target_data(omp.map(alloc=numbers)):
            await t.run(initialise)
            for _ in self.step_numbers(self.chunks):
                await t.run(make)
                await t.run(tally)

    def assumed(self) -> Assumed:
        """Return the array's bytes, how often it is filled, and the kernels' work."""
        return {
            "array_bytes": self.nbytes,
            "chunks": self.chunks,
            "flops_per_pair": self.flops,
            "efficiency": self.efficiency,
        }


CELL_BYTES = 20 * DOUBLE
"""The bytes of a lattice cell: 19 densities and a flag."""
CELL_FLOPS = 250
"""The flops of a collision in the D3Q19 model."""


@attrs.frozen
class Lbm:
    """The benchmark Lbm: `steps` steps on two lattices of `lattice` bytes each, which the host writes first."""

    lattice: int
    steps: int
    traffic: float
    """The bytes that a step moves for each cell."""
    step_numbers: StepNumbers = range
    """Called with the number of steps; returns the numbers of those that are run."""

    @classmethod
    def of(cls, ends: Ends) -> Lbm:
        """Make the benchmark Lbm, with its inputs taken from their ranges at `ends`."""
        return cls(ends.size(LBM_LATTICE), ends.length(LBM_STEPS), ends.work(LBM_TRAFFIC), ends.step_numbers)

    async def run(self, t: omp.HostThread) -> None:
        """Run the whole of Lbm on one host thread."""
        source, target = (array(t, name, self.lattice, filled=True) for name in ("source", "target"))
        kernel = Kernel(
            "stream and collide", flops_per_iteration=CELL_FLOPS, bytes_per_iteration=self.traffic,
            threads_per_team=THREADS,
        )  # fmt: skip
        cells = self.lattice // CELL_BYTES
        steps = (sweep(t, kernel, cells, source, target), sweep(t, kernel, cells, target, source))
        async with t.target_data(omp.map(to=[source, target])):
            for step in self.step_numbers(self.steps):
                await t.run(steps[step % 2])

    def assumed(self) -> Assumed:
        """Return the bytes of a lattice, the number of steps, and the bytes moved per cell."""
        return {"lattice_bytes": self.lattice, "steps": self.steps, "bytes_per_cell": self.traffic}


UNKNOWNS = 5
FIELD_BYTES = UNKNOWNS * DOUBLE
"""Bytes of a cell in an array of all unknowns."""
SOLVES = 3
"""Calls of a time step: one function solves along each dimension, all with the same kernels on arrays of their own."""
STATE, RIGHT, FORCING, DERIVED = "state", "right-hand side", "forcing", "derived"
"""The fields, which are mapped for the whole run; `DERIVED` holds densities, velocities and such of each cell."""


@attrs.frozen
class CellSweep:
    """A kernel that runs over all cells: which arrays it uses (`uses`), and its flops and bytes of memory per cell."""

    name: str
    uses: tuple[str, ...]
    flops: float
    bytes: float
    lines: bool = False
    """Whether it sweeps only over the ends of a cube's lines; its work is then per line."""


def streamed(name: str, uses: tuple[str, ...], doubles: int, lines: bool = False) -> CellSweep:
    """Make a sweep (kernel) that the memory bandwidth limits. `doubles`: those read and written per cell, a flop each.

    uses: the arrays that it uses. lines: whether it touches only the ends of a cube's lines.
    """
    return CellSweep(name, uses, doubles, doubles * DOUBLE, lines)


def right_hand_side(derived: int, faces: int) -> tuple[CellSweep, ...]:
    """Make the kernels of `compute_rhs` and `add` (rhs.c and add.c), which a time step runs besides its solves.

    derived: the doubles of a cell in the array of derived fields (densities, velocities). faces: how many kernels, per
    direction, treat the cells in the two outer layers of the grid.
    """
    return (
        streamed("derive", (STATE, DERIVED), UNKNOWNS + derived),
        streamed("copy forcing", (FORCING, RIGHT), 2 * UNKNOWNS),
        *(
            streamed("fluxes", (STATE, DERIVED, RIGHT), 3 * UNKNOWNS + 6),
            *(streamed("dissipation of outer layers", (STATE, RIGHT), 5 * UNKNOWNS, True),) * faces,
            streamed("dissipation", (STATE, RIGHT), 3 * UNKNOWNS),
        )
        * SOLVES,
        streamed("scale", (RIGHT,), 2 * UNKNOWNS),
        streamed("add", (STATE, RIGHT), 3 * UNKNOWNS),
    )


@attrs.frozen
class Solver:
    """The benchmarks spC and bt: in each time step, kernels on the fields, and three calls of the solver's function.

    Each call has arrays on the stack. `cells` is the number of cells of the grid, `steps` the number of time steps.
    """

    cells: int
    steps: int
    derived: int
    """Doubles of a cell in the array `DERIVED` of derived fields, such as velocities."""
    stack: dict[str, int]
    """The bytes of a cell in each of the arrays on the stack."""
    sweeps: tuple[CellSweep, ...]
    """The kernels of a call."""
    outside: tuple[CellSweep, ...]
    """The kernels of a time step outside of the calls."""
    forget: Forget | None = None
    """Called with each stack array when the function returns; None, except in an ablation."""
    step_numbers: StepNumbers = range
    """Called with the number of time steps; returns the numbers of those that are run."""

    @property
    def calls(self) -> int:
        """Return the number of calls of the solver's function in all time steps."""
        return SOLVES * self.steps

    async def run(self, t: omp.HostThread) -> None:
        """Run the whole benchmark on one host thread. The fields stay mapped during all steps."""
        cells = self.cells
        state, forcing = (array(t, name, cells * FIELD_BYTES, filled=True) for name in (STATE, FORCING))
        right = array(t, RIGHT, cells * FIELD_BYTES, filled=False)
        derived = array(t, DERIVED, cells * self.derived * DOUBLE, filled=False)
        # The stack arrays are made once and keep their addresses, as the locals of a function do that is always called
        # from the same place. What stays in page tables after a return is therefore met again in the next call.
        stack = {name: array(t, name, cells * size, filled=False) for name, size in self.stack.items()}
        arrays = {each.name: each for each in (state, forcing, right, derived)} | stack
        kernels, outside = ([self._kernel(t, part, arrays) for part in parts] for parts in (self.sweeps, self.outside))
        frame = t.target_data(omp.map(alloc=list(stack.values())))
        fields = omp.map(tofrom=state), omp.map(to=forcing), omp.map(alloc=[right, derived])
        async with t.target_data(*fields):
            for _ in self.step_numbers(self.steps):
                for kernel in outside:
                    await t.run(kernel)
                for _ in range(SOLVES):
                    async with frame:
                        for kernel in kernels:
                            await t.run(kernel)
                    if self.forget is not None:
                        for local in stack.values():
                            self.forget(local)

    def _kernel(self, t: omp.HostThread, part: CellSweep, arrays: dict[str, omp.HostArray]) -> omp.Construct:
        kernel = Kernel(
            part.name, flops_per_iteration=part.flops, bytes_per_iteration=part.bytes, threads_per_team=THREADS
        )
        iterations = round(self.cells ** (2 / 3)) if part.lines else self.cells
        return sweep(t, kernel, iterations, *(arrays[name] for name in part.uses))

    def assumed(self) -> Assumed:
        """Return the inputs that the benchmark ran with, by name.

        ``calls``: of the solver's function, in all time steps. ``kernels_per_call``: of that function. ``cells``: of
        the grid. ``stack_arrays``, ``stack_bytes``, ``largest_stack_array_bytes``: the arrays on the stack of one call,
        their bytes together, and those of the largest.
        """
        return {
            "calls": self.calls,
            "kernels_per_call": len(self.sweeps),
            "cells": self.cells,
            "stack_arrays": len(self.stack),
            "stack_bytes": sum(self.stack.values()) * self.cells,
            "largest_stack_array_bytes": max(self.stack.values()) * self.cells,
        }


def spc(ends: Ends, forget: Forget | None = None) -> Solver:
    """Make the benchmark 457.spC, which solves scalar pentadiagonal systems in three arrays of five diagonals each.

    ends: the inputs' values in their ranges. forget: called with each array on the stack when a function returns.

    The public code of the same family (uhhpctools/openacc-npb a1980fb, SP/SP/adi.c, y_solve) has the paper's structure:
    a solve makes four arrays on its stack and runs thirteen kernels on them, six of which touch the ends of lines only.
    The bytes that each kernel of the time step moves were counted in that code; a neighbour's values come from caches.
    """
    plus_minus = ("lhs plus", "lhs minus")
    all_three = ("lhs", *plus_minus)
    stack = {**dict.fromkeys(all_three, FIELD_BYTES), "rho": DOUBLE}
    sweeps = (
        streamed("clear ends", all_three, 30, True),
        streamed("fill lhs", (DERIVED, "rho", "lhs"), 9),
        streamed("dissipation of first rows", ("lhs",), 14, True),
        streamed("dissipation of lhs", ("lhs",), 10),
        streamed("dissipation of last rows", ("lhs",), 14, True),
        streamed("fill acoustic factors", (*all_three, DERIVED), 16),
        streamed("eliminate", ("lhs", RIGHT), 15),
        streamed("eliminate last rows", ("lhs", RIGHT), 22, True),
        streamed("eliminate acoustic", (*plus_minus, RIGHT), 22),
        streamed("eliminate acoustic last rows", (*plus_minus, RIGHT), 28, True),
        streamed("substitute last rows", (*all_three, RIGHT), 18, True),
        streamed("substitute", (*all_three, RIGHT), 16),
        streamed("invert", (RIGHT,), 10),
    )
    outside = (*right_hand_side(7, 4), streamed("txinvr", (DERIVED, RIGHT), 16))
    cells, traffic = ends.size(SP_ARRAY) // FIELD_BYTES, ends.work(SP_TRAFFIC)
    moving = tuple([attrs.evolve(part, bytes=part.bytes * traffic) for part in sweeps])
    return Solver(cells, ends.length(SP_STEPS), 7, stack, moving, outside, forget, ends.step_numbers)


def bt(ends: Ends, forget: Forget | None = None) -> Solver:
    """Make the benchmark 470.bt, which solves block-tridiagonal systems with three 5 by 5 blocks per cell.

    ends: the inputs' values in their ranges. forget: called with each array on the stack when a function returns.

    The public code of the same family (uhhpctools/openacc-npb a1980fb, BT/BT/x_solve.c) has the paper's structure: a
    solve makes three arrays on its stack and runs ten kernels on them, six of which touch the ends of lines only. The
    bytes that each kernel moves were counted in that code; a neighbour's values come from caches. Its elimination and
    substitution read blocks side by side, and would be ten times shorter than the paper says; `BT_STRIDE` stands for
    the difference.
    """
    block = UNKNOWNS * UNKNOWNS * DOUBLE
    stack = {"blocks": 3 * block, "flux jacobian": block, "viscous jacobian": block}
    stride, jacobians = ends.work(BT_STRIDE), ("flux jacobian", "viscous jacobian")
    product, inversion, row = 2.0 * UNKNOWNS**3, 365.0, 2.0 * UNKNOWNS**2
    solved = ("blocks", RIGHT)
    sweeps = (
        CellSweep("jacobians", (*jacobians, STATE, DERIVED), 150, 2 * block + 8 * DOUBLE),
        CellSweep("clear ends", ("blocks",), 0, 6 * block, lines=True),
        CellSweep("diagonals of ends", ("blocks",), 0, 2 * UNKNOWNS * DOUBLE, lines=True),
        CellSweep("form blocks", ("blocks", *jacobians), 200, 5 * block),
        CellSweep("invert first blocks", solved, inversion, 4 * block + 2 * FIELD_BYTES, lines=True),
        CellSweep("eliminate", solved, row + product + inversion, stride * 4 * 3 * block + 2 * FIELD_BYTES),
        CellSweep("multiply last vectors", solved, row, block + 2 * FIELD_BYTES, lines=True),
        CellSweep("multiply last blocks", ("blocks",), product, 4 * block, lines=True),
        CellSweep("invert last blocks", solved, inversion / 2, 2 * block + 2 * FIELD_BYTES, lines=True),
        CellSweep("substitute", solved, row, stride * block + 2 * FIELD_BYTES),
    )
    outside, cells, steps = right_hand_side(6, 2), ends.size(BT_CELLS), ends.length(BT_STEPS)
    return Solver(cells, steps, 6, stack, sweeps, outside, forget, ends.step_numbers)


INITIALISE = Kernel("initialise", bytes_per_iteration=DOUBLE, threads_per_team=THREADS)
# A point's neighbours are taken to come from caches, so that one load and one store go to memory. That holds while
# three planes of the grid fit into the last-level cache; otherwise a sweep moves up to twice as much (three loads and a
# store).
JACOBI = Kernel("jacobi", flops_per_iteration=8, bytes_per_iteration=2 * DOUBLE, threads_per_team=THREADS)


@attrs.frozen
class Stencil:
    """The benchmark Stencil: two grids of `grid` bytes each. The host writes the first one, the device the second."""

    grid: int
    iterations: int
    step_numbers: StepNumbers = range
    """Called with the number of iterations; returns the numbers of those that are run."""

    @classmethod
    def of(cls, ends: Ends) -> Stencil:
        """Make the benchmark Stencil, with its inputs taken from their ranges at `ends`."""
        return cls(ends.size(STENCIL_GRID), ends.length(STENCIL_ITERATIONS), ends.step_numbers)

    async def run(self, t: omp.HostThread) -> None:
        """Run the whole of Stencil on one host thread."""
        old, new = array(t, "grid", self.grid, filled=True), array(t, "next grid", self.grid, filled=False)
        points = self.grid // DOUBLE
        initialise = sweep(t, INITIALISE, points, new)
        sweeps = (sweep(t, JACOBI, points, old, new), sweep(t, JACOBI, points, new, old))
        async with t.target_data(omp.map(tofrom=old), omp.map(alloc=new)):
            await t.run(initialise)
            for iteration in self.step_numbers(self.iterations):
                await t.run(sweeps[iteration % 2])

    def assumed(self) -> Assumed:
        """Return the bytes of a grid and the number of iterations."""
        return {"grid_bytes": self.grid, "iterations": self.iterations}


CODES: Final[dict[str, Callable[[Ends, Forget | None], SpecCode]]] = {
    "stencil": lambda ends, forget: Stencil.of(ends),
    "lbm": lambda ends, forget: Lbm.of(ends),
    "ep": lambda ends, forget: Ep.of(ends),
    "spC": spc,
    "bt": bt,
}


def code(name: str, ends: Ends | None = None, forget: Forget | None = None) -> SpecCode:
    """Return the benchmark of that name, with its inputs taken from their ranges at `ends`.

    `forget` is called with each stack array when a function returns; only spC and bt use it. Raises ValueError for an
    unknown name.
    """
    if name not in CODES:
        raise ValueError(f"{name}: there are {', '.join(CODES)}")
    return CODES[name](ends or Ends(), forget)
