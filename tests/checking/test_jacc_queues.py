"""Programs of JACC under the checker: pushed kernels in async queues, beside the host and directives of OpenACC."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from checked_programs import N, add, double

from offloadrt import Run
from offloadrt.extensions import openacc as acc
from offloadrt.extensions.checking.checked import reports_mistakes

Body = Callable[[acc.HostThread], Awaitable[Any]]
STALE, ON_HOST, ON_DEVICE = ("stale data", "a"), ("race", "a on the host"), ("race", "a on device 0")
CASES = {
    "update host": [],
    "host access": [],
    "host writes behind jacc_copyin": [ON_HOST, STALE],
    "host writes behind jacc_update_device": [ON_HOST],
    "host reads behind jacc_wait": [STALE],
    "jacc_delete": [STALE],
    "update": [ON_DEVICE, ON_HOST],
    "parallel": [ON_DEVICE],
    "update behind wait": [],
    "parallel behind jacc_wait": [],
}


def program(case: str, *, devices: int = 1, **options: Any) -> Body:
    async def main(t: acc.HostThread) -> None:
        a, b = t.array("a", N, fill=1.0), t.array("b", N, fill=1.0)
        jacc = acc.Jacc(t, devices=devices, **options)
        await jacc.jacc_copyin(a, b)
        if case == "host writes behind jacc_copyin":
            a[0] = 7.0
        for _ in range(3):
            await jacc.jacc_kernel_push(double, acc.jacc_args(double, a, N))
            await jacc.jacc_kernel_push(add, acc.jacc_args(add, b, a, N))
        match case:
            case "update host":
                await jacc.jacc_update_host(a)
                a[3].item()
                a[3] = 9.0
                await jacc.jacc_update_device(a)
                await jacc.jacc_kernel_push(double, acc.jacc_args(double, a, N))
            case "host access":
                await jacc.jacc_update_host(a)
                await jacc.jacc_host_access(a)
                a[1] = 3.0
                await jacc.jacc_update_device(a)
            case "host writes behind jacc_update_device":
                await jacc.jacc_update_device(a)
                a[1] = 4.0
            case "host reads behind jacc_wait":
                await jacc.jacc_wait()
                a[3].item()
            case "update" | "update behind wait":
                if case == "update behind wait":
                    await t.wait()
                await t.update(acc.host(a))
            case "parallel" | "parallel behind jacc_wait":
                if case == "parallel behind jacc_wait":
                    await jacc.jacc_wait()
                await t.parallel(double, a, N)
        await jacc.jacc_copyout(b)
        await (jacc.jacc_delete if case == "jacc_delete" else jacc.jacc_copyout)(a)
        assert a[4] >= 1.0 and b[4] == 8.0
        await jacc.jacc_wait()

    return main


def found(body: Body, machine: str = "alex-a100", devices: int = 1) -> list[tuple[str, str]]:
    """Return kind and subject of the mistakes, each once."""
    run = Run(machine=machine)
    run.options = acc.OpenACCOptions(num_devices=devices)
    reports = reports_mistakes(run)

    async def main() -> None:
        await run.parallel(body)
        await run.finish()

    run.sim.run(main)
    heads = [text.partition("\n")[0].split(" (")[0].split(": ") for text in reports()]
    return sorted({(kind, subject) for kind, subject in heads})


@pytest.mark.parametrize("case", CASES)
def test_on_one_device(case: str) -> None:
    for execution in ("async", "overlap"):
        assert (execution, found(program(case, execution=execution))) == (execution, CASES[case])
    kept = [one for one in CASES[case] if one == STALE]  # a synchronous step is ordered by itself
    assert found(program(case, execution="sync")) == kept


@pytest.mark.parametrize("strategy", acc.STRATEGIES)
def test_which_copy_is_the_newest_is_jaccs_own_affair_where_several_devices_have_one(strategy: str) -> None:
    for execution in ("sync", "async", "overlap"):
        for case in ("update host", "host access"):
            body = program(case, devices=2, execution=execution, strategy=strategy)
            assert (case, found(body, "dgx1-v100", 2)) == (case, [])
        raced = found(
            program("host writes behind jacc_copyin", devices=2, execution=execution, strategy=strategy),
            "dgx1-v100",
            2,
        )
        assert (ON_HOST in raced) == (execution != "sync")


def test_a_kernel_whose_arrays_are_not_there_copies_them_and_is_waited_for() -> None:
    def body(changes: bool) -> Body:
        async def main(t: acc.HostThread) -> None:
            a, b = t.array("a", N, fill=1.0), t.array("b", N, fill=0.0)
            jacc = acc.Jacc(t, execution="overlap")
            arguments = acc.jacc_args(add, b, a, N, present=False)
            await jacc.jacc_kernel_push(add, arguments)
            if changes:
                a[0] = 5.0
            await jacc.jacc_kernel_push(add, arguments)
            assert b[3].item() == 1.0
            await jacc.jacc_wait()

        return main

    assert found(body(False)) == found(body(True)) == []
