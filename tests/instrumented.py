"""Arrays that count what is done with them: the truth that analyses are compared with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

Index = Any


@attrs.define(eq=False)
class Counted:
    """An array that counts its loads and stores, and remembers which elements they were of."""

    values: Any
    loads: int = 0
    stores: int = 0
    loaded: set[int] = attrs.field(factory=set)
    stored: set[int] = attrs.field(factory=set)

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.values.shape
        return shape

    @property
    def dtype(self) -> Any:
        return self.values.dtype

    @property
    def size(self) -> int:
        return int(self.values.size)

    def __len__(self) -> int:
        return len(self.values)

    def place(self, index: Index) -> int:
        indices = index if isinstance(index, tuple) else (index,)
        indices = tuple(int(i) + (n if i < 0 else 0) for i, n in zip(indices, self.shape, strict=True))
        return int(np.ravel_multi_index(indices, self.shape))

    def __getitem__(self, index: Index) -> Any:
        self.loads += 1
        self.loaded.add(self.place(index))
        return self.values[index].item()

    def __setitem__(self, index: Index, value: Any) -> None:
        self.stores += 1
        self.stored.add(self.place(index))
        self.values[index] = value

    @property
    def touched(self) -> set[int]:
        return self.loaded | self.stored


def counted(function: Callable[..., None], *arguments: Any) -> list[Any]:
    """Run a function on copies of its arguments that count; they come back, in its order."""
    given = [Counted(np.array(a)) if isinstance(a, np.ndarray) else a for a in arguments]
    with np.errstate(all="ignore"):
        function(*given)
    return given


@attrs.frozen
class Phantom:
    """An argument that has a size and no values."""

    shape: tuple[int, ...]
    dtype: Any = attrs.field(default="f8", converter=np.dtype)
