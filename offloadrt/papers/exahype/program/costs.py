"""The work of ExaHyPE's kernels per volume: operations and bytes, which `machine` turns into time.

Euler: counted on this program's own Rusanov update (`euler`); a test runs that arithmetic on tallies and compares. An
addition, product, quotient, square root, absolute value or maximum is one operation.
CCZ4: its right-hand side is not reproduced here; operations and the efficiency of code that spills registers are stated
ranges, which run at their geometric mean. No measured run time enters.
"""

from __future__ import annotations

import attrs

from offloadrt.papers.exahype.program.equations import Equations
from offloadrt.papers.exahype.program.geometry import PatchGeometry
from offloadrt.study.input_range import InputRange


@attrs.frozen
class KernelWork:
    """What one volume's update costs a device, apart from any machine."""

    flops_per_volume: float
    bytes_per_volume: float
    efficiency: float
    """Share of the device's arithmetic peak that the code can reach; 1 when nothing is known to hold it back."""
    registers_per_thread: int
    loads_in_flight: float
    """Loads for which a thread waits at once."""


CCZ4_FLOPS = InputRange(
    2e4, 5e4, "flop/volume", "engineering estimate from the size of CCZ4's right-hand side", name="exahype.ccz4_flops"
)
CCZ4_EFFICIENCY = InputRange(
    0.02, 0.05, "of peak", "engineering estimate: register spilling (paper, section 2)", name="exahype.ccz4_efficiency"
)

CCZ4_LOADS = InputRange(
    1, 59, "loads", "from one value after the other to all unknowns of a volume at once", name="exahype.ccz4_loads"
)

MAX_REGISTERS = 255
"""The most registers that the hardware gives a thread; code that spills uses them all."""

EULER_REGISTERS = 64
"""Two states, two fluxes and a few scalars of doubles at two registers each."""


def euler_flops_per_face(dimensions: int) -> int:
    """Count the operations of Rusanov's numerical flux at one face.

    Each side: pressure (2d + 3), velocity (1), flux (d products, the pressure, 2 for the energy), speed (5). Then the
    larger speed and its half (2), and for each unknown the mean flux less the dissipation (5).
    """
    per_side = (2 * dimensions + 3) + 1 + (dimensions + 3) + 5
    return 2 * per_side + 2 + 5 * (dimensions + 2)


def euler_flops_per_update(dimensions: int) -> int:
    """Count the operations that advance all unknowns of one volume from its face fluxes."""
    return (dimensions + 2) * (2 * dimensions - 1 + 2)


def bytes_per_volume(geometry: PatchGeometry) -> float:
    """Return the device memory traffic of a patch divided by its volumes.

    The patch with halo is read once, the temporaries are written and read once, the result is written once.
    """
    # Counted as if caches kept a patch while its team works on it, so that a volume which several stencils load comes
    # from memory once, and as if they did not keep the temporaries.
    return (geometry.input_bytes + 2 * geometry.temporary_bytes + geometry.output_bytes) / geometry.volumes


def kernel_work(equations: Equations, geometry: PatchGeometry, where: str = "mean") -> KernelWork:
    """Return the work per volume of the update kernel; `where` says where ranges are taken: low, mean or high."""
    traffic = bytes_per_volume(geometry)
    if equations.phantom_only:
        flops, efficiency, loads = CCZ4_FLOPS.at(where), CCZ4_EFFICIENCY.at(where), CCZ4_LOADS.at(where)
        return KernelWork(flops, traffic, efficiency, MAX_REGISTERS, loads)
    d = geometry.dimensions
    flops = geometry.faces * euler_flops_per_face(d) / geometry.volumes + euler_flops_per_update(d)
    # A face's flux needs the states of both its volumes, and none of their unknowns' addresses depends on another.
    return KernelWork(flops, traffic, 1.0, EULER_REGISTERS, 2.0 * equations.unknowns)
