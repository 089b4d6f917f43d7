"""OpenACC as a program writes it: ``from offloadrt import openacc as acc``.

=====================================  ===============================================================================
``OpenACC``                            a program on a machine: devices, teams of host threads, async queues
``OpenACCOptions``                     whose run-time library it is linked with (`compiler`, `pools`), its devices
``HostThread`` (``t``)                 what a thread does: ``t.data``, ``t.enter_data``, ``t.exit_data``, ``t.update``,
                                       ``t.host_data``, ``t.parallel``, ``t.kernels``, ``t.wait``, ``t.acc_*``
``copy``, ``copyin``, ``copyout``,     data clauses; ``host`` and ``device`` of update
``create``, ``present``, ``delete``
``section``                            a subarray, ``section(a, lower, length)``
``Jacc``                               JACC's routines: ``jacc_create``, ``jacc_copyin``, ``jacc_kernel_push``, …
``jacc_arg_build``, ``jacc_args``      argument descriptors (`Argument`, `Attribute`)
``PushFlags``, ``Effects``             how a pushed kernel is specialised, and what that does to its time
``DeviceStrategy``,                    how several devices share kernels (`STRATEGIES`)
``strategy_named``
``Rules``, ``AdaptiveController``      when a kernel is divided among devices
=====================================  ===============================================================================

`program.py` and `host_thread.py` are the program and its threads, with the clauses, the compiler's part;
`runtime_library.py` says how the run-time libraries of PGI and GCC differ; JACC is in `jacc/`, its passes over loops
are in `multi_device/`, the runtime's part is in `offloadrt.runtime`.
"""

from offloadrt.extensions.openacc.host_thread import (
    ACC_ASYNC_NOVAL,
    ACC_ASYNC_SYNC,
    DataClause,
    HostThread,
    UpdateClause,
    copy,
    copyin,
    copyout,
    create,
    delete,
    device,
    host,
    present,
)
from offloadrt.extensions.openacc.jacc.dependences import (
    AliasedArgument,
    Dependences,
    LeftEarly,
    OverlappingWrites,
    QueuePlacement,
)
from offloadrt.extensions.openacc.jacc.division import (
    STRATEGIES,
    AdaptiveController,
    DeviceStrategy,
    Execution,
    Fixed,
    KernelState,
    Mode,
    PushPolicy,
    Rules,
    after_execution,
    strategy_named,
)
from offloadrt.extensions.openacc.jacc.generation import (
    Argument,
    Attribute,
    PushFlags,
    generate,
    jacc_arg_build,
    jacc_args,
)
from offloadrt.extensions.openacc.jacc.routines import Effects, Jacc
from offloadrt.extensions.openacc.program import OpenACC, OpenACCOptions
from offloadrt.extensions.openacc.runtime_library import COMPILERS, CompilerModel, KernelTimes, compiler_model
from offloadrt.runtime.errors import IllegalAddress, InvalidDevice, InvalidFree, MappingError, NotPresent, OffloadError
from offloadrt.runtime.host_array import HostArray, Section, section
from offloadrt.runtime.mapping.present_table import DevicePointer

__all__ = [
    "ACC_ASYNC_NOVAL",
    "ACC_ASYNC_SYNC",
    "COMPILERS",
    "STRATEGIES",
    "AdaptiveController",
    "AliasedArgument",
    "Argument",
    "Attribute",
    "CompilerModel",
    "DataClause",
    "Dependences",
    "DevicePointer",
    "DeviceStrategy",
    "Effects",
    "Execution",
    "Fixed",
    "HostArray",
    "HostThread",
    "IllegalAddress",
    "InvalidDevice",
    "InvalidFree",
    "Jacc",
    "KernelState",
    "KernelTimes",
    "LeftEarly",
    "MappingError",
    "Mode",
    "NotPresent",
    "OffloadError",
    "OpenACC",
    "OpenACCOptions",
    "OverlappingWrites",
    "PushFlags",
    "PushPolicy",
    "QueuePlacement",
    "Rules",
    "Section",
    "UpdateClause",
    "after_execution",
    "compiler_model",
    "copy",
    "copyin",
    "copyout",
    "create",
    "delete",
    "device",
    "generate",
    "host",
    "jacc_arg_build",
    "jacc_args",
    "present",
    "section",
    "strategy_named",
]
