"""The tool interface: what a performance tool is told of each operation, as OMPT's `target_data_op_emi` and `target_submit_emi`."""

from __future__ import annotations

from typing import Protocol

from offloadrt.runtime.host_array import HostArray


class Tool(Protocol):
    """Told at the host call of each operation, in order. Addresses are emulated; array is None where no host memory is involved."""

    def target_data_op(
        self, device: int, op: str, array: HostArray | None, host_address: int, device_address: int, nbytes: int
    ) -> None:
        """op: alloc, h2d, d2h, delete, attach, associate, disassociate."""
        ...

    def target_submit(self, device: int, kernel: str) -> None:
        """A kernel is about to be launched."""
        ...
