"""The memory that an MPI call sends, receives or combines: `MpiBuffer`, and how to make one of a program's array."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import attrs
import numpy as np
from numpy.typing import NDArray

from offloadrt.kernels.integers import is_integer
from offloadrt.machine.memory import InvalidDeviceAddress
from offloadrt.models.host.process import Process
from offloadrt.runtime.errors import OffloadError
from offloadrt.runtime.host_array import Bytes, HostArray, Section, array_of, extent
from offloadrt.runtime.mapping.present_table import DevicePointer
from offloadrt.sim import Simulation

ANY_SOURCE: Final = -2
"""Receive from whichever rank sends first."""
ANY_TAG: Final = -1
"""Receive a message with any tag."""
PROC_NULL: Final = -3
"""A null process (MPI_PROC_NULL): a send to it does nothing, and a receive from it returns at once without data."""
UNDEFINED: Final = -32766
"""The color that a rank passes to `Comm.Split` if it wants no communicator."""
TAG_UB: Final = (1 << 31) - 1
"""The largest tag that a message may have."""
Line: TypeAlias = str
"""A line of the program, such as ``halo.py:14``, that reports name for a call; empty if it is not known."""


class MpiError(OffloadError):
    """Raised for an error that MPI reports for a call, such as a message that is longer than its receive buffer."""

    @classmethod
    def of_call(cls, sim: Simulation, reason: str, call: str, place: str = "", array: str = "") -> MpiError:
        """Make the error of a call that the running thread makes at `place`, a source line of the program.

        reason: what is wrong, in words. array: the name of the array of the call; empty for none.
        """
        return cls.now(sim, reason + (f"; at {place}" if place else ""), call=call, array=array)


class InPlace:
    """The type of the constant `IN_PLACE` (MPI_IN_PLACE): a rank's data lies in its receive buffer already."""

    def __repr__(self) -> str:
        return "MPI_IN_PLACE"


IN_PLACE: Final = InPlace()
"""Passed in place of a send buffer: the data to send is in the receive buffer already (MPI_IN_PLACE)."""


@attrs.frozen(eq=False)
class MpiBuffer:
    """Memory that an MPI call reads or writes: how many bytes, where, in how many pieces, and the bytes themselves.

    The replay of a recording makes it from count, datatype and address; a program in Python makes it by `buffer_of`.
    Raises ValueError for sizes that contradict one another.
    """

    nbytes: int
    """The number of bytes of its data, without the gaps of a derived datatype."""
    device: int | None = None
    """The number of the device whose memory holds it, as its process counts devices; None for host memory."""
    blocks: int = 1
    """The number of contiguous pieces that a derived datatype describes; 1 if the buffer is contiguous."""
    values: NDArray[Any] | None = None
    """A view of the program's memory with the elements to send; None for a phantom, which has no bytes."""
    dtype: np.dtype[Any] | None = None
    """The type of its elements, for reductions that compute real values; None: single bytes."""
    name: str = ""
    """The program's name for it, for messages."""
    array: HostArray | None = None
    """The array of a program in Python of which it is a part, for observers; None if there is none."""
    lower: int = 0
    """Where the part begins in `array`, in bytes."""

    def __attrs_post_init__(self) -> None:
        if self.nbytes < 0 or self.blocks < 0:
            raise ValueError(f"a buffer of {self.nbytes} bytes in {self.blocks} pieces")
        if self.values is not None and self.values.nbytes != self.nbytes:
            raise ValueError(f"a buffer of {self.nbytes} bytes with {self.values.nbytes} bytes of values")

    @property
    def where(self) -> str:
        """Return in the words of reports where the buffer lies: "host memory" or "device N"."""
        return "host memory" if self.device is None else f"device {self.device}"

    def read(self) -> Bytes | None:
        """Return a copy of the buffer's bytes without the gaps of a derived datatype.

        Returns None for a buffer without values (a phantom), of which only the time is modelled.
        """
        return None if self.values is None else np.ascontiguousarray(self.values).reshape(-1).view(np.uint8).copy()

    def write(self, packed: Bytes | None) -> None:
        """Store bytes, one after the other, in the buffer from its beginning on, up to its length.

        Does nothing for a buffer without values (a phantom), of which only the time is modelled. packed: the bytes;
        None where they are not known.
        """
        if packed is None or self.values is None or not packed.size:
            return
        packed = packed[: self.nbytes]
        if packed.size == self.nbytes:
            self.values[...] = packed.view(self.values.dtype).reshape(self.values.shape)
        elif self.values.flags.c_contiguous:
            self.values.reshape(-1).view(np.uint8)[: packed.size] = packed
        else:
            whole = packed.size // self.values.itemsize
            self.values.flat[:whole] = packed[: whole * self.values.itemsize].view(self.values.dtype)

    def part(self, begin: int, nbytes: int) -> MpiBuffer:
        """Return `nbytes` bytes of a contiguous buffer as a buffer, from byte number `begin` on."""
        values = None if self.values is None else self.values.reshape(-1).view(np.uint8)[begin : begin + nbytes]
        return MpiBuffer(nbytes, self.device, 1, values, self.dtype, self.name)

    def temporary(self, nbytes: int | None = None) -> MpiBuffer:
        """Return a new contiguous buffer in the same memory, as a library allocates one; with data if this one has."""
        size = self.nbytes if nbytes is None else nbytes
        values = None if self.values is None else np.zeros(size, np.uint8)
        return MpiBuffer(size, self.device, 1, values, self.dtype, self.name)


NOTHING: Final = MpiBuffer(0)
"""A buffer of no bytes, for empty messages."""

Given = MpiBuffer | HostArray | Section | None
"""What a program can pass to an MPI call as a buffer; None stands for a buffer of no bytes."""


def buffer_of(given: Given, call: str = "buffer_of") -> MpiBuffer:
    """Return the buffer of an array of the program, or of a section of one, in host memory.

    A section with gaps becomes what a derived datatype describes: each piece without a gap counts as a block. given:
    the array or section. call: the MPI function that got it, for the error. Raises TypeError for anything else.
    """
    if given is None:
        return NOTHING
    if isinstance(given, MpiBuffer):
        return given
    begin, nbytes = extent(given, call)
    array = array_of(given)
    if isinstance(given, HostArray):
        return MpiBuffer(nbytes, values=array.values, dtype=array.dtype, name=array.name, array=array)
    if given.is_contiguous:
        found = array.span(begin, nbytes).bytes
        return MpiBuffer(nbytes, values=found, dtype=array.dtype, name=str(given), array=array, lower=begin)
    return _with_gaps(given)


def _with_gaps(section: Section) -> MpiBuffer:
    """Return the buffer of an array section with gaps."""
    array, named = section.array, section.extents
    lengths = [*(extent.length for extent in named), *array.shape[len(named) :]]
    elements = 1
    for length in lengths:
        elements *= length
    run = 1  # elements without a gap: the last dimensions, if whole, times the one before
    for dimension in reversed(range(len(lengths))):
        if dimension < len(named) and named[dimension].stride != 1 and lengths[dimension] > 1:
            break
        run *= lengths[dimension]
        if lengths[dimension] != array.shape[dimension]:
            break
    places = tuple(slice(e.lower, e.lower + (e.length - 1) * e.stride + 1, e.stride) for e in named)
    values = None if array.values is None else array.values[places]
    return MpiBuffer(elements * array.itemsize, None, elements // run if run else 0, values, array.dtype, str(section))


def device_buffer(process: Process, pointer: DevicePointer, nbytes: int | None = None) -> MpiBuffer:
    """Return the buffer of memory behind a device pointer: of `omp_target_alloc`, or of an array's `use_device_ptr`.

    Without `nbytes` the buffer is everything that is known to lie behind the pointer. Raises ValueError if the process
    has no device with the pointer's device number or for a size that is none, MpiError for more bytes than lie there.
    """
    if nbytes is not None and not (is_integer(nbytes) and nbytes >= 0):
        raise ValueError(f"device_buffer: nbytes is {nbytes!r:.80}, but must be a whole number from 0")
    size = pointer.nbytes if nbytes is None else nbytes
    devices = process.program.devices
    if not 0 <= pointer.device < len(devices):
        raise ValueError(f"a buffer behind {pointer!r}: the process has {len(devices)} devices")
    memory = process.program.machine.devices[pointer.device].memory
    try:
        values = None if pointer.phantom or memory.is_phantom(pointer.address) else memory.view(pointer.address, size)
    except InvalidDeviceAddress as error:
        raise MpiError.of_call(process.program.sim, f"MPI_ERR_BUFFER: {error}", "device_buffer") from None
    dtype = np.dtype(pointer.dtype)
    return MpiBuffer(
        size, pointer.device, 1, values, dtype if dtype.itemsize > 1 else None, f"device {pointer.device} memory"
    )
