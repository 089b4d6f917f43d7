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
entry points `offloadrt.openmp`. All names are imported at their first use, so reading a script imports no runtime.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from offloadrt.registry import Registry

if TYPE_CHECKING:  # type checkers cannot see entry points; a script mostly uses the others when it runs
    from offloadrt.extensions.recording.replay.lowered import LoweredItem, LoweredProgram
    from offloadrt.models.openmp.clauses import *
    from offloadrt.models.openmp.host_thread import HostThread
    from offloadrt.models.openmp.lowering import INITIAL_DEVICE, Construct, TargetClauses
    from offloadrt.models.openmp.program import OpenMP, OpenMPOptions
    from offloadrt.papers.exahype.memory_manager import GpuMemoryManager, ManagerStatistics, UnifiedMemoryManager
    from offloadrt.runtime.errors import *
    from offloadrt.runtime.host_array import Dimension, HostArray, Section, SectionExtent, array_section, section
    from offloadrt.runtime.mapping.present_table import DevicePointer

__all__ = [
    "INITIAL_DEVICE",
    "Construct",
    "Depend",
    "DeviceEnded",
    "DevicePointer",
    "Dimension",
    "FreedHostMemory",
    "GpuMemoryManager",
    "HostArray",
    "HostThread",
    "IllegalAddress",
    "InvalidDevice",
    "InvalidFree",
    "LoweredItem",
    "LoweredProgram",
    "ManagerStatistics",
    "Map",
    "MappingError",
    "Maps",
    "Member",
    "Motion",
    "OffloadError",
    "OpenMP",
    "OpenMPOptions",
    "OutsideArray",
    "PlacementError",
    "Section",
    "SectionExtent",
    "StructPointee",
    "TargetClauses",
    "UnifiedMemoryManager",
    "UnifiedMemoryUnavailable",
    "UseDevice",
    "array_section",
    "depend",
    "from_",
    "map",
    "member",
    "pointee",
    "pointees",
    "section",
    "to",
    "use_device_addr",
    "use_device_ptr",
]

_OTHERS = Registry[Any]("name of `offloadrt.openmp`", "offloadrt.openmp")

_LIGHTEST_FIRST = ("clauses", "lowering", "host_thread", "program")


def __getattr__(name: str) -> Any:
    if not name.startswith("_") and name in _OTHERS.points():
        value = _OTHERS.load(name)
    elif name in __all__:
        homes = (
            *(f"{__name__}.{home}" for home in _LIGHTEST_FIRST),
            "offloadrt.runtime.errors",
            "offloadrt.runtime.host_array",
            "offloadrt.runtime.mapping.present_table",
        )
        value = next(names[name] for home in homes if name in (names := vars(import_module(home))))
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value
