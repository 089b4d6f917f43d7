"""BFS, CFD (euler3d) and SRAD v2 of Rodinia as OpenMP offloading programs, at any size.

Source: Li and Chapman, "Compiler Assisted Hybrid Implicit and Explicit GPU Memory Management under Unified Address
Space" (OTM), section 3; loops, map clauses and array shapes are those of the public offloading versions
(yuhc/gpu-rodinia), the kernels are written anew as loop nests.

`bfs`       random graphs, and a frontier kernel and an update kernel a level, until nothing is reached any more
`cfd`       an Euler solver on an unstructured mesh: eight kernels an iteration
`srad`      speckle-reducing diffusion of an image, with statistics on the host every iteration
`inputs`    what the authors leave open, as ranges and choices
"""

from __future__ import annotations

from offloadrt.papers.otm.rodinia.bfs import Bfs
from offloadrt.papers.otm.rodinia.cfd import Cfd
from offloadrt.papers.otm.rodinia.inputs import CFD_ITERATIONS, CONFIGURATIONS, SRAD_ITERATIONS, Mesh, Structure
from offloadrt.papers.otm.rodinia.srad import Srad

__all__ = ["CFD_ITERATIONS", "CONFIGURATIONS", "SRAD_ITERATIONS", "Bfs", "Cfd", "Mesh", "Srad", "Structure"]
