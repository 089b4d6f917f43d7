"""What goes wrong in a program of C++ standard parallelism, by how its implementation would end."""

from __future__ import annotations

from offloadrt.runtime.errors import OffloadError


class HostPointerInKernel(OffloadError):
    """A kernel got a pointer that the device cannot use, and the program crashes.

    Under an implementation that does not look: nvcpp, rocstdpar.
    """


class ForeignFree(OffloadError):
    """Memory of the device was freed where libc gets it, and the program crashes.

    The translation unit that frees it was not compiled by the implementation, which replaces frees only in its own
    (rocstdpar).
    """


class PrefetchCrash(OffloadError):
    """A prefetch on a machine whose software stack crashes at one (a flag of its profile)."""


class UnfinishedRead(OffloadError):
    """The host touched data of a kernel that has not finished: a barrier was elided that should have been kept."""


class HeuristicDatabaseError(ValueError):
    """A file with the runtimes of earlier runs cannot be read; the message names the file and what is wrong in it."""
