"""A benchmark as data: its arrays, and the order in which kernels use them.

A program consists of calls of kernels, repetitions, and steps of the host in between. The same structure runs on both
layers (OpenACC's directives as they were written, or JACC's routines), with numbers or as a phantom. Executions are
counted from the structure. `BenchmarkExperiment` runs a benchmark on a layer, and measures its kernels and exchanges.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol

import attrs
import numpy as np
from numpy.typing import DTypeLike

from offloadrt.extensions import openacc as acc
from offloadrt.extensions.openacc import Effects
from offloadrt.kernels import Kernel
from offloadrt.machine import load
from offloadrt.machine.compute.residency import ComputeSpec
from offloadrt.models.host.directive import launch_of

Factors = Mapping[str, float]
"""For each kernel by name, the time of the compiler's code relative to code that reaches the machine's limits."""


class Directives:
    """OpenACC's directives on one device, as a way to run a benchmark; the host waits for each directive.

    thread: the host thread. factors: by name of the kernel, the number by which its time is multiplied.
    """

    def __init__(self, thread: acc.HostThread, factors: Factors) -> None:
        self.thread = thread
        self._factors = factors
        self._codes: dict[tuple[Any, ...], tuple[Kernel, Kernel, int | None]] = {}

    async def create(self, *arrays: acc.HostArray) -> None:
        await self.thread.enter_data(acc.create(*arrays))

    async def copyin(self, *arrays: acc.HostArray) -> None:
        await self.thread.enter_data(acc.copyin(*arrays))

    async def copyout(self, *arrays: acc.HostArray) -> None:
        await self.thread.exit_data(acc.copyout(*arrays))

    async def delete(self, *arrays: acc.HostArray) -> None:
        await self.thread.exit_data(acc.delete(*arrays))

    async def kernel(self, kernel: Kernel, *args: Any, varies: bool = False) -> None:
        """Run a kernel on arrays on the device. varies: whether a number among the arguments differs each time."""
        key = (id(kernel), args)
        if key not in self._codes:
            self._codes[key] = (kernel, *self._compiled(kernel, args))  # kept, so that no other kernel gets its id
        _, code, iterations = self._codes[key]
        gangs = None if iterations is None else max(1, -(-iterations // code.team_threads))
        await self.thread.parallel(code, *args, default="present", num_gangs=gangs, iterations=iterations)

    async def update_host(self, array: acc.HostArray) -> None:
        await self.thread.update(acc.host(array))

    async def update_device(self, array: acc.HostArray) -> None:
        await self.thread.update(acc.device(array))

    async def wait(self) -> None:
        """Return at once, as the host has already waited for every directive."""

    def _compiled(self, kernel: Kernel, args: tuple[Any, ...]) -> tuple[Kernel, int | None]:
        """Return the compiler's code of a kernel with these arguments, slower by its factor, and its iterations."""
        factor = self._factors.get(kernel.name, 1.0)
        counted = kernel.with_arguments(*args)
        iterations = None if kernel.analysis is None else kernel.analysis.trip_count(*args)
        # The factor scales flops and bytes alike, because a measured time does not say which of the two the compiler's
        # code does worse. What bounds the kernel stays what it was.
        code = attrs.evolve(
            counted,
            analysis=None,
            flops_per_iteration=counted.flops_per_iteration * factor,
            further_per_iteration=counted.further_per_iteration * factor,
            bytes_per_iteration=counted.bytes_per_iteration * factor,
        )
        return code, iterations


class JaccRoutines:
    """JACC's routines, as a way to run a benchmark.

    flags: those of `jacc_kernel_push`, by which JACC specialises kernels. An argument that differs from launch to
    launch is never compiled into a kernel as a constant.
    """

    def __init__(self, jacc: acc.Jacc, flags: acc.PushFlags) -> None:
        self.jacc = jacc
        self._flags = flags
        self._args: dict[tuple[Any, ...], tuple[Kernel, tuple[acc.Argument, ...]]] = {}

    async def create(self, *arrays: acc.HostArray) -> None:
        await self.jacc.jacc_create(*arrays)

    async def copyin(self, *arrays: acc.HostArray) -> None:
        await self.jacc.jacc_copyin(*arrays)

    async def copyout(self, *arrays: acc.HostArray) -> None:
        await self.jacc.jacc_copyout(*arrays)

    async def delete(self, *arrays: acc.HostArray) -> None:
        await self.jacc.jacc_delete(*arrays)

    async def kernel(self, kernel: Kernel, *args: Any, varies: bool = False) -> None:
        key = (id(kernel), args)
        if key not in self._args:
            self._args[key] = (kernel, acc.jacc_args(kernel, *args))
        flags = self._flags & ~acc.PushFlags.VAR_OPT if varies else self._flags
        await self.jacc.jacc_kernel_push(kernel, self._args[key][1], flags)

    async def update_host(self, array: acc.HostArray) -> None:
        await self.jacc.jacc_update_host(array)

    async def update_device(self, array: acc.HostArray) -> None:
        await self.jacc.jacc_update_device(array)

    async def wait(self) -> None:
        await self.jacc.jacc_wait()


Layer = Directives | JaccRoutines
"""The layer that a benchmark runs on."""


Values = Callable[[], Any]
"""Makes the initial values of an array. It is not called for a phantom."""


class Arrays(Protocol):
    """A function that makes an array; the host first writes `values` to it, or zeros."""

    def __call__(
        self, name: str, shape: int | tuple[int, ...], dtype: DTypeLike = np.float64, values: Values | None = None
    ) -> Any: ...


@attrs.define(eq=False)
class Number:
    """An argument of a kernel whose value the host computes while the program runs.

    If the arrays are phantoms (without values), it stays constant. No kernel is specialised by the value (compiled with
    it as a constant), as each new value would compile it again.
    """

    value: Any = 0.0
    """A real or complex number."""


class ProgramStep(Protocol):
    """A step of a program, such as a kernel call, that can run by OpenACC directives or by JACC's routines."""

    async def run(self, layer: Layer) -> None: ...


@attrs.define(eq=False)
class KernelCall:
    """A kernel with its arguments: arrays, numbers, and `Number`s whose value is taken when the kernel runs."""

    kernel: Kernel
    args: tuple[Any, ...]
    _varies: bool = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._varies = any(isinstance(argument, Number) for argument in self.args)

    async def run(self, layer: Layer) -> None:
        await layer.kernel(self.kernel, *(self.values if self._varies else self.args), varies=self._varies)

    @property
    def values(self) -> tuple[Any, ...]:
        """Return the arguments with the present values of their `Number`s."""
        return tuple(argument.value if isinstance(argument, Number) else argument for argument in self.args)


def call(kernel: Kernel, *args: Any) -> KernelCall:
    """Make a call of a kernel with these arguments."""
    return KernelCall(kernel, args)


@attrs.frozen(eq=False)
class RepeatedSteps:
    """Steps that run `times` times, one after the other."""

    times: int
    steps: tuple[ProgramStep, ...]

    async def run(self, layer: Layer) -> None:
        for _ in range(self.times):
            for step in self.steps:
                await step.run(layer)


@attrs.frozen(eq=False)
class OnHost:
    """A step of the host: it copies arrays from the device, computes, and copies what it wrote to the device.

    reads, writes: the arrays copied before and after. It does not compute if one of them is a phantom, which has no
    values.
    """

    reads: tuple[Any, ...]
    compute: Callable[[], object] | None = None
    writes: tuple[Any, ...] = ()

    async def run(self, layer: Layer) -> None:
        for array in self.reads:
            await layer.update_host(array)
        if self.compute is not None and not any(array.phantom for array in (*self.reads, *self.writes)):
            self.compute()
        for array in self.writes:
            await layer.update_device(array)


@attrs.frozen(eq=False)
class BenchmarkProgram:
    """A benchmark with its arrays: steps of a setup, of one iteration, and of a finish.

    The iteration runs `iterations` times. copyin, create: the arrays that are on the device during the whole program,
    with the host's values (copyin) or uninitialised (create).
    """

    iteration: tuple[ProgramStep, ...]
    iterations: int
    setup: tuple[ProgramStep, ...] = ()
    finish: tuple[ProgramStep, ...] = ()
    copyin: tuple[Any, ...] = ()
    create: tuple[Any, ...] = ()
    results: tuple[Any, ...] = ()
    """The arrays that are copied out at the end."""

    @property
    def arrays(self) -> tuple[Any, ...]:
        """Return all arrays that the program has on the device."""
        return (*self.copyin, *self.create)

    @property
    def nbytes(self) -> int:
        """Return the size of all arrays in bytes."""
        return sum(array.nbytes for array in self.arrays)

    def executions(self, iterations: int | None = None) -> dict[KernelCall, int]:
        """Return how often each kernel call is made in all iterations, or in the given number of them."""
        executions: dict[KernelCall, int] = {}
        repeated = RepeatedSteps(self.iterations if iterations is None else iterations, self.iteration)
        _count((*self.setup, repeated, *self.finish), 1, executions)
        return executions

    def launches(self, iterations: int | None = None) -> dict[str, int]:
        """Return how often each kernel is launched, by its name. iterations: how many of them run; None: all."""
        by_kernel: dict[str, int] = {}
        for kernel_call, times in self.executions(iterations).items():
            by_kernel[kernel_call.kernel.name] = by_kernel.get(kernel_call.kernel.name, 0) + times
        return by_kernel

    async def begin(self, layer: Layer) -> None:
        """Allocate all arrays on the device; those in `copyin` get the host's values.

        layer: what runs the program, OpenACC's directives (`Directives`) or JACC's routines (`JaccRoutines`).
        """
        if self.copyin:
            await layer.copyin(*self.copyin)
        if self.create:
            await layer.create(*self.create)

    async def start(self, layer: Layer, iterations: int) -> None:
        """Run, by `layer`, the setup and the given number of iterations."""
        for step in (*self.setup, RepeatedSteps(iterations, self.iteration)):
            await step.run(layer)

    async def compute(self, layer: Layer, iterations: int) -> None:
        """Run, by `layer`, the given number of iterations and the finish."""
        for step in (RepeatedSteps(iterations, self.iteration), *self.finish):
            await step.run(layer)
        await layer.wait()

    async def end(self, layer: Layer) -> None:
        """Copy the results to the host and free all device memory, by `layer`."""
        await layer.copyout(*self.results)
        if rest := tuple(array for array in self.arrays if array not in self.results):
            await layer.delete(*rest)


def _count(steps: Sequence[ProgramStep], times: int, executions: dict[KernelCall, int]) -> None:
    for step in steps:
        if isinstance(step, KernelCall):
            executions[step] = executions.get(step, 0) + times
        elif isinstance(step, RepeatedSteps):
            _count(step.steps, times * step.times, executions)


@attrs.frozen(eq=False)
class Benchmark:
    """One of the JACC paper's benchmarks, with its sizes.

    dup_s: the host's seconds for all kernels of a full run when one V100 runs all of them (claims jacc.detail.*.dup).
    sizes: the numbers that `build` takes, by the size's name; the first size is the paper's, `test` is small.
    """

    name: str
    dup_s: float
    sizes: Mapping[str, tuple[int, ...]]
    build: Callable[[Arrays, tuple[int, ...]], BenchmarkProgram]

    @property
    def size(self) -> str:
        """Return the name of the paper's size."""
        return next(iter(self.sizes))

    def program(self, arrays: Arrays, size: str = "") -> BenchmarkProgram:
        """Build the program with a size, by default the paper's. Raises ValueError for an unknown size."""
        if size and size not in self.sizes:
            raise ValueError(f"{self.name} has no size {size!r}; there are: {', '.join(self.sizes)}")
        return self.build(arrays, self.sizes[size or self.size])


@attrs.frozen(eq=False)
class Extent:
    """Stands for an array of a name, shape and element type where only these matter, as when executions are counted."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    @property
    def phantom(self) -> bool:
        return True

    def __len__(self) -> int:
        return self.shape[0]


def extent(
    name: str, shape: int | tuple[int, ...], dtype: DTypeLike = np.float64, values: Values | None = None
) -> Extent:
    """Make an `Extent` in place of an array, as a function of the type `Arrays`; `values` are not used.

    name, shape, dtype: those of the array.
    """
    return Extent(name, (shape,) if isinstance(shape, int) else shape, np.dtype(dtype))


MACHINE: Final = "dgx1-v100"
"""The machine on which the paper measured."""

FASTER_WITH_RESTRICT: Final = 1.2339
"""The factor of a kernel's time in BT and LU with PGI (claim jacc.opt.restrict_up gives the better of the two)."""
SLOWER_WITH_RESTRICT: Final = 1 / (1 - 0.0559)
"""The factor of a kernel's time in EP with GCC (claim jacc.opt.restrict_down)."""
SLOWER_WITH_VAR_OPT: Final = 1.05
"""The factor of a kernel's time in EP and SP with GCC.

Claim jacc.opt.varopt says that they get slower; by how much is an engineering estimate.
"""
EP_BY_GCC: Final = 1.3831
"""The time of GCC's code for EP relative to PGI's (claim jacc.gcc.ep)."""

RELATIVE: Final = {
    ("BT", "pgi"): Effects(restrict=1 / FASTER_WITH_RESTRICT),
    ("LU", "pgi"): Effects(restrict=1 / FASTER_WITH_RESTRICT),
    ("EP", "gcc"): Effects(generated=EP_BY_GCC, restrict=SLOWER_WITH_RESTRICT, var_opt=SLOWER_WITH_VAR_OPT),
    ("SP", "gcc"): Effects(var_opt=SLOWER_WITH_VAR_OPT),
}
"""Factors of kernels' times for each benchmark and compiler, relative to PGI's code without specializations.

Generated code is taken to be as good as the original program's, because claim jacc.base.change gives no number.
"""


@functools.cache
def factor(benchmark: Benchmark) -> float:
    """Return the time of all kernels on one V100 over the time that their work takes at the machine's limits.

    The paper's seconds are the host's (``jacc_perform_kernel`` reads its clock before and after each kernel's code), so
    a launch and a wait for each execution are subtracted from them.
    """
    machine = load(MACHINE)
    compute = machine.read(ComputeSpec)
    executions = benchmark.program(extent).executions()
    besides = sum(machine.value(entry) for entry in ("driver.launch", "launch.latency", "sync.latency"))
    at_limits = math.fsum(
        times * compute.seconds_on_idle_device(launch_of(call.kernel, call.values))
        for call, times in executions.items()
    )
    return (benchmark.dup_s - besides * sum(executions.values())) / at_limits


def effects(benchmark: Benchmark, compiler: str) -> dict[str, Effects]:
    """Return, by kernel name, factors of its time under JACC's runtime over its time at the machine's limits.

    An `Effects` has a factor for all generated code, and one for each specialisation. All kernels of a benchmark have
    the same ones. compiler: the compiler of the generated code, `pgi` or `gcc`.
    """
    relative = RELATIVE.get((benchmark.name, compiler), Effects())
    of_program = Effects(factor(benchmark) * relative.generated, relative.restrict, relative.var_opt)
    return dict.fromkeys(benchmark.program(extent).launches(), of_program)


LayerName = Literal["original", "jacc"]


@attrs.define
class KernelRow(acc.KernelTimes):
    """The total times of one kernel so far, and whether it is divided.

    adapted: whether JACC's controller divides it among the devices at the end of the run.
    """

    adapted: bool = False

    def add(self, times: acc.KernelTimes, sign: int = 1) -> None:
        """Add to this row the totals of some executions (`times`), or subtract them (`sign` -1)."""
        for name in attrs.fields_dict(acc.KernelTimes):
            setattr(self, name, getattr(self, name) + sign * getattr(times, name))

    def since(self, before: KernelRow) -> KernelRow:
        """Return what was added since an earlier row: the totals of this row minus those of `before`."""
        row = attrs.evolve(self)
        row.add(before, -1)
        return row

    @property
    def execution_s(self) -> float:
        """Return the mean seconds of an execution."""
        return self.kernel_s / self.executions if self.executions else 0.0


@attrs.frozen
class BenchmarkOutcome:
    """The results of a run of a benchmark, of which only some iterations may have been run."""

    devices: int
    """The number of devices on which the benchmark ran."""
    kernels: Mapping[str, KernelRow]
    """By name of the kernel: the totals of the kernel's measured executions."""
    refused: Mapping[str, str]
    """By name of the kernel: why JACC cannot divide the kernel among the devices; other kernels are not listed."""
    iterations: int
    """The number of iterations that were measured."""
    fraction: float
    """These iterations as a fraction of all iterations of the benchmark."""
    computed_s: float
    """Virtual seconds from when the arrays are on the device, or the warm-up is over, until they are copied back."""
    nbytes: int
    """The size of all arrays in bytes."""
    results: Mapping[str, Any]
    """By name: the values of the arrays that are copied out at the end; empty for a phantom."""

    @property
    def kernel_s(self) -> float:
        """Return the virtual seconds of all kernels together."""
        return float(np.sum([row.kernel_s for row in self.kernels.values()]))

    @property
    def communication_s(self) -> float:
        """Return the virtual seconds of all exchanges between devices together."""
        return float(np.sum([row.communication_s for row in self.kernels.values()]))

    @property
    def adapted(self) -> int:
        """Return the number of kernels that are divided among the devices at the end of the run."""
        return len([row for row in self.kernels.values() if row.adapted])

    @property
    def write_bytes(self) -> float:
        """Return the mean bytes that a device sends to each other device after an execution (the paper's WriteSize)."""
        pairs = self.devices * (self.devices - 1)
        divided = sum(row.divided for row in self.kernels.values())
        return sum(row.sent_bytes for row in self.kernels.values()) / pairs / divided if pairs and divided else 0.0

    @property
    def bandwidth(self) -> float:
        """Return WriteSize over the mean time of an exchange, in bytes per second."""
        divided = sum(row.divided for row in self.kernels.values())
        return self.write_bytes * divided / self.communication_s if self.communication_s else 0.0


@attrs.frozen
class BenchmarkExperiment:
    """A run of a part of a benchmark's iterations, at least one of them.

    `warm_up` iterations run before them; neither these nor the setup are measured. `layer`: whether OpenACC's
    directives or JACC's routines run it. `size`: the size's name; empty for the paper's. `fraction`: the part of the
    iterations, from 0 to 1. The other fields are for JACC's routines only, and are parameters of `Jacc` and of its
    `jacc_kernel_push`: the number of `devices`, the `strategy` that decides which kernels are divided, `execution`
    (whether and how kernels overlap), `communication` (what devices send each other) and `flags` (how kernels are
    specialised).
    """

    benchmark: Benchmark
    layer: LayerName = "jacc"
    size: str = ""
    fraction: float = 1.0
    warm_up: int = 0
    devices: int = 1
    strategy: str | acc.DeviceStrategy = "single"
    execution: Literal["sync", "async", "overlap"] = "async"
    communication: Literal["all-to-all", "needed"] = "all-to-all"
    flags: acc.PushFlags = acc.PushFlags.NONE

    async def run(self, t: acc.HostThread) -> BenchmarkOutcome:
        """Run the experiment on one host thread."""

        def array(
            name: str, shape: int | tuple[int, ...], dtype: DTypeLike = np.float64, values: Values | None = None
        ) -> acc.HostArray:
            fill = None if values is None or t.program.phantom else values()
            return t.array(name, shape, dtype, fill)

        program = self.benchmark.program(array, self.size)
        iterations = max(1, round(program.iterations * self.fraction))
        quality = effects(self.benchmark, t.library.compiler.name)
        jacc: acc.Jacc | None = None
        on: Layer
        if self.layer == "original":
            on = Directives(t, {name: effect.generated for name, effect in quality.items()})
        else:
            jacc = acc.Jacc(
                t,
                execution=self.execution,
                devices=self.devices,
                strategy=self.strategy,
                communication=self.communication,
                effects=quality,
            )
            on = JaccRoutines(jacc, self.flags)
        await program.begin(on)
        began = t.sim.now
        before: dict[str, KernelRow] = {}
        await program.start(on, self.warm_up)
        if self.warm_up:
            await on.wait()
            began, before = t.sim.now, _rows(t, jacc)
        await program.compute(on, iterations)
        computed_s = t.sim.now - began
        await program.end(on)
        return BenchmarkOutcome(
            devices=self.devices,
            kernels={name: row.since(before.get(name, KernelRow())) for name, row in _rows(t, jacc).items()},
            refused={} if jacc is None else jacc.refused,
            iterations=iterations,
            fraction=iterations / program.iterations,
            computed_s=computed_s,
            nbytes=program.nbytes,
            results={} if t.program.phantom else {array.name: array.data.copy() for array in program.results},
        )


def _rows(t: acc.HostThread, jacc: acc.Jacc | None) -> dict[str, KernelRow]:
    times = t.library.records.of_constructs if jacc is None else jacc.times
    rows: dict[str, KernelRow] = {}
    for name, kernel_times in times.items():
        # a directive's code is made for its arguments, and reports number codes of one name
        row = rows.setdefault(name.partition(" (")[0], KernelRow())
        row.add(kernel_times)
        if jacc is not None and kernel_times.divided and jacc.policy.before(name) is acc.Mode.DIVIDED:
            row.adapted = True
    return rows
