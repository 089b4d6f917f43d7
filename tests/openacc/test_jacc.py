"""JACC's routines: what is compiled, what runs when, and what the host waits for."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from acc_kernels import add, increment, scale, sum_of
from openacc_rig import MakeRig, Rig

from offloadrt import Kernel
from offloadrt import openacc as acc
from offloadrt.kernels import ArrayUse

N = 64
RESTRICT, VAR_OPT = acc.PushFlags.RESTRICT, acc.PushFlags.VAR_OPT


def reads_and_writes(name: str, reads: int, flops: float = 1e6) -> Kernel:
    """A phantom kernel that reads its first arrays and writes the one after them."""
    uses = [ArrayUse(f"in{n}", n, reads=1) for n in range(reads)] + [ArrayUse("out", reads, writes=1)]
    return Kernel(name, flops_per_iteration=flops, arrays=tuple(uses))


K1, K2 = reads_and_writes("K1", 0), reads_and_writes("K2", 0)
K3, K4 = reads_and_writes("K3", 2), reads_and_writes("K4", 1)


async def three_arrays(t: acc.HostThread, execution: Any, out: bool = True) -> acc.Jacc:
    """K1(a), K2(b), K3(c = a + b), K4(c = b + c): the example of the paper."""
    jacc = acc.Jacc(t, execution=execution)
    a, b, c = (t.array(name, N, phantom=True) for name in "abc")
    await jacc.jacc_create(a, b, c)
    await jacc.jacc_kernel_push(K1, acc.jacc_args(K1, a))
    await jacc.jacc_kernel_push(K2, acc.jacc_args(K2, b))
    await jacc.jacc_kernel_push(K3, acc.jacc_args(K3, a, b, c))
    await jacc.jacc_kernel_push(K4, acc.jacc_args(K4, b, c))
    if out:
        await jacc.jacc_copyout(c)
        await jacc.jacc_delete(a, b)
    return jacc


def spans_by_name(rig: Rig) -> dict[str, tuple[int, int]]:
    return {name: (begin, end) for name, begin, end in rig.kernel_spans()}


def test_the_example_runs_independent_kernels_together_and_dependent_ones_in_order(acc_rig: MakeRig) -> None:
    rig = acc_rig({"jit.compile": 1e-6})
    rig.alone(lambda t: three_arrays(t, "overlap"))
    spans = spans_by_name(rig)
    assert spans["K1"][1] > spans["K2"][0] and spans["K2"][1] > spans["K1"][0]
    assert spans["K3"][0] >= max(spans["K1"][1], spans["K2"][1])
    assert spans["K4"][0] >= spans["K3"][1]
    rig.assert_clean()


@pytest.mark.parametrize("execution", ["sync", "async"])
def test_without_overlap_kernels_run_one_after_the_other(acc_rig: MakeRig, execution: str) -> None:
    rig = acc_rig()
    rig.alone(lambda t: three_arrays(t, execution))
    spans = rig.kernel_spans()
    assert all(before[2] <= after[1] for before, after in itertools.pairwise(spans))
    rig.assert_clean()


def test_only_with_sync_does_the_host_wait_for_each_push(acc_rig: MakeRig) -> None:
    waits = {}
    for execution in ("sync", "async", "overlap"):
        rig = acc_rig()
        rig.alone(lambda t, execution=execution: three_arrays(t, execution))
        waits[execution] = rig.calls_of("cuStreamSynchronize")
    assert waits["sync"] > waits["async"]


def test_each_step_is_at_least_as_fast_as_the_one_before(acc_rig: MakeRig) -> None:
    times = []
    for execution in ("sync", "async", "overlap"):
        rig = acc_rig({"jit.compile": 0})
        rig.alone(lambda t, execution=execution: three_arrays(t, execution))
        times.append(rig.sim.now)
    assert times[0] > times[1] > times[2]


def test_overlap_gains_nothing_without_independent_kernels(acc_rig: MakeRig) -> None:
    times = []
    for execution in ("async", "overlap"):
        rig = acc_rig()

        async def body(t: acc.HostThread, execution: Any = execution) -> None:
            jacc = acc.Jacc(t, execution=execution)
            a = t.array("a", N, phantom=True)
            await jacc.jacc_create(a)
            for _ in range(5):
                await jacc.jacc_kernel_push(K4, acc.jacc_args(K4, a, a)[1:])
            await jacc.jacc_copyout(a)

        rig.alone(body)
        times.append(rig.sim.now)
    assert times[0] == times[1]


def test_copyout_waits_only_for_the_queues_involved(acc_rig: MakeRig) -> None:
    rig = acc_rig({"jit.compile": 0})
    slow = reads_and_writes("slow", 0, flops=1e8)

    async def body(t: acc.HostThread) -> float:
        jacc = acc.Jacc(t, execution="overlap")
        a, b = t.array("a", N, phantom=True), t.array("b", N, phantom=True)
        await jacc.jacc_create(a, b)
        await jacc.jacc_kernel_push(slow, acc.jacc_args(slow, a))
        await jacc.jacc_kernel_push(K1, acc.jacc_args(K1, b))
        await jacc.jacc_copyout(b)
        copied = t.sim.now
        await jacc.jacc_wait()
        return copied

    copied = rig.alone(body)
    spans = spans_by_name(rig)
    assert spans["K1"][1] <= copied * 1e12 < spans["slow"][1]


def test_host_access_waits_for_writers_and_for_readers_only_before_a_write(acc_rig: MakeRig) -> None:
    rig = acc_rig({"jit.compile": 0})

    async def body(t: acc.HostThread) -> tuple[float, float]:
        jacc = acc.Jacc(t, execution="overlap")
        a, b = t.array("a", N, phantom=True), t.array("b", N, phantom=True)
        await jacc.jacc_create(a, b)
        await jacc.jacc_kernel_push(K4, acc.jacc_args(K4, a, b))
        before = t.sim.now
        await jacc.jacc_host_access(a)
        read = t.sim.now - before
        await jacc.jacc_host_access(a, write=True)
        return read, t.sim.now - before

    read, written = rig.alone(body)
    assert read == 0.0
    assert written > 500e-6


async def axpys(t: acc.HostThread, execution: Any, flags: acc.PushFlags) -> Any:
    jacc = acc.Jacc(t, execution=execution)
    x, y, total = t.array("x", N, fill=np.arange(N)), t.array("y", N), t.array("total", 1)
    await jacc.jacc_copyin(x, y, total)
    for factor in (1.0, 2.0, 3.0):
        await jacc.jacc_kernel_push(scale, acc.jacc_args(scale, x, y, factor), flags)
        await jacc.jacc_kernel_push(add, acc.jacc_args(add, y, y, x), flags)
        await jacc.jacc_kernel_push(increment, acc.jacc_args(increment, x), flags)
    await jacc.jacc_kernel_push(sum_of, acc.jacc_args(sum_of, x, total), flags)
    await jacc.jacc_copyout(total)
    await jacc.jacc_copyout(x)
    await jacc.jacc_delete(y)
    return x.data.copy(), float(total[0])


@pytest.mark.parametrize("execution", ["sync", "async", "overlap"])
@pytest.mark.parametrize("flags", [acc.PushFlags.NONE, RESTRICT, VAR_OPT])
@pytest.mark.parametrize("compiler", ["pgi", "gcc"])
def test_real_data_is_what_numpy_computes(acc_rig: MakeRig, execution: str, flags: Any, compiler: str) -> None:
    rig = acc_rig(compiler=compiler)
    x, total = rig.alone(lambda t: axpys(t, execution, flags))
    wanted = np.arange(N, dtype=float)
    for factor in (1.0, 2.0, 3.0):
        wanted = 2.0 * (factor * wanted) + 1.0
    assert (x == wanted).all()
    assert total == wanted.sum()
    rig.assert_clean()


def test_both_gears_give_one_trace(acc_rig: MakeRig) -> None:
    runs = []
    for gear in ("turbo", "native", "turbo"):
        rig = acc_rig({"jitter": 0.05}, gear=gear, compiler="gcc")
        rig.alone(lambda t: axpys(t, "overlap", RESTRICT))
        runs.append((rig.trace.hash(), rig.sim.now))
    assert len(set(runs)) == 1


# compilation


def compilations(acc_rig: MakeRig, *pushes: tuple[Any, ...]) -> int:
    """How often the compiler ran for these pushes of `scale`: (factor, flags)."""
    rig = acc_rig()

    async def body(t: acc.HostThread) -> None:
        jacc = acc.Jacc(t)
        x, y = t.array("x", N), t.array("y", N)
        await jacc.jacc_copyin(x, y)
        for factor, flags in pushes:
            await jacc.jacc_kernel_push(scale, acc.jacc_args(scale, x, y, factor), flags)

    rig.alone(body)
    assert rig.calls_of("jacc_compile") == rig.program.code.compilations
    return rig.program.code.compilations


def test_a_kernel_is_compiled_once(acc_rig: MakeRig) -> None:
    none = acc.PushFlags.NONE
    assert compilations(acc_rig, *[(2.0, none)] * 5) == 1
    assert compilations(acc_rig, (2.0, none), (3.0, none)) == 1


def test_each_specialization_and_each_constant_is_compiled_once(acc_rig: MakeRig) -> None:
    none = acc.PushFlags.NONE
    assert compilations(acc_rig, (2.0, none), (2.0, RESTRICT), (2.0, none), (2.0, RESTRICT)) == 2
    assert compilations(acc_rig, (2.0, VAR_OPT), (3.0, VAR_OPT), (2.0, VAR_OPT), (2, VAR_OPT)) == 3


def test_compiling_takes_what_the_profile_says(acc_rig: MakeRig) -> None:
    times = []
    for seconds in (1.0, 4.0):
        rig = acc_rig({"jit.compile": seconds})
        rig.alone(lambda t: axpys(t, "sync", acc.PushFlags.NONE))
        assert rig.program.code.compilations == 4
        assert rig.program.code.compile_s == pytest.approx(4 * seconds)
        times.append(rig.sim.now)
    assert times[1] - times[0] == pytest.approx(12.0)
    assert rig.machine.host_time.seconds["compile"] == pytest.approx(16.0)


def test_threads_that_push_one_kernel_compile_it_once(acc_rig: MakeRig) -> None:
    rig = acc_rig()

    async def body(t: acc.HostThread) -> None:
        jacc = acc.Jacc(t)
        a = t.array("a", N)
        await jacc.jacc_copyin(a)
        await jacc.jacc_kernel_push(increment, acc.jacc_args(increment, a))
        await jacc.jacc_copyout(a)
        assert (a.data == 1.0).all()

    rig.run(body, num_threads=4)
    assert rig.program.code.compilations == 1


def test_what_specializations_do_to_a_kernel_is_an_input(acc_rig: MakeRig) -> None:
    def kernel_s(flags: acc.PushFlags, effects: acc.Effects) -> float:
        rig = acc_rig()

        async def body(t: acc.HostThread) -> None:
            jacc = acc.Jacc(t, effects={"K1": effects})
            a = t.array("a", N, phantom=True)
            await jacc.jacc_create(a)
            await jacc.jacc_kernel_push(K1, acc.jacc_args(K1, a), flags)

        rig.alone(body)
        begin, end = spans_by_name(rig)["K1"]
        return (end - begin) * 1e-12

    alone = kernel_s(RESTRICT, acc.Effects())
    assert kernel_s(RESTRICT, acc.Effects(restrict=0.5)) == pytest.approx(0.5 * alone, rel=1e-3)
    assert kernel_s(VAR_OPT, acc.Effects(restrict=0.5)) == alone
    assert kernel_s(RESTRICT | VAR_OPT, acc.Effects(2.0, 0.5, 3.0)) == pytest.approx(3.0 * alone, rel=1e-3)


# arrays, devices, policy


def test_an_array_without_present_is_copied_for_its_launch(acc_rig: MakeRig) -> None:
    rig = acc_rig()

    async def body(t: acc.HostThread) -> Any:
        jacc = acc.Jacc(t)
        x, y = t.array("x", N, fill=1.0), t.array("y", N)
        await jacc.jacc_copyin(x)
        args = (*acc.jacc_args(scale, x, y, 5.0)[:1], acc.jacc_arg_build("y", y, acc.Attribute.WRITE))
        await jacc.jacc_kernel_push(scale, (*args, acc.jacc_arg_build("factor", 5.0)))
        return y.data.copy()

    assert (rig.alone(body) == 5.0).all()


def test_references_are_counted(acc_rig: MakeRig) -> None:
    rig = acc_rig()

    async def body(t: acc.HostThread) -> tuple[float, float]:
        jacc = acc.Jacc(t)
        a = t.array("a", N)
        await jacc.jacc_copyin(a)
        await jacc.jacc_copyin(a)
        await jacc.jacc_kernel_push(increment, acc.jacc_args(increment, a))
        await jacc.jacc_copyout(a)
        first = float(a[0])
        await jacc.jacc_copyout(a)
        return first, float(a[0])

    assert rig.alone(body) == (0.0, 1.0)
    rig.assert_clean()


@pytest.mark.parametrize("execution", ["sync", "overlap"])
def test_with_several_devices_every_one_runs_everything(acc_rig: MakeRig, execution: Any) -> None:
    rig = acc_rig({"jit.compile": 0}, devices=3)

    async def body(t: acc.HostThread) -> Any:
        jacc = acc.Jacc(t, execution=execution, devices=3)
        a = t.array("a", N)
        await jacc.jacc_copyin(a)
        for _ in range(4):
            await jacc.jacc_kernel_push(increment, acc.jacc_args(increment, a))
        await jacc.jacc_copyout(a)
        return a.data.copy()

    assert (rig.alone(body) == 4.0).all()
    assert len(rig.kernel_spans()) == 12
    assert rig.machine.devices[1].bytes_moved()["d2h"] == 0
    rig.assert_clean()


def test_the_policy_is_asked_before_each_push(acc_rig: MakeRig) -> None:
    asked: list[str] = []

    class Asked(acc.Fixed):
        def before(self, kernel: str) -> acc.Mode:
            asked.append(kernel)
            return acc.Mode.DUPLICATED

    async def body(t: acc.HostThread) -> None:
        jacc = acc.Jacc(t, strategy=acc.DeviceStrategy(Asked()))
        a = t.array("a", N)
        await jacc.jacc_copyin(a)
        for _ in range(2):
            await jacc.jacc_kernel_push(increment, acc.jacc_args(increment, a))

    acc_rig().alone(body)
    assert asked == ["increment", "increment"]
