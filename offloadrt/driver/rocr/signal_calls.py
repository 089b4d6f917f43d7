"""The calls of ROCr for signals: creating one, having a handler run when one is set, and waiting for one."""

from __future__ import annotations

from functools import partial

from offloadrt.driver.calls import CallAccounts
from offloadrt.driver.rocr.async_handler import AsyncHandler, RunHandler
from offloadrt.driver.rocr.costs import RocrCosts
from offloadrt.driver.rocr.hsa_signal import HsaSignal
from offloadrt.machine import Device, Machine, Stream
from offloadrt.sim import Signal
from offloadrt.trace import events


class SignalCalls:
    """The signals of one device's library; ``handler`` is the thread that runs asynchronous handlers."""

    def __init__(
        self, machine: Machine, device: Device, costs: RocrCosts, calls: CallAccounts, handler: AsyncHandler
    ) -> None:
        self._machine = machine
        self._device = device
        self._costs = costs
        self._calls = calls
        self._handler = handler
        self._work = machine.work

    async def signal_create(self) -> None:
        """Create a signal for the plugin's pool (hsa_signal_create); the object itself is the plugin's."""
        with self._calls.call("signal_create"):
            await self._work(self._costs.signal_create, "driver")

    async def signal_async_handler(self, signal: HsaSignal, handler: RunHandler) -> None:
        """Have the library's thread run a handler when a signal is set (hsa_amd_signal_async_handler)."""
        with self._calls.call("signal_async_handler"):
            await self._work(self._costs.handler, "driver")
            signal.set_callback(partial(self._handler.submit, handler))

    async def signal_wait_scacquire(self, stream: Stream, signal: Signal, category: str = "") -> None:
        """Wait for the completion of what was submitted last to a stream (hsa_signal_wait_scacquire).

        The host time of the wait is divided by what the stream did meanwhile, unless ``category`` names the one entry
        of ``trace.HOST_TIME`` that gets all of it.
        """
        with self._calls.call("signal_wait_scacquire"):
            if signal.is_set:
                stream.spans()  # forgets what the stream did: nobody waited for it
                return
            sim, trace, index = self._machine.sim, self._machine.trace, self._device.index
            begin, queue = sim.now, stream.queue.number
            if trace is not None:
                cause = sim.current.cause
                trace(events.SignalWaitBegin, index, queue, cause, signal.name)
            try:
                await signal.wait()
            finally:
                if trace is not None:
                    trace(events.SignalWaitEnd, index, queue, cause, signal.name)
                if category:
                    self._machine.host_time.add(category, sim.now - begin)
                else:
                    self._machine.host_time.add_wait(begin, sim.now, stream.spans())
            await self._work(self._costs.wake, "driver")
