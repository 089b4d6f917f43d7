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

    def moved(self, direction: str, nbytes: int) -> None:
        """Count bytes that migrate, ``h2d`` or ``d2h``."""
        if direction == "h2d":
            self.bytes_htod += nbytes
        else:
            self.bytes_dtoh += nbytes
