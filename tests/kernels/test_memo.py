"""A memo keeps answers up to a number, then begins anew."""

from __future__ import annotations

import pickle

from offloadrt.kernels.memo import Memo


def test_a_memo_forgets_everything_rather_than_grow() -> None:
    memo: Memo[int, str] = Memo(2)
    memo[1], memo[2] = "one", "two"
    assert memo == {1: "one", 2: "two"}
    memo[3] = "three"
    assert memo == {3: "three"}


def test_a_memo_goes_to_another_process() -> None:
    memo: Memo[int, str] = Memo(2)
    memo[1] = "one"
    there = pickle.loads(pickle.dumps(memo))
    there[2], there[3] = "two", "three"
    assert there == {3: "three"}
