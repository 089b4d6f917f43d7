"""Arrays of the host whose uses in Python an observer of the program is told of."""

from __future__ import annotations

from typing import Any

import attrs
from numpy.typing import NDArray

from offloadrt.runtime.events import HostUsed, ProgramObserver
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.watched_array import watched


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
