"""ExaHyPE: finite-volume patches of a hyperbolic solver, offloaded in batches by many host threads.

Source: Wille, Weinzierl, Brito Gadeschi, Bader, "Efficient GPU Offloading with OpenMP for a Hyperbolic Finite Volume
Solver on Dynamically Adaptive Meshes".

`equations`   Euler in two and three dimensions, CCZ4: unknowns and patch sizes
`geometry`    a patch: shapes and bytes in, out and temporary
`euler`       the Rusanov update of a gamma-law gas, as a kernel body over a batch of patches
`reference`   the same update of one patch in plain NumPy
`domain`      a periodic box of patches with real numbers: halos, time step, mass
`costs`       operations and bytes per volume of the kernels
`kernels`     the kernels themselves and their launch configuration
`setup`       the parameters of an experiment, checked
`algorithms`  Algorithm 1 (map clauses) and Algorithm 2 (GPU memory manager)
`unified_memory`  Algorithm 2 on managed memory
`gathering`   the host's copies of patches into a block and out of it
`arrival`     all threads at once, or pooled enclave tasks
`experiment`  the parallel region that updates all patches once
"""

from __future__ import annotations

from offloadrt.papers.exahype.program.experiment import Experiment, Updated
from offloadrt.papers.exahype.program.kernels import Setup

__all__ = ["Experiment", "Setup", "Updated"]
