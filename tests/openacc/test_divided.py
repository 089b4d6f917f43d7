"""Kernels that several devices share: the values are those of one device, and time is that of kernels and links."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from acc_kernels import increment, scale, sum_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openacc_rig import MakeRig, Rig

from offloadrt import kernel
from offloadrt import openacc as acc
from offloadrt.kernels import predicate
from offloadrt.trace import events

STEPS = 7
DIVIDING = ("adaptive", "always", "macc")


@kernel(collapse=2)
def relax(old, new, rows, columns):  # type: ignore[no-untyped-def]
    for i in range(1, rows - 1):
        for j in range(1, columns - 1):
            around = old[i - 1, j] + old[i + 1, j] + old[i, j - 1] + old[i, j + 1]
            new[i, j] = 0.6 * old[i, j] + 0.1 * around


@kernel(collapse=2)
def transpose(x, y, rows, columns):  # type: ignore[no-untyped-def]
    for i in range(rows):
        for j in range(columns):
            y[j, i] = x[i, j]


@kernel
def clear(x, y, rows, columns):  # type: ignore[no-untyped-def]
    for i in range(2, rows):
        y[i, columns - 2] = 0.5 * x[0, i]


@kernel
def row_sums(a, sums, rows, columns):  # type: ignore[no-untyped-def]
    for i in range(rows):
        s = 0.0
        for j in range(columns):
            s += a[i, j]
        sums[i] = s


@kernel
def step(x, y, most, count, n):  # type: ignore[no-untyped-def]
    s = 0.0
    largest = x[0]
    done = count[0]
    for i in range(n):
        y[i] = x[i] - 3.0
        s += x[i] * x[i]
        largest = max(largest, x[i])
        done += 1
    most[0] = s
    most[1] = largest
    count[0] = done


@kernel
def prefix(a, n):  # type: ignore[no-untyped-def]
    for _ in range(1):
        for i in range(1, n):
            a[i] = a[i] + a[i - 1]


def start(rows: int, columns: int) -> Any:
    return np.random.default_rng(5).normal(size=(rows, columns))


def in_numpy(rows: int, columns: int, steps: int) -> Any:
    old = start(rows, columns)
    new = old.copy()
    for _ in range(steps):
        around = old[:-2, 1:-1] + old[2:, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:]
        new[1:-1, 1:-1] = 0.6 * old[1:-1, 1:-1] + 0.1 * around
        old, new = new, old
    return old


async def stencil(t: acc.HostThread, rows: int, columns: int, steps: int, **options: Any) -> tuple[acc.Jacc, Any]:
    """Some steps; the jacc runtime, and the plate afterwards unless it is a phantom."""
    jacc = acc.Jacc(t, **options)
    phantom = t.program.phantom
    old, new = (t.array(n, (rows, columns), fill=None if phantom else start(rows, columns)) for n in ("old", "new"))
    await jacc.jacc_copyin(old, new)
    for _ in range(steps):
        await jacc.jacc_kernel_push(relax, acc.jacc_args(relax, old, new, rows, columns))
        old, new = new, old
    await jacc.jacc_copyout(old)
    await jacc.jacc_delete(new)
    return jacc, None if phantom else old.data.copy()


def run_stencil(
    acc_rig: MakeRig, devices: int, rows: int = 22, columns: int = 13, steps: int = STEPS, **options: Any
) -> tuple[Rig, acc.Jacc, Any]:
    rig = acc_rig(
        {"jit.compile": 0}, devices=devices, machine_name="dgx1-v100", gear=options.pop("gear", "turbo"),
        phantom=options.pop("phantom", False),
    )  # fmt: skip
    jacc, plate = rig.alone(lambda t: stencil(t, rows, columns, steps, devices=devices, **options))
    rig.assert_clean()
    return rig, jacc, plate


@pytest.mark.parametrize("communication", ["all-to-all", "needed"])
@pytest.mark.parametrize("strategy", [*DIVIDING, "duplicated", "single"])
@pytest.mark.parametrize("devices", [1, 2, 4, 8])
def test_a_stencil_is_what_one_device_computes(
    acc_rig: MakeRig, devices: int, strategy: str, communication: str
) -> None:
    rig, _, plate = run_stencil(acc_rig, devices, strategy=strategy, communication=communication)
    _, _, alone = run_stencil(acc_rig, 1)
    assert plate.tobytes() == alone.tobytes()
    np.testing.assert_allclose(plate, in_numpy(22, 13, STEPS), rtol=1e-13)
    moved = sum(device.bytes_moved()["p2p"] for device in rig.machine.devices)
    assert (moved > 0) is (devices > 1 and strategy in DIVIDING)


@pytest.mark.parametrize("strategy", DIVIDING)
@pytest.mark.parametrize("flags", [acc.PushFlags.NONE, acc.PushFlags.RESTRICT | acc.PushFlags.VAR_OPT])
@pytest.mark.parametrize("communication", ["all-to-all", "needed"])
def test_a_program_of_several_kernels_is_what_numpy_computes(
    acc_rig: MakeRig, strategy: str, flags: acc.PushFlags, communication: str
) -> None:
    """Divided kernels, two of them with reductions, one that cannot be divided, one whose array is only there for its
    launch, and the host, one after the other.
    """
    n = 37

    async def body(t: acc.HostThread) -> tuple[Any, float, acc.Jacc]:
        jacc = acc.Jacc(t, devices=4, strategy=strategy, communication=communication)
        x, y, total = t.array("x", n, fill=np.arange(n)), t.array("y", n), t.array("total", 1)
        most, count = t.array("most", 2), t.array("count", 1, np.int32)
        z = t.array("z", n, fill=1.0)
        await jacc.jacc_copyin(x, y, total, most, count)
        for factor in (1.0, 2.0):
            await jacc.jacc_kernel_push(scale, acc.jacc_args(scale, x, y, factor), flags)
            await jacc.jacc_kernel_push(prefix, acc.jacc_args(prefix, y, n), flags)
            await jacc.jacc_kernel_push(increment, acc.jacc_args(increment, y), flags)
            await jacc.jacc_kernel_push(scale, acc.jacc_args(scale, y, x, 0.5), flags)
        absent = (acc.jacc_args(scale, x, y, 1.0)[0], acc.jacc_arg_build("y", z, acc.Attribute.WRITE))
        await jacc.jacc_kernel_push(scale, (*absent, acc.jacc_arg_build("factor", 3.0)), flags)
        await jacc.jacc_kernel_push(sum_of, acc.jacc_args(sum_of, x, total), flags)
        await jacc.jacc_kernel_push(step, acc.jacc_args(step, x, y, most, count, n), flags)
        await jacc.jacc_host_access(x)
        await t.update(acc.host(x))
        assert np.array_equal(z.data, 3.0 * x.data)
        await jacc.jacc_copyout(total, x, most, count, y)
        assert np.array_equal(y.data, x.data - 3.0)
        assert (most[1], count[0]) == (x.data.max(), n)
        assert float(most[0]) == pytest.approx(x.data @ x.data)
        return x.data.copy(), float(total[0]), jacc

    rig = acc_rig({"jit.compile": 0}, devices=4, machine_name="dgx1-v100")
    x, total, jacc = rig.alone(body)
    wanted = np.arange(n, dtype=float)
    for factor in (1.0, 2.0):
        wanted = 0.5 * (np.cumsum(factor * wanted) + 1.0)
    assert np.array_equal(x, wanted) and total == pytest.approx(wanted.sum())
    assert list(jacc.refused) == ["prefix"]
    rig.assert_clean()


@pytest.mark.parametrize("strategy", ["always", "macc"])
@pytest.mark.parametrize("communication", ["all-to-all", "needed"])
def test_devices_for_which_nothing_is_left(acc_rig: MakeRig, strategy: str, communication: str) -> None:
    _, _, plate = run_stencil(acc_rig, 8, rows=7, strategy=strategy, communication=communication)
    np.testing.assert_allclose(plate, in_numpy(7, 13, STEPS), rtol=1e-13)


def test_one_array_seen_as_two_types_is_not_divided(acc_rig: MakeRig) -> None:
    async def body(t: acc.HostThread) -> Any:
        jacc = acc.Jacc(t, devices=2, strategy="always")
        a = t.array("a", 64, fill=1.0)
        await jacc.jacc_copyin(a)
        await jacc.jacc_kernel_push(scale, acc.jacc_args(scale, a.viewed(np.float64), a, 2.0))
        await jacc.jacc_copyout(a)
        assert "two arguments of two types" in jacc.refused["scale"]
        return a.data

    assert (acc_rig(devices=2, machine_name="dgx1-v100").alone(body) == 2.0).all()


def test_both_gears_give_one_trace(acc_rig: MakeRig) -> None:
    hashes = {
        run_stencil(acc_rig, 4, strategy="always", communication="needed", gear=gear)[0].trace.hash()
        for gear in ("turbo", "native")
    }
    assert len(hashes) == 1


@given(
    steps=st.lists(st.tuples(st.sampled_from("rtc"), st.permutations("abc"), st.booleans()), min_size=1, max_size=8),
    strategy=st.sampled_from(["always", "macc"]),
    communication=st.sampled_from(["all-to-all", "needed"]),
    devices=st.integers(2, 8),
)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_program_is_what_one_device_computes(
    acc_rig: MakeRig, steps: list[Any], strategy: str, communication: str, devices: int
) -> None:
    """Stencils, transpositions and copies between three arrays, divided along different dimensions, and host reads."""
    n = 9

    def run(devices: int, **options: Any) -> list[bytes]:
        async def body(t: acc.HostThread) -> list[bytes]:
            jacc = acc.Jacc(t, devices=devices, **options)
            arrays = {name: t.array(name, (n, n), fill=k + start(n, n)) for k, name in enumerate("abc")}
            await jacc.jacc_copyin(*arrays.values())
            seen = []
            for kind, (source, target, _), looks in steps:
                made = {"r": relax, "t": transpose, "c": clear}[kind]
                await jacc.jacc_kernel_push(made, acc.jacc_args(made, arrays[source], arrays[target], n, n))
                if looks:
                    await jacc.jacc_host_access(arrays[target])
                    await t.update(acc.host(arrays[target]))
                    seen.append(arrays[target].data.tobytes())
            await jacc.jacc_copyout(*arrays.values())
            return seen + [array.data.tobytes() for array in arrays.values()]

        rig = acc_rig({"jit.compile": 0}, devices=devices, machine_name="dgx1-v100")
        values: list[bytes] = rig.alone(body)
        rig.assert_clean()
        return values

    assert run(devices, strategy=strategy, communication=communication) == run(1)


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
    assert 0 < beyond < 50e-6  # four launches
    part = 8190 // 4 * 8192 * 8
    link = rig.machine.spec.value("nvlink.link_bw")
    assert times.communication_s / times.executions == pytest.approx(part / link, rel=0.02)


def test_an_exchange_of_little_data_takes_its_calls_and_waits(acc_rig: MakeRig) -> None:
    _, jacc, _ = run_stencil(acc_rig, 4, strategy="always")
    times = jacc.times["relax"]
    assert 10e-6 < times.communication_s / times.executions < 100e-6


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
    """The rule that divides sees no latency. A small kernel is divided, until its exchange has been measured if it is
    compared with what it took duplicated; four times what its part takes is more than both.
    """
    for eff_dup, divided in (("measured", 5), ("infinite", 10)):
        rules = acc.Rules(4, eff_dup=eff_dup)  # type: ignore[arg-type]
        strategy = acc.Strategy(acc.AdaptiveController(rules), predicate)
        _, jacc, _ = run_stencil(acc_rig, 4, steps=15, strategy=strategy)
        assert (jacc.times["relax"].executions, jacc.times["relax"].divided) == (15, divided)


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


# reductions


def test_the_array_that_gets_the_result_is_reducted(acc_rig: MakeRig) -> None:
    async def body(t: acc.HostThread) -> list[list[bool]]:
        a, b, c = (t.array(name, 8) for name in "abc")
        made = [acc.jacc_args(sum_of, a, b), acc.jacc_args(step, a, b, c, a, 8), acc.jacc_args(scale, a, b, 1.0)]
        return [[bool(one.attributes & acc.Attribute.REDUCTED) for one in args if one.is_array] for args in made]

    assert acc_rig().alone(body) == [[False, True], [False, False, True, True], [False, False]]


async def two_sums(t: acc.HostThread, n: int, **options: Any) -> tuple[acc.Jacc, list[float]]:
    """Into one array, which is then made anew and summed into again."""
    jacc = acc.Jacc(t, **options)
    a, total = t.array("a", n, fill=None if t.program.phantom else np.arange(n)), t.array("total", 1)
    seen = []
    await jacc.jacc_copyin(a)
    for _ in range(2):
        await jacc.jacc_create(total)
        await jacc.jacc_kernel_push(sum_of, acc.jacc_args(sum_of, a, total))
        await jacc.jacc_copyout(total)
        seen.append(0.0 if t.program.phantom else float(total[0]))
    await jacc.jacc_delete(a)
    return jacc, seen


@pytest.mark.parametrize("strategy", ["always", "macc"])
@pytest.mark.parametrize("communication", ["all-to-all", "needed"])
@pytest.mark.parametrize("devices", [1, 2, 4])
def test_partial_values_are_sent_to_all_and_live_as_long_as_their_result(
    acc_rig: MakeRig, devices: int, strategy: str, communication: str
) -> None:
    rig = acc_rig({"jit.compile": 0}, devices=devices, machine_name="dgx1-v100")
    jacc, seen = rig.alone(lambda t: two_sums(t, 64, devices=devices, strategy=strategy, communication=communication))
    assert seen == [64 * 63 / 2] * 2
    times = jacc.times["sum_of"]
    assert times.sent_bytes == 2 * 8 * devices * (devices - 1)
    assert sum(device.bytes_moved()["p2p"] for device in rig.machine.devices) == times.sent_bytes
    rig.assert_clean()


def test_a_combination_comes_after_the_partial_values_of_all(acc_rig: MakeRig) -> None:
    rig = acc_rig({"jit.compile": 0}, devices=4, machine_name="dgx1-v100")
    jacc, _ = rig.alone(lambda t: two_sums(t, 64, devices=4, strategy="always"))
    spans = rig.kernel_spans()
    copies = [event.time_ps for event in rig.events(events.CopyEnd) if event.direction == "p2p"]
    begins = [event.time_ps for event in rig.events(events.CopyBegin) if event.direction == "p2p"]
    assert len(spans) == 2 * 8 and len(copies) == 2 * 12
    assert max(end for _, _, end in spans[:4]) <= min(begins[:12])
    assert max(copies[:12]) <= min(begin for _, begin, _ in spans[4:8])
    assert jacc.times["sum_of"].executions == 2


def test_a_large_sum_takes_its_part_of_the_time_and_two_latencies(acc_rig: MakeRig) -> None:
    def run(devices: int, strategy: str) -> acc.KernelTimes:
        rig = acc_rig({"jit.compile": 0}, devices=devices, machine_name="dgx1-v100", phantom=True)
        jacc, _ = rig.alone(lambda t: two_sums(t, 1 << 26, devices=devices, strategy=strategy))
        found: acc.KernelTimes = jacc.times["sum_of"]
        return found

    alone, shared = run(1, "single"), run(4, "always")
    assert 0 < shared.kernel_s / 2 - alone.kernel_s / 8 < 50e-6  # four launches
    assert 20e-6 < shared.communication_s / 2 < 200e-6


def test_strategies_that_do_not_exist_and_machines_without_links(acc_rig: MakeRig) -> None:
    async def body(t: acc.HostThread) -> None:
        with pytest.raises(ValueError, match="no strategy 'best'; there are: single, duplicated, adaptive"):
            acc.Jacc(t, devices=2, strategy="best")
        with pytest.raises(ValueError, match="needs links between devices, and alex-a100 has none"):
            acc.Jacc(t, devices=2, strategy="always")
        with pytest.raises(ValueError, match="no communication 'some'"):
            acc.Jacc(t, communication="some")  # type: ignore[arg-type]

    acc_rig(devices=2).alone(body)
