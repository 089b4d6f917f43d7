"""What one experiment runs: equations, patches, batches, threads, and how memory reaches the device.

Every value is an input that the paper states or that the user chooses. Mistakes are reported here, before anything
runs.
"""

from __future__ import annotations

from typing import Literal, TypeVar

import attrs

from offloadrt.papers.exahype.program.equations import EQUATIONS, Equations
from offloadrt.papers.exahype.program.geometry import PatchGeometry
from offloadrt.study.errors import ParameterError

Scaling = Literal["weak", "strong"]
Memory = Literal["map", "pool", "managed", "managed+prefetch"]
Temporaries = Literal["managed", "device"]
Gather = Literal["batch", "patch"]
Arrival = Literal["burst", "enclave"]
KernelRange = Literal["low", "mean", "high"]

_Name = TypeVar("_Name", bound=str)


@attrs.frozen
class Setup:
    """One experiment. `create` checks what a user gives.

    Wide because it has one field for each parameter of the paper's experiments.
    """

    equations: Equations
    geometry: PatchGeometry
    batch: int
    """Patches that one offload takes to the device (|P_GPU| in the paper); the last batch may be smaller."""
    threads: int
    patches: int
    """Patches per thread when scaling is weak, all patches when it is strong."""
    scaling: Scaling
    memory: Memory
    gather: Gather
    """Pool only: a batch goes over in one copy of a block gathered on the host, or in a copy per patch."""
    temporaries: Temporaries
    """For managed memory only: whether the kernel's temporaries are managed blocks too, as the paper's manager has one
    flavour, or device memory, which is best for data that the host never sees. The paper does not say.
    """
    arrival: Arrival
    devices: int
    phantom: bool
    kernel_work: KernelRange
    """Where the ranges of the kernels' work are taken."""

    @classmethod
    def create(
        cls,
        *,
        equations: str = "euler2d",
        patch: int | None = None,
        batch: int = 16,
        threads: int = 8,
        patches: int = 100,
        scaling: str = "weak",
        memory: str = "map",
        gather: str = "batch",
        temporaries: str = "managed",
        arrival: str = "burst",
        devices: int = 1,
        phantom: bool = True,
        kernel_work: str = "mean",
    ) -> Setup:
        """Check the parameters and make the experiment that they describe. Raises ParameterError."""
        name = _choice("equations", equations, *EQUATIONS)
        system = EQUATIONS[name]
        if system.phantom_only and not phantom:
            raise ParameterError(
                "phantom", f"{equations} is modelled by its sizes and its work only: it runs with phantom=true"
            )
        for counted, number in (("batch", batch), ("threads", threads), ("patches", patches), ("devices", devices)):
            if number < 1:
                raise ParameterError(counted, f"{number} is less than 1")
        try:
            geometry = system.geometry(patch)
        except ValueError as error:
            raise ParameterError("patch", str(error)) from None
        return cls(
            system,
            geometry,
            batch,
            threads,
            patches,
            _choice("scaling", scaling, "weak", "strong"),
            _choice("memory", memory, "map", "pool", "managed", "managed+prefetch"),
            _choice("gather", gather, "batch", "patch"),
            _choice("temporaries", temporaries, "managed", "device"),
            _choice("arrival", arrival, "burst", "enclave"),
            devices,
            phantom,
            _choice("kernel_work", kernel_work, "low", "mean", "high"),
        )

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


def _choice(parameter: str, given: str, *choices: _Name) -> _Name:
    for choice in choices:
        if given == choice:
            return choice
    raise ParameterError(parameter, f"{given} is none of {', '.join(choices)}")
