"""What goes wrong in a program of C++ standard parallelism, by how its implementation would end."""

from __future__ import annotations

from offloadrt.runtime.errors import OffloadError


class HostPointerInKernel(OffloadError):
    """A kernel got a pointer that the device cannot use, under an implementation that does not look (nvcpp,
    rocstdpar): the program crashes.
    """


class ForeignFree(OffloadError):
    """Memory that was allocated for the device was freed in a translation unit that the implementation did not compile,
    and which hands it to libc (rocstdpar): the program crashes.
    """


class PrefetchCrash(OffloadError):
    """A prefetch on a machine whose software stack crashes at one (a flag of its profile)."""


class UnfinishedRead(OffloadError):
    """The host touched data of a kernel that has not finished: a barrier was elided that should have been kept."""


class HeuristicDatabaseError(ValueError):
    """A file with the runtimes of earlier runs cannot be read; the message names the file and what is wrong in it."""
