"""The tool interface, after OMPT's callbacks: what a performance tool is told of each operation of the runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.mapping.map_item import MapItem


class Tool(Protocol):
    """Told at the host call of each operation, in order.

    Addresses are emulated; array is None where no host memory is.
    """

    def target_map(self, device: int, call: str, items: Sequence[MapItem]) -> None:
        """Note that a directive begins to work on these items (`target_map_emi`); a target region says so once."""

    def target_data_op(
        self, device: int, op: str, array: HostArray | None, host_address: int, device_address: int, nbytes: int
    ) -> None:
        """`target_data_op_emi`. op: alloc, h2d, d2h, delete, attach, associate, disassociate."""

    def target_submit(self, device: int, kernel: str) -> None:
        """Note that a kernel is about to be launched (`target_submit_emi`)."""
