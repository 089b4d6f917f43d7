"""The options of a CUDA program."""

from __future__ import annotations

from typing import ClassVar, Literal, get_args

import attrs

from offloadrt.models.host.options import ProgramOptions

DefaultStreams = Literal["legacy", "per-thread"]


@attrs.frozen(kw_only=True)
class CUDAOptions(ProgramOptions):
    """The options of a CUDA program. Fixed once the machine is built."""

    model: ClassVar[str] = "cuda"

    default_stream: DefaultStreams = "legacy"
    """What a call without a stream means: the device's legacy default stream, or one of the calling thread's own.

    As nvcc's option of that name.
    """

    def check(self) -> None:
        """Raise ValueError for a value that an option cannot have."""
        super().check()
        if self.default_stream not in get_args(DefaultStreams):
            choices = " or ".join(get_args(DefaultStreams))
            raise ValueError(f"default_stream is {self.default_stream!r}; it can be {choices}")
