"""The tool interface, after OMPT's callbacks: a performance tool is called for each operation of the runtime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from offloadrt.runtime import events
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.mapping.map_item import MapItem


class Tool(Protocol):
    """Receives each operation of the runtime, as an OMPT tool does; it is called on the host, in order.

    Addresses are those of the emulated machine; array is None if no host memory takes part.
    """

    def target_map(self, device: int, call: str, items: Sequence[MapItem]) -> None:
        """Take note of the map items of a directive, `call`, which begins to work on them (OMPT's `target_map_emi`)."""

    def target_data_op(
        self, device: int, op: str, array: HostArray | None, host_address: int, device_address: int, nbytes: int
    ) -> None:
        """Take note of an operation of the runtime on device memory (OMPT's `target_data_op_emi`).

        op: its kind: alloc, h2d, d2h, delete, attach, associate, disassociate. array: the host's array; None for none.
        host_address: where it begins in host memory. device_address: where it begins on the device; 0 if the operation
        has none.
        """

    def target_submit(self, device: int, kernel: str) -> None:
        """Take note that a kernel is about to be launched on a device (OMPT's `target_submit_emi`)."""


def start_tool(device: OffloadDevice, tool: Tool) -> None:
    """Call `tool` for all that happens on a device from now on."""
    op = tool.target_data_op

    def block(name: str) -> Callable[[events.BlockAllocated | events.BlockFreed], None]:
        return lambda e: op(e.device, name, e.array, e.host_address, e.address, e.nbytes)

    def copied(e: events.DataCopied) -> None:
        op(e.device, e.op, e.array, e.host_address, e.device_address, e.nbytes)

    callbacks: dict[type, Callable[[Any], None]] = {
        events.ItemsTaken: lambda e: tool.target_map(e.device, e.call, e.items),
        events.BlockAllocated: block("alloc"),
        events.BlockFreed: block("delete"),
        events.DataCopied: copied,
        events.PointerAssociated: lambda e: op(e.device, "associate", e.array, e.begin, e.device_address, e.nbytes),
        events.PointerDisassociated: lambda e: op(e.device, "disassociate", None, e.begin, 0, 0),
        events.KernelSubmitted: lambda e: tool.target_submit(e.device, e.kernel),
    }

    def call_back(event: object) -> None:
        if (callback := callbacks.get(type(event))) is not None:
            callback(event)

    device.listen(call_back)
