"""The parallel algorithms of the C++ standard library, each a kernel of `offloadrt.kernels`.

The kernel is the whole algorithm: ``for_each`` and ``transform`` run it with the arguments given. An algorithm that
returns something passes one more argument to its kernel: an array of one element with the initial value, in which the
kernel leaves the result:

    @kernel
    def dot(a, b, total):
        s = total[0]
        for i in range(len(a)):
            s += a[i] * b[i]
        total[0] = s

    product = await t.transform_reduce(par_unseq, dot, a, b)

For ``any_of``, ``all_of`` and ``none_of`` the kernel counts the elements for which the predicate holds.
"""

from __future__ import annotations

import functools
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import attrs
import numpy as np
from numpy.typing import DTypeLike

from offloadrt.extensions.stdpar.arrays import UsmArray
from offloadrt.extensions.stdpar.elision import RETURNING, ExecutionPolicy
from offloadrt.kernels import ArrayUse, Kernel, Launch
from offloadrt.models.host.arguments import CHECKED, checks_arguments
from offloadrt.models.host.directive import check_arguments


@attrs.frozen(eq=False)
class Indirect:
    """Wraps an array that a kernel reaches through a pointer in memory, so that the runtime does not see its use."""

    array: UsmArray


indirect = Indirect


def pointers(arguments: Sequence[Any]) -> Iterator[UsmArray]:
    """Yield the arrays whose addresses are among a kernel's arguments."""
    for argument in arguments:
        if isinstance(argument, UsmArray):
            yield argument


def host_pointers(arguments: Sequence[Any]) -> list[UsmArray]:
    """Return the arrays among the arguments that only the host can use: those on the C library's heap or on a stack."""
    return [array for array in pointers(arguments) if array.memory in ("heap", "stack")]


def direct(arguments: Sequence[Any]) -> list[Any]:
    """Return the arguments as the kernel's body gets them, with `Indirect` arrays unwrapped."""
    return [argument.array if isinstance(argument, Indirect) else argument for argument in arguments]


ReduceOperation = Literal["plus", "minimum", "maximum"]
"""The operation by which ``reduce`` joins two elements."""

_HERE = str(Path(__file__).parent)

_JOIN: dict[ReduceOperation, np.ufunc] = {"plus": np.add, "minimum": np.minimum, "maximum": np.maximum}


@attrs.frozen(eq=False)
class AlgorithmCall:
    """A call of a parallel algorithm. Raises ValueError if the algorithm returns a value and `init` is None.

    `policy` is the execution policy, as ``par``; `kernel` and its `arguments` are what is run for each element.
    `algorithm` is its name, as ``for_each``.
    """

    algorithm: str
    policy: ExecutionPolicy
    kernel: Kernel
    arguments: tuple[Any, ...]
    iterations: int | None = None
    """The number of iterations of a kernel that is declared by its costs; None for one for each element of its first
    array.
    """
    init: Any = None
    """The initial value of an algorithm that returns something; never None there."""
    dtype: DTypeLike = np.float64
    """The type of what the algorithm returns."""

    place: tuple[str, int] = attrs.field(factory=lambda: _caller())
    """File and line from which the program called the algorithm."""
    launches: tuple[Launch, ...] | None = None
    """The recorded launches of its kernels; None for a single launch of `kernel`."""

    @property
    def returns(self) -> bool:
        return self.algorithm in RETURNING

    def __attrs_post_init__(self) -> None:
        check_arguments(self.kernel, self.arguments)
        if self.returns and self.init is None:
            raise ValueError(f"{self.algorithm}({self.kernel.name}): init is None, but the result begins with it")


@checks_arguments
class Algorithms(ABC):
    """The parallel algorithms of the C++ standard library as methods of a host thread.

    The implementation chooses whether an algorithm runs on the device or on the host; its arrays are there afterwards.
    An algorithm that returns nothing may still be running when the call returns. `policy` is `seq`, `par` or
    `par_unseq`.

    Each method raises KernelError for arguments that the kernel cannot take, ValueError for an `init` of None, and what
    the driver raises. Where an argument points to memory that only the host can use, the algorithm runs on the host, or
    raises HostPointerInKernel or CompilationRefused, as the implementation does.
    """

    @abstractmethod
    async def invoke(self, call: AlgorithmCall) -> Any:
        """Run one algorithm, with its policy, kernel and arguments, and return its result; None if it has none."""

    def for_each(
        self, policy: ExecutionPolicy, kernel: Kernel, *arguments: Any, iterations: int | None = None
    ) -> Awaitable[None]:
        """Run ``std::for_each`` of a kernel, on its arguments.

        iterations: how many a kernel has that declares its costs and has no body; None: one per element of its first
        array.
        """
        return self.invoke(AlgorithmCall("for_each", policy, kernel, arguments, iterations))

    def for_each_n(self, policy: ExecutionPolicy, n: int, kernel: Kernel, *arguments: Any) -> Awaitable[None]:
        """Run ``std::for_each_n``: the kernel gets `n` as its first argument."""
        return self.invoke(AlgorithmCall("for_each_n", policy, kernel, (_size(n, "for_each_n"), *arguments), n))

    def transform(
        self, policy: ExecutionPolicy, kernel: Kernel, *arguments: Any, iterations: int | None = None
    ) -> Awaitable[None]:
        """Run ``std::transform`` of a kernel, on its arguments.

        iterations: how many a kernel has that declares its costs and has no body; None: one per element of its first
        array.
        """
        return self.invoke(AlgorithmCall("transform", policy, kernel, arguments, iterations))

    def fill(self, policy: ExecutionPolicy, array: UsmArray, value: float) -> Awaitable[None]:
        """Run ``std::fill``: set all elements of an array to a value."""
        return self.invoke(AlgorithmCall("fill", policy, _fill(array.itemsize), (array, value)))

    def fill_n(self, policy: ExecutionPolicy, array: UsmArray, n: int, value: float) -> Awaitable[None]:
        """Run ``std::fill_n`` on the first `n` elements. Raises ValueError if `n` is more than the array has."""
        _within(array, n, "fill_n")
        return self.invoke(AlgorithmCall("fill_n", policy, _fill_n(array.itemsize), (array, n, value), n))

    def copy(self, policy: ExecutionPolicy, source: UsmArray, destination: UsmArray) -> Awaitable[None]:
        """Run ``std::copy`` to the first elements of `destination`. Raises ValueError where it has fewer elements."""
        n = source.nbytes // source.itemsize
        _within(destination, n, "copy")
        return self.invoke(
            AlgorithmCall("copy", policy, _copy(source.itemsize, destination.itemsize), (source, destination), n)
        )

    async def transform_reduce(
        self,
        policy: ExecutionPolicy,
        kernel: Kernel,
        *arguments: Any,
        init: Any = 0.0,
        dtype: DTypeLike = np.float64,
        iterations: int | None = None,
    ) -> Any:
        """Run ``std::transform_reduce``; return what the kernel leaves in its last parameter, the reduced value.

        init: the value with which the reduction begins. dtype: the type of the result. iterations: how many, for a
        kernel that is declared by its costs. Returns None where an array is a phantom (without values), since nothing
        is computed then.
        """
        return await self.invoke(AlgorithmCall("transform_reduce", policy, kernel, arguments, iterations, init, dtype))

    async def reduce(
        self, policy: ExecutionPolicy, array: UsmArray, init: Any = 0.0, operation: ReduceOperation = "plus"
    ) -> Any:
        """Run ``std::reduce`` over all elements of an array, and return the result.

        init: the value with which the reduction begins. Returns None where the array is a phantom (without values),
        since nothing is computed then. operation: the operation by which two elements are joined.
        """
        return await self.invoke(
            AlgorithmCall("reduce", policy, _reduce(array.itemsize, operation), (array,), None, init, array.dtype)
        )

    async def any_of(self, policy: ExecutionPolicy, predicate: Kernel, *arguments: Any) -> bool | None:
        """Run ``std::any_of``: tell whether a predicate holds for at least one of the elements over which it loops.

        predicate: a kernel that counts the elements for which it holds into its last parameter, which is added to
        `arguments`. Returns None where an array is a phantom (without values).
        """
        count = await self._count("any_of", policy, predicate, arguments)
        return None if count is None else count > 0

    async def all_of(self, policy: ExecutionPolicy, predicate: Kernel, *arguments: Any) -> bool | None:
        """Run ``std::all_of``: tell whether a predicate holds for all elements of the first array among its arguments.

        predicate, arguments: as in `any_of`. Returns None where an array is a phantom (without values). Raises
        ValueError if no argument is an array.
        """
        first = next(pointers(direct(arguments)), None)
        if first is None:
            raise ValueError(f"all_of({predicate.name}): none of the arguments is an array, so it is of no elements")
        count = await self._count("all_of", policy, predicate, arguments)
        return None if count is None else count == first.nbytes // first.itemsize

    async def none_of(self, policy: ExecutionPolicy, predicate: Kernel, *arguments: Any) -> bool | None:
        """Run ``std::none_of``: tell whether a predicate holds for none of the elements over which it loops.

        predicate, arguments: as in `any_of`. Returns None where an array is a phantom (without values).
        """
        count = await self._count("none_of", policy, predicate, arguments)
        return None if count is None else count == 0

    async def _count(self, name: str, policy: ExecutionPolicy, predicate: Kernel, arguments: Any) -> int | None:
        count = await self.invoke(AlgorithmCall(name, policy, predicate, arguments, None, 0, np.int64))
        return None if count is None else int(count)


def _caller() -> tuple[str, int]:
    """Find file and line of the nearest frame outside of this package."""
    frame, checking = sys._getframe(1), CHECKED.co_filename
    while frame.f_code.co_filename.startswith((_HERE, checking, "<attrs generated")) and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def _size(n: int, call: str) -> int:
    if n < 0:
        raise ValueError(f"{call} of {n} elements")
    return n


def _within(array: UsmArray, n: int, call: str) -> None:
    if not 0 <= n <= array.nbytes // array.itemsize:
        raise ValueError(f"{call} of {n} elements: array {array.name!r} has {array.nbytes // array.itemsize}")


def _made(name: str, body: Callable[..., None], flops: float, *uses: ArrayUse) -> Kernel:
    nbytes = 0.0
    for use in uses:
        nbytes += use.bytes

    @functools.wraps(body)
    def named(*arguments: Any) -> None:
        try:
            body(*arguments)
        except (TypeError, ValueError) as error:  # NumPy's, which names neither the algorithm nor an array
            raise TypeError(f"{name}: its arrays have elements with which it cannot be done: {error}") from None

    return Kernel(name, named, flops, nbytes, arrays=uses)


def _read(position: int, size: int) -> ArrayUse:
    return ArrayUse(f"a{position}", position, reads=1.0, elements_read=1.0, element_size=size)


def _written(position: int, size: int) -> ArrayUse:
    return ArrayUse(f"a{position}", position, writes=1.0, elements_written=1.0, element_size=size)


@functools.cache
def _fill(size: int) -> Kernel:
    def body(array: Any, value: float) -> None:
        array[...] = value

    return _made("fill", body, 0.0, _written(0, size))


@functools.cache
def _fill_n(size: int) -> Kernel:
    def body(array: Any, n: int, value: float) -> None:
        array.reshape(-1)[:n] = value

    return _made("fill_n", body, 0.0, _written(0, size))


@functools.cache
def _copy(read: int, written: int) -> Kernel:
    def body(source: Any, destination: Any) -> None:
        destination.reshape(-1)[: source.size] = source.reshape(-1)

    return _made("copy", body, 0.0, _read(0, read), _written(1, written))


@functools.cache
def _reduce(size: int, operation: ReduceOperation) -> Kernel:
    join = _JOIN[operation]

    def body(array: Any, total: Any) -> None:
        total[0] = join(total[0], join.reduce(array, axis=None)) if array.size else total[0]

    return _made("reduce", body, 1.0, _read(0, size))
