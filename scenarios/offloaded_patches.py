"""Do more host threads help that offload small patches to one GPU, by how the memory on the device is had?"""

from __future__ import annotations

from statistics import median
from typing import Annotated

from offloadrt import Range, Run, cuda, scenario
from offloadrt.papers.independent.programs.patches import PatchMemory, PatchOffloads
from offloadrt.study.scripts.parameters import Value

LISTED_AS = "single mechanisms"

ROUNDS = 5
"""Of which the median counts, after one that does not, as in the program."""


@scenario(
    machine="h200-vm",
    sweep={"threads": (1, 2, 4, 8, 16, 32, 64), "batch": (1, 4, 16), "memory": ("map", "pool", "managed")},
)
async def offloaded_patches(
    run: Run,
    memory: PatchMemory = "pool",
    threads: Annotated[int, Range(1, 1024)] = 1,
    batch: Annotated[int, Range(1, 100_000)] = 4,
    patches: Annotated[int, Range(1, 100_000)] = 48,
    patch_bytes: Annotated[int, Range(8, 1 << 32)] = 11552,
    volumes: Annotated[int, Range(1, 1_000_000)] = 289,
    flops: Annotated[int, Range(0, 10_000_000)] = 500,
) -> dict[str, Value]:
    """Each host thread has patches updated by the GPU in batches, in a stream of its own, and waits for each batch.

    All do so together, round after round. It is what `bench/hardware/offload.cu` does on a real GPU.

    Parameters:
        memory: map (cudaMalloc and cudaFree for each patch), pool (blocks that are kept), managed (kept blocks of
            managed memory, into which the host copies)
        threads: host threads
        batch: patches of a kernel, which has a team for each
        patches: of a thread
        patch_bytes: of a patch
        volumes: of a patch
        flops: of the update of a volume
    """
    run.options = cuda.CUDAOptions(phantom=True)
    offloads = PatchOffloads(memory, batch, patches, patch_bytes, volumes, flops)
    rounds = []
    for _ in range(1 + ROUNDS):
        begin = run.sim.now
        await run.parallel(offloads.of_thread, threads)
        rounds.append(run.sim.now - begin)
    round_s = median(rounds[1:])
    return {"round_s": round_s, "per_volume_s": round_s / (threads * patches * volumes)}
