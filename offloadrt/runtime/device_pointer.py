"""A device address in the hands of the program: what omp_target_alloc and omp_get_mapped_ptr return."""

from __future__ import annotations

from typing import Final

import attrs
import numpy as np
from numpy.typing import DTypeLike

from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.mapping.present_table import Binding

UNTYPED: Final = np.dtype("V1")
"""dtype of untyped memory: a ``void *``."""


@attrs.frozen
class DevicePointer:
    """An address of device memory (or of host memory, where the device reads that directly).

    nbytes is what is known to lie behind it, 0 if unknown. ``int(pointer)`` is the address, so pointers can be stored
    in arrays. dtype and shape say how a kernel sees it. Memory of omp_target_alloc has no type until `viewed` gives it
    one: a body over NumPy views sees bytes, a loop nest does not take it.
    """

    address: int
    nbytes: int
    device: int
    phantom: bool = False
    dtype: np.dtype[np.generic] = attrs.field(default=UNTYPED)
    shape: tuple[int, ...] | None = None
    host: HostArray | None = attrs.field(default=None, repr=False)
    """The array that it points into, on the initial device, which is the host."""

    binding: Binding | None = attrs.field(default=None, repr=False)
    """Of use_device_ptr on an array of which only a part is mapped: where that part lies."""
    array: HostArray | None = attrs.field(default=None, repr=False)

    def __int__(self) -> int:
        return self.address

    def __index__(self) -> int:
        return self.address

    def __add__(self, nbytes: int) -> DevicePointer:
        """Pointer arithmetic in bytes."""
        return attrs.evolve(
            self, address=self.address + nbytes, nbytes=max(0, self.nbytes - nbytes), shape=None, binding=None
        )

    def viewed(self, dtype: DTypeLike, shape: int | tuple[int, ...] | None = None) -> DevicePointer:
        """See the same memory in kernels as an array of this type and shape (without a shape: all of it, flat)."""
        element = np.dtype(dtype)
        lengths = (shape,) if isinstance(shape, int) else shape
        if lengths is None and self.nbytes and element != UNTYPED:
            lengths = (self.nbytes // element.itemsize,)
        return attrs.evolve(self, dtype=element, shape=lengths, binding=None)
