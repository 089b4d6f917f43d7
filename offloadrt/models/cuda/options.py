"""The options of a CUDA program."""

from __future__ import annotations

from typing import ClassVar

import attrs

from offloadrt.models.host.options import ProgramOptions


@attrs.frozen(kw_only=True)
class CUDAOptions(ProgramOptions):
    """The options of a CUDA program, which has one device. Fixed once the machine is built."""

    model: ClassVar[str] = "cuda"

    def check(self) -> None:
        """Raise ValueError, also for several devices."""
        super().check()
        if self.num_devices != 1:
            raise ValueError("a CUDA program has one device here")
