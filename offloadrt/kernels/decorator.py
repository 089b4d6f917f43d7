"""The decorator ``@kernel``, which makes a kernel of a Python function.

It takes two kinds of bodies:

- A *loop nest*: no costs are given, and a ``for`` over a ``range`` stands among the outermost statements.  Its source
  is read (`source/subset.py` says what it may hold); costs and access frequencies come from there, and anything else is
  refused with file and line.
- A body over NumPy views of device memory, called as it is: a function whose costs are given, which may hold any
  Python, or one without costs and without a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, overload

from offloadrt.kernels.array_use import ArrayUse
from offloadrt.kernels.errors import KernelError
from offloadrt.kernels.kernel import Body, Kernel
from offloadrt.kernels.source.other_loops import may_loop


@overload
def kernel(body: Body, /) -> Kernel: ...


@overload
def kernel(
    *,
    name: str | None = None,
    flops_per_iteration: float | None = None,
    bytes_per_iteration: float | None = None,
    threads_per_team: int = 128,
    registers_per_thread: int = 32,
    precision: Literal["double", "single"] = "double",
    efficiency: float = 1.0,
    dependent_accesses: float = 0.0,
    loads_in_flight: float | None = None,
    bytes_per_load: float = 8.0,
    arrays: Sequence[ArrayUse] = (),
    collapse: int = 1,
) -> Callable[[Body], Kernel]: ...


def kernel(
    body: Body | None = None,
    /,
    *,
    name: str | None = None,
    flops_per_iteration: float | None = None,
    bytes_per_iteration: float | None = None,
    threads_per_team: int = 128,
    registers_per_thread: int = 32,
    precision: Literal["double", "single"] = "double",
    efficiency: float = 1.0,
    dependent_accesses: float = 0.0,
    loads_in_flight: float | None = None,
    bytes_per_load: float = 8.0,
    arrays: Sequence[ArrayUse] = (),
    collapse: int = 1,
) -> Kernel | Callable[[Body], Kernel]:
    """Make a kernel of a Python function: of a loop nest, or of a body over NumPy views, with or without costs.

    >>> @kernel(flops_per_iteration=2, bytes_per_iteration=24)
    ... def axpy(a, x, y):
    ...     y += a * x
    >>> axpy.launch(teams=108, iterations=1 << 20).flops
    2097152

    Without costs, a function with a loop is a loop nest: a ``for`` over a ``range`` stands among its outermost
    statements, and its costs are read from its source::

        @kernel
        def axpy(a, x, y):
            for i in range(len(x)):
                y[i] = a * x[i] + y[i]

    collapse: how many perfectly nested loops of a loop nest the device shares out, counted from the outermost one.
    precision: of its floating-point operations.
    arrays: what a body over views does with its arrays, for those who ask (`ArrayUse`).
    Raises SourceRefused, with file and line, for a function without costs that has a loop outside of the subset.
    """

    def make(function: Body) -> Kernel:
        declared = flops_per_iteration is not None or bytes_per_iteration is not None or bool(arrays)
        made = Kernel(
            name=name or function.__name__,
            body=function,
            flops_per_iteration=flops_per_iteration or 0.0,
            bytes_per_iteration=bytes_per_iteration or 0.0,
            threads_per_team=threads_per_team,
            registers_per_thread=registers_per_thread,
            precision=precision,
            efficiency=efficiency,
            dependent_accesses=dependent_accesses,
            loads_in_flight=loads_in_flight,
            bytes_per_load=bytes_per_load,
            arrays=tuple(arrays),
        )
        code = getattr(function, "__code__", None)  # a function of C has none
        if not declared and code is not None and may_loop(code):
            from offloadrt.kernels.loop_kernel import as_loop_nest

            made = as_loop_nest(made, function, collapse)
        if collapse != 1 and made.analysis is None:
            raise KernelError(f"kernel {made.name!r}: collapse is for a loop nest without costs of its own")
        return made

    return make if body is None else make(body)
