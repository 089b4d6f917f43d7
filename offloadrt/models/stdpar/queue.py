"""A thread's in-order queue, and SYCL's operations on one: kernels, copies, prefetches, waits.

Everything in it runs in the order of submission. The stream below is taken from the plugin at first use and kept until
the thread ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from offloadrt.driver import NOTHING, Touching
from offloadrt.kernels import Launch
from offloadrt.models.stdpar.arrays import Command, InUse, UsmArray
from offloadrt.models.stdpar.errors import PrefetchCrash
from offloadrt.models.stdpar.heuristic_database import OperationId
from offloadrt.models.stdpar.stdpar_runtime import StdParRuntime
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.directive_queue import DirectiveQueue


@attrs.frozen
class ArrayInKernel:
    """An array among a kernel's arguments."""

    array: UsmArray
    writes: bool


class Queue:
    """What a thread has submitted to the device, in order. submit_s: host time of one submission."""

    def __init__(self, runtime: StdParRuntime, device: OffloadDevice, submit_s: float) -> None:
        self.device = device
        self.compute_units = runtime.machine.devices[device.number].compute.spec.sms
        self.outstanding = 0
        """Operations since the last wait."""
        self.algorithms: list[OperationId] = []
        """The outstanding operations that are measured."""
        self._batch_begin_s = 0.0
        self._runtime = runtime
        self._submit_s = submit_s
        self._queue = DirectiveQueue(0, lasts=True)
        self._used: dict[int, UsmArray] = {}
        """Arrays of commands that nobody has waited for, by identity."""
        runtime.closers.append(self.close)

    def measure(self, operation: OperationId) -> None:
        """Begin an algorithm whose runtime the heuristic wants to know: a part of the batch's, up to the wait."""
        if not self.algorithms:
            self._batch_begin_s = self._runtime.sim.now
        self.algorithms.append(operation)

    # commands

    async def launch(
        self,
        launch: Launch,
        run: Callable[[], None] | None,
        arrays: Sequence[ArrayInKernel],
        touching: Touching = NOTHING,
    ) -> None:
        """Submit a kernel. `run` computes its results at its end; what it raises is raised by the wait."""
        command = self._use(launch.kernel.name, arrays)
        queue = self._begin()

        def body() -> None:
            command.done = True
            # By now the thread that has submitted the kernel does something else: it hears of the first error at its
            # wait, and what follows a kernel that failed is not computed.
            if run is not None and queue.kernel_error is None:
                try:
                    run()
                except Exception as error:
                    queue.kernel_error = error

        await self._submission()
        await self.device.plugin.launch_kernel(queue, launch, body, touching, len(arrays))
        self._submitted()

    async def memcpy(self, destination: UsmArray, source: UsmArray) -> None:
        """Copy an array to another of as many bytes; between host and device, or within the device.

        Shared USM is copied by the host's address, as CUDA's library does it: the queue is waited for, and what the
        device owns of it comes back first. ValueError for other sizes, and for a copy within the host.
        """
        if destination.nbytes != source.nbytes:
            raise ValueError(
                f"memcpy of {source.nbytes} bytes ({source.name!r}) to {destination.nbytes} ({destination.name!r})"
            )
        kinds = (source.memory == "device", destination.memory == "device")
        if kinds == (False, False):
            raise ValueError(f"memcpy from {source.name!r} to {destination.name!r}: neither is device memory")
        if kinds != (True, True):
            await self._host_end(destination if kinds[0] else source, writes=kinds[0])
        queue, plugin = self._begin(), self.device.plugin
        await self._submission()
        self._use("memcpy", [ArrayInKernel(source, False), ArrayInKernel(destination, True)])
        if kinds == (True, True):
            await plugin.exchange_data(queue, destination.address, source.address, source.nbytes)
        elif kinds[0]:
            await plugin.retrieve_data(queue, destination.span(destination.address, source.nbytes), source.address)
        else:
            await plugin.submit_data(queue, destination.address, source.span(source.address, source.nbytes))
        self._submitted()

    async def _host_end(self, array: UsmArray, writes: bool) -> None:
        """Touch the host's end of a copy; commands of this queue come before the copy as it is."""
        if array.memory == "shared" and self.outstanding:
            await self.wait()
        array.check_host_access(writes, self)
        await self._runtime.usm.host_touch(array)

    async def prefetch(self, address: int, nbytes: int, name: str = "") -> None:
        """Have shared USM migrate to the device, in the order of the queue.

        Raises PrefetchCrash where the machine's software crashes at one.
        """
        runtime = self._runtime
        what = runtime.usm.on_prefetch
        if what == "crashes":
            message = f"a prefetch of {nbytes} bytes crashes on {runtime.machine.spec.name} (usm.prefetch = crashes)"
            raise PrefetchCrash.now(runtime.sim, message, call="prefetch", array=name)
        queue = self._begin()
        await self._submission()
        runtime.counts.prefetches += 1
        runtime.counts.prefetched_bytes += nbytes
        await self.device.plugin.prefetch(queue, address, nbytes if what == "migrates" else 0, False)

    # waits

    async def wait(self) -> None:
        """Wait for everything in it. Raises what a kernel did wrong."""
        queue = self._queue
        if queue.stream is None:
            return
        queue.cause = self._runtime.sim.current.cause
        await self.device.plugin.synchronize(queue)
        self._runtime.counts.waits += 1
        if self.outstanding:
            self._runtime.batches += 1
        if self.algorithms:
            self._runtime.database.add_batch(self.algorithms, self._runtime.sim.now - self._batch_begin_s)
            self.algorithms = []
        self.outstanding = 0
        used, self._used = self._used, {}
        for array in used.values():
            array.forget(self)
        await self.device.settle(queue)

    async def close(self) -> None:
        """Wait at the end of the thread, and give the stream back."""
        if self._queue.stream is not None:
            if self.outstanding:
                await self.wait()
            self._queue.lasts = False
            try:
                await self.device.plugin.synchronize(self._queue)
            finally:
                self._queue.lasts = True

    # accounting

    def _begin(self) -> DirectiveQueue:
        self._queue.cause = self._runtime.sim.current.cause
        return self._queue

    async def _submission(self) -> None:
        await self._runtime.work(self._submit_s)

    def _submitted(self) -> None:
        self.outstanding += 1

    def _use(self, name: str, arrays: Sequence[ArrayInKernel]) -> Command:
        sim = self._runtime.sim
        command = Command(name, self, sim.current.name, sim.now)
        for use in arrays:
            use.array.in_use.append(InUse(command, use.writes))
            self._used[id(use.array)] = use.array
        return command
