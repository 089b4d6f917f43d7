"""The run-time library that an OpenACC program is linked with, as its host threads share it."""

from __future__ import annotations

import attrs

from offloadrt.models.openacc.async_queues import AsyncQueues
from offloadrt.models.openacc.compilers import CompilerModel
from offloadrt.models.openacc.jacc.code_cache import CodeCache
from offloadrt.models.openacc.kernel_times import KernelRecords


@attrs.frozen(eq=False)
class RuntimeLibrary:
    """The parts of the library of one program."""

    compiler: CompilerModel
    """Whose library it is."""
    queues: AsyncQueues
    """The activity queues of all devices."""
    code: CodeCache
    """The kernels that JACC generated at run time."""
    records: KernelRecords
    """What the program's kernels took on its devices."""
