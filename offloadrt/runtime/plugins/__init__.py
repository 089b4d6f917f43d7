"""The plugins: how the runtime uses a driver library. `plugin.py` is their interface.

`cuda.py` is for CUDA's library. `amdgpu.py` is for ROCr, with the streams, signals and host blocks that it keeps for
further use. Of the runtime, only plugins and allocators call a driver library; the calls for managed and pinned memory,
which LLVM's plugins do not have, are made on `OffloadDevice.driver`.
"""

from __future__ import annotations

from offloadrt.driver import CudaDriver, Driver, Rocr
from offloadrt.runtime.plugins.amdgpu import AmdgpuPlugin
from offloadrt.runtime.plugins.cuda import CudaPlugin
from offloadrt.runtime.plugins.plugin import DevicePlugin


def make_plugin(driver: Driver, number: int, migrates: bool, system: bool) -> DevicePlugin:
    """Return the runtime's plugin for device `number` of a driver library.

    `migrates`: whether the program's arrays are managed memory; `system`: whether kernels use malloc'ed ones in place.
    """
    match driver:
        case CudaDriver():
            return CudaPlugin(driver.machine, driver, number, migrates, system)
        case Rocr():
            return AmdgpuPlugin(driver.machine, driver, number)
    raise TypeError(f"no plugin for {driver!r}")
