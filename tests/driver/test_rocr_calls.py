"""Calls of ROCr: one that is left early, as at a timeout, has ended all the same; a blit copy begins on the device."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from offloadrt.driver import HsaSignal, Rocr, RunHandler
from offloadrt.machine import Machine, load
from offloadrt.sim import Simulation
from offloadrt.trace import Calls, Trace, events

Call = Callable[[Rocr], Awaitable[Any]]
NBYTES = 1 << 30


def signal(rocr: Rocr) -> HsaSignal:
    return HsaSignal(rocr.sim, "signal")


def array(rocr: Rocr) -> int:
    return rocr.machine.host_memory.allocate(NBYTES)


def opened(rocr: Rocr) -> Any:
    stream = rocr.device.hsa_queues.open_stream()
    rocr.queues.take(stream)
    return stream


CALLS: dict[str, Call] = {
    "memory_pool_allocate": lambda rocr: rocr.memory.alloc(NBYTES, phantom=True),
    "memory_lock": lambda rocr: rocr.memory.lock(array(rocr), NBYTES),
    "memory_unlock": lambda rocr: rocr.memory.unlock(array(rocr)),
    "svm_attributes_set": lambda rocr: rocr.memory.set_svm_attributes(array(rocr), NBYTES),
    "signal_create": lambda rocr: rocr.signals.create(),
    "signal_async_handler": lambda rocr: rocr.signals.async_handler(signal(rocr), RunHandler(8, None, signal(rocr))),
    "signal_wait_scacquire": lambda rocr: rocr.signals.wait(opened(rocr), signal(rocr)),
    "queue_create": lambda rocr: rocr.queues.create(0),
    "memory_async_copy": lambda rocr: rocr.copies.copy(opened(rocr), 0, "h2d", 8, None, signal(rocr)),
    "memory_async_copy by a kernel": lambda rocr: rocr.copies.copy_by_kernel(
        opened(rocr), 0, "h2d", 8, None, signal(rocr)
    ),
}


@pytest.mark.parametrize("gear", ["native", "turbo"])
@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_is_left_early_has_ended(name: str, gear: Any) -> None:
    sim = Simulation(gear=gear)
    trace, calls = Trace(sim), Calls()
    sim.observer = trace
    rocr = Rocr.of(Machine(sim, load("mi300a"), trace, calls))
    patience = 1e-8

    async def main() -> None:
        rocr.start()
        with sim.move_on_after(patience) as scope:
            await CALLS[name](rocr)
        assert scope.timed_out

    sim.run(main)
    api = name.split()[0]
    assert calls.count(api) == 1
    assert calls.table()[api].total_s == pytest.approx(patience)
    ends = [row.api for row in trace.events if isinstance(row, events.CallEnd)]
    assert ends == [row.api for row in trace.events if isinstance(row, events.CallBegin)] == [api]


def test_a_blit_copy_begins_when_the_compute_units_begin_it() -> None:
    sim = Simulation(gear="turbo")
    trace = Trace(sim)
    spec = load("mi300a", {"gpu.max_concurrent_kernels": 1})
    rocr = Rocr.of(Machine(sim, spec, trace))

    async def main() -> None:
        rocr.start()
        done = [signal(rocr), signal(rocr)]
        for one in done:
            await rocr.copies.copy_by_kernel(opened(rocr), 0, "h2d", NBYTES, None, one)
        for one in done:
            await one.wait()

    sim.run(main)
    begins = [row.time_ps for row in trace.events if isinstance(row, events.CopyBegin)]
    ends = [row.time_ps for row in trace.events if isinstance(row, events.CopyEnd)]
    submitted = [row.time_ps for row in trace.events if isinstance(row, events.CallEnd)]
    assert begins[0] == pytest.approx(submitted[0] + 1e12 * spec.value("launch.latency"), abs=2)
    assert begins[1] == ends[0] > submitted[1], "the device has one place: the second begins when the first has ended"
