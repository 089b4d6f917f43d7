"""What lies where in host memory: the program's arrays, for a device that follows pointers into it."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from offloadrt.machine.address_map import AddressMap
from offloadrt.machine.device_memory import InvalidDeviceAddress


class HostArrayLike(Protocol):
    """A named piece of host memory; ``bytes`` is None for a phantom."""

    name: str
    address: int
    nbytes: int

    @property
    def bytes(self) -> npt.NDArray[np.uint8] | None: ...


class HostContents:
    """Arrays by address, from when they are made until the program frees them.

    As in C, to forget an array frees nothing: pointers to it lead there still.  So what a kernel finds does not depend
    on when Python throws an object away.
    """

    __slots__ = ("_arrays",)

    def __init__(self) -> None:
        self._arrays: AddressMap[HostArrayLike] = AddressMap()

    def add(self, array: HostArrayLike) -> None:
        """An array lies at its address from now on; one of no bytes lies nowhere."""
        if array.nbytes:
            self._arrays[array.address] = array

    def remove(self, address: int) -> None:
        """The memory of the array that begins there was given back."""
        self._arrays.pop(address)

    def find(self, address: int) -> HostArrayLike | None:
        """The array that holds ``address``."""
        found = self._arrays.before(address)
        return found[1] if found is not None and address < found[0] + found[1].nbytes else None

    def view(self, address: int, nbytes: int) -> npt.NDArray[np.uint8]:
        """The bytes [address, address + nbytes), writable.

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
