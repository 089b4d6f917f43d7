"""A benchmark as it is written down: its arrays, and the order in which kernels use them.

A program is data: calls of kernels, repetitions, and what the host does in between. The same structure runs on both
layers (`layer.py`), with numbers or as a phantom, and is what executions are counted from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

import attrs
import numpy as np
from numpy.typing import DTypeLike

from offloadrt.kernels import Kernel
from offloadrt.papers.jacc.programs.layer import Layer

Language = Literal["C", "Fortran"]
Values = Callable[[], Any]
"""Makes the values that an array starts with; not called for a phantom."""


class Arrays(Protocol):
    """Makes an array of the program. values: what the host writes first; zeros without."""

    def __call__(
        self, name: str, shape: int | tuple[int, ...], dtype: DTypeLike = np.float64, values: Values | None = None
    ) -> Any: ...


@attrs.define(eq=False)
class Number:
    """A number that the host computes while the program runs, an argument of kernels. A phantom leaves it as it is, and
    so every call with it the same, if it changes nothing of what kernels cost. No kernel is specialised by its value,
    for which it would have to be compiled again and again.
    """

    value: Any = 0.0
    """A real or complex number."""


class Step(Protocol):
    """A part of a program."""

    async def run(self, layer: Layer) -> None: ...


@attrs.define(eq=False)
class Call:
    """A kernel with its arguments: arrays, numbers, and `Number`s that are looked at when it runs."""

    kernel: Kernel
    args: tuple[Any, ...]
    _varies: bool = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._varies = any(isinstance(one, Number) for one in self.args)

    async def run(self, layer: Layer) -> None:
        await layer.kernel(self.kernel, *(self.values if self._varies else self.args), varies=self._varies)

    @property
    def values(self) -> tuple[Any, ...]:
        """The arguments now."""
        return tuple(one.value if isinstance(one, Number) else one for one in self.args)


def call(kernel: Kernel, *args: Any) -> Call:
    """A kernel with its arguments."""
    return Call(kernel, args)


@attrs.frozen(eq=False)
class Repeat:
    """Steps that are done so often, one after the other."""

    times: int
    steps: tuple[Step, ...]

    async def run(self, layer: Layer) -> None:
        for _ in range(self.times):
            for step in self.steps:
                await step.run(layer)


@attrs.frozen(eq=False)
class OnHost:
    """The host gets arrays and computes with them, unless they are phantoms; then the device gets what it wrote."""

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
class Program:
    """One benchmark with its arrays. An iteration is done so often between setup and finish."""

    setup: tuple[Step, ...]
    iteration: tuple[Step, ...]
    finish: tuple[Step, ...]
    iterations: int
    copyin: tuple[Any, ...] = ()
    create: tuple[Any, ...] = ()
    results: tuple[Any, ...] = ()
    """Of these arrays, what is copied out at the end."""

    @property
    def arrays(self) -> tuple[Any, ...]:
        """All that are on the device."""
        return (*self.copyin, *self.create)

    @property
    def nbytes(self) -> int:
        """Of all arrays."""
        return sum(array.nbytes for array in self.arrays)

    def executions(self, iterations: int | None = None) -> dict[Call, int]:
        """How often each call is made, in all or so many iterations."""
        found: dict[Call, int] = {}
        _count((*self.setup, Repeat(self.iterations if iterations is None else iterations, self.iteration)), 1, found)
        _count(self.finish, 1, found)
        return found

    def launches(self, iterations: int | None = None) -> dict[str, int]:
        """How often each kernel is executed, by its name."""
        found: dict[str, int] = {}
        for one, times in self.executions(iterations).items():
            found[one.kernel.name] = found.get(one.kernel.name, 0) + times
        return found

    async def begin(self, layer: Layer) -> None:
        """All arrays are on the device."""
        if self.copyin:
            await layer.copyin(*self.copyin)
        if self.create:
            await layer.create(*self.create)

    async def start(self, layer: Layer, iterations: int) -> None:
        """The setup and so many iterations."""
        for step in (*self.setup, Repeat(iterations, self.iteration)):
            await step.run(layer)

    async def compute(self, layer: Layer, iterations: int) -> None:
        """So many iterations and what comes after them."""
        for step in (Repeat(iterations, self.iteration), *self.finish):
            await step.run(layer)
        await layer.wait()

    async def end(self, layer: Layer) -> None:
        """The results are on the host, and nothing on the device."""
        await layer.copyout(*self.results)
        if rest := tuple(array for array in self.arrays if array not in self.results):
            await layer.delete(*rest)


def _count(steps: Sequence[Step], times: int, found: dict[Call, int]) -> None:
    for step in steps:
        if isinstance(step, Call):
            found[step] = found.get(step, 0) + times
        elif isinstance(step, Repeat):
            _count(step.steps, times * step.times, found)


@attrs.frozen
class Timed:
    """Kernels, by their names, and what all their executions in a full run take on one V100, in seconds; the times of
    all groups add up to what is known of the benchmark. None: what they take at the machine's limits, which nothing is
    known against. No names: all other kernels, and what is left of the last group's seconds after those at the limits.
    """

    seconds: float | None
    kernels: tuple[str, ...] = ()


@attrs.frozen(eq=False)
class Benchmark:
    """One of the paper's programs.

    memory_gb, kernels, launches: what the paper's tables say of it (jacc.bench.*, jacc.detail.*.launches). sizes: the
    numbers that `build` takes, by name; the first one is the paper's, `test` is small.
    """

    name: str
    language: Language
    memory_gb: float
    kernels: int
    launches: int
    timed: tuple[Timed, ...]
    sizes: Mapping[str, tuple[int, ...]]
    build: Callable[[Arrays, tuple[int, ...]], Program]

    @property
    def size(self) -> str:
        """The paper's."""
        return next(iter(self.sizes))

    def program(self, arrays: Arrays, size: str = "") -> Program:
        """At a size, by default the paper's. ValueError for one that does not exist."""
        if size and size not in self.sizes:
            raise ValueError(f"{self.name} has no size {size!r}; there are: {', '.join(self.sizes)}")
        return self.build(arrays, self.sizes[size or self.size])


@attrs.frozen(eq=False)
class Extent:
    """An array of which only the shape is known, to count with."""

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
    """`Arrays` without a machine."""
    return Extent(name, (shape,) if isinstance(shape, int) else shape, np.dtype(dtype))
