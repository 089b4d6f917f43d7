"""Running a loop nest: in the interpreter, or compiled by Numba, with the same results bit for bit.

Both run one rewritten form of the source, in which loads, divisions, powers and functions are calls of `arithmetic.py`;
what is left is loops, branches, sums and products in the order of the source. Numba compiles it without fast-math and
with checked indices. Whole numbers that leave 64 bits, or the type of the array that they are stored to, are undefined,
also those made of NaN or infinity.
"""

from __future__ import annotations

import ast
import copy
import functools
import importlib.util
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from offloadrt.kernels import arithmetic
from offloadrt.kernels.analysis import KernelAnalysis
from offloadrt.kernels.errors import KernelError
from offloadrt.kernels.subset import LoopNest, called

WORTH_COMPILING = 2e6
"""Loads, stores and operations after which a kernel is compiled: about a second of the interpreter."""

_HELPERS: dict[type[ast.operator], str] = {
    ast.Div: "_divide",
    ast.FloorDiv: "_floor_divide",
    ast.Mod: "_remainder",
    ast.Pow: "_power",
}


@attrs.define(eq=False)
class NestBody:
    """The body of a kernel that was written as a loop nest; called with arrays and numbers.

    The interpreter runs it until it has done `WORTH_COMPILING` work in all, then Numba does where it is installed
    (extra ``kernels``); which of them runs shows in the time that it takes, in nothing else. IndexError for an index
    outside of its array, KernelError for arguments that a kernel cannot take.
    """

    nest: LoopNest = attrs.field(repr=False)
    analysis: KernelAnalysis = attrs.field(repr=False)
    work_done: float = attrs.field(default=0.0, init=False)
    _interpreted: Callable[..., None] | None = attrs.field(default=None, init=False, repr=False)
    _compiled: Callable[..., None] | None = attrs.field(default=None, init=False, repr=False)

    def __call__(self, *arguments: Any) -> None:
        if self.work_done < WORTH_COMPILING and numba_is_installed():
            self.work_done += self._work(arguments)
        if self.work_done < WORTH_COMPILING:
            self.interpret(*arguments)
        else:
            self.compile_and_run(*arguments)

    def interpret(self, *arguments: Any) -> None:
        """Run it in the interpreter."""
        if self._interpreted is None:
            self._interpreted = build(self.nest, arithmetic.interpreted())
        with np.errstate(all="ignore"):
            self._interpreted(*self._taken(arguments))

    def compile_and_run(self, *arguments: Any) -> None:
        """Run it compiled. KernelError without Numba."""
        if not numba_is_installed():
            raise KernelError(
                f"kernel {self.analysis.name!r} cannot be compiled without Numba; install offloadrt[kernels]"
            )
        import numba

        if self._compiled is None:
            made = build(self.nest, arithmetic.compiled())
            self._compiled = numba.njit(error_model="python", boundscheck=True, fastmath=False)(made)
        try:
            self._compiled(*self._taken(arguments))
        except numba.core.errors.NumbaError as error:
            line = str(error).strip().splitlines()
            raise KernelError(
                f"{self.analysis.file}:{self.analysis.line}: kernel {self.analysis.name!r} cannot be compiled for "
                f"these arguments: {line[-1] if line else error!r}"
            ) from error

    def _work(self, arguments: tuple[Any, ...]) -> float:
        try:
            counts = self.analysis.at(*arguments)
        except KernelError:
            return 0.0
        total = counts.flops
        for array in counts.arrays:
            total += array.accesses
        return total

    def _taken(self, arguments: tuple[Any, ...]) -> list[Any]:
        """The arguments as both ways of running take them."""
        analysis = self.analysis
        if len(arguments) != len(analysis.parameters):
            raise KernelError(
                f"kernel {analysis.name!r} takes {len(analysis.parameters)} arguments "
                f"({', '.join(analysis.parameters)}), not {len(arguments)}"
            )
        taken: list[Any] = []
        for name, argument in zip(analysis.parameters, arguments, strict=True):
            if name in self.nest.arrays:
                kind = getattr(argument, "dtype", None)
                if not isinstance(argument, np.ndarray) or kind is None or not _is_taken(kind):
                    raise KernelError(
                        f"kernel {analysis.name!r}: {name} is indexed in its source, but {kind or type(argument)} was "
                        "given; pass an array of bool, int8 to int64, uint8 to uint32, float32 or float64"
                    )
                taken.append(argument)
            else:
                number = argument.item() if isinstance(argument, np.generic) else argument
                if not isinstance(number, int | float):
                    raise KernelError(
                        f"kernel {analysis.name!r}: {name} is a number in its source, but {type(argument)} was given"
                    )
                taken.append(number)
        return taken


@functools.cache
def numba_is_installed() -> bool:
    """Can kernels be compiled?"""
    return importlib.util.find_spec("numba") is not None


def _is_taken(kind: np.dtype[Any]) -> bool:
    return (
        kind.kind in "bi" or (kind.kind == "u" and kind.itemsize < 8) or (kind.kind == "f" and 4 <= kind.itemsize <= 8)
    )


def build(nest: LoopNest, functions: arithmetic.Functions) -> Callable[..., None]:
    """A Python function of the rewritten source, which calls these functions."""
    tree = nest.source.tree
    rewritten = _Rewriter(nest)
    plain = ast.FunctionDef(
        name=tree.name,
        args=ast.arguments(
            posonlyargs=[], args=[ast.arg(name) for name in nest.parameters], kwonlyargs=[], kw_defaults=[], defaults=[]
        ),
        body=[rewritten.visit(copy.deepcopy(statement)) for statement in nest.source.body],
        decorator_list=[],
    )
    ast.copy_location(plain, tree)
    if "type_params" in plain._fields:
        plain.type_params = []  # type: ignore[attr-defined, unused-ignore]  # since Python 3.12
    module = ast.fix_missing_locations(ast.Module([plain], []))
    numbers = {name: value for name, value in nest.source.names.items() if isinstance(value, int | float)}
    names: dict[str, Any] = {**numbers, **functions}
    exec(compile(module, nest.source.file, "exec"), names)
    made: Callable[..., None] = names[tree.name]
    return made


class _Rewriter(ast.NodeTransformer):
    def __init__(self, nest: LoopNest) -> None:
        self.nest = nest

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        is_element = isinstance(node.value, ast.Name) and node.value.id in self.nest.arrays
        return _call("_load", node) if is_element and isinstance(node.ctx, ast.Load) else node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        before = copy.deepcopy(node.target)
        for part in ast.walk(before):
            if isinstance(part, ast.Name | ast.Subscript) and isinstance(part.ctx, ast.Store):
                part.ctx = ast.Load()
        return self.visit(ast.copy_location(ast.Assign([node.target], ast.BinOp(before, node.op, node.value)), node))  # type: ignore[no-any-return]

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        helper = _HELPERS.get(type(node.op))
        return node if helper is None else _call(helper, node.left, node.right)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name = called(self.nest.source, node)
        self.generic_visit(node)
        if name == "expect":
            return node.args[0]
        if name in ("min", "max"):
            result = node.args[0]
            for operand in node.args[1:]:
                result = _call("_least" if name == "min" else "_greatest", result, operand)
            return result
        if name in ("len", "range", "abs", "int", "float", "bool"):
            return ast.copy_location(ast.Call(ast.Name(name, ast.Load()), node.args, []), node)
        return _call(f"_{name}", *node.args)


def _call(name: str, *operands: ast.expr) -> ast.Call:
    return ast.copy_location(ast.Call(ast.Name(name, ast.Load()), list(operands), []), operands[0])
