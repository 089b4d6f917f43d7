"""Arrays of the host that a program frees while they are mapped."""

from __future__ import annotations

from typing import Any

import pytest
from checked_programs import Body, N, double, found, run_checked

from offloadrt import openmp as omp
from offloadrt.extensions.checking.recorded import KernelAccess, KernelStrayed
from offloadrt.runtime.errors import FreedHostMemory


def _freed(use: str) -> Body:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", N, fill=1.0, kind="heap")
        await t.target_enter_data(omp.map(to=a))
        t.free(a)
        if use == "release":
            await t.target_exit_data(omp.map(release=a))
            return
        b = t.array("b", N, fill=1.0, kind="heap")
        assert b.address == a.address
        if use == "from":
            await t.target_exit_data(omp.map(from_=b))
        elif use == "update":
            await t.target_update(omp.to(b))
        elif use == "enter":
            await t.target_enter_data(omp.map(to=b))
        elif use == "part":
            await t.target_update(omp.to(omp.section(b, 0, N // 2)))

    return body


@pytest.mark.parametrize(
    ("use", "did", "advice"),
    [
        ("release", "unmaps it in target exit data", "a new array at its address is taken for it"),
        ("from", "copies b from the device in target exit data", "The copy writes memory"),
        ("update", "copies b to the device in target update", "The copy reads memory"),
        ("part", "copies b to the device in target update", "The copy reads memory"),
        ("enter", "maps b in target enter data", "It finds the old mapping"),
    ],
)
def test_what_is_done_with_its_mapping_is_told_with_the_free(use: str, did: str, advice: str) -> None:
    (mistake,) = [one for one in run_checked(_freed(use))[0] if one.kind != "missing unmap"]
    assert (mistake.kind, mistake.subject) == ("freed while mapped", "a") and advice in mistake.advice
    entered, freed, used = mistake.stories
    assert (entered.did, freed.did, used.did) == ("maps it in target enter data", "frees a", did)
    assert entered.where < freed.where < used.where


def test_a_host_address_that_a_kernel_gets_because_the_old_mapping_was_found_is_no_second_mistake() -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", N, fill=1.0, kind="heap")
        await t.target_enter_data(omp.map(to=a))
        t.free(a)
        b = t.array("b", N, fill=2.0, kind="heap")
        assert b.address == a.address and t.program.tell is not None
        await t.target_enter_data(omp.map(to=b))
        access = KernelAccess(0, 0, True, False, "b.c:7")
        t.program.tell(KernelStrayed("scale", 0, "", access, "the host's memory", host_address=b.address))
        await t.target(double, b, N, maps=omp.map(to=b))

    assert found(body) == [("freed while mapped", "a"), ("missing unmap", "a")]


def test_a_line_of_a_kernel_that_reaches_unknown_memory_at_many_addresses_is_one_mistake() -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", N, fill=1.0)
        for block in range(3):
            assert t.program.tell is not None
            access = KernelAccess(0, 0, True, False, "a.c:7")
            t.program.tell(KernelStrayed("scale", 0, "", access, f"memory that is not mapped, at {block:#x}"))
            await t.target(double, a, N, maps=omp.map(tofrom=a))

    (mistake,) = run_checked(body)[0]
    assert (mistake.kind, mistake.times) == ("outside of what is mapped", 3)


@pytest.mark.parametrize("use", ["from", "update"])
def test_a_copy_that_the_emulated_runtime_does_not_make_is_told_too(use: str) -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", N, fill=1.0, kind="heap")
        await t.target_enter_data(omp.map(to=a))
        t.free(a)
        with pytest.raises(FreedHostMemory):
            await (t.target_exit_data(omp.map(from_=a)) if use == "from" else t.target_update(omp.to(a)))

    assert [kind for kind, _ in found(body)][:2] == ["fatal error", "freed while mapped"]


def test_an_array_at_the_address_of_one_that_was_unmapped() -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", N, fill=1.0, kind="heap")
        async with t.target_data(omp.map(to=a)):
            await t.target(double, a, N)
        t.free(a)
        b = t.array("b", N, fill=1.0, kind="heap")
        await t.target(double, b, N, maps=omp.map(tofrom=b))
        assert b[0] == 2.0
        t.free(b)

    assert found(body) == []


@pytest.mark.parametrize("waits", [True, False])
def test_another_thread_frees_it(waits: bool) -> None:
    """Without the barrier it is a race, whoever came first."""

    def threads(a: list[Any]) -> Body:
        async def body(t: omp.HostThread) -> None:
            if t.number == 0:
                a.append(t.array("a", N, fill=1.0, kind="heap"))
                await t.target_enter_data(omp.map(to=a[0]))
            await t.barrier()
            if t.number == 1:
                t.free(a[0])
            if waits:
                await t.barrier()
            if t.number == 0:
                await t.target_exit_data(omp.map(release=a[0]))

        return body

    assert found(threads([]), 2) == ([("freed while mapped", "a")] if waits else [])


def test_associated_memory_may_outlive_the_array() -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", N, fill=1.0, kind="heap")
        pointer = await t.omp_target_alloc(8 * N)
        assert pointer is not None
        await t.omp_target_associate_ptr(a, pointer, 8 * N, 0)
        t.free(a)
        await t.omp_target_disassociate_ptr(a)
        await t.omp_target_free(pointer)

    assert found(body) == []
