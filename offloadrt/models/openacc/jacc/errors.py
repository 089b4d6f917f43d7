"""What goes wrong with kernels that are pushed to JACC's runtime; OpenACC's other errors are those of the runtime."""

from __future__ import annotations

from offloadrt.runtime.errors import OffloadError


class AliasedArgument(OffloadError):
    """A kernel specialised with `restrict` got two arguments with bytes in common, of which it writes one."""


class LeftEarly(OffloadError):
    """A routine of a JACC runtime was called after an earlier one was left early, as at a timeout.

    What is where on its queues and devices is no longer known. Directives of OpenACC can be left.
    """


class OverlappingWrites(OffloadError):
    """Two arguments of a kernel are written and have bytes in common: no owner of those bytes can be told."""
