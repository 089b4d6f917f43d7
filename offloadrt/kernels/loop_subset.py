"""The subset of Python that a kernel's source is written in; everything else is refused with file and line.

A kernel in source has one *distributed* loop, a ``for`` over a ``range`` whose iterations a device shares out (with
``collapse=n`` the first n perfectly nested ones). Assignments of scalars may precede the loop, and stores of reduced
values may follow, also under an ``if``. The loop contains further ``for`` loops over ranges, ``if`` / ``elif`` /
``else``, and assignments to scalars and elements. There are short forms: a loop over a product of ranges becomes
nested loops, and a loop over literal numbers becomes a sequence of statements.

Expressions: numbers, names, elements ``a[i, j]`` of array parameters, ``+ - * / // % & | ^ << >>``, ``**`` with a
literal exponent, comparisons, ``and or not``, ``x if c else y``, ``min max abs int float bool len``, ``a.shape[k]``,
``a.size``, the functions of ``math`` in `MATH`, numbers that are globals, `expect` and `atomic`.

Elements and numbers whose parameter is annotated as complex (``NDArray[np.complex128]``, ``complex``) are complex:
``+ - * /``, ``**``, ``== !=``, ``z.real``, ``z.imag``, ``z.conjugate()``, ``complex(x, y)`` and numbers such as ``2j``.

A scalar whose value passes from one iteration of the distributed loop to another must be a reduction: ``s += e`` (also
``- *``), ``s = min(s, e)``, ``s = max(s, e)``.
"""

from __future__ import annotations

import ast
import copy
import dis
import functools
import itertools
import math
from collections.abc import Iterable, Sequence
from types import CodeType
from typing import Literal, TypeVar, get_args

import attrs

from offloadrt.kernels.source import (
    Assignment,
    Conditional,
    RangeLoop,
    Source,
    Statement,
    assignments,
    first_line,
    literal,
    range_of,
    statements,
    text,
)

T = TypeVar("T")
Scope = Literal["device", "team"]


def expect(value: T, *, probability: float | None = None, trips: float | None = None, near: float | None = None) -> T:
    """Return `value` itself; hint to the analysis of a kernel, as `__builtin_expect_with_probability` to a compiler.

    `value` is a condition, a `range` or an index. For a condition, `probability` (0 to 1) says how likely it holds. For
    a `range`, `trips` is its average length. For an index or a range of indices, `near` is the fraction (0 to 1) of the
    indices that lie near the iteration which uses them.

        if expect(mask[i], probability=0.05): ...
        for e in expect(range(first[i], first[i + 1]), trips=6, near=1): ...
        nb = expect(neighbours[i], near=0.9)

    The analysis of the source alone uses only probabilities that are numbers, as a compiler knows no trip counts of
    such loops. The counts of a launch with known arguments use all hints. A hint may then also be the name of a scalar
    parameter of the kernel, so that a program whose arrays have no values can say how much each launch does.

    Near indices grow with the iterations, as in the rows of a compressed matrix or among the neighbours of a
    well-numbered mesh, so that iterations in order access their elements in order. All other indices may be anywhere. A
    near index that is read from data and used unchanged, as in ``a[expect(neighbours[i], near=1)]``, is taken to lie
    within the range of `i`. If it is computed from data, the part of the array that is accessed is not known.
    """
    return value


def atomic(value: T, scope: Scope = "device") -> T:
    """Return `value` itself, and mark the update of an element that uses it as atomic, as atomicAdd or `omp atomic` do.

        histogram[bins[i]] += atomic(1.0)
        nearest[cells[i]] = min(nearest[cells[i]], atomic(distance[i]))

    scope: ``device`` for one array that all threads update in the L2 cache; ``team`` for a copy that each team has in
    its shared memory. How long the operations of a launch wait for one another depends on the number of operations on
    the most used element, which is counted where the index arrays have numbers.
    """
    return value


_DECLARE = ", or declare its costs: @kernel(flops_per_iteration=..., bytes_per_iteration=...)"
WHILE = "write a for over a range with an if in it"


def may_loop(code: CodeType) -> bool:
    """Tell whether the byte code of a function, or of functions within it, iterates or jumps back.

    The result is never False for a function with a loop.
    """
    for instruction in dis.get_instructions(code):
        if instruction.opname == "FOR_ITER":
            return True
        if instruction.opcode in dis.hasjrel + dis.hasjabs and instruction.argval < instruction.offset:
            return True
    return any(may_loop(inner) for inner in code.co_consts if isinstance(inner, CodeType))


def refuse_loops(source: Source) -> None:
    """Raise SourceRefused for the first loop in a body over NumPy views that is not trivial.

    A trivial loop goes over an array's shape or over listed names, and its variable is no index.
    """
    for statement in source.body:
        for node in ast.walk(statement):
            match node:
                case ast.For(target=target, iter=iterated, body=body) if _is_short([(target, iterated)], body):
                    pass
                case ast.For(iter=iterated) if range_of(iterated):
                    around = first_line(statement)
                    instead = f"put {around} into the loop" if isinstance(statement, ast.If) else "write it outermost"
                    source.refuse(node, f"a loop over {text(iterated)} inside of {around}", instead + _DECLARE)
                case ast.For() | ast.AsyncFor():
                    source.refuse(node, f"a loop over {text(node.iter)}", over_a_range(node) + _DECLARE)
                case ast.While():
                    source.refuse(node, f"{first_line(node)} is not in the subset", WHILE + _DECLARE)
                case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                    if not _is_short([(generator.target, generator.iter) for generator in node.generators], [node]):
                        source.refuse(node, f"a loop in {text(node)}", "write for i in range(n)" + _DECLARE)


def _is_short(loops: Sequence[tuple[ast.expr, ast.expr]], body: Sequence[ast.AST]) -> bool:
    """Tell whether loops run only over a shape or listed names, and no index in `body` uses their variables."""
    for _, iterated in loops:
        named = isinstance(iterated, ast.Tuple | ast.List) and all(
            isinstance(element, ast.Name) for element in iterated.elts
        )
        if not named and not (isinstance(iterated, ast.Attribute) and iterated.attr == "shape"):
            return False
    variables = {node.id for target, _ in loops for node in ast.walk(target) if isinstance(node, ast.Name)}
    indices = [node.slice for part in body for node in ast.walk(part) if isinstance(node, ast.Subscript)]
    used = {node.id for index in indices for node in ast.walk(index) if isinstance(node, ast.Name)}
    return used.isdisjoint(variables)


def over_a_range(loop: ast.For | ast.AsyncFor) -> str:
    """Write for a message how to turn a loop into one over a range: ``range(n - 1, -1, -1)`` for a reversed range."""
    variable = loop.target.id if isinstance(loop.target, ast.Name) else "i"
    match loop.iter:
        case ast.Call(func=ast.Name(id="reversed"), args=[ast.Call(func=ast.Name(id="range"), args=[*bounds])]):
            if len(bounds) == 1:
                return f"write for {variable} in range({_before(bounds[0])}, -1, -1)"
            if len(bounds) == 2:
                return f"write for {variable} in range({_before(bounds[1])}, {_before(bounds[0])}, -1)"
        case ast.Call(func=ast.Name(id="enumerate"), args=[ast.Name(id=array)]):
            return f"write for i in range(len({array})) and index with i"
        case ast.Call(func=ast.Attribute(attr="arange"), args=[*bounds]) if bounds:
            return f"write for {variable} in range({', '.join(map(text, bounds))})"
    return "write for i in range(n) and index with i"


def _before(bound: ast.expr) -> str:
    """Return the source of the number one below a bound."""
    if isinstance(bound, ast.Constant) and isinstance(bound.value, int):
        return str(bound.value - 1)
    return text(ast.BinOp(bound, ast.Sub(), ast.Constant(1)))


_OPERATORS = {ast.Add: "+", ast.Sub: "+", ast.Mult: "*"}
"""Reduction operators; a sum of differences counts as a sum."""


def reduction(statement: Assignment, target: str) -> tuple[str, ast.expr] | None:
    """Return operator and operand when the statement reduces into `target`: ``s += e``, ``s = max(s, e)``."""
    value = statement.value
    if text(statement.target) != target:
        return None
    if statement.operator is not None:
        operator = _OPERATORS.get(type(statement.operator))
        return (operator, value) if operator else None
    operands: list[ast.expr] = []
    operator = None
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in ("min", "max"):
        operator, operands = value.func.id, value.args
    elif isinstance(value, ast.BinOp):
        operator = _OPERATORS.get(type(value.op))
        commutes = not isinstance(value.op, ast.Sub) or text(value.left) == target
        operands = [value.left, value.right] if commutes else []
    others = [operand for operand in operands if text(operand) != target]
    return (operator, others[0]) if operator and len(operands) == 2 and len(others) == 1 else None


def reduced_scalars(source: Source, loop: ast.For, assigned: set[str]) -> dict[str, str]:
    """Return the scalars into which the loop reduces, each with its operator, among those `assigned` before the loop.

    Raises SourceRefused for a scalar whose value passes from one iteration to another in any other way.
    """
    reduced: dict[str, str] = {}
    body = statements(loop.body)
    stored = assignments(body)
    mentions = [node for statement in loop.body for node in ast.walk(statement) if isinstance(node, ast.Name)]
    for name in sorted({node.scalar for node in stored if node.scalar is not None} & assigned):
        if not reads_first(body, name):
            continue
        writes = [node for node in stored if node.scalar == name]
        forms = [reduction(node, name) for node in writes]
        uses = sum(node.id == name for node in mentions)
        expected = sum(2 if node.operator is None else 1 for node in writes)
        operators = {form[0] for form in forms if form}
        if None in forms or uses != expected or len(operators) != 1:
            source.refuse(
                writes[0].node,
                f"{name} is handed from one iteration of the distributed loop to another",
                f"reduce it ({name} += e, {name} = max({name}, e)) or assign it in the iteration that uses it",
            )
        reduced[name] = operators.pop()
    return reduced


def _mentions(node: ast.AST, name: str) -> bool:
    return any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(node))


def reads_first(body: Sequence[Statement], name: str) -> bool:
    """Tell whether an iteration of a loop with this body may read the scalar `name` before it assigns to it."""
    return _run(body, name, False)[0]


def _run(body: Sequence[Statement], name: str, known: bool) -> tuple[bool, bool]:
    """Return whether `name` is read before it has a value, and whether it has one at the end; `known`: at the begin."""
    for node in body:
        after = known
        match node:
            case Conditional():
                first, then = _run(node.then, name, known)
                second, other = _run(node.other, name, known)
                read = first or second or (not known and _mentions(node.test, name))
                after = then and other
            case RangeLoop():
                read = _run(node.body, name, known)[0] or (not known and _mentions(node.node.iter, name))
            case Assignment(operator=None):
                targets = [] if node.scalar else [node.target]
                read = not known and any(_mentions(part, name) for part in (node.value, *targets))
                after = known or node.scalar == name
            case _:
                read = not known and _mentions(node.node, name)
        if read:
            return True, known
        known = after
    return False, known


MATH = (
    *("sqrt", "exp", "log", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh"),
    *("tanh", "fabs", "pow", "floor", "ceil"),
)
"""Functions of the module `math` that a kernel may call."""

_CALLABLE = {id(getattr(math, name)): name for name in MATH} | {
    id(function): function.__name__
    for function in (min, max, abs, int, float, bool, complex, len, range, expect, atomic)
}
_TWO_OPERANDS = {"atan2", "pow", "complex"}
_OF_COMPLEX = ("real", "imag", "conjugate")
"""Attributes of complex numbers."""
_ADMITTED_OPERATORS = (
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow),
    *(ast.BitAnd, ast.BitOr, ast.BitXor, ast.LShift, ast.RShift),
)
_COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)


@attrs.frozen(eq=False)
class LoopNest:
    """The checked source of a kernel function, in the part of Python that offloadrt can analyse."""

    source: Source
    arrays: tuple[str, ...]
    """Array parameters, in order; every other parameter is a number."""
    distributed: tuple[ast.For, ...]
    """The nested loops whose iterations teams share: one, or more with `collapse`."""
    reduced: dict[str, str]
    """Scalars that the distributed loop reduces, each with its operator."""

    @functools.cached_property
    def body(self) -> tuple[Statement, ...]:
        """Return the function's statements, converted once for all analyses."""
        return statements(self.source.body)

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(parameter.arg for parameter in self.source.parameters)

    def function_of(self, call: ast.Call) -> str:
        """Return the name of the called function if a kernel's source may call it, else an empty text."""
        return called(self.source, call) or ""

    def constant(self, name: str) -> complex | None:
        """Return the number that a global name has in the kernel's module: int, float or complex; None for others."""
        value = self.source.names.get(name)
        return value if isinstance(value, int | float | complex) else None


def read(source: Source, collapse: int = 1) -> LoopNest:
    """Read the loop nest in `source`, whose `collapse` outermost loops the device shares out. Raises SourceRefused."""
    return _Reader(source).nest(collapse)


def called(source: Source, call: ast.Call) -> str | None:
    """Return a called function's name if a kernel's source may call it (by what the name refers to), else None."""
    function = call.func
    target: object = None
    if isinstance(function, ast.Name):
        target = source.names.get(function.id)
    elif isinstance(function, ast.Attribute) and function.attr == "conjugate":
        return "conjugate"
    elif isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        target = getattr(source.names.get(function.value.id), function.attr, None)
    return _CALLABLE.get(id(target))


class _Reader:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.refuse = source.refuse
        self.names = [parameter.arg for parameter in source.parameters]
        nodes = source.nodes
        based = [
            node.value
            for node in nodes
            if isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and node.attr not in _OF_COMPLEX)
        ]
        based += [
            node.args[0] for node in nodes if isinstance(node, ast.Call) and text(node.func) == "len" and node.args
        ]
        used = {node.id for node in based if isinstance(node, ast.Name)}
        self.arrays = tuple(name for name in self.names if name in used)
        self.loops: list[str] = []
        self.stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}

    def nest(self, collapse: int) -> LoopNest:
        """Check the whole source, and return its loop nest."""
        self._check_parameters()
        distributed, reduced = self._outermost_loop()
        loops = [distributed]
        while len(loops) < collapse:
            (inner, *more) = loops[-1].body
            if more or not isinstance(inner, ast.For):
                self.refuse(
                    loops[-1],
                    f"collapse={collapse} of loops that are not perfectly nested",
                    "move what stands between them",
                )
            loops.append(inner)
        outer = {loop.target.id for loop in loops if isinstance(loop.target, ast.Name)}
        for loop in loops[1:]:
            if outer & {node.id for node in ast.walk(loop.iter) if isinstance(node, ast.Name)}:
                self.refuse(loop, "a collapsed loop's range depends on the loop around it", "leave it out of collapse")
        return LoopNest(self.source, self.arrays, tuple(loops), reduced)

    def _check_parameters(self) -> None:
        """Refuse a function that has a parameter which is not plain or not used."""
        source, given = self.source, self.source.tree.args
        if isinstance(source.tree, ast.AsyncFunctionDef):
            self.refuse(source.tree, "a kernel awaits nothing", "write def")
        if given.vararg or given.kwarg or given.kwonlyargs or given.defaults:
            self.refuse(source.tree, "it has other than plain parameters", "write def name(a, b, n)")
        named = {node.id for node in source.nodes if isinstance(node, ast.Name)}
        for parameter in source.parameters:
            if parameter.arg not in named:
                self.refuse(parameter, f"parameter {parameter.arg} is not used", "leave it out")

    def _outermost_loop(self) -> tuple[ast.For, dict[str, str]]:
        """Check the statements, and return the only outermost loop with the scalars that it reduces."""
        source, assigned = self.source, set(self.names) - set(self.arrays)
        distributed: ast.For | None = None
        reduced: dict[str, str] = {}
        for statement in source.body:
            if isinstance(statement, ast.For):
                if distributed is not None:
                    self.refuse(statement, "a second outermost loop", "make it a kernel of its own")
                distributed = statement
                reduced = reduced_scalars(source, statement, assigned)
            elif distributed is not None and isinstance(statement, ast.If) and _is_flat(statement):
                pass
            elif not isinstance(statement, ast.Assign | ast.AugAssign | ast.Pass):
                instead = _INSTEAD.get(type(statement), "put it into the loop")
                self.refuse(statement, f"{first_line(statement)} outside of the loop", instead)
            elif distributed is None and _stores_an_element(statement):
                self.refuse(statement, "an element is stored before the loop", "store it after the loop or in it")
            assigned = self.statement(statement, assigned)
        if distributed is None:
            self.refuse(source.tree, "no loop over a range", "write for i in range(n)")
        return distributed, reduced

    # statements

    def block(self, statements: Iterable[ast.stmt], assigned: set[str]) -> set[str]:
        for statement in statements:
            assigned = self.statement(statement, assigned)
        return assigned

    def statement(self, node: ast.stmt, assigned: set[str]) -> set[str]:
        """Check a statement, and return the scalars that have a value after it in all cases."""
        match node:
            case ast.Pass():
                return assigned
            case ast.Assign(targets=[ast.Name() | ast.Subscript() as target], value=value):
                self.expression(value, assigned)
                return self.target(target, assigned)
            case ast.AugAssign(target=target, op=op, value=value):
                if not isinstance(op, _ADMITTED_OPERATORS):
                    self.refuse(node, f"the operator of {text(node)}", "write a = ... with the operators of the subset")
                self.expression(value, assigned)
                if isinstance(target, ast.Name):
                    self.name(target, assigned)
                return self.target(target, assigned)
            case ast.If(test=test, body=then, orelse=other):
                self.expression(test, assigned)
                return self.block(then, set(assigned)) & self.block(other, set(assigned))
            case ast.For():
                return self.loop(node, assigned)
            case ast.Assign(targets=[target]):
                return self.refuse(target, f"an assignment to {text(target)}", _INSTEAD[ast.Assign])
            case _:
                instead = _INSTEAD.get(type(node), "write loops, if and assignments")
                return self.refuse(node, f"{first_line(node)} is not in the subset", instead)

    def target(self, target: ast.expr, assigned: set[str]) -> set[str]:
        match target:
            case ast.Name(id=name):
                if name in self.arrays:
                    self.refuse(target, f"array {name} is assigned as a whole", f"write a loop that assigns {name}[i]")
                if name in self.loops:
                    self.refuse(target, f"loop variable {name} is assigned", "use another name")
                return assigned | {name}
            case ast.Subscript():
                self.element(target, assigned)
                return assigned
            case _:
                return self.refuse(target, f"an assignment to {text(target)}", _INSTEAD[ast.Assign])

    def loop(self, node: ast.For, assigned: set[str]) -> set[str]:
        call = range_of(node.iter)
        if call is None:
            self.refuse(node, f"a loop over {text(node.iter)}", over_a_range(node))
        if not isinstance(node.target, ast.Name) or node.orelse:
            self.refuse(node, "a loop with several variables or an else", "write for i in range(n)")
        if node.iter is not call:
            self.call(node.iter, assigned)  # type: ignore[arg-type]  # range_of says that it is a call of expect
        if not 1 <= len(call.args) <= 3 or call.keywords:
            self.refuse(node, f"{text(call)}", "write range(n), range(first, end) or range(first, end, 2)")
        step = literal(call.args[2]) if len(call.args) == 3 else 1
        if not isinstance(step, int) or step == 0:
            self.refuse(node, "a loop whose step is no number", "write the step as a number, as in range(0, n, 2)")
        for bound in call.args:
            self.expression(bound, assigned)
        name = node.target.id
        if name in self.loops or name in self.names or name in assigned:
            self.refuse(node, f"loop variable {name} has a value already", "use another name")
        self.loops.append(name)
        self.block(node.body, assigned | {name})
        self.loops.remove(name)
        return assigned

    # expressions

    def expression(self, node: ast.expr, assigned: set[str]) -> None:
        match node:
            case ast.Constant(value=bool() | int() | float() | complex()):
                return
            case ast.Name():
                self.name(node, assigned)
            case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _ADMITTED_OPERATORS):
                self.expression(left, assigned)
                if isinstance(op, ast.Pow):
                    exponent = literal(right)
                    if not isinstance(exponent, int) or not 1 <= exponent <= 16:
                        instead = "write a whole exponent from 1 to 16, or math.pow(x, y)"
                        self.refuse(node, f"the power {text(node)}", instead)
                else:
                    self.expression(right, assigned)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Not(), operand=operand):
                self.expression(operand, assigned)
            case ast.BoolOp(values=values):
                for value in values:
                    self.expression(value, assigned)
            case ast.Compare(left=left, ops=ops, comparators=others) if all(isinstance(op, _COMPARISONS) for op in ops):
                for value in (left, *others):
                    self.expression(value, assigned)
            case ast.IfExp(test=test, body=then, orelse=other):
                for value in (test, then, other):
                    self.expression(value, assigned)
            case ast.Call():
                self.call(node, assigned)
            case ast.Subscript():
                self.element(node, assigned)
            case ast.Attribute(value=ast.Name(id=name), attr="size") if name in self.arrays:
                return
            case ast.Attribute(value=value, attr="real" | "imag"):
                self.expression(value, assigned)
            case _:
                instead = "write scalars, elements, arithmetic and math functions"
                self.refuse(node, f"{text(node)} is not in the subset", instead)

    def name(self, node: ast.Name, assigned: set[str]) -> None:
        name = node.id
        if name in self.arrays:
            self.refuse(node, f"array {name} is used as a whole", f"write a loop over {name}[i]")
        if name in assigned:
            return
        if name in self.stored:
            self.refuse(node, f"{name} may have no value here", "assign it on every path before")
        if not isinstance(self.source.names.get(name), int | float | complex):
            self.refuse(node, f"{name} is no number that a kernel can see", "pass it as a parameter")

    def element(self, node: ast.Subscript, assigned: set[str]) -> None:
        match node.value:
            case ast.Attribute(value=ast.Name(id=name), attr="shape") if name in self.arrays:
                if not isinstance(literal(node.slice), int):
                    self.refuse(node, f"{text(node)}", "write the dimension as a number, as in a.shape[0]")
                return
            case ast.Name(id=name) if name in self.arrays:
                indices: Sequence[ast.expr] = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
                for index in indices:
                    if isinstance(index, ast.Slice):
                        self.refuse(node, f"the slice {text(node)}", "write a loop over the elements")
                    self.expression(index, assigned)
                return
            case ast.Subscript():
                self.refuse(node, f"{text(node)}", "write all indices in one pair of brackets, as in a[i, j]")
            case ast.Call() as marked if called(self.source, marked) == "atomic":
                self.refuse(node, f"{text(node)}", "mark the value that updates the element, as in a[i] += atomic(x)")
        self.refuse(node, f"{text(node)}", "index the kernel's array parameters only")

    def call(self, node: ast.Call, assigned: set[str]) -> None:
        name = called(self.source, node)
        arguments = len(node.args)
        if name == "expect":
            self.hints(node, assigned)
            if arguments == 1 and range_of(node.args[0]) is None:
                self.expression(node.args[0], assigned)
            return
        if name == "atomic" and 1 <= arguments <= 2 and not node.keywords:
            if arguments == 2 and getattr(node.args[1], "value", None) not in get_args(Scope):
                self.refuse(node, text(node), f"write one of {', '.join(map(repr, get_args(Scope)))} as its scope")
            self.expression(node.args[0], assigned)
            return
        if name is None or name == "range" or node.keywords:
            word = text(node.func)
            short = word.rpartition(".")[2]
            instead = f"write math.{short}" if short in MATH else "write what it does here, or use " + ", ".join(MATH)
            self.refuse(node, f"a call of {word}", instead)
        if isinstance(node.func, ast.Attribute) and name == "conjugate":
            if arguments:
                self.refuse(node, f"{text(node)} has {arguments} operands", f"write {text(node.func)}()")
            self.expression(node.func.value, assigned)
            return
        if name == "len":
            if arguments != 1 or not (isinstance(node.args[0], ast.Name) and node.args[0].id in self.arrays):
                self.refuse(node, text(node), "write len(a) of an array parameter")
            return
        wanted = arguments >= 2 if name in ("min", "max") else arguments == (2 if name in _TWO_OPERANDS else 1)
        if not wanted:
            self.refuse(node, f"{text(node)} has {arguments} operands", "give a function of numbers its own operands")
        for argument in node.args:
            self.expression(argument, assigned)

    def hints(self, node: ast.Call, assigned: set[str]) -> None:
        for keyword in node.keywords:
            value = literal(keyword.value)
            scalar = isinstance(keyword.value, ast.Name) and keyword.value.id in set(self.names) - set(self.arrays)
            if keyword.arg not in _HINTS:
                self.refuse(node, f"the hint {text(keyword)}", f"write one of {', '.join(_HINTS)}")
            most, numbers = _HINTS[keyword.arg]
            if not scalar and (value is None or not 0 <= value <= most):
                self.refuse(node, f"the hint {text(keyword)}", f"write {numbers}, or the name of a scalar parameter")
        over_range = bool(node.args) and range_of(node.args[0]) is not None
        given = {keyword.arg for keyword in node.keywords}
        fits = given and given <= {"trips", "near"} if over_range else given in ({"probability"}, {"near"})
        if len(node.args) != 1 or not fits:
            self.refuse(
                node,
                text(node),
                "write expect(condition, probability=p), expect(range(n), trips=t) or expect(index, near=p)",
            )


_HINTS = {
    "probability": (1.0, "a number from 0 to 1"),
    "trips": (math.inf, "a number that is not negative"),
    "near": (1.0, "a number from 0 to 1"),
}
"""The keywords of `expect`, each with its largest value."""
_INSTEAD: dict[type[ast.AST], str] = {
    ast.While: WHILE,
    ast.Break: "write the condition as an if around the rest of the body",
    ast.Continue: "write the condition as an if around the rest of the body",
    ast.Return: "store the result in an array parameter",
    ast.AnnAssign: "leave out the annotation",
    ast.Assign: "assign one scalar or one element in each statement",
    ast.Import: "import at the top of the file",
    ast.ImportFrom: "import at the top of the file",
    ast.FunctionDef: "write its body here",
}


def _is_flat(node: ast.If) -> bool:
    return all(isinstance(part, ast.Assign | ast.AugAssign | ast.Pass) for part in (*node.body, *node.orelse))


def _stores_an_element(node: ast.stmt) -> bool:
    return any(isinstance(part, Assignment) and part.scalar is None for part in statements([node]))


def written_out(source: Source) -> Source:
    """Return the source with loops over ``product(range(…), …)`` nested, and loops over a tuple of numbers unrolled.

    Raises SourceRefused for a range of a product that depends on the product's variables, for another loop inside a
    loop over numbers, and for an assignment to the variable of such a loop.
    """
    loops = [node for node in source.nodes if isinstance(node, ast.For)]
    if any(_ranges(source, loop) for loop in loops):
        source = attrs.evolve(source, tree=_Nesting(source).visit(copy.deepcopy(source.tree)))
    if any(_numbers(source, loop) for loop in loops):
        source = attrs.evolve(source, tree=_Unrolling(source).visit(copy.deepcopy(source.tree)))
    return source


def _variables(loop: ast.For) -> list[str]:
    return [node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)]


def _numbers(source: Source, loop: ast.For) -> Sequence[tuple[int | float, ...]]:
    """Return the values of the variables in each iteration of a loop over literal numbers; empty for another loop."""
    try:
        values = source.names.get(loop.iter.id) if isinstance(loop.iter, ast.Name) else ast.literal_eval(loop.iter)
    except ValueError:
        return ()
    if not isinstance(values, tuple) or loop.orelse:
        return ()
    passes = [value if isinstance(loop.target, ast.Tuple) else (value,) for value in values]
    of_numbers = all(isinstance(entry, tuple) and all(isinstance(n, int | float) for n in entry) for entry in passes)
    return passes if of_numbers and all(len(entry) == len(_variables(loop)) for entry in passes) else ()


def _ranges(source: Source, loop: ast.For) -> Sequence[ast.expr]:
    """Return the ranges of a loop over an `itertools.product`, one for each variable; empty for another loop."""
    if not isinstance(loop.iter, ast.Call) or loop.iter.keywords or loop.orelse:
        return ()
    function, _, attribute = text(loop.iter.func).partition(".")
    called = source.names.get(function)
    ranges = loop.iter.args if (getattr(called, attribute, None) if attribute else called) is itertools.product else []
    are_ranges = all(range_of(argument) is not None for argument in ranges)
    return ranges if are_ranges and isinstance(loop.target, ast.Tuple) and len(ranges) == len(_variables(loop)) else ()


class _Nesting(ast.NodeTransformer):
    def __init__(self, source: Source) -> None:
        self.source = source

    def visit_For(self, loop: ast.For) -> ast.For:
        self.generic_visit(loop)
        ranges = _ranges(self.source, loop)
        if not ranges:
            return loop
        variables = set(_variables(loop))
        for argument in ranges:
            if any(isinstance(node, ast.Name) and node.id in variables for node in ast.walk(argument)):
                self.source.refuse(loop, f"{text(argument)} depends on the product around it", "write nested loops")
        assert isinstance(loop.target, ast.Tuple)
        nested: list[ast.stmt] = loop.body
        for target, argument in reversed(list(zip(loop.target.elts, ranges, strict=True))):
            nested = [ast.copy_location(ast.For(target, argument, nested, []), loop)]
        (outermost,) = nested
        assert isinstance(outermost, ast.For)
        return outermost


class _Unrolling(ast.NodeTransformer):
    def __init__(self, source: Source) -> None:
        self.source = source
        assigned = [
            target
            for node in source.nodes
            for target in (node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)])
            if not isinstance(node, ast.For)
        ]
        names = [parameter.arg for parameter in source.parameters]
        self.taken = {*names, *(target.id for target in assigned if isinstance(target, ast.Name))}
        """Names that already have a value here: no variable of a loop over numbers may have one of them."""

    def visit_For(self, loop: ast.For) -> ast.For | list[ast.stmt]:
        variables, passes = _variables(loop), _numbers(self.source, loop)
        if not passes:
            around, self.taken = self.taken, self.taken | set(variables)
            self.generic_visit(loop)
            self.taken = around
            return loop
        if set(variables) & self.taken:
            self.source.refuse(loop, f"loop variable {text(loop.target)} has a value already", "use another name")
        for part in (part for statement in loop.body for part in ast.walk(statement)):
            if isinstance(part, ast.For) and not _numbers(self.source, part):
                self.source.refuse(part, f"{first_line(part)} inside of a loop over numbers", "exchange both loops")
        around, self.taken = self.taken, self.taken | set(variables)
        statements: list[ast.stmt] = []
        for numbers in passes:
            replace = _Replacement(dict(zip(variables, numbers, strict=True)))
            body = [replace.visit(copy.deepcopy(statement)) for statement in loop.body]
            statements += self.visit(ast.Module(body, [])).body
        self.taken = around
        return statements


class _Replacement(ast.NodeTransformer):
    def __init__(self, values: dict[str, int | float]) -> None:
        self.values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self.values or isinstance(node.ctx, ast.Store):
            return node
        value = ast.parse(repr(self.values[node.id]), mode="eval").body
        for part in ast.walk(value):
            ast.copy_location(part, node)
        return value
