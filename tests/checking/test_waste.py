"""Transfers and allocations that are for nothing, each beside a mended twin of which nothing is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from checked_programs import Body, N, add, double, double_views, fill, fill_part, finished

from offloadrt import Run
from offloadrt import openmp as omp
from offloadrt.cli import main
from offloadrt.extensions.checking.checker import Checker
from offloadrt.extensions.checking.mistakes import Story, Waste
from offloadrt.extensions.checking.recorded import KernelAccess, KernelStrayed, ResultLost
from offloadrt.extensions.checking.repairs import Costs, repairs_of
from offloadrt.extensions.checking.waste import DataOperation

BYTES = N * 8


def wastes(body: Body) -> list[Waste]:
    """Run a program to its end, and return what it wasted; it makes no mistakes."""
    checker, found = checked(body)
    assert not checker.finish()
    return found


def checked(body: Body) -> tuple[Checker, list[Waste]]:
    """Run a program to its end under a checker, and return that with what was wasted."""
    checker, costs = finished(body)
    return checker, checker.wastes(costs)


def wasted(body: Body) -> list[tuple[str, str, int]]:
    return sorted((part.kind, waste.subject, part.times) for waste in wastes(body) for part in waste.parts)


@pytest.mark.parametrize(("host_writes", "expected"), [(False, [("duplicate transfer", "a", 2)]), (True, [])])
def test_an_update_of_what_nobody_has_changed_is_a_duplicate(
    host_writes: bool, expected: list[tuple[str, str, int]]
) -> None:
    async def body(t: omp.HostThread) -> None:
        a, b = t.array("a", N, fill=1.0), t.array("b", N, fill=0.0)
        async with t.target_data(omp.map(to=a, from_=b)):
            for step in range(3):
                if step:
                    if host_writes:
                        a[:] = 1.0 + step
                    await t.target_update(omp.to(a))
                await t.target(add, b, a, N)

    assert wasted(body) == expected


def test_a_map_in_a_loop_sends_again_and_allocates_again_unless_a_region_is_around_it() -> None:
    def looped(region: bool) -> Body:
        async def body(t: omp.HostThread) -> None:
            a, b = t.array("a", N, fill=1.0), t.array("b", N, fill=0.0)
            await t.target_enter_data(omp.map(alloc=b))
            if region:
                await t.target_enter_data(omp.map(to=a))
            for _ in range(4):
                await t.target(add, b, a, N, maps=omp.map(to=a))
            if region:
                await t.target_exit_data(omp.map(release=a))
            await t.target_exit_data(omp.map(from_=b))

        return body

    assert wasted(looped(region=False)) == [("duplicate transfer", "a", 3), ("repeated allocation", "a", 3)]
    assert wasted(looped(region=True)) == []


def test_what_a_kernel_only_reads_makes_a_round_trip_with_tofrom() -> None:
    def mapped(wasteful: bool) -> Body:
        async def body(t: omp.HostThread) -> None:
            a, b = t.array("a", N, fill=1.0), t.array("b", N, fill=0.0)
            maps = omp.map(tofrom=a, from_=b) if wasteful else omp.map(to=a, from_=b)
            await t.target(add, b, a, N, maps=maps)

        return body

    assert wasted(mapped(wasteful=True)) == [("round trip", "a", 1)]
    assert wasted(mapped(wasteful=False)) == []


def test_results_that_go_back_to_the_device_unchanged_make_a_round_trip() -> None:
    def steps(host_writes: bool) -> Body:
        async def body(t: omp.HostThread) -> None:
            a = t.array("a", N, fill=1.0)
            async with t.target_data(omp.map(tofrom=a)):
                await t.target(double, a, N)
                await t.target_update(omp.from_(a))
                assert a[0] == 2.0
                if host_writes:
                    a[:] = 3.0
                await t.target_update(omp.to(a))
                await t.target(double, a, N)

        return body

    assert wasted(steps(host_writes=False)) == [("round trip", "a", 1)]
    assert wasted(steps(host_writes=True)) == []


def test_what_a_kernel_overwrites_need_not_be_sent() -> None:
    def mapped(wasteful: bool) -> Body:
        async def body(t: omp.HostThread) -> None:
            a = t.array("a", N, fill=0.0)
            await t.target(fill, a, N, maps=omp.map(tofrom=a) if wasteful else omp.map(from_=a))

        return body

    assert wasted(mapped(wasteful=True)) == [("unread transfer", "a", 1)]
    assert wasted(mapped(wasteful=False)) == []


def test_what_a_kernel_overwrites_in_part_must_be_sent() -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", N, fill=0.0)
        await t.target(fill_part, a, 0, N // 2, maps=omp.map(tofrom=a), iterations=N // 2)

    assert wasted(body) == []


def test_results_that_the_host_never_looks_at_before_the_next_ones() -> None:
    def steps(host_reads: bool) -> Body:
        async def body(t: omp.HostThread) -> None:
            a = t.array("a", N, fill=1.0)
            async with t.target_data(omp.map(to=a)):
                for _ in range(3):
                    await t.target(double_views, a, iterations=N)
                    await t.target_update(omp.from_(a))
                    if host_reads:
                        assert a[0] > 1.0

        return body

    assert wasted(steps(host_reads=False)) == [("unread transfer", "a", 2)]
    assert wasted(steps(host_reads=True)) == []


def test_a_block_that_no_kernel_uses() -> None:
    def mapped(wasteful: bool) -> Body:
        async def body(t: omp.HostThread) -> None:
            a, b = t.array("a", N, fill=1.0), t.array("b", N, fill=0.0)
            async with t.target_data(omp.map(tofrom=a, alloc=b) if wasteful else omp.map(tofrom=a)):
                await t.target(double, a, N)

        return body

    assert wasted(mapped(wasteful=True)) == [("unused allocation", "b", 1)]
    assert wasted(mapped(wasteful=False)) == []


def test_a_map_whose_blocks_kernels_use_at_other_times_is_not_to_be_left_out() -> None:
    async def body(t: omp.HostThread) -> None:
        for step in range(3):
            a = t.array("a", N, fill=float(step))
            async with t.target_data(omp.map(to=a)):
                if step == 1:
                    await t.target(double, a, N)
                    await t.target_update(omp.from_(a))

    (row,) = [waste for waste in wastes(body) if waste.kind != "repeated allocation"]
    assert row.advice == "Kernels use only some of the blocks of a that are mapped here: map it where they do."
    assert [(part.kind, part.times) for part in row.parts] == [("unread transfer", 2), ("unused allocation", 2)]


def test_a_copy_that_is_needed_at_other_times_is_not_to_be_left_out() -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", N, fill=1.0)
        async with t.target_data(omp.map(to=a)):
            for _ in range(3):
                await t.target_update(omp.from_(a))
                await t.host_access(a, writes=False)
                await t.target(double, a, N)
            await t.target_update(omp.from_(a))
            await t.host_access(a, writes=False)

    (row,) = wastes(body)
    assert row.times == 1 and row.advice.endswith("But 2 of the 3 copies made here may be needed.")


def test_what_one_line_maps_of_many_objects_is_one_row() -> None:
    async def body(t: omp.HostThread) -> None:
        blocks = [t.array("flux", N, fill=float(block)) for block in range(4)]
        for _ in range(3):
            for a in blocks:
                await t.target(double, a, N, maps=omp.map(tofrom=a))

    (row,) = wastes(body)
    assert {(part.kind, part.times) for part in row.parts} == {
        ("round trip", 8), ("repeated allocation", 8), ("unread transfer", 8),
    }  # fmt: skip
    assert row.advice.startswith("Keep flux mapped around all of it")


def test_a_descriptor_that_no_kernel_uses_is_the_compiler_s() -> None:
    story = Story("host thread 0", "allocates it in target data begin", "a.f90:3", 0.0)
    data = DataOperation("alloc", story, "a", 0, 1, 0x1000, BYTES, owner=(0, "a", BYTES), read=True)
    descriptor = DataOperation("alloc", story, "a", 0, 1, 0x8000, 48, describes=data)
    (repair,) = repairs_of([data, descriptor], Costs(Run().sim), True)
    assert repair.advice.startswith("It is the descriptor of a")


def test_what_a_kernel_may_need_for_a_lost_result_is_told_as_uncertain() -> None:
    async def body(t: omp.HostThread) -> None:
        a, b = t.array("a", N, fill=1.0), t.array("b", N, fill=0.0)
        assert t.program.tell is not None
        t.program.tell(ResultLost("fill", "sum", "sums.c:7"))
        await t.target(fill, b, N, maps=omp.map(to=a, from_=b))

    (row,) = wastes(body)
    assert (row.subject, row.advice) == ("a", "") and "a result of the kernel is lost" in row.uncertain


@pytest.mark.parametrize("kernel_writes", [False, True])
def test_a_private_copy_brings_each_launch_the_same_bytes(kernel_writes: bool) -> None:
    async def body(t: omp.HostThread) -> None:
        a, b = t.array("a", N, fill=1.0), t.array("b", N, fill=0.0)
        async with t.target_data(omp.map(from_=b)):
            await t.target(fill, b, N)
            for _ in range(3):
                if kernel_writes:
                    await t.target(double, a, N, firstprivate=[a])
                else:
                    await t.target(add, b, a, N, firstprivate=[a])

    duplicates = [] if kernel_writes else [("duplicate transfer", "a", 2)]
    assert wasted(body) == [*duplicates, ("repeated allocation", "a", 2)]


def test_a_variable_of_a_function_that_is_called_again_has_the_same_bytes_again() -> None:
    def called(values: tuple[float, ...]) -> Body:
        async def body(t: omp.HostThread) -> None:
            b = t.array("b", N, fill=0.0)
            async with t.target_data(omp.map(from_=b)):
                for value in values:
                    a = t.array("a", N, fill=value, kind="heap")
                    await t.target(add, b, a, N, maps=omp.map(to=a))
                    t.free(a)

        return body

    assert wasted(called((1.0, 1.0))) == [("duplicate transfer", "a", 1), ("repeated allocation", "a", 1)]
    assert wasted(called((1.0, 2.0))) == [("repeated allocation", "a", 1)]


def test_a_block_that_only_stores_what_a_copy_takes_back_is_used() -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", N, fill=1.0)
        block = await t.omp_target_alloc(BYTES, 0)
        await t.omp_target_memcpy(block, a, BYTES)
        a[:] = 2.0
        await t.omp_target_memcpy(a, block, BYTES)
        await t.omp_target_free(block, 0)
        assert a[0] == 1.0

    assert wasted(body) == []


def test_the_time_of_a_duplicate_is_that_of_its_copies_and_of_their_calls() -> None:
    async def body(t: omp.HostThread) -> None:
        a, b = t.array("a", N, fill=1.0), t.array("b", N, fill=0.0)
        async with t.target_data(omp.map(to=a, from_=b)):
            for _ in range(3):
                await t.target_update(omp.to(a))
            await t.target(add, b, a, N)

    (duplicate,) = wastes(body)
    spec = Run().spec
    copy = spec.value("copy.latency") + BYTES / spec.value("link.h2d_pinned")
    call = spec.value("driver.copy_submit") + BYTES / spec.value("host.memcpy_1t")  # it puts the bytes into a buffer
    assert duplicate.nbytes == 3 * BYTES
    assert duplicate.time_s == pytest.approx(3 * (call + copy), rel=1e-6)


@pytest.mark.parametrize("name", ["phi", "phi on mesh"])
def test_what_a_mistake_is_about_is_told_as_uncertain(name: str) -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array(name, N, fill=1.0)
        async with t.target_data(omp.map(to=a)):
            await t.target_update(omp.to(a))
            await t.target(double, a, N, maps=omp.map(to=a))
        await t.host_access(a, writes=False)

    checker, found = checked(body)
    assert [mistake.kind for mistake in checker.finish()] == ["stale data"]
    assert [(waste.kind, waste.uncertain) for waste in found] == [
        ("duplicate transfer", f"a mistake is about {name}: mend it first")
    ]


def test_waste_alone_leaves_the_exit_code_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "wasteful.py"
    program.write_text(
        "from offloadrt import Run, kernel, scenario\n"
        "from offloadrt import openmp as omp\n\n"
        "@kernel\ndef fill(a, n):\n    for i in range(n):\n        a[i] = 1.0\n\n"
        "@scenario\nasync def wasteful(run: Run):\n    '''Sends what is overwritten.'''\n"
        "    async def body(t):\n        a = t.array('a', 64, fill=0.0)\n"
        "        await t.target(fill, a, 64, maps=omp.map(tofrom=a))\n"
        "    await run.parallel(body)\n"
    )
    assert main(["check", str(program)]) == 0
    told = capsys.readouterr().out
    assert "wasteful on alex-a100: nothing to report\n" in told
    assert "unread transfer" in told and "wasteful.py:14" in told
    assert main(["check", str(program), "--json"]) == 0
    (waste,) = json.loads(capsys.readouterr().out)["wastes"]
    assert waste["kind"] == "unread transfer" and waste["nbytes"] == 512 and waste["time_s"] > 0


def test_what_shares_a_segment_of_device_memory_saves_as_much_as_what_opens_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two blocks of 1 MiB share a segment: the first one pays for it, but without that the second one would."""
    program = tmp_path / "unused.py"
    program.write_text(
        "from offloadrt import Run, scenario\n"
        "from offloadrt import openmp as omp\n\n"
        "@scenario\nasync def unused(run: Run):\n    '''Maps what no kernel uses.'''\n"
        "    async def body(t):\n        arrays = {name: t.array(name, 2**17, fill=0.0) for name in 'abc'}\n"
        "        async with t.target_data(*(omp.map(to=a) for a in arrays.values())):\n            pass\n"
        "    await run.parallel(body)\n"
    )
    assert main(["check", str(program), "--json", "--savings"]) == 0
    saved = [waste["time_s"] for waste in json.loads(capsys.readouterr().out)["wastes"]]
    assert len(saved) == 3 and max(saved) < 1.2 * min(saved)


@pytest.mark.parametrize(("name", "doubtful"), [("", True), ("other", False)])
def test_a_map_that_nobody_uses_may_be_what_a_kernel_fails_to_reach(name: str, doubtful: bool) -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", N, fill=1.0)
        async with t.target_data(omp.map(to=a)):
            assert t.program.tell is not None
            access = KernelAccess(0, 0, True, False, "")
            t.program.tell(KernelStrayed("scale", 0, name, access, "memory that is not mapped"))

    _, (waste,) = checked(body)
    assert waste.kind == "unread transfer" or waste.kind == "unused allocation"
    assert bool(waste.uncertain) == doubtful
    assert bool(waste.advice) != doubtful
