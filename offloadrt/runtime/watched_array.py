"""Arrays that tell somebody which of their bytes Python reads and writes.

A `WatchedArray` is an `ndarray` that gives plain arrays and numbers for what it reads, and arrays of its own kind for
views. Where NumPy does not say which elements a call touches, all that lies between the first and the last one of the
view is told of, as some of it.

An observer of the program is told of the uses of a `HostArray` in Python by way of these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import attrs
import numpy as np
from numpy.typing import NDArray

from offloadrt.runtime.events import HostUsed, ProgramObserver
from offloadrt.runtime.host_array import HostArray

Tell = Callable[[int, int, bool, bool], None]
"""Called with the first byte and the one after the last, counted from the array's first one; written? all of them?"""

_SHAPE_ONLY = frozenset(
    {np.shape, np.size, np.ndim, np.zeros_like, np.empty_like, np.ones_like, np.result_type, np.may_share_memory,
     np.shares_memory, np.iscomplexobj, np.isrealobj}
)  # fmt: skip
_VIEWS = frozenset(
    {np.reshape, np.ravel, np.transpose, np.swapaxes, np.moveaxis, np.squeeze, np.expand_dims, np.broadcast_to,
     np.diagonal, np.split, np.array_split, np.hsplit, np.vsplit, np.real, np.imag, np.flip, np.rot90,
     np.atleast_1d, np.atleast_2d}
)  # fmt: skip
_FIRST_WRITTEN = frozenset({np.copyto, np.put, np.place, np.putmask, np.fill_diagonal, np.put_along_axis})


class WatchedArray(np.ndarray[Any, np.dtype[Any]]):
    """Has each method of an array that reads or writes elements, as each has to be told of."""

    _tell: Tell | None = None
    _first = 0
    _after = 0

    def __array_finalize__(self, made_from: Any) -> None:
        if isinstance(made_from, WatchedArray):
            self._tell, self._first, self._after = made_from._tell, made_from._first, made_from._after

    def _note(self, writes: bool, exact: bool = True) -> None:
        if self._tell is None or not self.size:
            return
        low, high = byte_bounds(self)
        if self._first <= low and high <= self._after:
            dense = exact and high - low == self.nbytes
            self._tell(low - self._first, high - self._first, writes, dense)

    def __getitem__(self, key: Any) -> Any:
        view = self._view(key)
        if view is None:
            self._note(False, exact=False)
            return np.asarray(self)[key]
        if view.ndim:
            return view
        whole = np.ndarray.__getitem__(self, key)
        if isinstance(whole, np.ndarray):
            return view
        view._note(False)
        return whole

    def __setitem__(self, key: Any, value: Any) -> None:
        view = self._view(key)
        if isinstance(value, WatchedArray) and view is not None and value.data == view.data:
            return  # the end of `a[...] += b`, which NumPy has done in place
        value = _plain(value)
        (self if view is None else view)._note(True, exact=view is not None)
        np.asarray(self)[key] = value

    def _view(self, key: Any) -> WatchedArray | None:
        """Return a view of the elements that a key names; None when it picks them one by one, or names a field."""
        parts = key if isinstance(key, tuple) else (key,)
        if not all(part is None or part is Ellipsis or isinstance(part, (int, np.integer, slice)) for part in parts):
            if isinstance(key, str):
                return cast(WatchedArray, np.ndarray.__getitem__(self, key))
            return None
        if Ellipsis not in parts:
            key = (*parts, Ellipsis)
        return cast(WatchedArray, np.ndarray.__getitem__(self, key))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        written = (inputs[0],) if method == "at" else (out or ())
        read = [_plain(one) for one in inputs]
        if out is not None:
            options["out"] = tuple([np.asarray(one) if isinstance(one, WatchedArray) else one for one in out])
        result = getattr(ufunc, method)(*read, **options)
        for array in written:
            if isinstance(array, WatchedArray):
                array._note(True, exact=options.get("where", True) is True and method != "at")
        if out is not None:
            return out[0] if len(out) == 1 else out
        return result

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        if function in _VIEWS:
            return super().__array_function__(function, types, arguments, options)
        if function in _SHAPE_ONLY:
            return function(*_quietly(arguments), **{key: _quietly(value) for key, value in options.items()})
        outputs = [options.get("out"), *arguments[: int(function in _FIRST_WRITTEN)]]
        first = int(function in _FIRST_WRITTEN)
        plain = (*_quietly(arguments[:first]), *_plain(tuple(arguments[first:])))
        named = {key: _quietly(value) if key == "out" else _plain(value) for key, value in options.items()}
        result = function(*plain, **named)
        for array in outputs:
            if isinstance(array, WatchedArray):
                array._note(True, exact="where" not in options and function not in (np.put, np.place, np.putmask))
        return options["out"] if isinstance(options.get("out"), WatchedArray) else result

    def __iter__(self) -> Any:
        return iter([self[number] for number in range(len(self))])

    def __bool__(self) -> bool:
        return bool(_plain(self))

    def __float__(self) -> float:
        return float(_plain(self))

    def __int__(self) -> int:
        return int(_plain(self))

    def __repr__(self) -> str:
        return repr(_plain(self))

    __str__ = __repr__


def byte_bounds(array: NDArray[Any]) -> tuple[int, int]:
    """Return where in memory the first byte of an array lies, and the one after its last."""
    low = high = array.__array_interface__["data"][0]
    for length, stride in zip(array.shape, array.strides, strict=True):
        reach = (length - 1) * stride
        low, high = low + min(0, reach), high + max(0, reach)
    return low, high + array.itemsize


def _plain(value: Any) -> Any:
    """Return a value with what is watched in it read."""
    if isinstance(value, WatchedArray):
        value._note(False)
        return np.asarray(value)
    if isinstance(value, (tuple, list)):
        return type(value)([_plain(one) for one in value])
    return value


def _quietly(value: Any) -> Any:
    """Return a value without anything watched, of which nothing is read."""
    if isinstance(value, WatchedArray):
        return np.asarray(value)
    if isinstance(value, (tuple, list)):
        return type(value)([_quietly(one) for one in value])
    return value


def _reader(name: str) -> Callable[..., Any]:
    def read(self: WatchedArray, *arguments: Any, **options: Any) -> Any:
        return getattr(_plain(self), name)(*_plain(arguments), **options)

    return read


def _writer(name: str) -> Callable[..., Any]:
    def write(self: WatchedArray, *arguments: Any, **options: Any) -> Any:
        self._note(True, exact=name in ("fill", "sort"))
        return getattr(np.asarray(self), name)(*_plain(arguments), **options)

    return write


for _name in ("copy", "tolist", "item", "tobytes", "astype", "dot", "argsort", "argmax", "argmin", "take", "nonzero",
              "searchsorted", "repeat", "choose", "compress", "trace", "flatten"):  # fmt: skip
    setattr(WatchedArray, _name, _reader(_name))
for _name in ("fill", "sort", "put", "partition", "itemset"):
    setattr(WatchedArray, _name, _writer(_name))


def watched(values: NDArray[Any], tell: Tell) -> WatchedArray:
    """Return a view of an array that tells of each access to it."""
    view = values.view(WatchedArray)
    view._tell = tell
    view._first, view._after = byte_bounds(values)
    return view


@attrs.define(eq=False)
class ObservedArray(HostArray):
    """A `HostArray` that tells an observer of each read and each write of its elements.

    The runtime's own work on `values` and `bytes` is not told of: copies and kernels have events of their own.
    """

    observer: ProgramObserver | None = attrs.field(default=None, repr=False)

    @property
    def data(self) -> NDArray[Any]:
        """Return the host values, watched. TypeError for a phantom array."""
        values = HostArray.data.fget(self)  # type: ignore[attr-defined]
        return watched(values, self._tell)

    def _tell(self, low: int, high: int, writes: bool, exact: bool) -> None:
        if self.observer is not None:
            self.observer.handle(HostUsed(self, self.address + low, high - low, writes, exact))
