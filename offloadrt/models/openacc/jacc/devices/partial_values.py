"""The arrays in which devices put the partial values of reductions: where they are, and how long.

There is one for each reduced scalar of a kernel and the arrays that its result goes to, an element for each device. On
the devices it is from the first time that the kernel is divided until one of those arrays leaves them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import attrs
import numpy as np

from offloadrt.compilers.multi_device import DividedKernel
from offloadrt.runtime.host_array import HostArray


@attrs.define(eq=False)
class PartialValues:
    """The arrays of partial values of one JACC runtime.

    devices: how many there are. make: makes an array of this name, so many elements and this type.
    """

    devices: int
    make: Callable[[str, int, np.dtype[np.generic]], HostArray]
    _arrays: dict[Hashable, list[HostArray]] = attrs.field(factory=dict)
    _targets: dict[HostArray, Sequence[HostArray]] = attrs.field(factory=dict)
    _present: dict[HostArray, None] = attrs.field(factory=dict)

    def of(
        self, kernel: DividedKernel, types: Sequence[np.dtype[np.generic]], targets: Sequence[HostArray]
    ) -> list[HostArray]:
        """Return the arrays of a kernel whose result goes to these arrays, in the order of its scalars."""
        assert kernel.combination is not None
        key = kernel, *types, *(array.address for array in targets)
        if key not in self._arrays:
            names = [partial.parameter for partial in kernel.combination.partials]
            self._arrays[key] = [self.make(name, self.devices, kind) for name, kind in zip(names, types, strict=True)]
            self._targets.update(dict.fromkeys(self._arrays[key], targets))
        return self._arrays[key]

    def to_create(self, arrays: Sequence[HostArray]) -> list[HostArray]:
        """Return those that are not on the devices yet, and count them as present from now on."""
        new = [array for array in arrays if array not in self._present]
        self._present.update(dict.fromkeys(new))
        return new

    def to_delete(self, gone: Sequence[HostArray]) -> list[HostArray]:
        """Return those that go with arrays that have left the devices."""
        addresses = {array.address for array in gone}
        leaving = [
            values for values in self._present if any(array.address in addresses for array in self._targets[values])
        ]
        for values in leaving:
            del self._present[values]
        return leaving
