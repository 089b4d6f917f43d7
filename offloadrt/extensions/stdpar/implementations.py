"""Implementations of C++ standard parallelism, and other versions of a program with which they are compared.

=============  ========================================================================================================
``acpp``       AdaptiveCpp's stdpar: memory pool, synchronization elision, prefetches, offload heuristic
``nvcpp``      NVIDIA's ``nvc++ -stdpar=gpu``, on CUDA and Thrust
``rocstdpar``  AMD's ``--hipstdpar``, on HIP and rocThrust
``icpx``       Intel's ``-fsycl-pstl-offload``, on SYCL and oneDPL
``sycl``       the program in SYCL under AdaptiveCpp, with device memory and copies of its own
``native``     the program in the machine's own model (CUDA, HIP, SYCL), with device memory and copies of its own
``host``       the host's parallel algorithms, which offload nothing
=============  ========================================================================================================

Features are taken from the table "Optimizations: Comparison" of the paper on AdaptiveCpp's stdpar, and what happens
with host pointers and frees from its section on correctness. What the table leaves open is named in
`Implementation.open`.
"""

from __future__ import annotations

import enum
import importlib.resources
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Final

import attrs
import msgspec

from offloadrt.address_map import AddressMap
from offloadrt.extensions.stdpar.elision import ALGORITHMS, ExecutionPolicy
from offloadrt.extensions.stdpar.heuristic import HeuristicRules
from offloadrt.machine import MachineSpec
from offloadrt.models.host.program import ProgramOptions, has_devices

NEVER = -1
"""The value of `Allocation.most_recent_batch` for an allocation that was never prefetched."""


@attrs.define(eq=False)
class Allocation:
    """An allocation of the bytes [root, root + size).

    root: the address of the first byte. size: the number of bytes. most_recent_batch: the number of the last batch for
    which the allocation was prefetched; a batch is what a thread submits between two waits.
    """

    root: int = attrs.field(on_setattr=attrs.setters.frozen)
    size: int = attrs.field(on_setattr=attrs.setters.frozen)
    most_recent_batch: int = NEVER

    @property
    def end(self) -> int:
        return self.root + self.size


class AllocationMap:
    """The allocations of a program that exist now, each found by any address in it; they do not overlap."""

    def __init__(self) -> None:
        self._allocations: AddressMap[Allocation] = AddressMap()

    def __len__(self) -> int:
        return len(self._allocations)

    def __iter__(self) -> Iterator[Allocation]:
        """Yield the allocations in order of their addresses."""
        return iter(self._allocations)

    def add(self, address: int, size: int) -> Allocation:
        """Add and return a new allocation of `size` bytes that begins at `address`.

        Raises ValueError if `size` is below 1 or the allocation overlaps another one.
        """
        if size < 1:
            raise ValueError(f"an allocation at {address:#x} has {size} bytes; it has at least one")
        before = self._allocations.before(address + size - 1)
        if before is not None and before[1].end > address:
            raise ValueError(
                f"an allocation of {size} bytes at {address:#x} lies over the {before[1].size} bytes at {before[0]:#x}"
            )
        allocation = self._allocations[address] = Allocation(address, size)
        return allocation

    def remove(self, address: int) -> Allocation | None:
        """Remove and return the allocation that begins at `address`; None where none begins."""
        return self._allocations.pop(address)

    def find(self, address: int) -> Allocation | None:
        """Return the allocation that contains the byte at `address`; None where there is none."""
        before = self._allocations.before(address)
        return before[1] if before is not None and address < before[1].end else None


class PrefetchMode(enum.Enum):
    """When allocations are prefetched to the device (``ACPP_STDPAR_PREFETCH_MODE``).

    NEVER: not at all. FIRST: before the first kernel that uses the allocation. ALWAYS: before every kernel that uses
    it, or before the first one in each batch (`AlwaysReading`); a batch is what a thread submits between two waits.
    AFTER_SYNC: once in a batch, and only for the first operation after a wait.
    """

    NEVER = "never"
    FIRST = "first"
    ALWAYS = "always"
    AFTER_SYNC = "after-sync"


class AlwaysReading(enum.Enum):
    """The two ways in which `PrefetchMode.ALWAYS` can be understood.

    ONCE_PER_BATCH follows the public code: no allocation is prefetched twice in a batch. EVERY follows the paper's
    words: before every kernel.
    """

    ONCE_PER_BATCH = "once_per_batch"
    EVERY = "every"


def prefetches(
    mode: PrefetchMode,
    allocation: Allocation,
    batch: int,
    outstanding: int,
    always: AlwaysReading = AlwaysReading.ONCE_PER_BATCH,
) -> bool:
    """Tell whether `allocation` is prefetched before an operation of the batch with number `batch`.

    A batch is what a thread submits between two waits. outstanding: operations that the thread has submitted since its
    last wait. always: what the mode ALWAYS means.
    """
    last = allocation.most_recent_batch
    match mode:
        case PrefetchMode.NEVER:
            return False
        case PrefetchMode.FIRST:
            return last == NEVER
        case PrefetchMode.ALWAYS:
            return always is AlwaysReading.EVERY or last < batch
        case PrefetchMode.AFTER_SYNC:
            return outstanding == 0 and last < batch


def take_prefetches(
    mode: PrefetchMode,
    allocations: Iterable[Allocation],
    batch: int,
    outstanding: int,
    always: AlwaysReading = AlwaysReading.ONCE_PER_BATCH,
) -> list[Allocation]:
    """Return the allocations to prefetch before an operation that uses `allocations`, in their order and each once.

    Also sets `Allocation.most_recent_batch` of those to `batch`. batch: the number of the batch, which is what a thread
    submits between two waits. outstanding: how many operations the thread has submitted since its last wait. always:
    what the mode ALWAYS means.
    """
    due: dict[int, Allocation] = {}
    for allocation in allocations:
        if prefetches(mode, allocation, batch, outstanding, always):
            due[allocation.root] = allocation
            allocation.most_recent_batch = batch
    return list(due.values())


class HostPointer(enum.Enum):
    """What happens to an algorithm if the device cannot use one of its kernel's pointers.

    HOST: it runs on the host, after a barrier. CRASH: the program crashes. REFUSED: the program does not compile.
    """

    HOST = "host"
    CRASH = "crash"
    REFUSED = "refused"


class ForeignFreeing(enum.Enum):
    """What happens when code of another compiler frees memory that this implementation allocated.

    FREES: its free frees the memory, as it is replaced in the whole program and knows the C library's memory and shared
    USM. CRASH: the C library's free gets a pointer that is not its own, and the program crashes.
    """

    FREES = "frees"
    CRASH = "crash"


class Offloading(enum.Enum):
    """Whether algorithms with a given execution policy run on the device.

    ALWAYS, NEVER: on every device, on none. IF_PROGRESS: only where the device guarantees that its work items make
    progress independently of one another.
    """

    ALWAYS = "always"
    IF_PROGRESS = "if_progress"
    NEVER = "never"


class SubmitPath(enum.Enum):
    """The software layers through which a submission passes; the machine's profile has their cost.

    DIRECT: an in-order queue of the backend (such as a CUDA stream), without SYCL. SYCL: a SYCL queue. VENDOR: the
    vendor's runtime. NONE: nothing is submitted.
    """

    DIRECT = "direct"
    SYCL = "sycl"
    VENDOR = "vendor"
    NONE = "none"


class Temporaries(enum.Enum):
    """Where the library keeps what an algorithm needs besides the program's data, such as partial results.

    KEPT: in memory that a thread allocates once, and the result in memory of the host that the kernel writes itself
    (AdaptiveCpp's `allocation_cache.hpp`; oneDPL has it from the pools of SYCL's runtime). ALLOCATED: each call
    allocates device memory, copies the result from there, and frees it (`temporary_array` and `get_value` in `reduce.h`
    of Thrust and rocThrust, which call cudaMalloc and cudaFree, or hipMalloc and hipFree). nvc++'s own headers are not
    public; Thrust has code for its `-stdpar` (Thrust's pull requests 1392 and 1393).
    """

    KEPT = "kept"
    ALLOCATED = "allocated"


class DataMemory(enum.Enum):
    """Where the program's data lies: in SHARED USM, in DEVICE memory with explicit copies, or on the HOST."""

    SHARED = "shared"
    DEVICE = "device"
    HOST = "host"


def _positive(factor: KernelFactor, attribute: attrs.Attribute[float], value: float) -> None:
    if not value > 0:
        raise ValueError(f"kernel factor {value} (source: {factor.source}) must be positive")


@attrs.frozen
class KernelFactor:
    """How long this compiler's kernels take, relative to those of the machine's own compiler.

    It is an input: the quality of a compiler's code does not follow from a runtime's mechanisms. `value` is the factor,
    above 1 for slower code; `source` says where it comes from.
    """

    source: str
    value: float = attrs.field(default=1.0, validator=_positive)


UNKNOWN_FACTOR: Final = KernelFactor("none: taken as the machine's own compiler")


@attrs.frozen
class Implementation:
    """One implementation of C++ standard parallelism: its features and strategies.

    elision, prefetch, always, pool and heuristic can be switched where the real one lets them; use `attrs.evolve`.
    `title` is its name in words. `par` and `par_unseq` say whether algorithms with that policy are offloaded,
    `host_pointer` what happens at a pointer that the device cannot use, `foreign_free` what happens when other code
    frees its memory, `submit` through which layers a kernel is submitted, `memory` where the program's data lies,
    `temporaries` where partial results lie, and `kernel_factor` how slow its kernels are. `pool` tells whether
    allocations come from a memory pool on the device, `elision` whether waits are left out where the source allows it,
    `prefetch` and `always` when data is prefetched, and `heuristic` whether measured runtimes decide between host and
    device.
    """

    name: str
    title: str
    par: Offloading
    par_unseq: Offloading
    host_pointer: HostPointer
    foreign_free: ForeignFreeing
    submit: SubmitPath
    memory: DataMemory
    temporaries: Temporaries = Temporaries.KEPT
    pool: bool = False
    elision: bool = False
    prefetch: PrefetchMode = PrefetchMode.NEVER
    always: AlwaysReading = AlwaysReading.ONCE_PER_BATCH
    heuristic: bool = False
    algorithms: frozenset[str] = frozenset(ALGORITHMS)
    """The names of the algorithms that it can offload."""
    kernel_factor: KernelFactor = UNKNOWN_FACTOR
    open: tuple[str, ...] = ()
    """Features about which the paper does not say whether this implementation has them; they are taken as absent."""

    def offloads(self, algorithm: str, policy: ExecutionPolicy, independent_progress: bool) -> bool:
        """Tell whether an algorithm with this policy may run on the device, if the device can use all its pointers.

        independent_progress: whether the device's work items make progress independently of one another. Raises
        ValueError for an algorithm that does not exist.
        """
        if algorithm not in ALGORITHMS:
            raise ValueError(f"no algorithm {algorithm!r}; there are: {', '.join(ALGORITHMS)}")
        if policy is ExecutionPolicy.SEQ or algorithm not in self.algorithms:
            return False
        offloading = self.par if policy is ExecutionPolicy.PAR else self.par_unseq
        return offloading is Offloading.ALWAYS or (offloading is Offloading.IF_PROGRESS and independent_progress)


def _read() -> dict[str, Implementation]:
    tables = tomllib.loads(importlib.resources.files(__package__).joinpath("implementations.toml").read_text("utf-8"))
    return {name: msgspec.convert({"name": name, **fields}, Implementation) for name, fields in tables.items()}


IMPLEMENTATIONS: Final = _read()
"""Return the implementation of that name. Raises ValueError for a name that does not exist."""


def implementation(name: str) -> Implementation:
    """Look up an implementation by its name. ValueError for a name that does not exist."""
    if name not in IMPLEMENTATIONS:
        raise ValueError(f"no implementation {name!r}; there are: {', '.join(IMPLEMENTATIONS)}")
    return IMPLEMENTATIONS[name]


def variant(
    name: str, *, pool: str = "auto", elision: str = "auto", prefetch: str = "auto", heuristic: str = "auto"
) -> Implementation:
    """Return an implementation with features switched `on` or `off`, or left `auto`; `prefetch` names a prefetch mode.

    pool: the memory pool. elision: leaving out waits. heuristic: the choice between host and device by measured
    runtimes. Raises ValueError if the implementation does not use shared memory and a feature is switched.
    """
    chosen = implementation(name)
    changed: dict[str, Any] = {
        feature: value == "on"
        for feature, value in (("pool", pool), ("elision", elision), ("heuristic", heuristic))
        if value != "auto"
    }
    if prefetch != "auto":
        changed["prefetch"] = PrefetchMode(prefetch)
    if changed and chosen.memory is not DataMemory.SHARED:
        raise ValueError(f"{next(iter(changed))}: {chosen.name} has no shared memory, it must be auto")
    return attrs.evolve(chosen, **changed)


@attrs.frozen(kw_only=True)
class StdParOptions(ProgramOptions):
    """The options of a program of C++ standard parallelism. Fixed once the machine is built."""

    model: ClassVar[str] = "stdpar"
    implementation: str | Implementation = "acpp"
    """A name of `IMPLEMENTATIONS`, or an `Implementation` made of one of these with `attrs.evolve`."""
    pool_gb: float | None = None
    """The size of the memory pool in GiB, 0 for no pool; None for the implementation's own."""
    system_usm: bool = False
    """Whether the device can access all of the host's memory as it is (``--acpp-stdpar-system-usm``). Then no
    allocation is replaced, no pointer checked and nothing prefetched.
    """
    heuristic: HeuristicRules | None = None
    """The rules of the offload heuristic; None for the implementation's own."""
    heuristic_file: Path | None = None
    """The heuristic's database of runtimes, read at the start and written at the end; None for an empty one."""

    def check(self) -> None:
        """Raise ValueError for impossible options: several devices, or an implementation that does not exist."""
        super().check()
        if self.num_devices != 1:
            raise ValueError("a stdpar program has one device")
        if isinstance(self.implementation, str):
            implementation(self.implementation)

    def devices_on(self, spec: MachineSpec) -> int:
        """Return 1, or 0 where the machine has no device, so that algorithms run on the host."""
        return 1 if has_devices(spec) else 0

    @property
    def chosen(self) -> Implementation:
        """Return the implementation. Raises ValueError for one that does not exist."""
        named = self.implementation
        return named if isinstance(named, Implementation) else implementation(named)
