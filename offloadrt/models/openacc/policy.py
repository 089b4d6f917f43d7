"""What `Jacc` asks before each push: how the kernel is to run on the devices of the program."""

from __future__ import annotations

import enum
from typing import Protocol

import attrs


class Mode(enum.Enum):
    """DUPLICATED: whole, on every device. DIVIDED: each device accesses the part that it writes, then the parts are
    exchanged. With one device both are the same.
    """

    DUPLICATED = "duplicated"
    DIVIDED = "divided"


class PushPolicy(Protocol):
    """One strategy."""

    def before(self, kernel: str) -> Mode:
        """How the kernel of this name runs next."""
        ...


@attrs.frozen
class Fixed:
    """The same for every kernel, always."""

    mode: Mode = Mode.DUPLICATED

    def before(self, kernel: str) -> Mode:
        return self.mode
