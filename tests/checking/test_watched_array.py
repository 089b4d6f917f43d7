"""A watched array computes what NumPy does, and tells which of its bytes were read and written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from offloadrt.extensions.checking.uses import byte_bounds, watched

READ, WRITE, READ_SOME, WRITE_SOME = (False, True), (True, True), (False, False), (True, False)
ALL = (0, 64)
"""The bytes of eight doubles."""


def run(operation: Callable[[Any], Any], values: Any) -> tuple[Any, Any, list[tuple[int, int, bool, bool]]]:
    """Do an operation on a copy of the values under watch; its result, the values after it, and what was told."""
    told: list[tuple[int, int, bool, bool]] = []
    plain = values.copy()
    result = operation(watched(plain, lambda *access: told.append(access)))
    return result, plain, list(told)


def increment(a: Any) -> None:
    a[2:4] += 1.0


def put_in_the_middle(a: Any) -> None:
    a[3] = a[5]


def by_list(a: Any) -> None:
    a[[1, 3]] = 7.0


OPERATIONS: dict[str, tuple[Callable[[Any], Any], list[tuple[int, int, bool, bool]]]] = {
    "one element": (lambda a: a[3], [(24, 32, *READ)]),
    "an element from the end": (lambda a: a[-1], [(56, 64, *READ)]),
    "a view is not read": (lambda a: a[2:4].shape, []),
    "a view of nothing": (lambda a: a[4:4].sum(), []),
    "a view is read": (lambda a: a[2:4].sum(), [(16, 32, *READ)]),
    "every second element": (lambda a: a[::2].tolist(), [(0, 56, *READ_SOME)]),
    "chosen elements": (lambda a: a[[1, 3]], [(*ALL, *READ_SOME)]),
    "elements under a mask": (lambda a: a[np.arange(8) > 4], [(*ALL, *READ_SOME)]),
    "an assignment": (put_in_the_middle, [(40, 48, *READ), (24, 32, *WRITE)]),
    "an assignment to chosen ones": (by_list, [(*ALL, *WRITE_SOME)]),
    "an increment": (increment, [(16, 32, *READ), (16, 32, *WRITE)]),
    "a function of two": (lambda a: np.add(a[:2], a[2:4]), [(0, 16, *READ), (16, 32, *READ)]),
    "a function with out": (lambda a: np.negative(a[:2], out=a[2:4]), [(0, 16, *READ), (16, 32, *WRITE)]),
    "at": (lambda a: np.add.at(a, [1, 1], 1.0), [(*ALL, *READ), (*ALL, *WRITE_SOME)]),
    "two results": (lambda a: np.modf(a, out=(a, np.empty(8)))[1], [(*ALL, *READ), (*ALL, *WRITE)]),
    "the mean": (lambda a: np.mean(a[4:]), [(32, 64, *READ)]),
    "concatenate": (lambda a: np.concatenate([a[:1], a[7:]]), [(0, 8, *READ), (56, 64, *READ)]),
    "only its shape": (lambda a: (np.shape(a), np.zeros_like(a, shape=(2, 3)), np.result_type(a, np.int8)), []),
    "a view by a function": (lambda a: np.reshape(a, (2, 4))[1].sum(), [(32, 64, *READ)]),
    "copyto": (lambda a: np.copyto(a[:2], a[2:4]), [(16, 32, *READ), (0, 16, *WRITE)]),
    "putmask": (lambda a: np.putmask(a, np.arange(8) > 6, 0.0), [(*ALL, *WRITE_SOME)]),
    "cumsum with out": (lambda a: np.cumsum(np.ones(2), out=a[:2]), [(0, 16, *WRITE)]),
    "fill": (lambda a: a[1:3].fill(9.0), [(8, 24, *WRITE)]),
    "sort": (lambda a: a.sort(), [(*ALL, *WRITE)]),
    "iteration": (lambda a: list(a[6:]), [(48, 56, *READ), (56, 64, *READ)]),
    "float": (lambda a: float(a[5:6].reshape(())), [(40, 48, *READ)]),
    "int": (lambda a: int(a[5:6].reshape(())), [(40, 48, *READ)]),
    "bool": (lambda a: bool(a[5:6]), [(40, 48, *READ)]),
    "text": (lambda a: (repr(a[:1]), str(a[1:2])), [(0, 8, *READ), (8, 16, *READ)]),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_does_what_numpy_does_and_tells_what_it_touches(name: str) -> None:
    operation, told = OPERATIONS[name]
    values = np.array([5.0, 3.25, 8.0, -1.5, 2.0, 7.75, 0.5, 4.0])
    plain = values.copy()
    expected = operation(plain)
    result, after, accesses = run(operation, values)
    np.testing.assert_array_equal(after, plain)
    if name != "text":
        np.testing.assert_equal(result, expected)
    assert accesses == told


def test_a_field_of_records_is_a_view_of_them() -> None:
    records = np.array([(1, 2.0), (3, 4.0)], np.dtype([("n", "i8"), ("x", "f8")]))
    result, _, told = run(lambda a: a["x"].sum(), records)
    assert result == 6.0 and told == [(8, 32, *READ_SOME)]


def test_the_text_is_that_of_the_values() -> None:
    result, _, _ = run(lambda a: (repr(a), str(a)), np.arange(3))
    assert result == ("array([0, 1, 2])", "array([0, 1, 2])")


def test_what_was_made_from_a_watched_array_is_not_told_of() -> None:
    def on_a_copy(a: Any) -> None:
        a.copy()[0] = 1.0
        (a + 1.0)[0] = 2.0

    _, after, told = run(on_a_copy, np.zeros(8))
    assert not after.any() and told == [(*ALL, *READ), (*ALL, *READ)]


def test_bounds_hold_backwards_too() -> None:
    values = np.arange(6.0).reshape(2, 3)
    low, high = byte_bounds(values)
    assert byte_bounds(values[::-1, ::-1]) == (low, high) and high - low == 48
