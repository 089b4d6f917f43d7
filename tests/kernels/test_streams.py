"""In which orders a launch comes to an array: against runs of the same function that count what they touch."""

from __future__ import annotations

import ast
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from instrumented import Phantom, counted

from offloadrt.kernels import Kernel, KernelError, expect, kernel
from offloadrt.papers.otm.rodinia import (
    Cfd,
    Frontier,
    Graph,
    advance,
    copy,
    diffuse,
    expand,
    gradients,
    step_factor,
    time_step,
)

N = 30


def floats(size: int) -> Any:
    return np.random.default_rng(1).random(size).astype(np.float32) + 1.0


FLOW = np.repeat(np.array([1.0, 0.1, 0.2, 0.3, 5.0], np.float32), N)
"""Density, momenta and energy of N elements."""
AFFINE: list[tuple[Kernel, list[Any]]] = [
    (copy, [floats(5 * N), floats(5 * N), 5 * N]),
    (step_factor, [FLOW, floats(N), floats(N), N]),
    (time_step, [floats(5 * N), floats(5 * N), floats(N), floats(5 * N), N, 2.0]),
]


def plain(of: Kernel) -> Any:
    """The function that a kernel was made of."""
    body: Any = of.body
    source, names = body.nest.source, dict[str, Any]()
    tree = deepcopy(source.tree)
    tree.decorator_list = []
    exec(compile(ast.Module([tree], []), source.file, "exec"), dict(source.names), names)
    return names[tree.name]


@pytest.mark.parametrize(("of", "arguments"), AFFINE, ids=lambda v: getattr(v, "name", ""))
def test_densities_and_bytes_of_affine_kernels_are_those_of_a_run(of: Kernel, arguments: list[Any]) -> None:
    assert of.analysis is not None
    counts, real = of.analysis.at(*arguments), counted(plain(of), *arguments)
    for use in of.arrays:
        array, seen = counts.array(use.name), real[use.position]
        assert array.exact and array.touched == len(seen.touched)
        assert array.density == len(seen.touched) / seen.size
        (stream,) = array.streams
        assert (stream.order, stream.read, stream.written) == ("swept", len(seen.loaded), len(seen.stored))
        assert use.density(counts.iterations, seen.size) == min(1.0, (seen.loads + seen.stores) / seen.size)


def test_levels_of_bfs_are_counted_as_they_happen() -> None:
    """Each level's accesses, from the real frontier, against an instrumented search."""
    graph = Graph.random(300, 2)
    n = len(graph.nodes)
    mask, updating, visited = np.arange(n) == 0, np.zeros(n, np.bool_), np.arange(n) == 0
    cost = np.where(mask, 0, -1).astype(np.int32)
    for level in Frontier.of(graph).levels:
        arguments = [mask, graph.nodes, graph.edges, visited, cost, updating, n]
        hints = [level.active, level.degree, level.fresh]
        counts, real = expand.analysis.at(*arguments, *hints), counted(plain(expand), *arguments, *hints)  # type: ignore[union-attr]
        assert counts.array("edges").reads == pytest.approx(real[2].loads)
        assert counts.array("visited").reads == pytest.approx(real[3].loads)
        assert counts.array("cost").writes == pytest.approx(real[4].stores)
        assert counts.array("updating").writes == pytest.approx(real[5].stores)
        mask, cost, updating = real[0].values, real[4].values, real[5].values
        stop = np.zeros(1, np.bool_)
        after = counted(plain(advance), updating, mask, visited, stop, n, level.reached)
        found = advance.analysis.at(updating, mask, visited, stop, n, level.reached)  # type: ignore[union-attr]
        assert found.array("visited").writes == pytest.approx(after[2].stores)
        updating, mask, visited = (array.values for array in after[:3])
    assert visited.all()


def orders(of: Kernel, *arguments: Any) -> dict[str, list[str]]:
    assert of.analysis is not None
    return {array.name: [stream.order for stream in array.streams] for array in of.analysis.at(*arguments).arrays}


def test_bfs_visits_rows_in_order_and_neighbours_anywhere() -> None:
    flags, ints = Phantom((N,), "?"), Phantom((N,), "i4")
    found = orders(expand, flags, Phantom((N, 2), "i4"), Phantom((6 * N,), "i4"), flags, ints, flags, N, 0.1, 6.0, 0.5)
    assert found == {
        "mask": ["swept"],
        "nodes": ["in order"],
        "edges": ["in order"],
        "visited": ["random"],
        "cost": ["in order", "random"],
        "updating": ["random"],
    }


def test_neighbours_in_an_image_move_nothing_more() -> None:
    image, lists = [Phantom((N * N,), "f4")] * 6, [Phantom((N,), "i4")] * 4
    for of, arguments in ((gradients, [*image, *lists, N, N, 0.5]), (diffuse, [*image, *lists[:2], N, N, 0.5])):
        counts = of.analysis.at(*arguments)  # type: ignore[union-attr]
        for name in ("J", "c"):
            (stream,) = counts.array(name).streams
            assert stream.order == "swept" and stream.read in (0, N * N)


def test_a_nested_loop_hides_the_density_of_an_image() -> None:
    """OTM's own example of a wrong analysis: each point is used, and the density looks like a few hundredths."""
    side = 10_000
    for use in gradients.arrays[:6]:
        assert use.density(side, side * side) < 0.05


def test_elements_have_the_size_of_an_aliased_annotation() -> None:
    assert [use.element_size for use in expand.arrays] == [1, 4, 4, 1, 4, 1]
    assert Cfd.BYTES == 132


def test_the_part_that_lies_near_is_in_order_the_rest_is_random() -> None:
    @kernel
    def gather(index: Any, source: Any, result: Any, n: int, part: float) -> None:
        for i in range(n):
            result[i] = source[expect(index[i], near=part)]

    for part in (0.0, 0.25, 1.0):
        assert gather.analysis is not None
        streams = gather.analysis.at(Phantom((N,), "i8"), Phantom((N,)), Phantom((N,)), N, part).array("source").streams
        shares = {"in order" if part < 1 else "swept": part, "random": 1 - part}
        assert {stream.order: stream.read for stream in streams} == {
            o: N * share for o, share in shares.items() if share
        }


def test_a_part_is_between_nothing_and_everything() -> None:
    with pytest.raises(KernelError, match=r"the hint near=2\.0; write a number"):

        @kernel
        def far(index: Any, source: Any, n: int) -> None:
            for i in range(n):
                source[expect(index[i], near=2.0)] = 0.0


@kernel
def listed_rows(a: Any, rows: Any) -> None:
    for k in range(len(rows)):
        a[expect(rows[k], near=1)] += 1.0


@pytest.mark.parametrize(("rows", "order"), [(N, "swept"), (N + 1, "swept"), (N - 1, "in order"), (1, "in order")])
def test_data_that_lie_near_sweep_an_array_only_if_there_is_one_for_each_element(rows: int, order: str) -> None:
    assert listed_rows.analysis is not None
    (stream,) = listed_rows.analysis.at(Phantom((N,)), Phantom((rows,), "i8")).array("a").streams
    assert (stream.order, stream.read) == (order, min(rows, N))
