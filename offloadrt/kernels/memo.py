"""A bounded cache, because programs launch the same kernels with the same arguments many times."""

from __future__ import annotations

from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Memo(dict[K, V]):
    """A dict used as a cache. At ``most`` entries it drops all of them, so that memory stays bounded.

    A key may hold the ``id`` of an object if the value keeps that object alive: no other object gets its id then.
    Most programs need far fewer keys than ``most``. One that needs a new key in every step loses the cached values from
    time to time, which costs real time and no virtual time.
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
