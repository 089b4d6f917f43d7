"""What an analysis counts against what an instrumented run of the same function did."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from instrumented import Counted, Phantom, counted
from nests import (
    AFFINE,
    axpy,
    diffuse,
    dot,
    every_other,
    expand,
    fluxes,
    graph,
    hinted,
    jacobi,
    product,
    records,
    triangle,
)

from offloadrt.kernels import KernelAnalysis, KernelError, kernel


def analysed(function: Any, **options: Any) -> KernelAnalysis:
    made = kernel(**options)(function).analysis
    assert made is not None
    return made


@pytest.mark.parametrize(("function", "arguments"), AFFINE, ids=lambda v: getattr(v, "__name__", ""))
def test_affine_kernels_are_counted_exactly(function: Any, arguments: list[Any]) -> None:
    analysis = analysed(function)
    counts = analysis.at(*arguments)
    assert counts.assumed == ()
    for use, found in zip(analysis.arrays, counts.arrays, strict=True):
        real: Counted = counted(function, *arguments)[use.position]
        assert (found.reads, found.writes) == (real.loads, real.stores), use.name
        assert found.exact or function is triangle
        if found.exact:
            assert found.touched == len(real.touched), use.name
        else:
            assert found.touched >= len(real.touched), use.name
        for reached, seen in ((found.read_range, real.loaded), (found.written_range, real.stored)):
            assert reached == ((min(seen), max(seen)) if seen else None), use.name


@pytest.mark.parametrize("number", [int, np.int64, np.int32, np.array])
def test_a_number_counts_by_its_value_whatever_its_type(number: Any) -> None:
    analysis = analysed(every_other)
    for length in (60, 30):
        arguments = [Phantom((100,)), Phantom((100,)), number(length)]
        assert analysis.at(*arguments).iterations == analysis.trip_count(*arguments) == length // 2


def test_the_density_of_affine_kernels_is_that_of_the_run() -> None:
    arguments = [np.zeros(100), np.zeros(100), 60]
    counts = analysed(every_other).at(*arguments)
    real = counted(every_other, *arguments)
    assert [counts.array(name).density for name in "ab"] == [len(real[k].touched) / 100 for k in (0, 1)] == [0.6, 0.3]


def test_without_nests_and_branches_laf_is_exact() -> None:
    for function, arguments in ((axpy, AFFINE[0][1]), (every_other, AFFINE[1][1]), (records, AFFINE[3][1])):
        analysis = analysed(function)
        iterations = analysis.trip_count(*arguments)
        for use in analysis.arrays:
            real = counted(function, *arguments)[use.position]
            assert use.laf * iterations == real.loads + real.stores
            assert use.density(iterations, real.size) == min(1.0, (real.loads + real.stores) / real.size)


@pytest.mark.parametrize("n", [3, 33, 65, 150])
def test_triangles_are_counted_exactly(n: int) -> None:
    def tetrahedron(a: Any, n: int) -> None:
        for i in range(n):
            for j in range(i + 1, n):
                for k in range(j, i - 1, -1):
                    a[k] += 1.0

    expected = sum(1 for i in range(n) for j in range(i + 1, n) for k in range(j, i - 1, -1))
    assert analysed(tetrahedron).at(Phantom((n,)), n).array("a").reads == expected


def test_loops_that_are_cut_off_are_counted_exactly() -> None:
    def cut(a: Any, n: int, m: int) -> None:
        for i in range(n):
            for j in range(i, m, 3):
                a[j] = 1.0

    for n, m in ((500, 100), (100, 500), (300, 0)):
        expected = sum(1 for i in range(n) for j in range(i, m, 3))
        assert analysed(cut).at(Phantom((1000,)), n, m).array("a").writes == expected


def test_loops_are_counted_without_being_run() -> None:
    """Whoever ran these 5 * 10**17 iterations would not come back."""
    n = 10**9
    counts = analysed(triangle).at(Phantom((n * n,)), Phantom((n,)), n)
    assert counts.array("a").reads == pytest.approx(n * (n + 1) // 2, rel=1e-15)


class TestErrorOfTheStaticAnalysis:
    """Where LAF × iterations leaves the truth, and by which factor."""

    @pytest.mark.parametrize(("rows", "cols"), [(8, 4), (8, 32), (8, 320)])
    def test_a_nested_loop_counts_32_times(self, rows: int, cols: int) -> None:
        size = rows * cols
        arguments = [np.ones(size), np.zeros(rows, np.int64), np.zeros(size), np.zeros(size), rows, cols, 1.0]
        analysis = analysed(diffuse)
        for use in analysis.arrays:
            real = counted(diffuse, *arguments)[use.position]
            assert use.laf * rows == pytest.approx((real.loads + real.stores) * 32 / cols)

    def test_srad_with_its_nested_loops_is_taken_for_sparse(self) -> None:
        """The OTM paper, 5.2: loop nests confuse the analysis; the images are dense."""
        analysis = analysed(diffuse)
        rows = cols = 8192
        images = [Phantom((rows * cols,), "f4")] * 3
        counts = analysis.at(images[0], Phantom((rows,), "i4"), *images[1:], rows, cols, 1.0)
        for name in ("image", "down", "c"):
            assert counts.array(name).density == 1.0
            assert analysis.use(name).density(rows, rows * cols) <= 3 * 32 / cols < 0.6

    def test_a_branch_counts_half(self) -> None:
        arguments = graph(400, 4)
        nodes, edges, mask, _, visited, _, n = arguments
        analysis = analysed(expand)
        real = counted(expand, *arguments)
        taken, degree = mask.sum() / n, nodes[mask, 1].mean()
        by_name = {use.name: real[use.position] for use in analysis.arrays}
        unseen = (~visited[edges[np.concatenate([np.arange(s, s + c) for s, c in nodes[mask]])]]).mean()
        for name, truth in {
            "nodes": 3 * taken,
            "edges": taken * degree,
            "visited": taken * degree,
            "cost": 2 * taken * degree * unseen,
            "updating": taken * degree * unseen,
        }.items():
            assert (by_name[name].loads + by_name[name].stores) / n == pytest.approx(truth)
        factors = {"nodes": 0.5 / taken, "edges": 0.5 / taken * 32 / degree}
        factors["cost"] = factors["edges"] * 0.5 / unseen
        for name, factor in factors.items():
            assert analysis.use(name).laf * n == pytest.approx((by_name[name].loads + by_name[name].stores) * factor)

    def test_edges_and_costs_of_bfs_tie(self) -> None:
        analysis = analysed(expand)
        assert [analysis.use(name).laf for name in ("edges", "cost", "visited")] == [0.5 * 32] * 3
        assert [analysis.use(name).laf for name in ("mask", "nodes", "updating")] == [1.5, 1.5, 8.0]

    def test_hints_correct_it(self) -> None:
        nodes, edges, mask, _, visited, _, n = graph(500, 4)
        found = np.zeros(n, np.bool_)
        taken, degree = mask.mean(), nodes[mask, 1].mean()
        arguments = [nodes, edges, mask, visited, found, n, taken, degree]
        counts = analysed(hinted).at(*arguments)
        real = counted(hinted, *arguments)
        assert counts.assumed == ()
        assert [counts.array(name).reads for name in ("nodes", "visited")] == pytest.approx(
            [real[0].loads, real[3].loads]
        )
        assert counts.array("found").writes == pytest.approx(real[3].loads * 0.75)

    def test_what_was_assumed_is_said(self) -> None:
        counts = analysed(expand).at(*graph(20, 2))
        line = expand.__code__.co_firstlineno
        assert counts.assumed == (
            f"line {line + 3}: the branch is taken with probability 0.5",
            f"line {line + 5}: the loop over e runs 32 times",
            f"line {line + 7}: the branch is taken with probability 0.5",
        )


class TestCosts:
    def test_neighbours_of_a_stencil_come_once(self) -> None:
        counts = analysed(jacobi, collapse=2).at(Phantom((1002, 1002)), Phantom((1002, 1002)), 1002, 1002)
        assert (counts.iterations, counts.flops_per_iteration, counts.bytes_per_iteration) == (10**6, 4.0, 16.0)

    def test_records_and_streams_are_different_elements(self) -> None:
        def far(a: Any, b: Any, n: int) -> None:
            for i in range(n):
                b[i] = a[i] + a[i + n] + a[4 * i] + a[4 * i + 1]

        def planes(a: Any, b: Any, n: int) -> None:
            for i in range(n):
                for j in range(4):
                    b[i] = a[i + j * n] + a[i + (j + 4) * n] + a[i + (j + 1) * n]

        assert analysed(planes).use("a").elements_read == 8.0
        analysis = analysed(far)
        assert (analysis.use("a").elements_read, analysis.use("b").elements_written, analysis.bytes) == (4.0, 1.0, 40.0)

    def test_what_all_iterations_share_is_not_moved_for_each(self) -> None:
        counts = analysed(product).at(*[Phantom((64, 64))] * 3, 64)
        assert counts.flops == 2 * 64**3
        assert counts.bytes == pytest.approx(3 * 64 * 64 * 8)

    def test_element_sizes_are_those_of_the_arguments_or_of_the_annotation(self) -> None:
        analysis = analysed(fluxes)
        assert [use.element_size for use in analysis.arrays] == [4, 8, 4]
        counts = analysis.at(Phantom((50,), "f4"), Phantom((200,), "i4"), Phantom((50,), "f4"), 50)
        assert [found.element_size for found in counts.arrays] == [4, 4, 4]

    def test_only_floating_point_operations_are_flops(self) -> None:
        def mixed(a: Any, idx: Any, n: int) -> None:
            for i in range(n):
                k = idx[i] * 2 + i % 3
                a[k] = -(a[k] ** 3) + math.exp(a[i * 2 + 1]) * abs(a[0])

        assert analysed(mixed).flops == 2 + 1 + 1 + 1 + 1

    def test_a_kernel_with_arguments_costs_what_it_does(self) -> None:
        made = kernel(jacobi)
        launch = made.launch(108, arguments=[Phantom((102, 52)), Phantom((102, 52)), 102, 52])
        assert (launch.iterations, launch.flops) == (100, 4 * 100 * 50)
        assert made.flops_per_iteration == 4 * 32
        assert made.launch(2, 64).iterations == 128

    def test_levels_are_the_order_in_which_arrays_are_needed(self) -> None:
        assert {use.name: use.level for use in analysed(expand).arrays} == {
            "mask": 0,
            "nodes": 1,
            "edges": 2,
            "visited": 3,
            "cost": 4,
            "updating": 4,
        }

    def test_patterns(self) -> None:
        def patterns(a: Any, b: Any, c: Any, d: Any, n: int) -> None:
            for i in range(n):
                a[i] = b[0] + c[i * i] + d[d[i]]

        assert [use.pattern for use in analysed(patterns).arrays] == ["affine", "constant", "irregular", "indirect"]


def test_reductions() -> None:
    (of_dot,) = analysed(dot).reductions
    assert (of_dot.operator, of_dot.target, of_dot.line) == ("+", "s", dot.__code__.co_firstlineno + 3)

    def several(a: Any, out: Any, rows: int, cols: int) -> None:
        most = -1e30
        for i in range(rows):
            for j in range(cols):
                out[j] += a[i, j]
                most = max(a[i, j], most)
            a[i, 0] *= 2.0
        out[0] = most

    assert [(one.operator, one.target) for one in analysed(several).reductions] == [("+", "out[j]"), ("max", "most")]


def test_what_is_not_known_is_named() -> None:
    with pytest.raises(KernelError, match=r"kernel 'axpy': the loop over i in line \d+ needs x.shape\[0\], which"):
        analysed(axpy).at(2.0, object(), object())
    with pytest.raises(KernelError, match=r"takes 3 arguments \(a, x, y\), not 1"):
        analysed(axpy).at(2.0)
    with pytest.raises(KernelError, match="n is a number in its source, but 'many' was given"):
        analysed(every_other).at(Phantom((4,)), Phantom((4,)), "many")


def test_indices_that_count_from_the_end_in_some_iterations_only_are_no_count() -> None:
    def around(a: Any, n: int) -> None:
        for i in range(n):
            a[i - 1] = 1.0
            a[-1] = 2.0
            a[3 - i] = 3.0

    found = analysed(around).at(np.zeros(12), 6).array("a")
    real: Counted = counted(around, np.zeros(12), 6)[0]
    assert not found.exact
    assert len(real.touched) <= found.touched <= 12
