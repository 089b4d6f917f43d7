"""Generated kernels: the Python source that a pushed kernel is compiled from, for the way in which it is specialised.

``restrict`` marks the arrays as free of aliases, ``var_opt`` puts the values of scalars where their names stood. Both
change the text, and so what is compiled; what a compiler makes of it on a device is an input (`Effects`). A text says
all that its code depends on: types, launch attributes, and the numbers that it takes from around the kernel.
"""

from __future__ import annotations
import __future__

import ast
import copy
import enum
import hashlib
import linecache
import math
from collections.abc import Callable, Sequence
from typing import Any

import attrs

from offloadrt.kernels import Kernel
from offloadrt.kernels.loop_kernel import of_source
from offloadrt.kernels.memo import Memo
from offloadrt.kernels.source import Source
from offloadrt.models.openacc.jacc.arguments import Argument

Number = bool | int | float


class PushFlags(enum.Flag):
    """How a pushed kernel is specialised.

    RESTRICT: no written array shares a byte with another argument. VAR_OPT: scalars are constants, so that another
    value is another kernel.
    """

    NONE = 0
    RESTRICT = enum.auto()
    VAR_OPT = enum.auto()


@attrs.frozen(eq=False)
class GeneratedKernel:
    """text: readable Python. kernel: what runs. constants: positions of the arguments that are in the text instead."""

    text: str
    kernel: Kernel
    constants: frozenset[int]

    def arguments(self, values: Sequence[Any]) -> list[Any]:
        """Return what the generated kernel is called with, of the arguments of the original one."""
        return [value for position, value in enumerate(values) if position not in self.constants]


def generate(kernel: Kernel, arguments: Sequence[Argument], flags: PushFlags) -> GeneratedKernel:
    """Generate the kernel for these arguments. A phantom kernel gets a text without statements.

    KernelError when its source cannot be read.
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
    """Return the scalars that become constants: those that the kernel does not assign and that have a literal.

    Python has none for a complex number.
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
    """Return the numbers that are no parameters: globals and what the closure holds."""
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
"""Each original kernel and what was made of it, by the original's `id` and the text: runs of a sweep share them."""


def _compiled(kernel: Kernel, source: Source, text: str) -> Kernel:
    """Return the kernel of a generated text: read, analysed and made runnable like any other one."""
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
