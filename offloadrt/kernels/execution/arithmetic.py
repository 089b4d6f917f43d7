"""The arithmetic of kernels in source, the same in the interpreter and compiled: each function here exists for both.

Elements are widened when they are loaded, to 64-bit integers and doubles, and rounded to their array's type when they
are stored; an index of an array of which a device has a section is moved there. Division follows IEEE 754 (1/0 is
infinity); ``//`` and ``%`` by zero raise ZeroDivisionError. Minimum and maximum keep their first operand unless the
second one is less or greater. Powers are repeated products. Functions of `math` are those of the C library, called in
both cases, so that no compiler replaces them by others; an argument outside of their domain gives NaN or infinity.
"""

from __future__ import annotations

import ctypes
import functools
import math
import sys
from collections.abc import Callable
from typing import Any

from offloadrt.kernels.execution.mapped_section import OutsideSection
from offloadrt.kernels.source.subset import MATH

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
    return value * 1  # of a bool, an int32 or a float32 and a 64-bit integer Numba makes 64 bits; no value changes


def _unchanged(value: Any) -> Any:
    # A complex element is not widened by `* 1` as others are: 1 counts as 1 + 0j, and 0 times an infinite part is NaN.
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
"""Complex arithmetic written out, as Python's own differs between its versions in infinities and signed zeros."""


@functools.cache
def interpreted() -> Functions:
    """Return the functions for the interpreter, by the names that `nest_body.py` writes."""
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
    """Return the functions for Numba. Raises ImportError without it."""
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
