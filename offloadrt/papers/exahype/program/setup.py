"""What one experiment runs: equations, patches, batches, threads, and how memory reaches the device.

Every value is an input that the paper states or that the user chooses. Mistakes are reported here, before anything
runs.
"""

from __future__ import annotations

import functools
from typing import Annotated, Literal

import attrs

from offloadrt.papers.exahype.program.equations import EQUATIONS, Equations, Name
from offloadrt.papers.exahype.program.geometry import PatchGeometry
from offloadrt.study.errors import ParameterError
from offloadrt.study.scripts.parameters import Range, check_fields

Scaling = Literal["weak", "strong"]
Memory = Literal["map", "pool", "managed", "managed+prefetch"]


@attrs.frozen(kw_only=True)
class Setup:
    """One experiment: the parameters of a scenario. Raises ParameterError for those that do not go together."""

    equations: Annotated[Name, "Euler in two or three dimensions, or CCZ4 (sizes and work only)"] = "euler2d"
    patch: Annotated[
        int | None,
        "volumes per dimension of a patch: 17 in two dimensions, 5 or 9 in three; none takes the first of them",
    ] = None
    batch: Annotated[int, Range(1, None), "patches per offload; the last batch may be smaller"] = 16
    """|P_GPU| in the paper."""
    threads: Annotated[int, Range(1, 4096), "host threads that offload at the same time"] = 8
    patches: Annotated[int, Range(1, 1 << 20), "patches per thread when scaling is weak, in all when it is strong"] = (
        100
    )
    scaling: Annotated[Scaling, "weak gives every thread the same work, strong divides one amount of work"] = "weak"
    memory: Annotated[
        Memory,
        "`map` uses map clauses, `pool` the GPU memory manager; with `managed` its blocks are managed memory, into "
        "which the host copies and whose pages migrate by faults; with `managed+prefetch` by prefetches",
    ] = "map"
    gather: Annotated[
        Literal["batch", "patch"],
        "with the pool, one copy of patches gathered on the host, or one copy per patch",
    ] = "batch"
    temporaries: Annotated[
        Literal["managed", "device"],
        "with managed memory, the kernel's temporaries are managed blocks as well, or device memory",
    ] = "managed"
    """The paper's manager has one flavour; device memory is best for data that the host never sees. It does not say."""
    arrival: Annotated[
        Literal["burst", "enclave"],
        "`burst` lets all threads offload at once, `enclave` pools tasks until a batch is full",
    ] = "burst"
    devices: Annotated[int, Range(1, 64), "GPUs that the threads take in turn"] = 1
    phantom: Annotated[bool, "sizes without numbers; false computes real ones (Euler only)"] = True
    kernel_work: Annotated[Literal["low", "mean", "high"], "end of the stated ranges of the kernels' work (CCZ4)"] = (
        "mean"
    )

    def __attrs_post_init__(self) -> None:
        check_fields(self)
        if self.system.phantom_only and not self.phantom:
            raise ParameterError(
                "phantom", f"{self.equations} is modelled by its sizes and its work only: it runs with phantom=true"
            )
        try:
            self.geometry  # noqa: B018  # computed now, so that a wrong patch is refused before anything runs
        except ValueError as error:
            raise ParameterError("patch", str(error)) from None

    @property
    def system(self) -> Equations:
        """Return the system of equations."""
        return EQUATIONS[self.equations]

    @functools.cached_property
    def geometry(self) -> PatchGeometry:
        """Return the geometry of a patch."""
        return self.system.geometry(self.patch)

    @property
    def migrates(self) -> bool:
        """Tell whether batches migrate in managed memory."""
        return self.memory in ("managed", "managed+prefetch")

    @property
    def total_patches(self) -> int:
        """Return the number of patches that all threads update together."""
        return self.patches * self.threads if self.scaling == "weak" else self.patches

    @property
    def total_volumes(self) -> int:
        """Return the volume updates of the whole experiment."""
        return self.total_patches * self.geometry.volumes

    @property
    def volumes_per_thread(self) -> float:
        """Return one thread's share of the volume updates."""
        return self.total_volumes / self.threads

    def shares(self) -> list[list[range]]:
        """Return the batches of each thread, as ranges of patch numbers.

        Weak: a thread's patches follow one another and are cut into batches. Strong: all patches are cut into batches,
        which the threads take in turn (the paper's section 5: a fixed number of patches is split into chunks).
        """
        if self.scaling == "weak":
            own = [range(k * self.patches, (k + 1) * self.patches) for k in range(self.threads)]
            return [_cut(patches, self.batch) for patches in own]
        chunks = _cut(range(self.patches), self.batch)
        return [chunks[k :: self.threads] for k in range(self.threads)]


def _cut(patches: range, batch: int) -> list[range]:
    return [patches[start : start + batch] for start in range(0, len(patches), batch)]
