"""OpenMP offloading as a program writes it: ``from offloadrt import openmp as omp``.

======================================  ==============================================================================
``OpenMP``                              a program on a machine: devices, teams of host threads, globals, mappers
``OpenMPOptions``                       its memory configuration, its allocator, its devices
``HostThread`` (``t``)                  what a thread does: ``t.target_data``, ``t.target_enter_data``,
                                        ``t.target_exit_data``, ``t.target_update``, ``t.target``, ``t.taskwait``,
                                        ``t.omp_target_*``
``Construct``                           a directive lowered once and run often: ``t.construct_target``, ``t.run``
``map``, ``to``, ``from_``, ``depend``  clauses; ``use_device_ptr``, ``use_device_addr``
``LoweredProgram``, ``LoweredItem``     directives as a compiler lowered them: a recording's, for example
``section``, ``array_section``          ``a[lower:length:stride]``, in one dimension and in several
``member``, ``pointee``                 a member of a struct, and what its pointer leads to
``pointees``                            a kernel argument that follows stored pointers
``GpuMemoryManager``                    ExaHyPE's pool of device blocks, for any program; ``UnifiedMemoryManager`` is
                                        one of managed memory
======================================  ==============================================================================

`lowering.py` is the compiler's part (clang's order of items and map types), the runtime's part is in
`offloadrt.runtime`. `LoweredProgram`, `LoweredItem` and ExaHyPE's pools come from an extension and a paper, by the
entry points `offloadrt.openmp`. All names are imported at their first use (`__init__.pyi` says from where), so reading
a script imports no runtime.
"""

from offloadrt.lazy import entry_points, lazy

__all__, __dir__, __getattr__ = lazy(__name__, entry_points("name of `offloadrt.openmp`", "offloadrt.openmp"))
