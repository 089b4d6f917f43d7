"""A cache of answers, because programs ask the same questions many times."""

from __future__ import annotations

from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Memo(dict[K, V]):
    """A cache of answers by question. At ``most`` entries it drops all of them, so that memory stays bounded.

    A key may hold the ``id`` of an object if the answer keeps that object alive: no other object gets its id then.
    Programs ask far fewer different things than ``most``; one that asks for something else in every step loses the
    answers from time to time, which costs real time and no virtual time.
    """

    __slots__ = ("most",)

    def __init__(self, most: int = 4096) -> None:
        super().__init__()
        self.most = most

    def __setitem__(self, key: K, value: V) -> None:
        if len(self) >= self.most:
            self.clear()
        super().__setitem__(key, value)

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickle fills a dict before it restores attributes, but `__setitem__` needs ``most``.
        return type(self), (self.most,), None, None, iter(self.items())
