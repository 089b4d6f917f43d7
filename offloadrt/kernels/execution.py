"""Running a loop nest on real arrays: in the interpreter, or compiled by Numba, with the same results bit for bit.

`NestBody` is the rewritten source, built for either way. The functions that it calls are here too: loads, divisions,
powers, complex numbers, the C library. `MappedSection` is an array of which the device has a part.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import ctypes
import functools
import importlib.util
import math
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NoReturn

import attrs
import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from offloadrt.kernels.array_use import KernelError
from offloadrt.kernels.costs import KernelAnalysis, plain_number
from offloadrt.kernels.loop_subset import MATH, LoopNest, called


class BadAccess(Exception):
    """Raised inside a kernel for an illegal access: ``array`` is the array's name, ``what`` the message."""

    def __init__(self, array: str, what: str) -> None:
        self.array = array
        super().__init__(what)


class OutsideSection(Exception):
    """Raised for an access outside an array's mapped part; `args`: the array's number in the nest, and the index."""


@attrs.frozen(eq=False)
class MappedSection(NDArrayOperatorsMixin):
    """Stands for a partly mapped array. Using all of it at once raises BadAccess, as the device lacks some elements."""

    name: str
    shape: tuple[int, ...]
    """The shape of the whole array."""
    lower: int
    """The first index along the first dimension whose elements the device has."""
    values: NDArray[Any]
    """The elements that the device has, from `lower` on."""
    host_address: int | None = None
    """The host address that the kernel got instead of a device address, if the device has no part of the array."""

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.values.dtype

    @property
    def whole(self) -> NDArray[Any]:
        """Return an array of the whole array's shape and type, for code that asks for lengths; all elements are 0."""
        return np.broadcast_to(np.zeros((), self.dtype), self.shape)

    def outside(self, index: object) -> BadAccess:
        """Return the error for an access to the array at this index, which the device does not have."""
        if self.host_address is not None:
            had = f"the device got its host address {self.host_address:#x}"
            return BadAccess(self.name, f"{self.name} is not mapped: {had}")
        had = f"the device has [{self.lower}:{self.lower + len(self.values)}] of it"
        return BadAccess(self.name, f"{self.name}[{index}] is not mapped: {had}")

    def _shift(self, index: Any) -> Any:
        first, rest = (index[0], index[1:]) if isinstance(index, tuple) else (index, ())
        mapped = len(self.values)
        if isinstance(first, slice):
            start, stop, step = first.indices(self.shape[0])
            touched = range(start, stop, step)
            if touched and not (self._holds(touched[0]) and self._holds(touched[-1])):
                raise self.outside(f"{start}:{stop}:{step}")
            if not touched:
                return (slice(0, 0), *rest)
            last = touched[-1] - self.lower
            stop_at: int | None = last + (1 if step > 0 else -1)
            return (slice(touched[0] - self.lower, None if stop_at == -1 else stop_at, step), *rest)
        indices = np.asarray(first)
        indices = np.where(indices < 0, indices + self.shape[0], indices)
        if indices.size and not (indices.min() >= self.lower and indices.max() < self.lower + mapped):
            raise self.outside(first)
        shifted = indices - self.lower
        return (shifted if shifted.ndim else int(shifted), *rest)

    def _holds(self, index: int) -> bool:
        return self.lower <= index < self.lower + len(self.values)

    def __getitem__(self, index: Any) -> Any:
        return self.values[self._shift(index)]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.values[self._shift(index)] = value

    def __len__(self) -> int:
        return self.shape[0]

    def touch(self) -> NoReturn:
        """Raise BadAccess, because the kernel uses the whole array."""
        raise self.outside(":")

    def __array_ufunc__(self, *_: Any, **__: Any) -> NoReturn:
        self.touch()

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        self.touch()


Functions = dict[str, Callable[..., Any]]

_IN_C = [name for name in MATH if name not in ("floor", "ceil", "fabs")]


def _load(value: Any) -> Any:
    return value.item()


def _within(index: Any, lower: int, mapped: int, length: int, position: int) -> Any:
    counted = index + length if index < 0 else index
    if counted < lower or counted >= lower + mapped:
        raise OutsideSection(position, index)
    return counted - lower


def _divide(a: Any, b: Any) -> float:
    try:
        return float(a / b)
    except ZeroDivisionError:
        if a == 0 or a != a:
            return math.nan
        return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _floor_divide(a: Any, b: Any) -> Any:
    return a // b


def _remainder(a: Any, b: Any) -> Any:
    return a % b


def _power(a: Any, exponent: int) -> Any:
    product = a
    for _ in range(exponent - 1):
        product = product * a
    return product


def _least(a: Any, b: Any) -> Any:
    return b if b < a else a


def _greatest(a: Any, b: Any) -> Any:
    return b if b > a else a


def _complex_sum(a: Any, b: Any) -> complex:
    return complex(a.real + b.real, a.imag + b.imag)


def _complex_difference(a: Any, b: Any) -> complex:
    return complex(a.real - b.real, a.imag - b.imag)


def _complex_product(a: Any, b: Any) -> complex:
    return complex(a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real)


def _complex_scaled(a: Any, factor: Any) -> complex:
    return complex(a.real * factor, a.imag * factor)


def _complex_power(a: Any, exponent: int) -> Any:
    product = a
    for _ in range(exponent - 1):
        product = complex(product.real * a.real - product.imag * a.imag, product.real * a.imag + product.imag * a.real)
    return product


def _conjugate(a: Any) -> complex:
    return complex(a.real, -a.imag)


def _complex_shrunk_by(divide: Callable[..., Any]) -> Callable[..., Any]:
    def shrunk(a: Any, divisor: Any) -> complex:
        return complex(divide(a.real, divisor), divide(a.imag, divisor))

    return shrunk


def _complex_quotient_by(divide: Callable[..., Any]) -> Callable[..., Any]:
    def quotient(a: Any, b: Any) -> complex:
        # Smith's algorithm (Communications of the ACM 5(8), 1962): the squares of large numbers do not overflow.
        if abs(b.real) >= abs(b.imag):
            ratio = divide(b.imag, b.real)
            divisor = b.real + b.imag * ratio
            return complex(divide(a.real + a.imag * ratio, divisor), divide(a.imag - a.real * ratio, divisor))
        ratio = divide(b.real, b.imag)
        divisor = b.real * ratio + b.imag
        return complex(divide(a.real * ratio + a.imag, divisor), divide(a.imag * ratio - a.real, divisor))

    return quotient


def _widened(value: Any) -> Any:
    return value * 1  # widens a bool, an int32 or a float32 to 64 bits when Numba compiles it; no value changes


def _unchanged(value: Any) -> Any:
    # `* 1` would change a complex element: 1 counts as 1 + 0j, and 0 times an infinite part is NaN.
    return value


def _quotient(a: Any, b: Any) -> Any:
    return a / b


_COMPLEX: Functions = {
    "_complex_sum": _complex_sum,
    "_complex_difference": _complex_difference,
    "_complex_product": _complex_product,
    "_complex_scaled": _complex_scaled,
    "_complex_power": _complex_power,
    "_conjugate": _conjugate,
}
"""Complex arithmetic written out: Python's own differs between versions for infinities and signed zeros."""


@functools.cache
def interpreted() -> Functions:
    """Return, by name, the functions that the interpreter needs for a kernel's loads and operators (see `build`)."""
    return {
        "_load": _load,
        "_within": _within,
        "_divide": _divide,
        "_floor_divide": _floor_divide,
        "_remainder": _remainder,
        "_power": _power,
        "_least": _least,
        "_greatest": _greatest,
        "_complex_load": _load,
        "_complex_shrunk": _complex_shrunk_by(_divide),
        "_complex_quotient": _complex_quotient_by(_divide),
        **_COMPLEX,
        **_of_the_c_library(),
    }


@functools.cache
def compiled() -> Functions:
    """Return, by name, the functions that Numba needs for loads and operators (see `build`). ImportError without it."""
    import numba

    own = numba.njit(error_model="python")
    divide = numba.njit(error_model="numpy")(_quotient)
    return {
        "_load": own(_widened),
        "_within": own(_within),
        "_divide": divide,
        "_floor_divide": own(_floor_divide),
        "_remainder": own(_remainder),
        "_power": own(_power),
        "_least": own(_least),
        "_greatest": own(_greatest),
        "_complex_load": own(_unchanged),
        "_complex_shrunk": own(_complex_shrunk_by(divide)),
        "_complex_quotient": own(_complex_quotient_by(divide)),
        **{name: own(function) for name, function in _COMPLEX.items()},
        **_of_the_c_library(),
    }


@functools.cache
def _of_the_c_library() -> Functions:
    names = {"linux": "libm.so.6", "darwin": "libSystem.dylib", "win32": "ucrtbase.dll"}
    library = ctypes.CDLL(names.get(sys.platform))
    functions: Functions = {f"_{name}": getattr(math, name) for name in ("floor", "ceil", "fabs")}
    for name in _IN_C:
        function = getattr(library, name)
        function.restype = ctypes.c_double
        function.argtypes = [ctypes.c_double] * (2 if name in ("atan2", "pow") else 1)
        functions[f"_{name}"] = function
    return functions


WORTH_COMPILING = 2e6
"""Number of loads, stores and operations after which a kernel is compiled: one second in the interpreter."""

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
    """The body of a kernel written as a loop nest (`analysis` of its source); called with arrays and numbers.

    The interpreter runs the body until the operations so far (`work_done`) reach `WORTH_COMPILING`. Then Numba runs it,
    if installed (extra ``kernels``), with the same results in less real time. Raises IndexError for an index outside of
    its array, BadAccess for one outside of a `MappedSection`, KernelError for arguments that a kernel cannot take.
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
        """Run the body on these arguments (arrays and numbers) in the interpreter."""
        taken = self._taken(arguments)
        in_sections = len(taken) > len(arguments)
        if in_sections not in self._interpreted:
            self._interpreted[in_sections] = self._built(interpreted(), in_sections)
        with np.errstate(all="ignore"), _told_of(arguments):
            self._interpreted[in_sections](*taken)

    def compile_and_run(self, *arguments: Any) -> None:
        """Compile the body and run it on these arguments. Raises KernelError without Numba."""
        if not numba_is_installed():
            raise KernelError(
                f"kernel {self.analysis.name!r} cannot be compiled without Numba; install offloadrt[kernels]"
            )
        import numba

        taken = self._taken(arguments)
        in_sections = len(taken) > len(arguments)
        if in_sections not in self._compiled:
            made = self._built(compiled(), in_sections)
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

    def _built(self, functions: Functions, in_sections: bool) -> Callable[..., None]:
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
        """Return the arguments in the form that the interpreted and the compiled body take.

        If one is a section, each array's whole (an array of its shape) and first index follow, as for `build`.
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
    """Turn an OutsideSection that the body raises into the BadAccess of the section among `arguments`."""
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
    nest: LoopNest, functions: Functions, in_sections: bool = False, complex_nodes: Collection[ast.expr] = ()
) -> Callable[..., None]:
    """Build a Python function from the source of a loop nest, with calls in place of loads and of some operators.

    functions: what the calls mean, by name (`interpreted` or `compiled`). complex_nodes: the source's expressions with
    a complex value. in_sections: the function takes only the part of each array that the device has. After all other
    arguments it then takes for each array one of the full shape, for its lengths, and the device's first index.
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
        if name in ("expect", "atomic"):
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
    """Rewrites indices, which refer to the whole array, to the position of the element in the device's part."""

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
