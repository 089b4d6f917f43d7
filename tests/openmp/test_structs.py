"""Structs and their members: lowered as clang 22 did in the recorded program, with the operations of LLVM's runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from openmp_rig import MakeRig
from test_lowered import PROGRAMS, Operations

from offloadrt import openmp as omp
from offloadrt.extensions.recording.ompt import start_tool
from offloadrt.kernels import Kernel

IN = np.dtype([("q", "u8"), ("m", "i4")], align=True)
S = np.dtype([("c", "i1"), ("n", "i4"), ("p", "u8"), ("in", IN), ("m", "i4")], align=True)
CALLS = next(recorded["calls"] for recorded in PROGRAMS if recorded["name"] == "structs")[:14]


class Told(Operations):
    """A tool that notes items and operations."""

    def __init__(self) -> None:
        super().__init__()
        self.lowered: list[list[tuple[int, int]]] = []

    def target_map(self, device: int, call: str, items: Any) -> None:
        self.lowered.append([(item.size, item.type) for item in items])


def add(s: Any, p: Any, q: Any) -> None:
    """for (i = 0; i < s.n; i++) s.p[i] += s.in.q[2 + i]; s.n = 5; the kernel sees q from 2 on."""
    for i in range(int(s["n"][0])):
        p[0][i] += q[0][i]
    s["n"][0] = 5


def total(s: Any, p: Any) -> None:
    """for (i = 0; i < s.n; i++) s.m += s.p[8 + i];"""
    for i in range(int(s["n"][0])):
        s["m"][0] += p[0][i]


def test_the_recorded_program_in_python(rig: MakeRig) -> None:
    made = rig(allocator="malloc")
    start_tool(made.device, tool := Told())

    async def body(t: omp.HostThread) -> None:
        t.array("before", 1)
        s = t.array("s", 1, S, align=8)
        assert s.address % 16 == 8, "as in the recording: a part of it is padded to 8 bytes"
        p = t.array("p", 40, kind="heap", fill=np.arange(40.0))
        q = t.array("q", 80, kind="heap", fill=np.arange(80.0))
        s["n"], s["m"], s["p"], s["in"]["q"] = 4, 7, p.address, q.address
        follow_p = omp.pointees(s, 30, np.float64, member="p", lower=8)
        n, m, of_p = omp.member(s, "n"), omp.member(s, "m"), omp.member(s, "p")

        def p_at(lower: int, length: int) -> Any:
            return omp.pointee(s, "p", omp.section(p, lower, length))

        async with t.target_data(omp.map(tofrom=[s, p_at(0, 4), omp.pointee(s, "in.q", omp.section(q, 2, 40))])):
            short = omp.pointees(s, 4, np.float64, member="p")
            await t.target(Kernel("add", add), s, short, omp.pointees(s, 40, np.float64, member="in.q", lower=2))
            await t.target_update(omp.from_(n))
            assert s["n"][0] == 5
            await t.target_update(omp.to(s))
            await t.target_update(omp.from_(s))
            assert s["p"][0] == p.address, "the host keeps its own pointers"
            await t.target_update(omp.to(omp.section(p, 0, 4)))
        s["n"] = 4
        await t.target(
            Kernel("total", total), s, follow_p, maps=[omp.map(tofrom=[n, of_p, m]), omp.map(to=p_at(8, 30))]
        )
        assert s["m"][0] == 7 + sum(range(8, 12))
        await t.target_enter_data(omp.map(to=[of_p, m]))
        await t.target_enter_data(omp.map(to=p_at(0, 8)))
        await t.target_enter_data(omp.map(to=[of_p, p_at(0, 8)]))
        await t.target_exit_data(omp.map(from_=p_at(0, 8)))
        await t.target_exit_data(omp.map(delete=p_at(0, 8)))
        await t.target_exit_data(omp.map(release=[of_p, m]))

    made.alone(body)
    expected = [[(row[2], row[3]) for row in call["maps"]] for call in CALLS]
    assert tool.lowered == expected
    operations = [[op[0], *op[2:]] if len(op) == 3 else op for call in CALLS for op in call["ops"]]
    seen = [[op[0], *op[2:]] if len(op) == 3 else op for op in tool.seen]
    assert seen == operations


def test_members_that_do_not_exist(rig: MakeRig) -> None:
    made = rig()

    async def body(t: omp.HostThread) -> None:
        s, a = t.array("s", 2, S), t.array("a", 4)
        with pytest.raises(ValueError, match="s has no member 'x'"):
            omp.member(s, "x")
        with pytest.raises(ValueError, match="there are 2 structs"):
            omp.member(s, "n", 2)
        with pytest.raises(ValueError, match=r"s\.n has 4 bytes, but a pointer has 8"):
            omp.pointee(s, "n", a)
        with pytest.raises(ValueError, match="a has no member 'n'"):
            omp.member(a, "n")
        with pytest.raises(ValueError, match="struct 's' and members of it"):
            await t.target_enter_data(omp.map(to=[s, omp.member(s, "n")]))

    made.alone(body)
    made.assert_clean()


def test_rows_of_an_array_of_pointers(rig: MakeRig) -> None:
    """``T **rows``: each row is attached to its place in the mapped array of pointers."""
    made = rig()

    async def body(t: omp.HostThread) -> None:
        structs = t.array("structs", 3, np.dtype([("row", "u8")]))
        rows = [t.array(f"row {i}", 4, kind="heap", fill=float(i)) for i in range(3)]
        structs["row"] = [row.address for row in rows]

        def double(rows: Any) -> None:
            for row in rows:
                row *= 2.0

        await t.target_enter_data(omp.map(to=structs))
        for i, row in enumerate(rows):
            await t.target_enter_data(omp.map(to=omp.pointee(structs, "row", row, i)))
        await t.target(Kernel("double", double), omp.pointees(structs, 4, np.float64, member="row"))
        for i, row in enumerate(rows):
            await t.target_exit_data(omp.map(from_=omp.pointee(structs, "row", row, i)))
        await t.target_exit_data(omp.map(from_=structs))
        assert [row[0] for row in rows] == [0.0, 2.0, 4.0]
        assert structs["row"].tolist() == [row.address for row in rows]

    made.alone(body)
    made.assert_clean()
