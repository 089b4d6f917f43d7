"""The calls of CUDA's driver library that a process makes before its first kernel: driver, context, module, kernel."""

from __future__ import annotations

from offloadrt.driver.cuda.context import Context


class StartCalls:
    """The start of one device's library."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._costs = context.costs

    async def init(self) -> None:
        """Initialize the driver in the process (cuInit), which looks at every GPU that the program sees."""
        with self._context.call("cuInit", None, None):
            await self._context.work(self._costs.init + len(self._context.machine.devices) * self._costs.init_device)

    async def device_primary_ctx_retain(self) -> None:
        """Create the device's primary context (cuDevicePrimaryCtxRetain)."""
        with self._context.call("cuDevicePrimaryCtxRetain", None, None):
            await self._context.locked_work(self._costs.create_context)

    async def module_load_data(self) -> None:
        """Load the program's module into the context (cuModuleLoadData), without its kernels if loading is lazy."""
        with self._context.call("cuModuleLoadData", None, None):
            await self._context.locked_work(self._costs.load_module)

    async def module_get_function(self) -> None:
        """Find a kernel in the module (cuModuleGetFunction), which loads it if loading is lazy."""
        with self._context.call("cuModuleGetFunction", None, None):
            await self._context.locked_work(self._costs.load_kernel)
