"""What a kernel sees of an array of which its device has a part, or nothing.

Indices are those of the whole array. A touch outside of the part raises `BadAccess`, as a device would stop with
CUDA_ERROR_ILLEGAL_ADDRESS.
"""

from __future__ import annotations

from typing import Any, NoReturn

import attrs
import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray


class BadAccess(Exception):
    """Raised inside a kernel; the host thread gets an `IllegalAddress` with the whole story when it synchronizes."""

    def __init__(self, array: str, what: str) -> None:
        self.array = array
        super().__init__(what)


class OutsideSection(Exception):
    """A loop nest met an index outside of the part; it carries the array's place among the arguments, and the index."""


@attrs.frozen(eq=False)
class MappedSection(NDArrayOperatorsMixin):
    """A partly mapped array. Whoever uses all of it at once touches what is not there."""

    name: str
    shape: tuple[int, ...]
    """The shape of the whole array."""
    lower: int
    """The first index along the first dimension that the device has."""
    values: NDArray[Any]
    """The elements that the device has, from `lower` on."""
    host_address: int | None = None
    """What the device got instead of an address of its own, when it has nothing."""

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.values.dtype

    @property
    def whole(self) -> NDArray[Any]:
        """Return an array of the whole's shape and type, for whoever asks for lengths; its elements mean nothing."""
        return np.broadcast_to(np.zeros((), self.dtype), self.shape)

    def outside(self, index: object) -> BadAccess:
        """Return the error that touching this index raises."""
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
        """Touch all of it. Raises BadAccess."""
        raise self.outside(":")

    def __array_ufunc__(self, *_: Any, **__: Any) -> NoReturn:
        self.touch()

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        self.touch()
