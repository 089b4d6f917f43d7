"""Kernels that several devices share: what is sent, what it takes, and which kernels are divided."""

from __future__ import annotations

from typing import Any

import pytest
from divided_rig import STEPS, prefix, run_stencil
from openacc_rig import MakeRig, Rig

from offloadrt import kernel
from offloadrt import openacc as acc
from offloadrt.extensions.openacc.multi_device import predicate
from offloadrt.trace import events


@kernel
def row_sums(a, sums, rows, columns):  # type: ignore[no-untyped-def]
    for i in range(rows):
        s = 0.0
        for j in range(columns):
            s += a[i, j]
        sums[i] = s


# what is sent


def test_all_to_all_sends_each_part_to_all_others(acc_rig: MakeRig) -> None:
    rig, jacc, _ = run_stencil(acc_rig, 4, strategy="always")
    inside = (22 - 2) * 13 * 8
    assert jacc.times["relax"].sent_bytes == STEPS * 3 * inside
    links = {name: value for name, value in rig.machine.statistics().items() if name.startswith("peer link")}
    assert len(links) == 12 and {value.bytes for value in links.values()} == {STEPS * inside // 4}


def test_a_stencil_needs_rows_of_its_neighbours_only(acc_rig: MakeRig) -> None:
    rig, jacc, _ = run_stencil(acc_rig, 4, strategy="always", communication="needed")
    row = 13 * 8
    assert jacc.times["relax"].sent_bytes == (STEPS - 1) * 6 * row
    links = {name for name in rig.machine.statistics() if name.startswith("peer link")}
    assert {f"peer link {d}-{d + 1}" for d in range(3)} <= links  # the others bring the plate together at the end


def test_pairs_without_a_link_go_another_way(acc_rig: MakeRig) -> None:
    rig, _, _ = run_stencil(acc_rig, 8, strategy="always")
    staged = sum(device.bytes_moved()["h2d"] for device in rig.machine.devices)
    alone, _, _ = run_stencil(acc_rig, 4, strategy="always")
    assert staged > 2 * sum(device.bytes_moved()["h2d"] for device in alone.machine.devices)


# what it takes


def large(acc_rig: MakeRig, devices: int, strategy: str, steps: int = 3, **options: Any) -> tuple[Rig, acc.KernelTimes]:
    """A stencil of 512 MiB."""
    rig, jacc, _ = run_stencil(acc_rig, devices, 8192, 8192, steps, strategy=strategy, phantom=True, **options)
    return rig, jacc.times["relax"]


def test_a_memory_bound_kernel_is_divided_and_its_exchange_takes_what_the_links_do(acc_rig: MakeRig) -> None:
    rig, times = large(acc_rig, 4, "always")
    alone, _, _ = run_stencil(acc_rig, 1, 8192, 8192, 3, phantom=True)
    _, begin, end = alone.kernel_spans()[1]
    beyond = times.kernel_s / times.executions - (end - begin) * 1e-12 / 4
    empty_s = 8190 * 8190 / 128 * 3 / 4 * rig.machine.spec.value("gpu.team_dispatch")  # teams without their rows
    assert 0 < beyond - empty_s < 100e-6, "launches and waits"
    part = 8190 // 4 * 8192 * 8
    link = rig.machine.spec.value("nvlink.link_bw")
    assert times.communication_s / times.executions == pytest.approx(part / link, rel=0.02)


def test_an_exchange_of_little_data_takes_its_calls_and_waits(acc_rig: MakeRig) -> None:
    _, jacc, _ = run_stencil(acc_rig, 4, strategy="always")
    times = jacc.times["relax"]
    assert 10e-6 < times.communication_s / times.executions < 100e-6


@pytest.mark.parametrize(("part", "submissions"), [(0, 3), (1, 12)])
def test_devices_submit_copies_at_once_but_for_the_lock_of_the_driver_library(
    acc_rig: MakeRig, part: int, submissions: int
) -> None:
    """Three copies from each of four devices, whose threads wait for nothing but a lock of the whole process."""

    def from_first_to_last_s(submission: str) -> float:
        entries = {"driver.copy_submit": submission, "process.driver_lock": part}
        rig, _, _ = run_stencil(acc_rig, 4, strategy="always", entries=entries)
        begins = [event.time_ps for event in rig.events(events.CopyBegin) if event.direction == "p2p"]
        return (begins[11] - begins[0]) * 1e-12

    longer_s = from_first_to_last_s("1100 us") - from_first_to_last_s("100 us")
    assert longer_s == pytest.approx((submissions - 1) * 1e-3, rel=0.01)


def test_the_time_of_an_exchange_is_that_of_the_first_devices_thread(acc_rig: MakeRig) -> None:
    """Calls that hold one lock for 1.1 ms: device 0's three come behind those of the threads that were faster."""
    entries = {"driver.copy_submit": "1100 us", "process.driver_lock": 1, "driver.handover": 0}
    rig, jacc, _ = run_stencil(acc_rig, 4, strategy="always", entries=entries)
    order = [event.device for event in rig.events(events.CopyBegin) if event.direction == "p2p"][:12]
    last = max(place for place, device in enumerate(order) if device == 0)
    times = jacc.times["relax"]
    assert times.communication_s / times.executions == pytest.approx((last + 1) * 1.1e-3, rel=0.01)


def test_the_exchange_comes_after_the_kernels_of_all_devices_and_before_the_next_ones(acc_rig: MakeRig) -> None:
    rig, times = large(acc_rig, 4, "always")
    copies = [event for event in rig.events(events.CopyEnd) if event.direction == "p2p"]
    begins = [event for event in rig.events(events.CopyBegin) if event.direction == "p2p"]
    spans = [(begin, end) for _, begin, end in rig.kernel_spans()]
    for step in range(3):
        ran = spans[4 * step : 4 * step + 4]
        sent = [event.time_ps for event in begins[12 * step : 12 * step + 12]]
        done = [event.time_ps for event in copies[12 * step : 12 * step + 12]]
        assert max(end for _, end in ran) <= min(sent)
        if step < 2:
            assert max(done) <= min(begin for begin, _ in spans[4 * step + 4 : 4 * step + 8])
    assert times.divided == times.executions == 3


def test_what_is_needed_is_faster_to_send(acc_rig: MakeRig) -> None:
    _, whole = large(acc_rig, 4, "always")
    _, needed = large(acc_rig, 4, "always", communication="needed")
    assert needed.communication_s < 0.01 * whole.communication_s
    assert needed.kernel_s == pytest.approx(whole.kernel_s, rel=0.01)


# adaptive


async def sums_of_rows(t: acc.HostThread, executions: int) -> acc.KernelTimes:
    """Much is read and little is written: an array of 2 GiB, a sum for each row."""
    rows, columns = 1 << 19, 512  # a quarter of the rows fills a device
    jacc = acc.Jacc(t, devices=4, strategy="adaptive")
    a, sums = t.array("a", (rows, columns)), t.array("sums", rows)
    await jacc.jacc_create(a, sums)
    for _ in range(executions):
        await jacc.jacc_kernel_push(row_sums, acc.jacc_args(row_sums, a, sums, rows, columns))
    await jacc.jacc_delete(a, sums)
    return jacc.times["row_sums"]


def test_a_kernel_that_gains_is_divided_after_five_executions(acc_rig: MakeRig) -> None:
    def after(executions: int) -> acc.KernelTimes:
        rig = acc_rig(devices=4, machine_name="dgx1-v100", phantom=True)
        found: acc.KernelTimes = rig.alone(lambda t: sums_of_rows(t, executions))
        return found

    five, many = after(5), after(25)
    assert (five.divided, many.divided) == (0, 20)
    divided_s = (many.kernel_s - five.kernel_s + many.communication_s) / 20
    assert divided_s < 0.4 * five.kernel_s / 5


def test_a_kernel_that_writes_as_much_as_it_reads_stays_duplicated(acc_rig: MakeRig) -> None:
    rig, jacc, _ = run_stencil(acc_rig, 4, 8192, 8192, 9, strategy="adaptive", phantom=True)
    times = jacc.times["relax"]
    assert (times.executions, times.divided, times.sent_bytes) == (9, 0, 0)
    assert sum(device.bytes_moved()["p2p"] for device in rig.machine.devices) == 0


def test_a_kernel_whose_exchange_takes_longer_than_it_is_divided_five_times(acc_rig: MakeRig) -> None:
    """The rule that divides sees no latency. A small kernel is divided, until its exchange has been measured.

    Compared with t_K · n alone it stays divided, for t_K is mostly the launch and the wait, on each device.
    """
    for eff_dup, divided in (("measured", 5), ("infinite", 20)):
        rules = acc.Rules(4, eff_dup=eff_dup)  # type: ignore[arg-type]
        strategy = acc.DeviceStrategy(acc.AdaptiveController(rules), predicate)
        _, jacc, _ = run_stencil(acc_rig, 4, steps=25, strategy=strategy)
        assert (jacc.times["relax"].executions, jacc.times["relax"].divided) == (25, divided)


@pytest.mark.parametrize("slow", ["launch.latency", "driver.launch", "sync.latency"])
def test_the_policy_is_told_the_hosts_time_of_a_kernel(acc_rig: MakeRig, slow: str) -> None:
    """Launch and wait are part of it, once: each device has a thread, as OpenMP's threads in JACC's own runtime."""
    told: list[float] = []

    class Told(acc.AdaptiveController):
        def after(self, kernel: str, execution: acc.Execution) -> None:
            told.append(execution.kernel_s)
            super().after(kernel, execution)

    def told_with(latency: str) -> list[float]:
        told.clear()
        strategy = acc.DeviceStrategy(Told(acc.Rules(4)), predicate)
        entries = {slow: latency, "process.driver_lock": 0}
        _, jacc, _ = run_stencil(acc_rig, 4, strategy=strategy, entries=entries)
        assert sum(told) == pytest.approx(jacc.times["relax"].kernel_s)
        return list(told)

    slower, faster = told_with("1100 us"), told_with("100 us")
    assert [one - other for one, other in zip(slower, faster, strict=True)] == pytest.approx(
        [1e-3] * len(told), rel=0.01
    )


def test_a_divided_kernel_is_compiled_when_it_is_first_divided(acc_rig: MakeRig) -> None:
    rig, _, _ = run_stencil(acc_rig, 4, strategy="always")
    assert rig.program.code.compilations == 2
    rig, _, _ = run_stencil(acc_rig, 4, strategy="duplicated")
    assert rig.program.code.compilations == 1


def test_what_cannot_be_divided_says_why(acc_rig: MakeRig) -> None:
    why = {}
    for strategy in ("always", "macc"):

        async def body(t: acc.HostThread, strategy: str = strategy) -> None:
            jacc = acc.Jacc(t, devices=2, strategy=strategy)
            a = t.array("a", 64, fill=1.0)
            await jacc.jacc_copyin(a)
            await jacc.jacc_kernel_push(prefix, acc.jacc_args(prefix, a, 64))
            await jacc.jacc_copyout(a)
            assert a[63] == 64.0 and jacc.times["prefix"].divided == 0
            why[strategy] = jacc.refused["prefix"]

        acc_rig(devices=2, machine_name="dgx1-v100").alone(body)
    assert "a[i] cannot be divided: no parallel loop runs along a dimension of a" in why["always"]
    assert "a[i] is reduced by the loop that is split, but not in each iteration, or it is used besides" in why["macc"]


def test_strategies_that_do_not_exist_and_machines_without_links(acc_rig: MakeRig) -> None:
    async def body(t: acc.HostThread) -> None:
        with pytest.raises(ValueError, match="no strategy 'best'; there are: single, duplicated, adaptive"):
            acc.Jacc(t, devices=2, strategy="best")
        with pytest.raises(ValueError, match="needs links between devices, and alex-a100 has none"):
            acc.Jacc(t, devices=2, strategy="always")
        with pytest.raises(ValueError, match="no communication 'some'"):
            acc.Jacc(t, communication="some")  # type: ignore[arg-type]

    acc_rig(devices=2).alone(body)
