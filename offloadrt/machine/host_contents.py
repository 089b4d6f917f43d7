"""What lies where in host memory: the program's arrays, for a device that follows pointers into it."""

from __future__ import annotations

import weakref
from functools import partial
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
    """Arrays by address.  It keeps none of them alive: what the program has forgotten is not there any more."""

    __slots__ = ("_arrays",)

    def __init__(self) -> None:
        self._arrays: AddressMap[weakref.ref[HostArrayLike]] = AddressMap()

    def add(self, array: HostArrayLike) -> None:
        """An array lies at its address from now on; one of no bytes lies nowhere."""
        if array.nbytes:
            self._arrays.pop(array.address)
            self._arrays[array.address] = weakref.ref(array, partial(self._forget, array.address))

    def remove(self, address: int) -> None:
        """The memory of the array that begins there was given back."""
        self._arrays.pop(address)

    def find(self, address: int) -> HostArrayLike | None:
        """The array that holds ``address``."""
        found = self._arrays.before(address)
        array = None if found is None else found[1]()
        return array if array is not None and address < array.address + array.nbytes else None

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

    def _forget(self, address: int, array: weakref.ref[HostArrayLike]) -> None:
        if self._arrays.get(address) is array:
            self._arrays.pop(address)
