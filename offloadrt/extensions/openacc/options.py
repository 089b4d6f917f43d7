"""The options of an OpenACC program."""

from __future__ import annotations

from typing import ClassVar

import attrs

from offloadrt.extensions.openacc.runtime_library import compiler_model
from offloadrt.models.host.program import ProgramOptions


@attrs.frozen(kw_only=True)
class OpenACCOptions(ProgramOptions):
    """The options of an OpenACC program. Fixed once the machine is built."""

    model: ClassVar[str] = "openacc"
    compiler: str = "pgi"
    """Whose run-time library the program is linked with: `pgi` or `gcc`."""
    pools: bool = False
    """Whether GCC's library has JACC's two pools of device memory."""

    def check(self) -> None:
        """Raise ValueError, also for a compiler that does not exist."""
        super().check()
        compiler_model(self.compiler)
