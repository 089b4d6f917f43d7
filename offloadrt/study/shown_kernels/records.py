"""What `offloadrt kernels --json` prints."""

from __future__ import annotations

import attrs

from offloadrt.kernels import ArrayUse, Kernel


@attrs.frozen
class ArrayUseRecord:
    """What an iteration of a kernel does with an array; `laf` is its local access frequency, loads and stores."""

    name: str
    reads: float
    writes: float
    laf: float
    elements_read: float
    elements_written: float
    bytes: float
    pattern: str
    level: int

    @classmethod
    def of(cls, use: ArrayUse) -> ArrayUseRecord:
        """Describe the use of an array."""
        return cls(**{field.name: getattr(use, field.name) for field in attrs.fields(cls)})


@attrs.frozen
class KernelRecord:
    """A kernel: where it stands (None when it is declared by its costs), its costs per iteration, and its arrays."""

    name: str
    file: str | None
    line: int | None
    flops_per_iteration: float
    bytes_per_iteration: float
    arrays: list[ArrayUseRecord]
    guessed: list[str]

    @classmethod
    def of(cls, kernel: Kernel) -> KernelRecord:
        """Describe a kernel."""
        found = kernel.analysis
        if found is None:
            costs = kernel.flops_per_iteration, kernel.bytes_per_iteration
            return cls(kernel.name, None, None, *costs, [ArrayUseRecord.of(use) for use in kernel.arrays], [])
        arrays = [ArrayUseRecord.of(use) for use in found.arrays]
        return cls(kernel.name, found.file, found.line, found.flops, found.bytes, arrays, list(found.guessed))


@attrs.frozen
class ObjectRecord:
    """An object of a host function, with its rank by global access frequency (`gaf`)."""

    host: str
    name: str
    rank: int
    gaf: float


@attrs.frozen
class KernelsRecord:
    """What `kernels` prints; `unread` are the host functions whose source cannot be read, and why."""

    kernels: list[KernelRecord]
    objects: list[ObjectRecord]
    unread: list[str]
