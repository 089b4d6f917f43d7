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

from offloadrt.lazy import lazy

__all__, __dir__, __getattr__ = lazy(__name__)
