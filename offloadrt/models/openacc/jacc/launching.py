"""How a pushed kernel runs on the devices of a JACC runtime: whole on each of them, or divided and then exchanged."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from offloadrt.models.host.directive import Work
from offloadrt.models.openacc.clauses import create
from offloadrt.models.openacc.jacc.code_cache import CodeCache
from offloadrt.models.openacc.jacc.devices.division import Division
from offloadrt.models.openacc.jacc.devices.exchange import Communication, Exchange
from offloadrt.models.openacc.jacc.devices.partial_values import PartialValues
from offloadrt.models.openacc.jacc.devices.policy import Execution, Mode, PushPolicy
from offloadrt.models.openacc.jacc.order import Order
from offloadrt.models.openacc.jacc.pushes import Push, Stage
from offloadrt.models.openacc.kernel_times import InFlight, KernelRecords, KernelTimes
from offloadrt.models.openacc.lowering import lower_data
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.directive_queue import DirectiveQueue
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.launch.target import target
from offloadrt.runtime.launch.touching import OffloadedRegion
from offloadrt.runtime.mapping.program_pointers import device_pointers
from offloadrt.sim import Simulation


def _no_global(device: OffloadDevice, array: HostArray) -> None:
    """Return nothing: pushed kernels use their arguments only."""


@attrs.define(eq=False)
class Launching:
    """The launches of one JACC runtime.

    times: what executions took, by the kernel's name in reports.
    """

    sim: Simulation
    order: Order
    exchange: Exchange
    policy: PushPolicy
    communication: Communication
    partial_values: PartialValues
    records: KernelRecords
    code: CodeCache
    times: Mapping[str, KernelTimes]

    async def run(self, push: Push) -> None:
        """Run a push as the policy says for its kernel.

        The host waits for it if the policy has to know what it took.
        """
        divided = self.policy.before(push.name) is Mode.DIVIDED
        if push.division is not None and (divided or self.policy.measures):
            await self._measure(push, push.division, divided)
        else:
            await self._duplicate(push)

    async def _duplicate(self, push: Push) -> None:
        """Run all of the kernel on every device; the host waits only as the execution step says."""
        order, times, exchange = self.order, self.times[push.name], self.exchange
        used = [*push.present, *push.absent]
        if exchange.is_due(used):
            await order.drain_all()
            seconds, sent = exchange.seconds, exchange.bytes
            await exchange.gather(used, order.devices)
            times.communication_s += exchange.seconds - seconds
            times.sent_bytes += exchange.bytes - sent
        launch = self._launch(push, "whole", InFlight(times, False, len(order.devices)))
        if push.items:
            await order.drain(order.dependences.synchronize(push.reads, push.writes))
            for number in order.devices:
                await order.run("jacc_kernel_push", launch, number)
        else:
            await order.submit("jacc_kernel_push", launch, push.reads, push.writes)

    async def _measure(self, push: Push, division: Division, divided: bool) -> None:
        """Run the kernel alone, in its mode, with its exchange; wait for each, and tell the policy what they took.

        The kernel's time is the device's, as events around it measure it: launches and waits of the host are not in it.
        """
        order, exchange = self.order, self.exchange
        if divided:
            await self.code.compiled((push.code.text, division.source), push.kernel.name)
            if values := self.partial_values.to_create(division.partial_values):
                await order.begin("jacc_create", lower_data([create(*values)], "enter data"))
        await exchange.open()
        await order.drain_all()
        times, seconds, sent = self.times[push.name], exchange.seconds, exchange.bytes
        if exchange.is_due(push.present):
            await (exchange.before(division) if divided else exchange.gather(push.present, order.devices))
        execution = InFlight(times, divided, len(order.devices))
        launch = self._launch(push, "part" if divided else "whole", execution)
        await order.submit("jacc_kernel_push", launch, push.reads, push.writes)
        await order.drain_all()
        if divided:
            await exchange.after(division, self.communication)
            if division.combining is not None:
                await self._combine(push)
        communication_s = exchange.seconds - seconds
        self.policy.after(push.name, Execution(execution.longest_s, communication_s, division.write_bytes))
        times.communication_s += communication_s
        times.sent_bytes += exchange.bytes - sent

    async def _combine(self, push: Push) -> None:
        """Make the result of a reduction on every device from the partial values of all, as part of the exchange."""
        begin = self.sim.now
        await self.order.submit("jacc_combine", self._launch(push, "combination", None), push.reads, push.writes)
        await self.order.drain_all()
        self.exchange.seconds += self.sim.now - begin

    def _launch(self, push: Push, stage: Stage, execution: InFlight | None) -> Work:
        """Return what launches a stage of the push on a device.

        execution: the execution of which this is one device's part.
        """
        items = push.items if stage == "whole" else []

        async def launch(where: OffloadDevice, queue: DirectiveQueue) -> None:
            if execution is not None:
                self.records.expect(where.number, queue.cause, execution)
            here = push.on_device(where.number, stage)
            known = await device_pointers(where, here.arrays, queue, "jacc_kernel_push", here.known)
            if known is not here.known:
                here.lies_at(known)
                if stage == "part":
                    self.exchange.placed(where.number, here.arrays, known)
            offloaded = OffloadedRegion(here.launch, items, here.arguments)
            await target(where, offloaded, queue, "jacc_kernel_push", _no_global)

        return launch
