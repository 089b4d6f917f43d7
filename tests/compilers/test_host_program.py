"""Which regions a host function comes to and how often, and the objects' GAF and rank."""

from __future__ import annotations

from typing import Any

import nests
import pytest
from written import function

from offloadrt import openmp as omp
from offloadrt.extensions.otm.ranking import HostProgram
from offloadrt.kernels import ArrayUse, Kernel, SourceRefused, expect, kernel

axpy = kernel(nests.axpy)
expand = kernel(nests.expand)
kept = Kernel("kept", arrays=(ArrayUse("p", 0, reads=3.0), ArrayUse("q", 2, writes=0.5)))


def frequencies(program: HostProgram) -> list[tuple[str, float]]:
    return [(region.kernel.name, region.frequency) for region in program.regions]


async def breadth_first(t: omp.HostThread, n: int) -> None:
    nodes, edges = t.array("nodes", (n, 2)), t.array("the edges", 6 * n)
    mask = t.array("mask", n)
    updating, visited = t.array("updating", n), t.array("visited", n)
    cost = t.array("cost", n)
    level = 0
    while mask[0]:
        await t.target(expand, nodes, edges, mask, updating, visited, cost, n, iterations=n)
        level += 1
        if level > 10:
            await t.target(kept, cost, n, visited)


def test_gaf_adds_frequency_times_laf() -> None:
    program = HostProgram.of(breadth_first)
    assert frequencies(program) == [("expand", 32.0), ("kept", 16.0)]
    assert program.regions[0].objects == ("nodes", "the edges", "mask", "updating", "visited", "cost")
    assert program.regions[1].objects == ("cost", "visited")
    assert program.regions[0].line == breadth_first.__code__.co_firstlineno + 7
    lafs = {use.name: use.laf for use in expand.arrays}
    assert {entry.name: entry.gaf for entry in program.objects} == {
        "nodes": 32 * lafs["nodes"],
        "the edges": 32 * lafs["edges"],
        "mask": 32 * lafs["mask"],
        "updating": 32 * lafs["updating"],
        "visited": 32 * lafs["visited"] + 16 * 0.5,
        "cost": 32 * lafs["cost"] + 16 * 3,
    }
    assert [entry.rank for entry in program.objects] == [1, 2, 3, 4, 5, 6]
    assert [entry.name for entry in program.objects][:3] == ["cost", "visited", "the edges"]
    assert [region.kernel.name for region in program.object("cost").regions] == ["expand", "kept"]
    with pytest.raises(KeyError):
        program.object("n")


def test_equal_frequencies_rank_in_the_order_of_declaration() -> None:
    text = "async def f(t, n):\n    b, a = t.array('b', n), t.array('a', n)\n    await t.target(k, a, 1, b)\n"
    even = Kernel("k", arrays=(ArrayUse("x", 0, reads=1), ArrayUse("y", 2, writes=1)))
    first = HostProgram.of(function(text, k=even))
    assert [(entry.name, entry.rank) for entry in first.objects] == [("b", 1), ("a", 2)]


FREQUENCIES = [
    ("for _ in range(10):\n        await t.target(k, a)", 10.0),
    ("for _ in range(n):\n        for _ in range(2, 10, 2):\n            await t.target(k, a)", 128.0),
    ("for x in (1, 2, 3):\n        await t.target(k, a)", 3.0),
    ("while n:\n        await t.target(k, a)", 32.0),
    ("if n and t or n > 4:\n        await t.target(k, a)", 1 - 0.75 * 0.5),
    ("if not expect(n, probability=0.1):\n        await t.target(k, a)", 0.9),
    ("if n:\n        pass\n    else:\n        await t.target(k, a)", 0.5),
    ("try:\n        await t.target(k, a)\n    except KeyError:\n        await t.target(k, a)", 1.0),
    ("try:\n        n()\n    finally:\n        await t.target(k, a)", 1.0),
    ("async with t.target_data(a):\n        await t.target(k, a)", 1.0),
    ("step = t.construct_target(k, a)\n    for _ in range(n):\n        await t.run(step)", 32.0),
    ("async def one():\n        await t.target(k, a)\n    for _ in range(4):\n        await one()", 4.0),
    ("async def one(u):\n        await u.target(k, a)\n    await t.parallel(one, num_threads=n)", 1.0),
    ("async def one():\n        await t.target(k, a)\n        await one()\n    await one()", 1.0),
    ("[await t.target(k, a) for _ in range(5)]", 5.0),
    ("[await t.target(k, a) for _ in range(5) if n]", 2.5),
    ("(await t.target(k, a)) if n else None", 0.5),
    ("n and await t.target(k, a)", 0.5),
    ("n and t and await t.target(k, a)", 0.25),
    ("expect(n, probability=0.1) or await t.target(k, a)", 0.9),
    ("await t.target(k, a) or n", 1.0),
    ("match n:\n        case 1:\n            await t.target(k, a)\n        case _:\n            pass", 0.5),
    ("match n:\n        case 1:\n            return\n    await t.target(k, a)", 0.5),
]


@pytest.mark.parametrize(("body", "expected"), FREQUENCIES, ids=[row[0] for row in FREQUENCIES])
def test_frequencies_follow_the_rules(body: str, expected: float) -> None:
    made = function(f"async def f(t, a, n):\n    {body}\n", k=kept_one, expect=expect)
    program = HostProgram.of(made)
    assert sum(frequency for _, frequency in frequencies(program)) == pytest.approx(expected)
    assert [entry.name for entry in program.objects] == ["a"]


kept_one = Kernel("k", arrays=(ArrayUse("x", 0, reads=1),))


async def all_of_it(t: omp.HostThread, left: Any, right: Any) -> None:
    await t.target(axpy, 2.0, left, right)


async def reading(run: Any, left: Any, right: Any) -> None:
    run.configure(host_program=HostProgram.of(all_of_it))

    async def body(t: omp.HostThread) -> None:
        await all_of_it(t, left, right)

    await run.parallel(body)


def test_a_function_that_is_only_read_is_not_called() -> None:
    assert frequencies(HostProgram.of(reading)) == frequencies(HostProgram.of(all_of_it)) == [("axpy", 1.0)]


async def one_step(t: omp.HostThread, left: Any, right: Any, repeats: int) -> None:
    for _ in range(2):
        await t.target(axpy, 2.0, left, right)


class Solver:
    """A program as a class."""

    update = axpy

    async def run(self, t: omp.HostThread) -> None:
        x, y = t.array("x", 8), t.array("y", 8)
        z = x
        await one_step(t, z, right=y, repeats=3)
        for _ in range(4):
            await self.again(t, y)

    async def again(self, t: omp.HostThread, w: Any) -> None:
        await t.target(self.update, 1.0, self.history, w)

    history: Any = None


def test_calls_are_followed_with_their_arguments() -> None:
    program = HostProgram.of(Solver.run)
    assert frequencies(program) == [("axpy", 2.0), ("axpy", 4.0)]
    assert [region.objects for region in program.regions] == [("x", "y"), ("self.history", "y")]
    assert HostProgram.of(Solver().run).objects == program.objects


async def refine(t: omp.HostThread, left: Any, right: Any, depth: int) -> None:
    await t.target(axpy, 2.0, left, right)
    if depth:
        await refine(t, left, right, depth - 1)


async def even(t: omp.HostThread, left: Any, right: Any) -> None:
    await t.target(axpy, 2.0, left, right)
    await odd(t, left, right)


async def odd(t: omp.HostThread, left: Any, right: Any) -> None:
    await t.target(axpy, 2.0, right, left)
    await even(t, left, right)


class Multigrid:
    """A program that calls itself on a coarser grid."""

    async def run(self, t: omp.HostThread, level: int) -> None:
        x, y = t.array("x", 8), t.array("y", 8)
        await t.target(axpy, 1.0, x, y)
        if level:
            await self.run(t, level - 1)


@pytest.mark.parametrize(("function", "runs"), [(refine, 1), (even, 2), (Multigrid.run, 1), (Multigrid().run, 1)])
def test_a_function_that_calls_itself_is_entered_once(function: Any, runs: int) -> None:
    assert frequencies(HostProgram.of(function)) == [("axpy", 1.0)] * runs


def test_a_kernel_that_cannot_be_told_is_refused_unless_it_is_given() -> None:
    made = function("async def f(t, a, many):\n    ours = many()\n    await t.target(ours.update, a)\n")
    file = made.__code__.co_filename
    with pytest.raises(SourceRefused, match=f"{file}:3: host function 'f': which kernel ours.update is cannot be told"):
        HostProgram.of(made)
    assert frequencies(HostProgram.of(made, {"ours.update": kept_one})) == [("k", 1.0)]


@pytest.mark.parametrize("call", ["t.target(k, *a)", "t.target(k)"])
def test_objects_that_cannot_be_told_are_refused(call: str) -> None:
    with pytest.raises(SourceRefused, match="which object is x of kernel 'k' cannot be told; give the kernel's arg"):
        HostProgram.of(function(f"async def f(t, a):\n    await {call}\n", k=kept_one))
