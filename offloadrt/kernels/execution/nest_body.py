"""Running a loop nest: in the interpreter, or compiled by Numba, with the same results bit for bit.

Both run one rewritten form of the source, in which loads, divisions, powers and functions are calls of `arithmetic.py`;
what is left is loops, branches, sums and products in the order of the source. Numba compiles it without fast-math and
with checked indices. Of a NaN the sign and the payload may differ, as those of 0.0 / 0.0 - 1.0 do. Whole numbers that
leave 64 bits, or the type of the array that they are stored to, are undefined, also those made of NaN or infinity. A
bound or an index that is no whole number is refused before either runs (`number_kinds.py`).
"""

from __future__ import annotations

import ast
import contextlib
import copy
import functools
import importlib.util
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import attrs
import numpy as np

from offloadrt.kernels.costs.analysis import KernelAnalysis
from offloadrt.kernels.costs.signature import plain_number
from offloadrt.kernels.errors import KernelError
from offloadrt.kernels.execution import arithmetic
from offloadrt.kernels.execution.mapped_section import MappedSection, OutsideSection
from offloadrt.kernels.source.subset import LoopNest, called

WORTH_COMPILING = 2e6
"""Loads, stores and operations after which a kernel is compiled: about a second of the interpreter."""

_HELPERS: dict[type[ast.operator], str] = {
    ast.Div: "_divide",
    ast.FloorDiv: "_floor_divide",
    ast.Mod: "_remainder",
    ast.Pow: "_power",
}
_COMPLEX_HELPERS: dict[type[ast.operator], str] = {
    ast.Add: "_complex_sum",
    ast.Sub: "_complex_difference",
    ast.Mult: "_complex_product",
    ast.Div: "_complex_quotient",
    ast.Pow: "_complex_power",
}


@attrs.define(eq=False)
class NestBody:
    """The body of a kernel that was written as a loop nest; called with arrays and numbers.

    The interpreter runs it until it has done `WORTH_COMPILING` work in all, then Numba does where it is installed
    (extra ``kernels``); which of them runs shows in the time that it takes, in nothing else. IndexError for an index
    outside of its array, BadAccess for one outside of a `MappedSection`, KernelError for arguments that a kernel cannot
    take.
    """

    nest: LoopNest = attrs.field(repr=False)
    analysis: KernelAnalysis = attrs.field(repr=False)
    work_done: float = attrs.field(default=0.0, init=False)
    _interpreted: dict[bool, Callable[..., None]] = attrs.field(factory=dict, init=False, repr=False)
    """The built functions: for whole arrays (False), and with sections of arrays among the arguments (True)."""
    _compiled: dict[bool, Callable[..., None]] = attrs.field(factory=dict, init=False, repr=False)

    def __call__(self, *arguments: Any) -> None:
        if self.work_done < WORTH_COMPILING and numba_is_installed():
            self.work_done += self._work(arguments)
        if self.work_done < WORTH_COMPILING:
            self.interpret(*arguments)
        else:
            self.compile_and_run(*arguments)

    def interpret(self, *arguments: Any) -> None:
        """Run it in the interpreter."""
        taken = self._taken(arguments)
        in_sections = len(taken) > len(arguments)
        if in_sections not in self._interpreted:
            self._interpreted[in_sections] = self._built(arithmetic.interpreted(), in_sections)
        with np.errstate(all="ignore"), _told_of(arguments):
            self._interpreted[in_sections](*taken)

    def compile_and_run(self, *arguments: Any) -> None:
        """Run it compiled. KernelError without Numba."""
        if not numba_is_installed():
            raise KernelError(
                f"kernel {self.analysis.name!r} cannot be compiled without Numba; install offloadrt[kernels]"
            )
        import numba

        taken = self._taken(arguments)
        in_sections = len(taken) > len(arguments)
        if in_sections not in self._compiled:
            made = self._built(arithmetic.compiled(), in_sections)
            self._compiled[in_sections] = numba.njit(error_model="python", boundscheck=True, fastmath=False)(made)
        try:
            with _told_of(arguments):
                self._compiled[in_sections](*taken)
        except numba.core.errors.NumbaError as error:
            line = str(error).strip().splitlines()
            raise KernelError(
                f"{self.analysis.file}:{self.analysis.line}: kernel {self.analysis.name!r} cannot be compiled for "
                f"these arguments: {line[-1] if line else error!r}"
            ) from error

    def _built(self, functions: arithmetic.Functions, in_sections: bool) -> Callable[..., None]:
        return build(self.nest, functions, in_sections, self.analysis.walked.complex_nodes)

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
        """Return the arguments as both ways of running take them.

        With sections among them, all arrays of the wholes' shapes and all first indices come after.
        """
        signature = self.analysis.signature
        signature.check_count(arguments)
        signature.check_index_parameters(arguments)
        taken: list[Any] = []
        for name, argument in zip(signature.parameters, arguments, strict=True):
            if name in signature.arrays:
                is_array = isinstance(argument, np.ndarray | MappedSection)
                signature.check_elements(name, argument.dtype if is_array else type(argument))
                taken.append(argument.values if isinstance(argument, MappedSection) else argument)
            else:
                number = plain_number(argument)
                is_complex = name in signature.complex_parameters and isinstance(number, complex)
                if not isinstance(number, int | float) and not is_complex:
                    raise KernelError(
                        f"kernel {signature.kernel!r}: {name} is a number in its source, but {type(argument)} was given"
                    )
                taken.append(number)
        if any(isinstance(argument, MappedSection) for argument in arguments):
            of = dict(zip(signature.parameters, arguments, strict=True))
            for argument in (of[name] for name in self.nest.arrays):
                is_section = isinstance(argument, MappedSection)
                taken.extend((argument.whole, argument.lower) if is_section else (argument, 0))
        return taken


@contextlib.contextmanager
def _told_of(arguments: Sequence[Any]) -> Iterator[None]:
    """Turn an index outside of a section into the section's own error."""
    try:
        yield
    except OutsideSection as outside:
        position, index = outside.args
        raise arguments[position].outside(index) from None


@functools.cache
def numba_is_installed() -> bool:
    """Tell whether Numba is installed, so that kernels can be compiled."""
    return importlib.util.find_spec("numba") is not None


def build(
    nest: LoopNest,
    functions: arithmetic.Functions,
    in_sections: bool = False,
    complex_nodes: Collection[ast.expr] = (),
) -> Callable[..., None]:
    """Build a Python function of the rewritten source, which calls these functions.

    complex_nodes: the expressions of the source whose value is complex. in_sections: it takes of each array what the
    device has, and after all arguments, for each array in order, one of the whole's shape and the first index that is
    there.
    """
    tree = nest.source.tree
    body = copy.deepcopy(nest.source.body)
    pairs = zip(map(ast.walk, nest.source.body), map(ast.walk, body), strict=True)
    complex_copies = {
        copied
        for original, copy_ in pairs
        for node, copied in zip(original, copy_, strict=True)
        if node in complex_nodes
    }
    rewriter = (_InSections if in_sections else _Rewriter)(nest, complex_copies)
    parameters = list(nest.parameters)
    if in_sections:
        parameters += [given(name) for name in nest.arrays for given in (_whole, _lower)]
    plain = ast.FunctionDef(
        name=tree.name,
        args=ast.arguments(
            posonlyargs=[], args=[ast.arg(name) for name in parameters], kwonlyargs=[], kw_defaults=[], defaults=[]
        ),
        body=[rewriter.visit(statement) for statement in body],
        decorator_list=[],
    )
    ast.copy_location(plain, tree)
    if "type_params" in plain._fields:
        plain.type_params = []  # type: ignore[attr-defined, unused-ignore]  # since Python 3.12
    module = ast.fix_missing_locations(ast.Module([plain], []))
    numbers = {name: value for name, value in nest.source.names.items() if isinstance(value, int | float | complex)}
    names: dict[str, Any] = {**numbers, **functions}
    exec(compile(module, nest.source.file, "exec"), names)
    made: Callable[..., None] = names[tree.name]
    return made


class _Rewriter(ast.NodeTransformer):
    def __init__(self, nest: LoopNest, complex_nodes: set[ast.AST]) -> None:
        self.nest = nest
        self.complex_nodes = complex_nodes

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        is_element = isinstance(node.value, ast.Name) and node.value.id in self.nest.arrays
        if not is_element or isinstance(node.ctx, ast.Store):
            return node
        return _call("_complex_load" if node in self.complex_nodes else "_load", node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        before = copy.deepcopy(node.target)
        for part in ast.walk(before):
            if isinstance(part, ast.Name | ast.Subscript) and isinstance(part.ctx, ast.Store):
                part.ctx = ast.Load()
        if node.target in self.complex_nodes:
            self.complex_nodes.add(before)
        return self.visit(ast.copy_location(ast.Assign([node.target], ast.BinOp(before, node.op, node.value)), node))  # type: ignore[no-any-return]

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        in_complex = node.left in self.complex_nodes, node.right in self.complex_nodes
        self.generic_visit(node)
        helper = _HELPERS.get(type(node.op))
        if any(in_complex):
            helper = _COMPLEX_HELPERS[type(node.op)]
            if not all(in_complex) and isinstance(node.op, ast.Mult):
                left, right = (node.left, node.right) if in_complex[0] else (node.right, node.left)
                return _call("_complex_scaled", left, right)
            if not in_complex[1] and isinstance(node.op, ast.Div):
                helper = "_complex_shrunk"
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
        if isinstance(node.func, ast.Attribute) and name == "conjugate":
            return _call("_conjugate", node.func.value)
        if name in ("len", "range", "abs", "int", "float", "bool", "complex"):
            return ast.copy_location(ast.Call(ast.Name(name, ast.Load()), node.args, []), node)
        return _call(f"_{name}", *node.args)


class _InSections(_Rewriter):
    """Lengths are those of the whole array, and so are indices: each is moved to where the device has the element."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        made = super().visit_Subscript(node)
        if isinstance(node.value, ast.Name) and (name := node.value.id) in self.nest.arrays:
            first, *others = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            lower, section, array = (ast.Name(operand, ast.Load()) for operand in (_lower(name), name, _whole(name)))
            position = ast.Constant(self.nest.parameters.index(name))
            first = _call("_within", first, lower, _call("len", section), _call("len", array), position)
            node.slice = ast.Tuple([first, *others], ast.Load()) if others else first
        return made

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if node.attr not in ("size", "shape"):
            return self.generic_visit(node)
        return ast.copy_location(ast.Attribute(self._lengths_of(node.value), node.attr, ast.Load()), node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if called(self.nest.source, node) == "len":
            node.args = [self._lengths_of(node.args[0])]
        return super().visit_Call(node)

    def _lengths_of(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.Name) and node.id in self.nest.arrays:
            return ast.copy_location(ast.Name(_whole(node.id), ast.Load()), node)
        return node


def _whole(array: str) -> str:
    return f"_whole_{array}"


def _lower(array: str) -> str:
    return f"_lower_{array}"


def _call(name: str, *operands: ast.expr) -> ast.Call:
    return ast.copy_location(ast.Call(ast.Name(name, ast.Load()), list(operands), []), operands[0])
