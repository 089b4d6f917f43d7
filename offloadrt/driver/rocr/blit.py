"""Blit copies: copies made by a kernel of the driver library on the device's compute units.

On an APU, copies of ``dma.blit_from`` bytes and more that depend on nothing take this way.
"""

from __future__ import annotations

from offloadrt.kernels import Kernel, Launch

_THREADS, _BYTES_PER_THREAD = 256, 64

BLIT = Kernel("blit copy", bytes_per_iteration=2.0, threads_per_team=_THREADS)
"""The kernel of all blit copies.  One iteration copies a byte, which is read and written: two bytes of traffic."""


def blit(nbytes: int) -> Launch:
    """Return the launch that copies ``nbytes`` bytes.

    Each thread copies 64 bytes.  This shape is our choice, not ROCr's; it matters only for copies that are too small to
    fill the device, since the others take the time of the memory's bandwidth.
    """
    return BLIT.launch(max(1, -(-nbytes // (_THREADS * _BYTES_PER_THREAD))), iterations=nbytes)
