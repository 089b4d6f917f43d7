"""The decision of OTM alone: sizes, ranks, densities and what is active in, placements and counters out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offloadrt.extensions.otm.object_table import ActiveBytes, Candidate, Placed, PlacementRules, decide

PAPER = PlacementRules(threshold=0.6, strict=False, evicts=False)
STRICT = PlacementRules(threshold=0.6, strict=True, evicts=False)
EVICTING = PlacementRules(threshold=0.6, strict=False, evicts=True)
NOTHING: dict[str, tuple[int, int, str]] = {}


def counted(placed: list[Placed]) -> ActiveBytes:
    explicit = [one.nbytes for one in placed if one.mechanism == "explicit"]
    implicit = [one.nbytes for one in placed if one.mechanism == "implicit"]
    return ActiveBytes(sum(explicit), sum(implicit))


def placements(objects, active, budget, rules=PAPER):
    """Objects and active ones by name, each (bytes, rank, density or mechanism); their mechanisms afterwards."""
    before = {name: Placed(nbytes, rank, 1.0, mechanism) for name, (nbytes, rank, mechanism) in active.items()}
    candidates = [Candidate(name, nbytes, rank, density) for name, (nbytes, rank, density) in objects.items()]
    decision = decide(candidates, before, counted(list(before.values())), budget, rules)
    after = {**before, **decision.changed}
    assert decision.counters == counted(list(after.values()))
    return {name: placed.mechanism for name, placed in after.items()}


TABLE = {
    "dense ones are copied, sparse ones migrate": (
        {"a": (4, 1, 1.0), "b": (4, 2, 0.59)}, NOTHING, 8, {"a": "explicit", "b": "implicit"}
    ),
    "at the threshold it is a copy": ({"a": (4, 1, 0.6)}, NOTHING, 8, {"a": "explicit"}),
    "rank decides, not the order of arguments": (
        {"a": (5, 2, 1.0), "b": (5, 1, 1.0)}, NOTHING, 8, {"a": "pinned", "b": "explicit"}
    ),
    "what is smaller and worse may still fit": (
        {"a": (5, 1, 1.0), "b": (5, 2, 1.0), "c": (3, 3, 0.1)}, NOTHING, 8,
        {"a": "explicit", "b": "pinned", "c": "implicit"},
    ),
    "what is small is pinned once a large one is placed": (
        {"a": (8, 1, 0.1), "b": (1, 2, 1.0)}, NOTHING, 8, {"a": "implicit", "b": "pinned"}
    ),
    "larger than the memory": ({"a": (9, 1, 1.0)}, NOTHING, 8, {"a": "pinned"}),
    "no memory at all": ({"a": (1, 1, 0.0)}, NOTHING, 0, {"a": "pinned"}),
    "density does not change the place": (
        {"a": (5, 1, 0.0), "b": (5, 2, 1.0)}, NOTHING, 8, {"a": "implicit", "b": "pinned"}
    ),
    "an active object keeps its placement": (
        {"a": (4, 1, 1.0)}, {"a": (4, 1, "implicit")}, 8, {"a": "implicit"}
    ),
    "also when it is pinned and would fit now": (
        {"a": (4, 1, 1.0)}, {"a": (4, 1, "pinned")}, 8, {"a": "pinned"}
    ),
    "what is active takes memory, what is pinned does not": (
        {"b": (4, 2, 1.0), "c": (4, 3, 1.0)}, {"a": (4, 1, "implicit"), "p": (9, 4, "pinned")}, 8,
        {"a": "implicit", "p": "pinned", "b": "explicit", "c": "pinned"},
    ),
    "a better object that comes later finds no room": (
        {"best": (4, 1, 1.0)}, {"a": (6, 2, "implicit")}, 8, {"a": "implicit", "best": "pinned"}
    ),
    "of equal rank the first argument comes first": (
        {"x": (5, 1, 1.0), "y": (5, 1, 1.0)}, NOTHING, 8, {"x": "explicit", "y": "pinned"}
    ),
}  # fmt: skip


@pytest.mark.parametrize(("objects", "active", "budget", "expected"), TABLE.values(), ids=TABLE)
def test_table(objects, active, budget, expected) -> None:
    assert placements(objects, active, budget) == expected


def test_an_object_that_fills_the_memory_exactly() -> None:
    assert placements({"a": (8, 1, 1.0)}, NOTHING, 8) == {"a": "explicit"}
    assert placements({"a": (8, 1, 1.0)}, NOTHING, 8, STRICT) == {"a": "pinned"}


EVICTIONS = {
    "the worst is pinned first": (
        {"best": (4, 1, 1.0)}, {"a": (4, 2, "implicit"), "b": (4, 3, "implicit")}, 8,
        {"a": "implicit", "b": "pinned", "best": "explicit"},
    ),
    "as many as it takes": (
        {"best": (7, 1, 1.0)}, {"a": (4, 2, "implicit"), "b": (4, 3, "implicit")}, 8,
        {"a": "pinned", "b": "pinned", "best": "explicit"},
    ),
    "none when they do not make room": (
        {"best": (5, 1, 1.0)}, {"a": (4, 2, "explicit"), "b": (4, 3, "implicit")}, 8,
        {"a": "explicit", "b": "implicit", "best": "pinned"},
    ),
    "better ones stay": (
        {"second": (4, 2, 1.0)}, {"a": (8, 1, "implicit")}, 8, {"a": "implicit", "second": "pinned"}
    ),
    "also those of the same call": (
        {"a": (6, 2, 0.0), "best": (6, 1, 0.0)}, {"a": (6, 2, "implicit")}, 8, {"a": "pinned", "best": "implicit"}
    ),
}  # fmt: skip


@pytest.mark.parametrize(("objects", "active", "budget", "expected"), EVICTIONS.values(), ids=EVICTIONS)
def test_evictions(objects, active, budget, expected) -> None:
    assert placements(objects, active, budget, EVICTING) == expected


def test_a_data_directive_pins_what_does_not_fit_and_leaves_the_rest_open() -> None:
    objects = {"a": (5, 1, None), "b": (4, 2, None), "c": (3, 3, None)}
    assert placements(objects, NOTHING, 8) == {"b": "pinned"}


def test_a_pinned_object_learns_its_density_at_the_first_call() -> None:
    active = {"a": Placed(9, 1, None, "pinned")}
    decision = decide([Candidate("a", 9, 1, 0.25)], active, ActiveBytes(), 8, PAPER)
    assert decision.changed == {"a": Placed(9, 1, 0.25, "pinned")}


def test_what_no_clause_maps_is_not_copied() -> None:
    decision = decide([Candidate("a", 4, 1, 1.0, can_copy=False)], {}, ActiveBytes(), 8, PAPER)
    assert decision.changed["a"].mechanism == "implicit" and decision.changed["a"].place == "gpu"


SIZES = st.integers(1, 40)
CALLS = st.lists(
    st.lists(st.tuples(st.integers(0, 9), st.floats(0, 1) | st.none()), unique_by=lambda one: one[0]), max_size=12
)


@given(st.lists(SIZES, min_size=10, max_size=10), st.permutations(range(1, 11)), CALLS, st.booleans(), st.booleans())
def test_counters_add_up_and_never_exceed_the_budget(sizes, ranks, calls, strict, evicts) -> None:
    rules, budget = PlacementRules(0.6, strict, evicts), 100
    active: dict = {}
    counters = ActiveBytes()
    for call in calls:
        before = dict(active)
        candidates = [Candidate(key, sizes[key], ranks[key], density) for key, density in call]
        decision = decide(candidates, before, counters, budget, rules)
        active.update(decision.changed)
        counters = decision.counters
        assert counters == counted(list(active.values()))
        assert counters.total <= budget - strict
        kept = [key for key in before if active[key].mechanism != before[key].mechanism]
        assert not kept or evicts
        assert all(active[key].mechanism == "pinned" for key in kept)


@given(st.lists(st.tuples(SIZES, st.floats(0, 1)), min_size=1, max_size=8), st.integers(0, 100))
def test_more_memory_never_pins_what_comes_first(objects, budget) -> None:
    """Greedy by rank: with more memory the first object that changes its place comes onto the GPU."""
    candidates = [Candidate(rank, nbytes, rank, density) for rank, (nbytes, density) in enumerate(objects)]
    less, more = (decide(candidates, {}, ActiveBytes(), one, PAPER).changed for one in (budget, budget + 7))
    moved = [rank for rank in less if less[rank].place != more[rank].place]
    assert not moved or more[moved[0]].place == "gpu"
