"""The update kernels: one team per patch of the batch, its threads over the volumes (the paper's section 4).

`scattered` follows a list of device pointers to patches (Algorithm 1), `gathered` walks one block that holds the batch
(Algorithm 2). Both run `euler.update_batch`, so that the numbers do not depend on how memory was managed.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from offloadrt.kernels import Kernel
from offloadrt.papers.exahype.program.costs import KernelWork, kernel_work
from offloadrt.papers.exahype.program.euler import update_batch
from offloadrt.papers.exahype.program.geometry import PatchGeometry
from offloadrt.papers.exahype.program.setup import Setup

Doubles = NDArray[np.float64]

MAX_THREADS_PER_TEAM = 1024
"""Threads that a team may have on the devices at hand."""

REGISTERS_PER_MULTIPROCESSOR = 65536
"""Registers that the compiler may count on when it chooses the threads of a team (as launch bounds do)."""

WARP = 32


@attrs.frozen
class UpdateKernels:
    """The two kernels of one experiment and the launch configuration they share."""

    scattered: Kernel
    gathered: Kernel
    threads: int
    """Threads of a team: one per volume, as far as the registers of a multiprocessor reach."""

    @classmethod
    def of(cls, setup: Setup) -> UpdateKernels:
        """Make the kernels of `setup`."""
        geometry = setup.geometry
        work = kernel_work(setup.system, geometry, setup.kernel_work)
        threads = threads_per_team(geometry, work)

        def scattered(patches: list[Doubles], temporaries: Doubles, dt_over_dx: float) -> None:
            results = [patch[: geometry.output_values] for patch in patches]
            update_batch(geometry, patches, results, temporaries, dt_over_dx)

        def gathered(block: Doubles, temporaries: Doubles, dt_over_dx: float) -> None:
            patches, results = split_block(geometry, block)
            update_batch(geometry, patches, results, temporaries, dt_over_dx)

        def kernel(name: str, body: Any) -> Kernel:
            return Kernel(
                f"{setup.system.name} {name}",
                None if setup.system.phantom_only else body,
                flops_per_iteration=work.flops_per_volume,
                bytes_per_iteration=work.bytes_per_volume,
                threads_per_team=threads,
                registers_per_thread=work.registers_per_thread,
                efficiency=work.efficiency,
                loads_in_flight=work.loads_in_flight,
            )

        return cls(kernel("update of scattered patches", scattered), kernel("update of a block", gathered), threads)


def threads_per_team(geometry: PatchGeometry, work: KernelWork) -> int:
    """Return one thread per volume, but no more than a team may have or than find registers, in whole warps then."""
    by_registers = REGISTERS_PER_MULTIPROCESSOR // (work.registers_per_thread * WARP) * WARP
    return min(geometry.volumes, MAX_THREADS_PER_TEAM, by_registers)


def block_values(geometry: PatchGeometry, patches: int) -> int:
    """Return the doubles of a gathered block: the patches with their halos, then room for the updated ones."""
    return patches * (geometry.input_values + geometry.output_values)


def split_block(geometry: PatchGeometry, block: Doubles) -> tuple[list[Doubles], list[Doubles]]:
    """Split a gathered block into its patches and its results, each as a flat view per patch."""
    count = len(block) // (geometry.input_values + geometry.output_values)
    border = count * geometry.input_values
    return list(block[:border].reshape(count, -1)), list(block[border:].reshape(count, -1))
