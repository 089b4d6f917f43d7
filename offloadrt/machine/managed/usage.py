"""What became of the managed memory of an object of the program: faults, migrations, accesses over the link."""

from __future__ import annotations

import attrs


@attrs.define(eq=False)
class ManagedUsage:
    """Counts and bytes of one object, of all objects with its name.  A page that objects share is the first one's."""

    faults: int = 0
    """Faults of the GPU that were served."""
    host_faults: int = 0
    """Faults of the CPU."""
    bytes_htod: int = 0
    """Migrated to the device."""
    bytes_dtoh: int = 0
    """Migrated to the host, evictions included."""
    remote_bytes: float = 0.0
    """Bytes that kernels read and wrote over the link."""
    bytes_dtod: int = 0
    """Migrated, or copied, to the device from another one."""

    def plus(self, other: ManagedUsage) -> ManagedUsage:
        """Return the sums of both."""
        pairs = zip(attrs.astuple(self), attrs.astuple(other), strict=True)
        return ManagedUsage(*(one + more for one, more in pairs))

    def moved(self, direction: str, nbytes: int) -> None:
        """Count bytes that migrate, ``h2d``, ``d2h`` or ``p2p``."""
        if direction == "h2d":
            self.bytes_htod += nbytes
        elif direction == "d2h":
            self.bytes_dtoh += nbytes
        else:
            self.bytes_dtod += nbytes
