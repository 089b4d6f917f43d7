"""Where a kernel finds an array."""

from __future__ import annotations

from typing import Final

import attrs


@attrs.frozen(eq=False)
class Binding:
    """Bytes [host_begin, host_end) of an array lie at `address` on the device.

    is_host: the device uses the host's memory. address None: it got a host pointer that it cannot use.
    """

    address: int | None
    host_begin: int = 0
    host_end: int = 0
    is_host: bool = False


ON_HOST: Final = Binding(None, is_host=True)
NOWHERE: Final = Binding(None)
