"""ExaHyPE's finite-volume patches, offloaded to one GPU by many host threads (the paper's stress test)."""

from __future__ import annotations

from typing import Annotated, Literal

from offloadrt import Range, Run, scenario
from offloadrt.papers.exahype.program import Experiment, Setup
from offloadrt.papers.figures import figures_of

FIGURES = figures_of("exahype")


@scenario(
    machine="alex-a100",
    runtime="nvhpc",
    figure=FIGURES["exahype"],
    sweep={"threads": (1, 2, 4, 8, 16, 32, 64, 128), "batch": (1, 4, 16), "memory": ("map", "pool", "managed")},
)
async def exahype(
    run: Run,
    equations: Literal["euler2d", "euler3d", "ccz4"] = "euler2d",
    patch: int | None = None,
    batch: Annotated[int, Range(1, None)] = 16,
    threads: Annotated[int, Range(1, 4096)] = 8,
    patches: Annotated[int, Range(1, 1 << 20)] = 100,
    scaling: Literal["weak", "strong"] = "weak",
    memory: Literal["map", "pool", "managed", "managed+prefetch"] = "map",
    gather: Literal["batch", "patch"] = "batch",
    temporaries: Literal["managed", "device"] = "managed",
    arrival: Literal["burst", "enclave"] = "burst",
    devices: Annotated[int, Range(1, 64)] = 1,
    phantom: bool = True,
    allocator: Literal["llvm", "direct"] = "llvm",
    kernel_work: Literal["low", "mean", "high"] = "mean",
    warm_up: bool = False,
) -> dict[str, float | int | bool]:
    """Many host threads offload batches of ExaHyPE's patches to one GPU.

    Each batch goes to the device, is updated by one kernel (a team per patch) and comes back, by map clauses
    (Algorithm 1), through a host-side GPU memory manager (Algorithm 2), or in managed memory. With phantom=false the
    Euler equations are really solved and the result is compared with a plain NumPy reference, bit by bit.

    Parameters:
        equations: Euler in two or three dimensions, or CCZ4 (sizes and work only)
        patch: volumes per dimension of a patch: 17 in two dimensions, 5 or 9 in three; none takes the first of them
        batch: patches per offload; the last batch may be smaller
        threads: host threads that offload at the same time
        patches: patches per thread when scaling is weak, in all when it is strong
        scaling: weak gives every thread the same work, strong divides one amount of work
        memory: `map` uses map clauses, `pool` the GPU memory manager; with `managed` its blocks are managed memory,
            into which the host copies and whose pages migrate by faults; with `managed+prefetch` by prefetches
        gather: with the pool, one copy of patches gathered on the host, or one copy per patch
        temporaries: with managed memory, the kernel's temporaries are managed blocks as well, or device memory
        arrival: `burst` lets all threads offload at once, `enclave` pools tasks until a batch is full
        devices: GPUs that the threads take in turn
        phantom: sizes without numbers; false computes real ones (Euler only)
        allocator: how the OpenMP runtime obtains device blocks: LLVM's buckets, or one driver call each
        kernel_work: end of the stated ranges of the kernels' work (CCZ4)
        warm_up: offload all patches before the measured time, until the pool needs no new blocks
    """
    setup = Setup.create(
        equations=equations,
        patch=patch,
        batch=batch,
        threads=threads,
        patches=patches,
        scaling=scaling,
        memory=memory,
        gather=gather,
        temporaries=temporaries,
        arrival=arrival,
        devices=devices,
        phantom=phantom,
        kernel_work=kernel_work,
    )
    experiment = Experiment(run.openmp, setup)
    if warm_up:
        await experiment.warm_up()
    async with run.measure():
        updated = await experiment.update()
    return {
        "time_per_volume_s": run.elapsed / setup.total_volumes,
        "time_per_volume_per_thread_s": run.elapsed / setup.volumes_per_thread,
        **updated.measured(),
    }
