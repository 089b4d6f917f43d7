"""A kernel: what a target region computes, and what one iteration of it costs.

A kernel has a body, or none (a *phantom* kernel, which has costs only). Its costs are counts (flops and bytes per loop
iteration), never seconds: ``machine/`` turns them into time. The decorator ``kernel`` makes one of a Python function.

The decorator accepts two kinds of bodies:

- A *loop nest*: no costs are given, and a ``for`` over a ``range`` stands among the outermost statements.  Its source
  is read (`loop_subset.py` says what it may hold); costs and access frequencies come from there, and anything else is
  refused with file and line.
- A body over NumPy views of device memory, called as it is: a function whose costs are given, which may hold any
  Python, or one without costs and without a loop.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, Final, Literal, TypedDict, Unpack, overload

import attrs

from offloadrt.kernels.array_use import ArrayUse, KernelError
from offloadrt.kernels.costs import AtomicCounts, KernelAnalysis, LaunchCounts, Places
from offloadrt.kernels.execution import NestBody
from offloadrt.kernels.loop_subset import may_loop, read, refuse_loops, written_out
from offloadrt.kernels.memory_streams import Moves
from offloadrt.kernels.source import Source, is_loop_nest

Body = Callable[..., None]


DEFAULT_THREADS: Final = 128
"""Threads of a team where neither the kernel nor the runtime sets their number."""


def _number_that(holds: Callable[[Any], bool], must: str) -> Callable[[object, attrs.Attribute[Any], Any], None]:
    """Return a validator of a number; `must` says in its error what should hold."""

    def check(instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:
        if not isinstance(value, (int, float, Real)):  # the plain ones first: asking an abstract class is slow
            raise KernelError(f"kernel {_name_of(instance)!r}: {attribute.name} is {value!r}, but must be a number")
        if not holds(value):
            raise KernelError(f"kernel {_name_of(instance)!r}: {attribute.name} is {value}, but must {must}")

    return check


_not_negative = _number_that(lambda value: 0 <= value < 1 << 63, "lie between 0 and 2**63")
_positive = _number_that(lambda value: value > 0, "be positive")
_count = _number_that(lambda value: 0 < value < 1 << 63, "be positive, and less than 2**63")
_fraction = _number_that(lambda value: 0 < value <= 1, "lie in (0, 1]")


def _a_precision(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if value not in ("double", "single"):
        raise KernelError(f"kernel {_name_of(instance)!r}: precision is {value!r}, but can be double or single")


def _name_of(instance: object) -> str:
    if isinstance(instance, Launch):
        return instance.kernel.name
    return str(getattr(instance, "name", "?"))


@attrs.frozen
class Kernel:
    """The body of a target region and its costs per iteration of the distributed loop (shared out among teams).

    A call ``kernel(*args)`` runs the body on the host, which gives reference results.
    """

    name: str
    body: Body | None = None
    """The function called as ``body(*args)`` when the kernel ends; None for a phantom kernel, which only takes time."""
    flops_per_iteration: float = attrs.field(default=0.0, validator=_not_negative)
    """Operations of one iteration, in the kernel's precision."""
    bytes_per_iteration: float = attrs.field(default=0.0, validator=_not_negative)
    """Bytes that one iteration moves between the device's memory and its compute units."""
    threads_per_team: int | None = attrs.field(default=None, validator=attrs.validators.optional(_positive))
    """Threads of a team; None leaves the number to the runtime."""
    registers_per_thread: int = attrs.field(default=32, validator=_positive)
    efficiency: float = attrs.field(default=1.0, validator=_fraction)
    """Fraction of the peak arithmetic rate that the code reaches on a full device; register spilling lowers it."""
    dependent_accesses: float = attrs.field(default=0.0, validator=_not_negative)
    """Number of memory accesses of a team that must follow one another (look-ups, the steps of a reduction)."""
    loads_in_flight: float | None = attrs.field(default=None, validator=attrs.validators.optional(_positive))
    """Independent loads that a thread has in flight at once, read from its source or declared. None means not known:
    then the memory's latency is hidden when the device's arithmetic units have enough teams.
    """
    bytes_per_load: float = attrs.field(default=8.0, validator=_positive)
    """Bytes moved for each of these loads, including the stores that belong to it."""
    atomics_per_iteration: float = attrs.field(default=0.0, validator=_not_negative)
    """Atomic operations in device memory per iteration, for a kernel that is declared by its costs."""
    atomic_addresses: float = attrs.field(default=1.0, validator=_positive)
    """Number of addresses among which the atomic operations are evenly distributed."""
    precision: Literal["double", "single"] = attrs.field(default="double", validator=_a_precision)
    """The precision in which the kernel's operations count, whatever its arrays hold; devices have a rate for each."""
    single_flops_per_iteration: float = attrs.field(default=0.0, validator=_not_negative)
    """Operations of one iteration in single precision, besides those in the kernel's precision."""
    further_per_iteration: float = attrs.field(default=0.0, validator=_not_negative)
    """Further operations of one iteration's machine code; a division, for one, takes several instructions."""
    shared_bytes_per_team: int = attrs.field(default=0, validator=_not_negative)
    """Shared memory (LDS) of a team; like registers, it bounds how many teams are resident on an SM at a time."""
    moves: Moves | None = attrs.field(default=None, eq=False, repr=False)
    """Where the bytes of a launch lie; None means not known, and then the bytes are assumed contiguous."""
    arrays: tuple[ArrayUse, ...] = attrs.field(default=(), converter=tuple[ArrayUse, ...])
    """The kernel's uses of its arrays, read from its source or declared; empty when there is neither."""
    analysis: KernelAnalysis | None = attrs.field(default=None, eq=False, repr=False)
    """The analysis of the kernel's source; None for a kernel that is declared by its costs."""

    def __call__(self, *args: Any) -> None:
        """Run the body on the host.  Raises KernelError for a phantom kernel."""
        if self.body is None:
            raise KernelError(f"kernel {self.name!r} is a phantom: it has costs but no body to run")
        run_body(self.body, args)

    def moved_per_byte(self, sector: int, cache: float) -> float:
        """Return the bytes that move to and from memory for each byte of the elements accessed.

        sector: bytes of a memory sector. cache: bytes of the cache (`memory_streams.py`).
        """
        return 1.0 if self.moves is None else self.moves.per_byte(sector, cache)

    @property
    def team_threads(self) -> int:
        """Return the number of threads in a team: the kernel's, or `DEFAULT_THREADS` if the kernel sets none."""
        return self.threads_per_team or DEFAULT_THREADS

    @property
    def parameters(self) -> tuple[str, ...]:
        """Return the names of the body's parameters in order; empty without a body (phantom) and for a C function."""
        try:
            return tuple(inspect.signature(self.body).parameters) if self.body is not None else ()
        except ValueError:
            return ()

    @functools.cached_property
    def takes(self) -> tuple[int, float]:
        """Return the least and greatest number of arguments of the body; (0, inf) for a loop nest or if not known."""
        if self.body is None or self.analysis is not None:
            return 0, math.inf
        try:
            parameters = inspect.signature(self.body).parameters.values()
        except ValueError:  # a C function without a signature
            return 0, math.inf
        positional = [
            parameter
            for parameter in parameters
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        ]
        open_ended = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters)
        return sum(parameter.default is parameter.empty for parameter in positional), math.inf if open_ended else len(
            positional
        )

    def launch(
        self,
        teams: int,
        threads: int | None = None,
        iterations: int | None = None,
        arguments: Sequence[Any] | None = None,
    ) -> Launch:
        """Make a launch of this kernel with the given numbers of teams and threads.

        Without ``iterations``, a loop nest runs the iterations that its source and ``arguments`` determine; any other
        kernel runs one in every thread. With ``arguments``, a loop nest has the costs for them (`with_arguments`).
        Raises IndexOutOfRange when the launch certainly leaves an array, even one without values (a phantom).
        """
        threads = self.team_threads if threads is None else threads
        if arguments is not None and self.analysis is not None:
            iterations = self.analysis.trip_count(*arguments) if iterations is None else iterations
            counts = self.analysis.at(*arguments)
            if (beyond := counts.outside) is not None:
                raise beyond.error(self.name, self.analysis.file, arguments[beyond.position])
            return Launch(self.with_arguments(*arguments), teams, threads, iterations, counts)
        return Launch(self, teams, threads, teams * threads if iterations is None else iterations)

    def with_arguments(self, *arguments: Any) -> Kernel:
        """Return a loop nest with the costs of a launch with these arguments, instead of a compiler's guess.

        The costs are per iteration. Arrays may be phantoms (a size without values). A kernel declared by its costs is
        returned unchanged. Raises KernelError if a length or scalar of a loop is not known.
        """
        if self.analysis is None:
            return self
        counts = self.analysis.at(*arguments)
        return attrs.evolve(
            self,
            flops_per_iteration=counts.flops_per_iteration,
            bytes_per_iteration=counts.bytes_per_iteration,
            loads_in_flight=counts.waits.loads_in_flight,
            bytes_per_load=counts.waits.bytes_per_load(counts.bytes),
            further_per_iteration=counts.further / counts.iterations if counts.iterations else 0.0,
            moves=counts.moves,
        )


@attrs.frozen
class Tile:
    """Teams of ``height`` rows with ``width`` threads each; ``columns`` such teams stand side by side in the grid."""

    width: int = attrs.field(validator=_positive)
    height: int = attrs.field(validator=_positive)
    columns: int = attrs.field(validator=_positive)


@attrs.frozen
class Launch:
    """One execution of a kernel: ``teams`` teams of ``threads`` threads share ``iterations`` iterations."""

    kernel: Kernel
    teams: int = attrs.field(validator=_count)
    threads: int = attrs.field(validator=_count)
    iterations: int = attrs.field(validator=_not_negative)
    counts: LaunchCounts | None = attrs.field(default=None, eq=False, repr=False)
    """The loop nest's counts for its arguments, as far as the arguments and hints determine them."""
    accessing: float = attrs.field(default=1.0, validator=_fraction)
    """Fraction of the iterations that access memory; in the others a predicate is false."""
    strided: bool = False
    """Whether a thread's next iteration is one grid size away; otherwise each team has consecutive iterations."""
    tile: Tile | None = None
    """The two-dimensional shape of the teams; None for one dimension."""

    def slower(self, factor: float) -> Launch:
        """Return the launch with code that takes ``factor`` times as long.

        Operations, bytes and dependent accesses are all scaled, as the factor does not say which part of the code is
        worse. So the same resource bounds the kernel as before.
        """
        if factor == 1.0:
            return self
        kernel = self.kernel
        return attrs.evolve(
            self,
            kernel=attrs.evolve(
                kernel,
                flops_per_iteration=kernel.flops_per_iteration * factor,
                single_flops_per_iteration=kernel.single_flops_per_iteration * factor,
                further_per_iteration=kernel.further_per_iteration * factor,
                bytes_per_iteration=kernel.bytes_per_iteration * factor,
                dependent_accesses=kernel.dependent_accesses * factor,
            ),
        )

    @property
    def accessing_teams(self) -> int:
        """Return how many teams have an iteration that accesses memory; the other teams only compute or do nothing."""
        return math.ceil(self.teams * self.accessing)

    @property
    def flops(self) -> float:
        """Return the floating-point operations of the whole launch."""
        return self.iterations * self.kernel.flops_per_iteration

    @property
    def single_flops(self) -> float:
        """Return the launch's operations in single precision that `flops` (in the kernel's precision) leaves out."""
        return self.iterations * self.kernel.single_flops_per_iteration

    @property
    def bytes(self) -> float:
        """Return the bytes of the elements that the whole launch moves to and from the device's memory."""
        return self.iterations * self.kernel.bytes_per_iteration

    def at(self, places: Places) -> Launch:
        """Return this launch with the costs that `places`, found from index arrays, gives in place of estimates."""
        if self.counts is None or self.kernel.moves is None:
            return self
        atomics = [
            attrs.evolve(each, hottest=each.operations * places.hottest.get(each.array, each.hottest / each.operations))
            for each in self.counts.atomics
            if each.operations  # none where its loop has no iteration
        ]
        moving = attrs.evolve(self.kernel, moves=self.kernel.moves.at(places.moved))
        return attrs.evolve(self, kernel=moving, counts=attrs.evolve(self.counts, atomics=tuple(atomics)))

    @property
    def atomics(self) -> tuple[AtomicCounts, ...]:
        """Return the atomic operations that the source has or the kernel declares."""
        if self.counts is not None and self.counts.atomics:
            return self.counts.atomics
        if not (operations := self.kernel.atomics_per_iteration * self.iterations):
            return ()
        return (AtomicCounts("", "device", operations, operations / self.kernel.atomic_addresses),)

    def bytes_moved(self, sector: int, cache: float) -> float:
        """Return the bytes that move with memory sectors of `sector` bytes and a cache of `cache` bytes."""
        return self.bytes * self.kernel.moved_per_byte(sector, cache)


def as_loop_nest(kernel: Kernel, function: Callable[..., None], collapse: int) -> Kernel:
    """Return the kernel with body, costs and arrays read from `function`; unchanged if `function` has no loop.

    collapse: how many nested loops the device shares out. Raises SourceRefused for a loop that cannot be analysed, and
    KernelError when the source cannot be read.
    """
    source = written_out(Source.of(function, "kernel"))
    if is_loop_nest(source):
        return of_source(kernel, source, collapse)
    refuse_loops(source)
    return kernel


def of_source(kernel: Kernel, source: Source, collapse: int) -> Kernel:
    """Return the kernel with body, costs and arrays of `source`, sharing out `collapse` loops. Raises SourceRefused."""
    nest = read(source, collapse)
    analysis = KernelAnalysis.of(nest, kernel.name)
    return attrs.evolve(
        kernel,
        body=NestBody(nest, analysis),
        flops_per_iteration=analysis.flops,
        bytes_per_iteration=analysis.bytes,
        loads_in_flight=analysis.waits.loads_in_flight,
        bytes_per_load=analysis.waits.bytes_per_load(analysis.bytes),
        arrays=analysis.arrays,
        analysis=analysis,
    )


class KernelFields(TypedDict, total=False):
    """The fields of a `Kernel` that callers may pass by name, described there; an omitted one takes its default."""

    name: str
    flops_per_iteration: float
    bytes_per_iteration: float
    threads_per_team: int
    registers_per_thread: int
    shared_bytes_per_team: int
    precision: Literal["double", "single"]
    efficiency: float
    dependent_accesses: float
    atomics_per_iteration: float
    atomic_addresses: float
    loads_in_flight: float
    bytes_per_load: float
    arrays: Sequence[ArrayUse]


_COSTS = ("flops_per_iteration", "bytes_per_iteration", "arrays")
"""If one of these fields is given, the body is not read as a loop nest."""


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
    precision: that of its floating-point operations, "double" or "single".
    reads, writes: the parameters whose arrays a body over views reads, and writes; they decide which managed memory
    moves. Without them, a run on managed memory warns, and assumes that the body reads and writes all arrays whole.
    arrays: what the body does with each array, in more detail (`ArrayUse`). Other keywords are fields of `Kernel`.
    Raises SourceRefused, with file and line, for a function without costs that has a loop which offloadrt cannot read,
    and KernelError for a parameter that the function does not have.
    """

    def make(function: Body) -> Kernel:
        code = getattr(function, "__code__", None)  # a C function has none
        if isinstance(function, type) or not hasattr(function, "__name__"):
            raise KernelError(f"kernel: {function!r:.80} is no function; write @kernel above a `def`")
        made = attrs.evolve(Kernel(function.__name__, function), **fields)
        if reads is not None or writes is not None:
            made = attrs.evolve(made, arrays=_declared_uses(made, reads or (), writes or ()))
        if not fields.keys() & _COSTS and code is not None and may_loop(code):
            if made.arrays:
                raise KernelError(f"kernel {made.name!r}: reads and writes are read from the source of a loop nest")

            made = as_loop_nest(made, function, collapse)
        elif code is not None and code.co_flags & (inspect.CO_COROUTINE | inspect.CO_GENERATOR):
            raise KernelError(f"kernel {made.name!r}: awaits or yields, and would do nothing; write a plain `def`")
        if collapse != 1 and made.analysis is None:
            raise KernelError(f"kernel {made.name!r}: collapse is for a loop nest without costs of its own")
        return made

    return make if body is None else make(body)


def run_body(body: Body, values: Sequence[Any]) -> None:
    """Run a kernel's body on the arguments `values`. A TypeError gets a note about arguments without element type."""
    try:
        body(*values)
    except TypeError as error:
        raw = [str(place) for place, value in enumerate(values) if str(getattr(value, "dtype", None)) == "uint8"]
        if raw:
            error.add_note(
                f"argument {', '.join(raw)} of the kernel: bytes (uint8); where numbers lie, view it as these first: "
                "pointer.viewed(np.float64) of omp_target_alloc's memory, t.malloc(n, np.float64) of cudaMalloc's"
            )
        raise


def _declared_uses(of: Kernel, reads: Sequence[str], writes: Sequence[str]) -> tuple[ArrayUse, ...]:
    """Return declared uses of the arrays that a body reads or writes as a whole. Raises KernelError."""
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
