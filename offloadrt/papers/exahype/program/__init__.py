"""ExaHyPE: finite-volume patches of a hyperbolic solver, offloaded in batches by many host threads.

Source: Wille, Weinzierl, Brito Gadeschi, Bader, "Efficient GPU Offloading with OpenMP for a Hyperbolic Finite Volume
Solver on Dynamically Adaptive Meshes".

`kernels` a patch's shapes and bytes, the Rusanov update as a kernel body, operations and bytes of the kernels, the
parameters of an experiment `experiment` a periodic box of patches; Algorithm 1 (map clauses) and Algorithm 2 (GPU
memory manager, for device or managed memory); the parallel region that updates all patches once
"""

from __future__ import annotations

from offloadrt.papers.exahype.program.experiment import Experiment, Updated
from offloadrt.papers.exahype.program.kernels import Setup

__all__ = ["Experiment", "Setup", "Updated"]
