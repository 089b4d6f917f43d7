"""Blit copies: copies of a device's memory made by a kernel on its compute units."""

from __future__ import annotations

from offloadrt.kernels import Kernel, Launch

_THREADS, _BYTES_PER_THREAD = 256, 64

BLIT = Kernel("blit copy", bytes_per_iteration=2.0, threads_per_team=_THREADS)
"""One iteration copies a byte: it is read and written."""


def blit(nbytes: int) -> Launch:
    """The launch that copies ``nbytes`` bytes."""
    return BLIT.launch(max(1, -(-nbytes // (_THREADS * _BYTES_PER_THREAD))), iterations=nbytes)
