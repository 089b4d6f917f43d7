"""The program's arrays by their host addresses, for a device that follows pointers into host memory."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from offloadrt.machine.memory.address_map import AddressMap
from offloadrt.machine.memory.device_memory import InvalidDeviceAddress


class HostArrayLike(Protocol):
    """A named piece of host memory; ``bytes`` is None for a phantom."""

    name: str
    address: int
    nbytes: int

    @property
    def bytes(self) -> npt.NDArray[np.uint8] | None: ...


class HostContents:
    """Arrays by address, from when they are made until the program frees them.

    As in C, an array whose variable goes out of scope is not freed: pointers to it remain valid.  So what a kernel
    finds does not depend on when Python's garbage collector removes an object.
    """

    __slots__ = ("_arrays",)

    def __init__(self) -> None:
        self._arrays: AddressMap[HostArrayLike] = AddressMap()

    def add(self, array: HostArrayLike) -> None:
        """Record that an array lies at its address from now on; an array of no bytes lies nowhere."""
        if array.nbytes:
            self._arrays[array.address] = array

    def remove(self, address: int) -> None:
        """Forget the array that begins at ``address``, whose memory the program has freed."""
        self._arrays.pop(address)

    def find(self, address: int) -> HostArrayLike | None:
        """Return the array that holds ``address``, or None."""
        nearest = self._arrays.before(address)
        if nearest is None:
            return None
        begin, array = nearest
        return array if address < begin + array.nbytes else None

    def view(self, address: int, nbytes: int) -> npt.NDArray[np.uint8]:
        """Return the bytes [address, address + nbytes), writable.

        Raises InvalidDeviceAddress unless they lie in one array that is no phantom.
        """
        array = self.find(address)
        if array is None:
            raise InvalidDeviceAddress(f"{address:#x} lies in no array of the host")
        offset = address - array.address
        if offset + nbytes > array.nbytes:
            reach = f"{nbytes} bytes at <{array.name}+{offset}> reach beyond the array of {array.nbytes} bytes"
            raise InvalidDeviceAddress(reach)
        if array.bytes is None:
            raise InvalidDeviceAddress(f"array {array.name!r} is a phantom: it has a size but no values")
        return array.bytes[offset : offset + nbytes]
