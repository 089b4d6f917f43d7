"""Programs of OpenACC under the checker: async queues, waits, updates, structured and unstructured data."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from checked_programs import N, add, double, double_views, fill

from offloadrt import Run
from offloadrt.extensions import openacc as acc
from offloadrt.extensions.checking.checked import reports_mistakes

Body = Callable[[acc.HostThread], Awaitable[Any]]


def found(body: Body, threads: int = 1, machine: str = "alex-a100", **options: Any) -> list[tuple[str, str]]:
    """Return kind and subject of the mistakes, each once."""
    run = Run(machine=machine)
    run.options = acc.OpenACCOptions(**options)
    reports = reports_mistakes(run)

    async def main() -> None:
        await run.parallel(body, num_threads=threads)
        await run.finish()

    run.sim.run(main)
    heads = [text.partition("\n")[0].split(" (")[0].split(": ") for text in reports()]
    return list(dict.fromkeys((kind, subject) for kind, subject in heads))


KERNELS = pytest.mark.parametrize("kernel", [double, double_views])


def launch(t: acc.HostThread, kernel: Any, a: Any, **clauses: Any) -> Awaitable[Any]:
    return t.parallel(kernel, a, *([N] if kernel is double else []), iterations=N, **clauses)


@KERNELS
@pytest.mark.parametrize("machine", ["alex-a100", "mi300x"])
def test_an_update_in_another_order_than_the_kernels(kernel: Any, machine: str) -> None:
    def body(before: str, **clauses: Any) -> Body:
        async def main(t: acc.HostThread) -> None:
            a = t.array("a", N, fill=1.0)
            await t.enter_data(acc.copyin(a))
            await launch(t, kernel, a, async_=1)
            if before == "wait":
                await t.wait(1)
            if before == "wait(2)":
                await t.wait(1, async_=2)
            await t.update(acc.host(a), **clauses)
            if before != "none":
                await t.wait()
                assert a[5] == 2.0
            await t.wait()
            await t.exit_data(acc.delete(a))

        return main

    raced = [("race", "a on device 0")]
    assert found(body("none"), machine=machine) == raced
    assert found(body("none", async_=2), machine=machine) == raced
    assert found(body("wait"), machine=machine) == []
    assert found(body("wait(2)", async_=2), machine=machine) == []
    assert found(body("none", async_=1), machine=machine) == []
    assert found(body("none", wait=1), machine=machine) == []
    assert found(body("none", wait=1, async_=2), machine=machine) == []


@KERNELS
def test_the_host_uses_what_a_queue_has_yet_to_bring(kernel: Any) -> None:
    def body(waits: bool) -> Body:
        async def main(t: acc.HostThread) -> None:
            a = t.array("a", N, fill=1.0)
            async with t.data(acc.copyin(a)):
                await launch(t, kernel, a, async_=3)
                await t.update(acc.host(a), async_=3)
                if waits:
                    await t.wait(3)
                a[4].item()
                await t.wait()

        return main

    assert found(body(True)) == []
    assert found(body(False)) == [("race", "a on the host")]


@pytest.mark.parametrize("kernel", [double, double_views])
def test_data_that_ends_while_a_queue_uses_it(kernel: Any) -> None:
    def body(waits: bool, **clauses: Any) -> Body:
        async def main(t: acc.HostThread) -> None:
            a = t.array("a", N, fill=1.0)
            await t.enter_data(acc.create(a))
            await t.parallel(fill, a, N, async_=1)
            if waits:
                await t.wait(1)
            await t.exit_data(acc.delete(a), **clauses)
            await t.wait()

        return main

    assert found(body(True)) == []
    assert found(body(False, async_=1)) == []
    assert found(body(False, wait=1)) == []
    assert found(body(False)) == [("race", "a on device 0")]
    assert found(body(False, finalize=True)) == [("race", "a on device 0")]


def test_a_structured_region_that_ends_before_its_queue() -> None:
    def body(waits: bool) -> Body:
        async def main(t: acc.HostThread) -> None:
            a = t.array("a", N, fill=1.0)
            async with t.data(acc.copy(a)):
                await t.parallel(double, a, N, async_=1)
                if waits:
                    await t.wait(1)
            if waits:
                assert a[3] == 2.0
            await t.wait()

        return main

    assert found(body(True)) == []
    assert found(body(False)) == [("race", "a on device 0")]


def test_two_queues_that_use_one_array() -> None:
    def body(orders: str) -> Body:
        async def main(t: acc.HostThread) -> None:
            a, b = t.array("a", N, fill=1.0), t.array("b", N)
            async with t.data(acc.copyin(a), acc.copyout(b)):
                await t.parallel(double, a, N, async_=1)
                if orders == "wait directive":
                    await t.wait(1, async_=2)
                wait = 1 if orders == "wait clause" else ()
                await t.parallel(add, b, a, N, async_=2, wait=wait)
                await t.wait()
            assert b[0] in (1.0, 2.0)

        return main

    assert found(body("nothing")) == [("race", "a on device 0")]
    assert found(body("wait directive")) == []
    assert found(body("wait clause")) == []


def test_the_host_changes_what_a_queue_has_yet_to_copy() -> None:
    def body(waits: bool) -> Body:
        async def main(t: acc.HostThread) -> None:
            a = t.array("a", N, fill=1.0)
            await t.enter_data(acc.copyin(a), async_=1)
            if waits:
                await t.wait(1)
            a[0] = 7.0
            await t.wait()
            await t.exit_data(acc.delete(a))

        return main

    assert found(body(True)) == []
    assert found(body(False)) == [("race", "a on the host")]


def test_stale_data_and_reference_counts() -> None:
    async def never_updated(t: acc.HostThread) -> None:
        a = t.array("a", N, fill=1.0)
        async with t.data(acc.copyin(a)):
            await t.parallel(double, a, N)
            a[0].item()

    async def counted_twice(t: acc.HostThread) -> None:
        a = t.array("a", N, fill=1.0)
        await t.enter_data(acc.copyin(a))
        await t.enter_data(acc.copyin(a))
        await t.parallel(double, a, N)
        await t.exit_data(acc.copyout(a))  # the count is still 1, so nothing comes back
        a[0].item()

    async def created(t: acc.HostThread) -> None:
        a = t.array("a", N, fill=1.0)
        async with t.data(acc.create(a)):
            await t.parallel(double, a, N)

    assert found(never_updated) == [("stale data", "a")]
    assert found(counted_twice) == [("stale data", "a"), ("missing unmap", "a")]
    assert found(created) == [("uninitialised data", "a")]


def test_what_openacc_allows() -> None:
    async def body(t: acc.HostThread) -> None:
        a, b = t.array("a", N, fill=1.0), t.array("b", N, fill=1.0)
        await t.exit_data(acc.delete(a), acc.copyout(b))  # absent
        await t.update(acc.host(a), if_present=True)
        await t.enter_data(acc.copyin(a))
        await t.enter_data(acc.copyin(a))
        await t.exit_data(acc.delete(a), finalize=True)
        for queue in range(4):
            part = acc.section(b, queue * N // 4, N // 4)
            await t.parallel(double, b, N, data=[acc.copy(b)], async_=1)
            await t.update(acc.host(part), if_present=True, async_=1)
        await t.wait()
        assert b[0] == 16.0

    assert found(body) == []


def test_threads_share_queues() -> None:
    def body(waits: bool) -> Body:
        async def main(t: acc.HostThread) -> None:
            a = shared.setdefault("a", t.array("a", N, fill=1.0)) if t.number == 0 else None
            if t.number == 0:
                await t.enter_data(acc.copyin(a))
                await t.parallel(double, a, N, async_=1)
            await t.barrier()
            if t.number == 1:
                if waits:
                    await t.wait(1)
                await t.update(acc.host(shared["a"]))
                await t.wait()

        shared: dict[str, Any] = {}
        return main

    assert ("race", "a on device 0") in found(body(False), threads=2)
    assert found(body(True), threads=2) == []  # what is left at the end, the end of the program frees


def test_advice_is_in_the_words_of_openacc() -> None:
    run = Run()
    run.options = acc.OpenACCOptions()
    reports = reports_mistakes(run)

    async def body(t: acc.HostThread) -> None:
        a, b = t.array("a", N, fill=1.0), t.array("b", N, fill=1.0)
        async with t.data(acc.copyin(a)):
            await t.parallel(double, a, N)
            a[0].item()
            b[0] = 2.0
        await t.enter_data(acc.create(b))
        await t.enter_data(acc.create(b))
        await t.parallel(double, b, N)
        await t.exit_data(acc.delete(b))

    async def main() -> None:
        await run.parallel(body)
        await run.finish()

    run.sim.run(main)
    text = "\n".join(reports())
    assert "`update host(a)`" in text and "`copyin` or `copy`" in text and "`exit data delete(b)`" in text
    assert "target" not in text
