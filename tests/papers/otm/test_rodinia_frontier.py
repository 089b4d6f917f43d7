"""Random graphs of Rodinia's kind and the levels of a search: what is counted once adds up to everything."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offloadrt.papers.otm.rodinia import DEGREE, SAMPLE, Bfs, Frontier, Graph, sampled


@given(st.integers(1, 400), st.integers(0, 1000))
def test_edges_lead_both_ways_and_each_node_has_two_or_more(thirds: int, seed: int) -> None:
    count = 3 * thirds
    graph = Graph.random(count, seed)
    first, degrees = graph.nodes.T
    assert len(graph.edges) == DEGREE * count == degrees.sum()
    assert degrees.min() >= 2
    assert np.array_equal(first, np.cumsum(degrees) - degrees)
    begin = np.repeat(np.arange(count), degrees)
    forth, back = sorted(zip(begin, graph.edges, strict=True)), sorted(zip(graph.edges, begin, strict=True))
    assert forth == back


@given(st.integers(1, 300), st.integers(0, 1000))
def test_every_level_continues_the_one_before(thirds: int, seed: int) -> None:
    count = 3 * thirds
    levels = Frontier.of(Graph.random(count, seed)).levels
    assert levels[0].active == pytest.approx(1 / count)
    assert levels[-1].reached == 0.0
    for before, after in pairwise(levels):
        assert after.active == before.reached > 0
    assert all(level.active * level.degree * level.fresh >= level.reached * (1 - 1e-12) for level in levels)


def test_the_sample_reaches_all_nodes_and_looks_at_all_edges_once() -> None:
    levels = sampled(0).levels
    assert sum(level.active for level in levels) == pytest.approx(1.0, abs=10 / SAMPLE)
    assert sum(level.active * level.degree for level in levels) == pytest.approx(DEGREE, rel=1e-4)


def test_the_sample_is_like_other_graphs_of_its_kind() -> None:
    """Another graph, a quarter as large: the heavy levels are as many and as heavy, whenever they come."""
    ours, other = (
        sorted(level.active for level in frontier.levels)[-4:]
        for frontier in (sampled(0), Frontier.of(Graph.random(SAMPLE // 4, 5)))
    )
    assert sum(ours) == pytest.approx(sum(other), abs=0.02)


def test_a_search_without_values_has_the_levels_of_the_sample_and_one_with_values_its_own() -> None:
    assert Bfs.of(10**9, phantom=True).frontier is sampled(0)
    small = Bfs.of(39 * 999, phantom=False, seed=3)
    assert small.graph is not None
    assert small.frontier == Frontier.of(small.graph)
