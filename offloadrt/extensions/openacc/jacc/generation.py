"""Generated kernels: the Python source that a pushed kernel is compiled from, depending on how it is specialised.

``restrict`` marks the arrays as free of aliases. ``var_opt`` replaces scalars by their values. Both change the source
text, and so what is compiled. How much faster a compiler's code becomes on a device is an input (`Effects`). The text
holds all that its code depends on: types, launch attributes, and the numbers that it takes from globals and closures.
"""

from __future__ import annotations
import __future__

import ast
import copy
import enum
import hashlib
import inspect
import linecache
import math
import re
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import attrs
import numpy as np

from offloadrt.kernels import Kernel
from offloadrt.kernels.integers import is_integer
from offloadrt.kernels.kernel import of_source
from offloadrt.kernels.memo import Memo
from offloadrt.kernels.source import Source
from offloadrt.machine import Machine
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.lock_wait import take
from offloadrt.sim import Lock, LockStatistics
from offloadrt.trace import Trace, events


class Attribute(enum.Flag):
    """A property of a kernel's array argument, as JACC's translator finds it in the source.

    WRITE: the kernel writes it. PRESENT: it is on the device already; any other array is copied in and out for the
    launch. REDUCTED: the iterations combine their values in it. NONE: none of these.
    """

    NONE = 0
    WRITE = enum.auto()
    PRESENT = enum.auto()
    REDUCTED = enum.auto()


@attrs.frozen(eq=False)
class Argument:
    """Describes one argument of a pushed (launched) kernel, as JACC's translator passes it to the runtime.

    `symbol` is its name in the kernel, `value` the array or the number, and `type` the type of the number or of the
    array's elements. `address` and `size` say where the array lies in the host's memory and how many bytes it has; both
    are 0 for a number. `bounds` are rows [lower, upper) of the array's first dimension: the kernel touches nothing
    outside of them. `attributes` is what the translator has found about the argument.
    """

    symbol: str
    type: np.dtype[Any]
    address: int
    size: int
    attributes: Attribute
    bounds: tuple[int, int] | None
    value: Any

    @property
    def is_array(self) -> bool:
        return isinstance(self.value, HostArray)

    @property
    def writes(self) -> bool:
        """Tell whether the kernel writes the argument. A reduction into it counts as a write."""
        return bool(self.attributes & (Attribute.WRITE | Attribute.REDUCTED))

    @property
    def range(self) -> tuple[int, int]:
        """Return the bytes [begin, end) of host memory whose copies on the device the kernel touches."""
        if self.bounds is None:
            return self.address, self.address + self.size
        row = self.size // len(self.value) if len(self.value) else 0
        return self.address + self.bounds[0] * row, self.address + self.bounds[1] * row


def jacc_arg_build(
    symbol: str, value: Any, attributes: Attribute = Attribute.NONE, bounds: tuple[int, int] | None = None
) -> Argument:
    """Build the descriptor of one argument, a `HostArray` or a number.

    symbol: the argument's name in the kernel. Raises TypeError for another value, and for bounds that are not two whole
    numbers. Raises ValueError for attributes or bounds of a number, bounds outside of the array, and a whole number of
    more than 64 bits.
    """
    if isinstance(value, HostArray):
        if bounds is not None and not (len(pair := [*bounds]) == 2 and all(map(is_integer, pair))):
            raise TypeError(f"argument {symbol!r}: bounds are {bounds!r}, and not two whole numbers")
        if bounds is not None and not 0 <= bounds[0] <= bounds[1] <= value.shape[0]:
            raise ValueError(f"argument {symbol!r}: bounds {bounds} lie outside of {value.name}[0:{value.shape[0]}]")
        return Argument(symbol, value.dtype, value.address, value.nbytes, attributes, bounds, value)
    number = value.item() if isinstance(value, np.generic) else value
    if not isinstance(number, (bool, int, float, complex)):
        raise TypeError(f"argument {symbol!r}: {value!r} is neither an array nor a number")
    if isinstance(number, int) and not -(2**63) <= number < 2**63:
        raise ValueError(f"argument {symbol!r} has {number.bit_length()} bits: whole numbers of a kernel have 64")
    if attributes is not Attribute.NONE or bounds is not None:
        raise ValueError(f"argument {symbol!r} is the number {number!r}: it has neither attributes nor bounds")
    return Argument(symbol, np.result_type(type(number)), 0, 0, attributes, None, number)


def jacc_args(kernel: Kernel, *values: Any, present: bool = True) -> tuple[Argument, ...]:
    """Build the descriptors of a kernel's arguments, as JACC's translator does from its analysis of the source.

    present: whether the arrays are on the device already. An array whose uses are unknown counts as written. Raises
    TypeError for a value that is neither a HostArray nor a number, ValueError for too many or too few values and for a
    whole number of more than 64 bits.
    """
    symbols = symbols_of(kernel, len(values))
    if len(symbols) != len(values):
        raise ValueError(f"kernel {kernel.name!r} takes {len(symbols)} arguments, not {len(values)}")
    written = {use.position: use.writes > 0 for use in kernel.arrays}
    reduced = _reduced_arrays(kernel)
    arguments = []
    for position, (symbol, value) in enumerate(zip(symbols, values, strict=True)):
        attributes = Attribute.NONE
        if isinstance(value, HostArray):
            if written.get(position, not written):
                attributes |= Attribute.WRITE
            if symbol in reduced:
                attributes |= Attribute.REDUCTED
            if present:
                attributes |= Attribute.PRESENT
        arguments.append(jacc_arg_build(symbol, value, attributes))
    return tuple(arguments)


def symbols_of(kernel: Kernel, count: int) -> tuple[str, ...]:
    """Return the names of a kernel's `count` arguments.

    They are those of its source. A kernel without source, which is declared by its costs only, has the names of its
    arrays, or ``arg0``, ``arg1``, ….
    """
    if kernel.analysis is not None:
        return kernel.analysis.parameters
    if kernel.body is not None:
        return tuple(inspect.signature(kernel.body).parameters)
    named = {use.position: use.name for use in kernel.arrays}
    return tuple(named.get(position, f"arg{position}") for position in range(count))


def _reduced_arrays(kernel: Kernel) -> set[str]:
    """Return the names of arrays whose elements the loop reduces, or to which reduced scalars are stored."""
    if kernel.analysis is None:
        return set()
    names = {re.split(r"\W", reduction.target, maxsplit=1)[0] for reduction in kernel.analysis.reductions}
    arrays = {use.name for use in kernel.analysis.arrays}
    if names <= arrays:
        return names
    stores = [access for access in kernel.analysis.accesses if access.kind == "write"]
    return names & arrays | {
        access.array for access in stores if not set(kernel.analysis.distributed) & set(access.path)
    }


Number = bool | int | float


class PushFlags(enum.Flag):
    """How the kernel of a push (a launch by JACC) is specialised for its arguments.

    RESTRICT: the code assumes that no written array shares a byte with another argument. VAR_OPT: scalars are compiled
    in as constants, so that another value means another kernel. NONE: neither.
    """

    NONE = 0
    RESTRICT = enum.auto()
    VAR_OPT = enum.auto()


@attrs.frozen(eq=False)
class GeneratedKernel:
    """A kernel that was generated for a push (`jacc_kernel_push`).

    text: its source as readable Python. kernel: what runs. constants: positions of the original arguments whose values
    are in the text, so that they are no arguments any more.
    """

    text: str
    kernel: Kernel
    constants: frozenset[int]

    def arguments(self, values: Sequence[Any]) -> list[Any]:
        """Return those of the original kernel's arguments, in its order, that the generated kernel still takes."""
        return [value for position, value in enumerate(values) if position not in self.constants]


def generate(kernel: Kernel, arguments: Sequence[Argument], flags: PushFlags) -> GeneratedKernel:
    """Generate the source of a kernel specialised for these arguments, as JACC does when the kernel is launched.

    flags: which specialisations are made. A kernel without source, which is declared by its costs only, gets a text
    without statements. Raises KernelError when the kernel's source cannot be read.
    """
    if kernel.body is None:
        return _phantom(kernel, arguments, flags)
    source = _source_of(kernel)
    constants = _constants(source, arguments, flags)
    tree, tree_args = copy.copy(source.tree), copy.copy(source.tree.args)
    kept = [copy.copy(argument) for argument in tree_args.args if argument.arg not in constants]
    if flags & PushFlags.RESTRICT:
        arrays = {argument.symbol for argument in arguments if argument.is_array}
        for parameter in kept:
            if parameter.arg in arrays:
                parameter.annotation = _restricted(parameter.annotation)
    tree_args.args = kept
    tree.args, tree.decorator_list = tree_args, []
    if constants:
        tree.body = [_Constants(constants).visit(copy.deepcopy(statement)) for statement in tree.body]
    header = _header(kernel, arguments, flags, constants, _numbers_around(source, constants))
    text = f"{header}\n{ast.unparse(ast.fix_missing_locations(tree))}\n"
    positions = frozenset(position for position, argument in enumerate(arguments) if argument.symbol in constants)
    return GeneratedKernel(text, _compiled(kernel, source, text), positions)


def _phantom(kernel: Kernel, arguments: Sequence[Argument], flags: PushFlags) -> GeneratedKernel:
    scalars = [argument for argument in arguments if not argument.is_array] if flags & PushFlags.VAR_OPT else []
    constants = {argument.symbol: argument.value for argument in scalars}
    kept = ", ".join(argument.symbol for argument in arguments if argument.symbol not in constants)
    costs = f"# costs: {kernel.flops_per_iteration!r} flop and {kernel.bytes_per_iteration!r} B an iteration"
    text = f"{_header(kernel, arguments, flags, constants, {})}\n{costs}\ndef {kernel.name}({kept}): ...\n"
    positions = frozenset(position for position, argument in enumerate(arguments) if argument.symbol in constants)
    return GeneratedKernel(text, kernel, positions)


def _source_of(kernel: Kernel) -> Source:
    if kernel.analysis is None:
        assert kernel.body is not None
        return Source.of(kernel.body, "kernel")
    from offloadrt.kernels.execution import NestBody

    assert isinstance(kernel.body, NestBody)
    return kernel.body.nest.source


def _constants(source: Source, arguments: Sequence[Argument], flags: PushFlags) -> dict[str, Number]:
    """Return the scalars that become constants: those that the kernel does not assign and that Python can write.

    That excludes complex numbers, for which Python has no literal, infinities and NaN.
    """
    if not flags & PushFlags.VAR_OPT:
        return {}
    stored = {node.id for node in source.nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return {
        argument.symbol: argument.value
        for argument in arguments
        if not (argument.is_array or argument.symbol in stored or isinstance(argument.value, complex))
        and math.isfinite(argument.value)
    }


def _literal(value: Number) -> ast.expr:
    if not isinstance(value, bool) and math.copysign(1.0, value) < 0:
        return ast.UnaryOp(ast.USub(), ast.Constant(-value))
    return ast.Constant(value)


class _Constants(ast.NodeTransformer):
    def __init__(self, constants: dict[str, Number]) -> None:
        self._constants = constants

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self._constants:
            return node
        return ast.copy_location(_literal(self._constants[node.id]), node)


def _restricted(annotation: ast.expr | None) -> ast.expr:
    mark = ast.Constant("restrict")
    if annotation is None:
        return mark
    return ast.Subscript(ast.Name("Annotated", ast.Load()), ast.Tuple([annotation, mark], ast.Load()), ast.Load())


def _numbers_around(source: Source, constants: dict[str, Number]) -> dict[str, complex]:
    """Return the numbers that a kernel takes from globals and its closure, by name."""
    used = {node.id for node in source.nodes if isinstance(node, ast.Name)}
    parameters = {parameter.arg for parameter in source.parameters}
    values = {name: source.names.get(name) for name in sorted(used - parameters)}
    return {name: value for name, value in values.items() if isinstance(value, (bool, int, float, complex))}


def _header(
    kernel: Kernel,
    arguments: Sequence[Argument],
    flags: PushFlags,
    constants: dict[str, Number],
    around: dict[str, complex],
) -> str:
    types = ", ".join(
        f"{argument.symbol}: {argument.type}"
        + (f"[{','.join(':' * len(argument.value.shape))}]" if argument.is_array else "")
        for argument in arguments
        if argument.symbol not in constants
    )
    collapse = 1 if kernel.analysis is None else len(kernel.analysis.distributed)
    launch = f"{kernel.team_threads} threads a gang, {kernel.registers_per_thread} registers a thread"
    lines = [
        f"# kernel {kernel.name}, generated at run time{', restrict' if flags & PushFlags.RESTRICT else ''}",
        f"# types: {types}",
        f"# launch: {launch}, collapse({collapse})",
        f"# code: efficiency {kernel.efficiency!r}, {kernel.dependent_accesses!r} dependent accesses",
    ]
    for title, numbers in (("constants", constants), ("numbers around it", around)):
        if numbers:
            lines.append(f"# {title}: " + ", ".join(f"{name} = {value!r}" for name, value in numbers.items()))
    return "\n".join(lines)


_COMPILED: Memo[tuple[int, str], tuple[Kernel, Kernel]] = Memo()
"""Compiled kernels, by the original's `id` and the generated text, so that the runs of a sweep share them. The original
is kept with them, so that its `id` stays its own.
"""


def _compiled(kernel: Kernel, source: Source, text: str) -> Kernel:
    """Return the kernel of a generated text, which is read, analysed and made runnable like any other one."""
    if (made := _COMPILED.get((id(kernel), text))) is None:
        made = _COMPILED[id(kernel), text] = kernel, _compile(kernel, source, text)
    return made[1]


def _compile(kernel: Kernel, source: Source, text: str) -> Kernel:
    digest = hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
    file = f"<jacc {kernel.name} {digest}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    if kernel.analysis is not None:
        (tree,) = ast.parse(text).body
        assert isinstance(tree, ast.FunctionDef)
        generated = attrs.evolve(source, who=f"kernel {tree.name!r}", file=file, tree=tree)
        return of_source(kernel, generated, len(kernel.analysis.distributed))
    names = dict(source.names)
    exec(compile(text, file, "exec", flags=__future__.annotations.compiler_flag), names)
    function: Callable[..., None] = names[source.tree.name]
    return attrs.evolve(kernel, body=function)


COMPILE = "jacc_compile"
"""The name of compilations in the statistics of calls and in the trace."""


class CodeCache:
    """The kernels that one program has generated and compiled at run time."""

    def __init__(self, machine: Machine, trace: Trace | None = None) -> None:
        self.compilations = 0
        """How many kernels were compiled so far: one for each kernel and specialisation whose texts differ."""
        self.compile_s = 0.0
        """Virtual seconds that the compiler ran so far."""
        self._machine = machine
        self._trace = trace
        self._seconds = machine.spec.value("jit.compile")
        self._asked: dict[Hashable, tuple[Kernel, GeneratedKernel]] = {}
        self._generated: dict[Hashable, GeneratedKernel] = {}
        self._compiled: set[Hashable] = set()
        self._locks: dict[Hashable, Lock] = {}
        """A lock for each text; a thread holds it while it compiles the text."""

    def known(self, kernel: Kernel, arguments: Sequence[Argument], flags: PushFlags) -> GeneratedKernel | None:
        """Return the compiled kernel for these arguments and flags, or None before it is compiled. Takes no time."""
        entry = self._asked.get(_key(kernel, arguments, flags))
        return None if entry is None else entry[1]

    async def get(self, kernel: Kernel, arguments: Sequence[Argument], flags: PushFlags) -> GeneratedKernel:
        """Return the compiled kernel; compile it first, unless a kernel with the same text was compiled before.

        arguments, flags: those of the push (launch), for which the code is specialised. Raises KernelError when the
        kernel's source cannot be read.
        """
        key = _key(kernel, arguments, flags)
        if key not in self._asked:
            self._asked[key] = (kernel, await self._of_text(generate(kernel, arguments, flags), kernel))
        return self._asked[key][1]

    async def _of_text(self, generated: GeneratedKernel, kernel: Kernel) -> GeneratedKernel:
        # A body over views may use anything around it, of which its text does not tell; nor does that of a phantom say
        # what it does with its arrays.
        text = generated.text
        key: Hashable = text if kernel.analysis is not None else (text, kernel)
        await self.compiled(key, kernel.name)
        return self._generated.setdefault(key, generated)

    async def compiled(self, key: Hashable, name: str) -> None:
        """Let the virtual time of one compilation pass, unless the same code has been compiled already.

        key: identifies the code, usually by its text. name: the kernel's name in locks and traces. A thread that asks
        for code which another thread is compiling waits for it.
        """
        if (lock := self._locks.get(key)) is None:
            lock = self._locks[key] = Lock(self._machine.sim, f"compilation of {name}")
        await take(lock, self._machine.host_time)
        try:
            if key not in self._compiled:
                await self._compile(name)
                self._compiled.add(key)
        finally:
            lock.release()

    def locks(self) -> dict[str, LockStatistics]:
        """Return the statistics of all compilation locks, added up; an empty mapping when nothing was compiled."""
        every = [lock.statistics() for lock in self._locks.values()]
        return {"compilation locks": LockStatistics.total(every)} if every else {}

    async def _compile(self, name: str) -> None:
        machine, sim = self._machine, self._machine.sim
        begin, cause = sim.now, sim.current.cause
        if self._trace is not None:
            self._trace(events.CallBegin, 0, -1, cause, f"{COMPILE} {name}")
        # Every kernel takes the same time, however long its text: the profile's 1 to 10 s have no source, so that a
        # dependence on the text would be a guess.
        await machine.work(self._seconds, "compile")
        self.compilations += 1
        self.compile_s += sim.now - begin
        if machine.calls is not None:
            machine.calls.add(COMPILE, sim.now - begin)
        if self._trace is not None:
            self._trace(events.CallEnd, 0, -1, cause, f"{COMPILE} {name}")


def _key(kernel: Kernel, arguments: Sequence[Argument], flags: PushFlags) -> Hashable:
    """Return a key of all that the generated text depends on.

    Kernels are identified by `id`; the cache keeps them alive. `repr` distinguishes 1 from 1.0.
    """
    kinds: list[Hashable] = []
    for argument in arguments:
        if argument.is_array:
            kinds.append((argument.symbol, argument.type.str, len(argument.value.shape)))
        else:
            kinds.append(
                (argument.symbol, argument.type.str, repr(argument.value) if flags & PushFlags.VAR_OPT else "")
            )
    return (id(kernel), flags, tuple(kinds))
