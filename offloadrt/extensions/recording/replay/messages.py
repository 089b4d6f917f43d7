"""Tells the checker what the MPI calls of a rank that is replayed alone do with their buffers: `MessageBuffers`.

A nonblocking message uses its buffer at some time between the call that begins it and the one that finds it complete
(MPI 4.1, 3.7.2 and 6.12). So it is a strand beside the thread, as a deferred task is: who stores into what it sends, or
uses what it receives, before it is complete races with it.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from offloadrt.extensions.recording.format.ranks import BUFFERS, ENDS_ALL, WRITTEN
from offloadrt.extensions.recording.format.recording import NONE, MpiCall, PartFlag, PartKind, Recording
from offloadrt.extensions.recording.replay.observed import ObservedReplay
from offloadrt.extensions.recording.replay.ranks import ReplayedPart, parts_of
from offloadrt.models.openmp import DevicePointer, HostArray
from offloadrt.runtime.events import MemoryUse


@attrs.define(eq=False)
class MessageBuffers:
    """Reports which memory the MPI calls of a replayed recording read and write, so that a checker can find races."""

    observed: ObservedReplay
    """Passes the reports on to the observer of the replay."""
    recording: Recording
    """The recording of the process whose MPI calls are replayed."""
    on_device: Callable[[ReplayedPart], DevicePointer | None]
    """Returns the device address of a call's buffer in the replay; None for a buffer in host memory."""
    array_at: Callable[[int], HostArray | None]
    """Returns the replay's array for a number of an array in the recording; None if it does not exist at present."""
    next_directive: Callable[[], int]
    """Returns a new directive number, by which a use of device memory is reported."""
    _pending: dict[int, None] = attrs.field(factory=dict)
    """The requests of messages that are not complete yet."""

    def tell(self, call: int, parts: int) -> None:
        """Report the buffers that an MPI call uses, and the nonblocking messages that it completes.

        call: the index of the call in `Dictionaries.mpi_calls`. parts: the number of the list of the call's parts
        (buffers, requests, messages) in the recording.
        """
        site, messages = self.recording.dictionaries.mpi_calls[call], dict[int, list[ReplayedPart]]()
        for part in parts_of(self.recording, parts):
            if part.kind in (PartKind.COMPLETED, PartKind.DROPS):  # a program that frees one knows of its end otherwise
                self._completed(part.request)
            elif part.kind in BUFFERS and part.nbytes and not part.flags & PartFlag.CANCELLED:
                messages.setdefault(part.request, []).append(part)
        for part in messages.pop(NONE, ()):
            self._buffer(site, part)
        for request, buffers in messages.items():
            self._pending[request] = None
            with self.observed.message((self, request), site.call, site.where):
                for part in buffers:
                    self._buffer(site, part)
        if site.call == ENDS_ALL:
            for request in [*self._pending]:
                self._completed(request)

    def _completed(self, request: int) -> None:
        if request in self._pending:
            del self._pending[request]
            self.observed.completes((self, request))

    def _buffer(self, site: MpiCall, part: ReplayedPart) -> None:
        """Report a use of device memory; of host memory only by a message, for the host's touches have the others."""
        writes, place, arrays = part.kind in WRITTEN, self.on_device(part), self.recording.dictionaries.arrays
        array = None if part.array == NONE else self.array_at(part.array)
        if place is not None:
            name = "device memory" if part.array == NONE else arrays[part.array].name
            use = MemoryUse(place.device, place.address, part.nbytes, writes, not writes and part.blocks == 1, name)
            self.observed.uses_device(site.where, site.call, self.next_directive(), place.device, use)
        elif part.request != NONE and array is not None and part.blocks == 1:
            begin = array.address + part.address - arrays[part.array].address
            self.observed.uses_buffer(array, begin, part.nbytes, writes, site.call)
