"""Sizes, run lengths and kernel work of the SPECaccel 2023 codes, whose sources are not public.

What the paper states (its section V.B) is structure: how many copies, kernels between allocations, orders of magnitude
of the bytes. The rest are ranges. Two use claims of role `calibrate` (Table III: what allocations cost under Copy).
"""

from __future__ import annotations

from offloadrt.study.input_range import InputRange

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

EP_ARRAY = InputRange(
    2.7 * GIB, 27 * GIB, "B", "calibrated on mi300a.table3.ep.copy.mm: one allocation of 0.1 to 1 s at 37 ms per GiB",
    name="specaccel.ep_array",
)  # fmt: skip
EP_PAIRS = InputRange(
    2.0**38, 2.0**42, "pairs", "NPB EP: 2^36 pairs in class D, 2^40 in class E", name="specaccel.ep_pairs"
)
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
SP_CALLS = InputRange(
    100, 1600, "calls", "NPB SP: 400 iterations with a few calls each; a shorter run is typical",
    name="specaccel.sp_calls",
)  # fmt: skip

BT_CELLS = InputRange(
    3.4e6, 5.3e6, "cells", "NPB BT class C is 162 cubed; the largest allocation is above 2 GB",
    name="specaccel.bt_cells",
)  # fmt: skip
BT_CALLS = InputRange(
    60, 750, "calls", "NPB BT: 200 to 250 iterations of three solves; a shorter run is typical",
    name="specaccel.bt_calls",
)  # fmt: skip
BT_STRIDE = InputRange(
    8, 16, "bytes moved per byte used",
    "mi300a.spec.bt_kernel_ratio (role input): the longest kernel takes 0.3 of the largest allocation, with this range "
    "0.27 to 0.54. As if strided, 64 to 128 B for each double; the public code's blocks lie side by side",
    name="specaccel.bt_stride",
)  # fmt: skip

DOUBLE = 8
THREADS = 256
"""Threads of a team: LLVM's default on AMD devices."""
MAX_TEAMS = 1 << 20
