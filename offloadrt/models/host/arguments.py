"""Arguments of calls, checked against the annotations of their parameters (`checks_arguments`)."""

from __future__ import annotations

import functools
import inspect
import math
import re
import types
import typing
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Literal, TypeVar, Union, cast, get_args, get_origin

import numpy as np
from numpy.typing import DTypeLike

from offloadrt.kernels import Kernel
from offloadrt.kernels.integers import is_integer

T = TypeVar("T")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])
_NUMBERS: dict[Any, Callable[[Any], bool]] = {
    int: lambda value: is_integer(value) and -(1 << 63) <= value < 1 << 63,
    float: lambda value: _NUMBERS[int](value) or (isinstance(value, float | np.floating) and math.isfinite(value)),
    bool: lambda value: isinstance(value, bool | np.bool_),
}
_ANYTHING = (Any, object, DTypeLike, Kernel)
"""Annotations of which a call itself tells what does not fit."""


def checks_arguments(cls: type[T]) -> type[T]:
    """Decorate a class so that its public methods raise TypeError for arguments that do not fit their annotations.

    Numbers of NumPy count as Python's; truth values are no numbers. Integers must fit 64 bits, others be finite.
    """
    for name, method in [*vars(cls).items()]:
        if inspect.isfunction(method) and not name.startswith("_"):
            setattr(cls, name, checked(method))
        elif isinstance(method, staticmethod) and not name.startswith("_"):
            setattr(cls, name, staticmethod(checked(method.__func__)))
    return cls


def checked(method: F, name: str = "") -> F:
    """Decorate a function: it raises TypeError, naming it `name`, for arguments that do not fit its annotations."""
    positional = method.__code__.co_varnames[: method.__code__.co_argcount]
    # The annotations are evaluated at the first call: then all modules are there.
    annotations = functools.cache(lambda: typing.get_type_hints(method))

    @functools.wraps(method)
    def call(*arguments: Any, **others: Any) -> Any:
        for value in [*arguments, *others.values()]:
            if isinstance(value, types.CoroutineType):
                value.close()
                raise TypeError(f"{name or method.__name__}: its argument {value.__qualname__}(...) was not awaited")
        for given, value in [*zip(positional, arguments, strict=False), *others.items()]:
            if not _fits(value, takes := annotations().get(given, Any)):
                takes = re.sub(r"(?:\w+\.)+", "", inspect.formatannotation(takes))
                raise TypeError(f"{name or method.__name__}: {given} cannot be {value!r:.80}; it takes {takes}")
        return method(*arguments, **others)

    return cast(F, call)


def started(call: str, body: Callable[[T], Awaitable[R]], given: T) -> Awaitable[R]:
    """Return what `body(given)` returns, to be awaited. Raises TypeError, naming `call`, if `body` is not async."""
    running: object = body(given)
    if not isinstance(running, Awaitable):
        made = f"{code.co_filename}:{code.co_firstlineno}: " if (code := getattr(body, "__code__", None)) else ""
        raise TypeError(f"{made}{call} returned {running!r:.80}, nothing to await; write it as `async def`")
    return running


CHECKED: Final = checked(checks_arguments).__code__
"""The code of the frame between a program and a call whose arguments are checked."""


def _fits(value: Any, annotation: Any) -> bool:
    """Tell whether a value is one of those that an annotation allows."""
    is_class = type(annotation) is type
    kind, of = (annotation, ()) if is_class else (get_origin(annotation) or annotation, get_args(annotation))
    if kind in _NUMBERS:
        return _NUMBERS[kind](value)
    if annotation in _ANYTHING or isinstance(kind, TypeVar):
        return True
    if kind in (Union, types.UnionType):
        return any(_fits(value, each) for each in of)
    if kind is Literal:
        return isinstance(value, str) and value in of
    if kind is Sequence:
        return isinstance(value, list | tuple) and all(_fits(each, of[0]) for each in value)
    if kind is tuple:
        lengths = of[:1] * len(value) if of[-1] is ... and isinstance(value, tuple) else of
        return isinstance(value, tuple) and len(value) == len(lengths) and all(map(_fits, value, lengths))
    return callable(value) if kind is Callable else isinstance(value, kind)
