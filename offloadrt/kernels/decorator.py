"""The decorator ``@kernel``, which makes a kernel of a Python function.

It takes two kinds of bodies:

- A *loop nest*: no costs are given, and a ``for`` over a ``range`` stands among the outermost statements.  Its source
  is read (`loop_subset.py` says what it may hold); costs and access frequencies come from there, and anything else is
  refused with file and line.
- A body over NumPy views of device memory, called as it is: a function whose costs are given, which may hold any
  Python, or one without costs and without a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypedDict, Unpack, overload

import attrs

from offloadrt.kernels.array_use import ArrayUse
from offloadrt.kernels.errors import KernelError
from offloadrt.kernels.kernel import Body, Kernel
from offloadrt.kernels.loop_subset import may_loop


class KernelFields(TypedDict, total=False):
    """The fields of a `Kernel` that may be given; what is left out has the default of its class."""

    name: str
    flops_per_iteration: float
    bytes_per_iteration: float
    threads_per_team: int
    registers_per_thread: int
    precision: Literal["double", "single"]
    efficiency: float
    dependent_accesses: float
    loads_in_flight: float
    bytes_per_load: float
    arrays: Sequence[ArrayUse]


_COSTS = ("flops_per_iteration", "bytes_per_iteration", "arrays")
"""Given one of these, a body is not read as a loop nest."""


@overload
def kernel(body: Body, /) -> Kernel: ...


@overload
def kernel(
    *,
    collapse: int = 1,
    reads: Sequence[str] | None = None,
    writes: Sequence[str] | None = None,
    **fields: Unpack[KernelFields],
) -> Callable[[Body], Kernel]: ...


def kernel(
    body: Body | None = None,
    /,
    *,
    collapse: int = 1,
    reads: Sequence[str] | None = None,
    writes: Sequence[str] | None = None,
    **fields: Unpack[KernelFields],
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
    reads, writes: the parameters whose arrays a body over views reads, and writes; managed memory moves by it. Without
    them it is taken to read and write each array as a whole, and a run on managed memory warns of that.
    arrays: the same in more detail (`ArrayUse`).
    Raises SourceRefused, with file and line, for a function without costs that has a loop outside of the subset, and
    KernelError for a parameter that the function does not have.
    """

    def make(function: Body) -> Kernel:
        made = attrs.evolve(Kernel(function.__name__, function), **fields)
        if reads is not None or writes is not None:
            made = attrs.evolve(made, arrays=_declared_uses(made, reads or (), writes or ()))
        code = getattr(function, "__code__", None)  # a function of C has none
        if not fields.keys() & _COSTS and code is not None and may_loop(code):
            from offloadrt.kernels.loop_kernel import as_loop_nest

            if made.arrays:
                raise KernelError(f"kernel {made.name!r}: reads and writes are read from the source of a loop nest")

            made = as_loop_nest(made, function, collapse)
        if collapse != 1 and made.analysis is None:
            raise KernelError(f"kernel {made.name!r}: collapse is for a loop nest without costs of its own")
        return made

    return make if body is None else make(body)


def _declared_uses(of: Kernel, reads: Sequence[str], writes: Sequence[str]) -> tuple[ArrayUse, ...]:
    """Return the uses of the arrays that a body reads or writes, each as a whole and in order. Raises KernelError."""
    if of.arrays:
        raise KernelError(f"kernel {of.name!r}: give either reads and writes, or arrays")
    for option, names in (("reads", reads), ("writes", writes)):
        if isinstance(names, str):
            raise KernelError(f'kernel {of.name!r}: {option}={names!r}: write {option}=("{names}",)')
        for name in names:
            if name not in of.parameters:
                has = ", ".join(of.parameters) or "none"
                raise KernelError(f"kernel {of.name!r}: {option}: there is no parameter {name!r} ({has})")
    return tuple(
        ArrayUse(name, position, reads=float(name in reads), writes=float(name in writes))
        for position, name in enumerate(of.parameters)
        if name in (*reads, *writes)
    )
