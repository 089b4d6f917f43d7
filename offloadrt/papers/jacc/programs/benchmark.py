"""A benchmark as data: its arrays, and the order in which kernels use them.

A program consists of calls of kernels, repetitions, and what the host does in between. The same structure runs on both
layers (OpenACC's directives as they were written, or JACC's routines), with numbers or as a phantom, and executions are
counted from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import attrs
import numpy as np
from numpy.typing import DTypeLike

from offloadrt.extensions import openacc as acc
from offloadrt.kernels import Kernel

Factors = Mapping[str, float]
"""For each kernel, the time of the compiler's code relative to a code at the machine's limits."""


class Directives:
    """OpenACC's directives on one device, each of which the host waits for. `factors` multiply the kernels' times."""

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
        """Run a kernel on arrays on the device; with `varies`, a number among the arguments differs each time."""
        key = (id(kernel), args)
        if key not in self._codes:
            self._codes[key] = (kernel, *self._compiled(kernel, args))  # kept, so that no other kernel gets its id
        _, code, iterations = self._codes[key]
        await self.thread.parallel(
            code, *args, default="present", num_gangs=_gangs(code, iterations), iterations=iterations
        )

    async def update_host(self, array: acc.HostArray) -> None:
        await self.thread.update(acc.host(array))

    async def update_device(self, array: acc.HostArray) -> None:
        await self.thread.update(acc.device(array))

    async def wait(self) -> None:
        """Return at once: every directive has been waited for."""

    def _compiled(self, kernel: Kernel, args: tuple[Any, ...]) -> tuple[Kernel, int | None]:
        """Return the compiler's code of a kernel: what it does with these arguments, times its factor."""
        factor = self._factors.get(kernel.name, 1.0)
        counted = kernel.with_arguments(*args)
        iterations = None if kernel.analysis is None else kernel.analysis.trip_count(*args)
        # The factor scales flops and bytes alike, because a measured time does not say which of the two the compiler's
        # code does worse. What bounds the kernel stays what it was.
        code = attrs.evolve(
            counted,
            analysis=None,
            flops_per_iteration=counted.flops_per_iteration * factor,
            bytes_per_iteration=counted.bytes_per_iteration * factor,
        )
        return code, iterations


class JaccRoutines:
    """JACC's routines. `flags` say how kernels are specialised; a number that varies never specialises a kernel."""

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
"""What a benchmark runs on."""


def _gangs(code: Kernel, iterations: int | None) -> int | None:
    return None if iterations is None else max(1, -(-iterations // code.team_threads))


Values = Callable[[], Any]
"""Makes the values that an array starts with; not called for a phantom."""


class Arrays(Protocol):
    """Makes an array of the program. `values` are what the host writes first; without them, the array is zero."""

    def __call__(
        self, name: str, shape: int | tuple[int, ...], dtype: DTypeLike = np.float64, values: Values | None = None
    ) -> Any: ...


@attrs.define(eq=False)
class Number:
    """A kernel's argument that the host computes while the program runs.

    A phantom leaves it as it is. No kernel is specialised by its value, because the kernel would have to be compiled
    again for each value.
    """

    value: Any = 0.0
    """A real or complex number."""


class ProgramStep(Protocol):
    """A part of a program."""

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
    """A step of the host: it fetches arrays and computes, unless one of them is a phantom, and sends what it wrote."""

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
    """A benchmark with its arrays. The iteration runs `iterations` times between setup and finish."""

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
        """Return all arrays that are on the device."""
        return (*self.copyin, *self.create)

    @property
    def nbytes(self) -> int:
        """Return the size of all arrays in bytes."""
        return sum(array.nbytes for array in self.arrays)

    def executions(self, iterations: int | None = None) -> dict[KernelCall, int]:
        """Count how often each call is made in all iterations, or in the given number of them."""
        executions: dict[KernelCall, int] = {}
        repeated = RepeatedSteps(self.iterations if iterations is None else iterations, self.iteration)
        _count((*self.setup, repeated, *self.finish), 1, executions)
        return executions

    def launches(self, iterations: int | None = None) -> dict[str, int]:
        """Count how often each kernel is launched, by its name."""
        by_kernel: dict[str, int] = {}
        for kernel_call, times in self.executions(iterations).items():
            by_kernel[kernel_call.kernel.name] = by_kernel.get(kernel_call.kernel.name, 0) + times
        return by_kernel

    async def begin(self, layer: Layer) -> None:
        """Put all arrays on the device."""
        if self.copyin:
            await layer.copyin(*self.copyin)
        if self.create:
            await layer.create(*self.create)

    async def start(self, layer: Layer, iterations: int) -> None:
        """Run the setup and the given number of iterations."""
        for step in (*self.setup, RepeatedSteps(iterations, self.iteration)):
            await step.run(layer)

    async def compute(self, layer: Layer, iterations: int) -> None:
        """Run the given number of iterations and the finish."""
        for step in (RepeatedSteps(iterations, self.iteration), *self.finish):
            await step.run(layer)
        await layer.wait()

    async def end(self, layer: Layer) -> None:
        """Copy the results to the host and free all device memory."""
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
    """One of the paper's programs.

    dup_s: the seconds that all kernels of a full run take when one V100 runs all of them (claims jacc.detail.*.dup).
    sizes: the numbers that `build` takes, by name; the first size is the paper's, `test` is small.
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
        """Build the program at a size, by default the paper's. Raises ValueError for an unknown size."""
        if size and size not in self.sizes:
            raise ValueError(f"{self.name} has no size {size!r}; there are: {', '.join(self.sizes)}")
        return self.build(arrays, self.sizes[size or self.size])


@attrs.frozen(eq=False)
class Extent:
    """An array of which only the shape is known; executions are counted with it."""

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
    """Make an array without a machine (`Arrays`)."""
    return Extent(name, (shape,) if isinstance(shape, int) else shape, np.dtype(dtype))
