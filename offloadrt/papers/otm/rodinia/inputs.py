"""What the OTM paper leaves open of its three Rodinia programs.

The paper says "inputs of various sizes" and gives no lengths of runs. Levels of BFS are no input: a random graph of the
generator that comes with Rodinia decides them.
"""

from __future__ import annotations

from typing import Final, Literal

from offloadrt.study.inputs import InputRange

CFD_ITERATIONS: Final = InputRange(
    1, 2000, "iterations",
    "2000 in the public source; the paper does not say, and 2000 at 20 GB of managed memory would take hours",
    name="rodinia.cfd_iterations", affordable=20,
)  # fmt: skip
SRAD_ITERATIONS: Final = InputRange(
    2, 100, "iterations", "2 in the public run file of the OpenMP version, 100 in the usual command of SRAD v1",
    name="rodinia.srad_iterations", affordable=20,
)  # fmt: skip
SRAD_REGION: Final = 128
"""Rows and columns of the region that the host reads every iteration (public run file: 0 to 127)."""
LAMBDA: Final = 0.5
"""SRAD's update rate (public run file)."""

CONFIGURATIONS: Final = {"explicit": "copy", "um": "managed", "otm": "otm"}
"""The memory configuration of each of the paper's placements."""

Structure = Literal["data", "plain"]
"""Where the map clauses are.

data: one `target data` around the loop, as in the public BFS; plain: only the target regions have clauses, and each
maps what it uses, tofrom.
"""
Mesh = Literal["ordered", "random"]
"""CFD's numbering of elements. ordered: neighbours have numbers that lie near, as mesh generators and bandwidth
reduction leave them; random: they may have any.
"""

ALIGNMENT: Final = 2 << 20
"""The alignment of large arrays: managed allocations of this size share no block."""
THREADS: Final = 128
"""Threads of a team: clang's default on NVIDIA devices."""
