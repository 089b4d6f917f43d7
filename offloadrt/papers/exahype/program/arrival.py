"""How batches come about: all threads offload at once, or tasks are pooled until a batch is full.

`burst` is the paper's stress test (section 3): every thread owns its patches, cut into batches, and offloads them one
after another; all threads start together. `enclave` is how ExaHyPE runs: each thread spawns one task per patch into a
queue shared by all, and whichever thread finds the threshold of one batch reached deploys that batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import attrs

from offloadrt.models import openmp as omp
from offloadrt.papers.exahype.program.algorithms import Offload

MakePatch = Callable[[omp.HostThread, int], omp.HostArray]
"""The host array of the patch with this number, allocated by this thread."""


async def burst(t: omp.HostThread, offload: Offload, batches: Sequence[range], make_patch: MakePatch) -> list[int]:
    """Offload this thread's `batches` one after another; returns the sizes of the batches."""
    patches = [[make_patch(t, number) for number in batch] for batch in batches]
    for batch in patches:
        await offload(batch)
    return [len(batch) for batch in patches]


@attrs.define
class EnclaveQueue:
    """The queue of pooled tasks that all threads of a rank share.

    Emulated threads change only where they wait, so putting and taking need no lock; a real queue's lock is short.
    """

    threshold: int
    """Tasks that make a batch."""
    producing: int
    """The number of threads that still spawn tasks."""
    tasks: deque[omp.HostArray] = attrs.field(factory=deque)

    def take(self) -> list[omp.HostArray]:
        """Take a batch if the threshold is reached, or what is left when nobody spawns any more; otherwise nothing."""
        if len(self.tasks) < self.threshold and self.producing:
            return []
        return [self.tasks.popleft() for _ in range(min(self.threshold, len(self.tasks)))]


async def enclave(
    t: omp.HostThread,
    offload: Offload,
    batches: Sequence[range],
    make_patch: MakePatch,
    queue: EnclaveQueue,
    spawn_s: float,
) -> list[int]:
    """Spawn this thread's patches as tasks (`spawn_s` seconds each) and deploy batches as they fill.

    Returns the sizes of the batches that this thread deployed.
    """
    patches = [make_patch(t, number) for batch in batches for number in batch]
    deployed: list[int] = []
    for patch in patches:
        await t.compute(spawn_s)
        queue.tasks.append(patch)
        if batch := queue.take():
            deployed.append(len(batch))
            await offload(batch)
    queue.producing -= 1
    while batch := queue.take():
        deployed.append(len(batch))
        await offload(batch)
    return deployed
