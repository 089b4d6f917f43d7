"""The plan of a QMCPACK run against the numbers of the paper's Table I."""

from __future__ import annotations

import pytest

from offloadrt.papers.zerocopy.qmcpack import QmcpackSetup, structure
from offloadrt.papers.zerocopy.qmcpack.structure import (
    SIZES,
    START_UP_ALLOCATIONS,
    START_UP_COPIES,
    Inputs,
    KernelKind,
    Plan,
    part,
)
from offloadrt.study.errors import ParameterError


def plan(**parameters: object) -> Plan:
    """The plan of a full run."""
    return QmcpackSetup.create(**parameters).plan  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("threads", "kernels", "copies", "allocations"), [(1, 99_627, 307_607, 23_277), (8, 738_483, 1_124_258, 20_848)]
)
def test_a_full_run_of_s2_makes_the_published_calls(threads: int, kernels: int, copies: int, allocations: int) -> None:
    counts = plan(size="S2", threads=threads)
    assert counts.kernels == kernels
    assert counts.copies + START_UP_COPIES == copies
    assert counts.allocations + START_UP_ALLOCATIONS.at(threads) == allocations


@pytest.mark.parametrize(("threads", "part_of_the_way"), [(2, 1 / 7), (4, 3 / 7)])
def test_counts_between_lie_on_the_line(threads: int, part_of_the_way: float) -> None:
    counts = plan(size="S2", threads=threads)
    assert counts.kernels == pytest.approx(99_627 + part_of_the_way * (738_483 - 99_627), abs=1)
    assert counts.copies == pytest.approx(307_604 + part_of_the_way * (1_124_255 - 307_604), abs=1)


def test_the_published_maps_of_s2_with_one_thread() -> None:
    counts = plan(size="S2", threads=1)
    assert 1.45e6 < counts.kernels * 15 + counts.data_copies + counts.allocations < 1.6e6


@pytest.mark.parametrize("size", ["S4", "S24", "S128"])
def test_the_number_of_copies_does_not_grow_with_the_size(size: str) -> None:
    assert plan(size=size, threads=8).copies == plan(size="S2", threads=8).copies


def test_crowds_share_the_walkers_and_their_copies() -> None:
    crowds = plan(size="S2", threads=8).crowds
    assert sum(crowd.walkers for crowd in crowds) == 512
    assert max(crowd.walkers for crowd in crowds) - min(crowd.walkers for crowd in crowds) <= 1
    assert sum(step.moves for step in crowds[3].steps) + crowds[3].warm_up_moves == plan(threads=8).moves // 8


def test_a_fraction_shrinks_steps_first_touch_and_warm_up_alike() -> None:
    whole, tenth = plan(threads=2), plan(threads=2, fraction=0.1)
    assert tenth.kernels == pytest.approx(whole.kernels / 10, rel=0.01)
    assert tenth.copies == pytest.approx(whole.copies / 10, rel=0.01)
    assert tenth.allocations == pytest.approx(whole.allocations / 10, rel=0.05)
    assert tenth.crowds[0].warm_up_moves == pytest.approx(whole.crowds[0].warm_up_moves / 10, abs=1)
    assert tenth.crowds[0].walkers == whole.crowds[0].walkers, "each kernel still has its whole crowd"


def test_without_nonlocal_jobs_the_kernels_are_moves() -> None:
    counts = plan(threads=1, jobs=0)
    assert counts.jobs == 0
    assert counts.kernels == 99_627


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"size": "S3"}, "size"),
        ({"fraction": 0.0}, "fraction"),
        ({"threads": 0}, "threads"),
        ({"map_items": 2}, "map_items"),
        ({"threads": 8, "walkers": 4}, "walkers"),
        ({"jobs": 20_000}, "jobs"),
        ({"kernel_work": "huge"}, "kernel_work"),
    ],
)
def test_a_mistake_names_its_parameter(parameters: dict[str, object], named: str) -> None:
    with pytest.raises(ParameterError, match=named):
        plan(**parameters)


@pytest.mark.parametrize(("total", "of"), [(0, 3), (7, 3), (100, 7)])
def test_parts_add_up(total: int, of: int) -> None:
    parts = [part(total, number, of) for number in range(of)]
    assert sum(parts) == total
    assert max(parts) - min(parts) <= 1


@pytest.mark.parametrize(
    ("kind", "walkers", "teams", "turns"),
    [
        (structure.GRADIENT, 2048, 2048, 1),  # num_teams(nw)
        (structure.DISTANCES, 10, 30, 1),  # num_teams(nw * num_teams): 1152 electrons are three chunks
        (structure.PRODUCT, 10, 5760, 1),  # num_teams(batch_count * n)
        (structure.PAIRS, 10, 10, 1),  # no num_teams
        (structure.PAIRS, 2048, 912, 3),
        (structure.JOB[3], 512, 912, 7),  # 12 points for each walker
        (structure.RANK_ONE, 1, 912, 1),  # a combined directive with 576 * 576 iterations
        (structure.ACCEPT, 257, 2, 1),  # a combined directive with one iteration for each walker
    ],
    ids=lambda value: value.name if isinstance(value, KernelKind) else None,
)
def test_directives_say_how_many_teams_there_are(kind: KernelKind, walkers: int, teams: int, turns: int) -> None:
    size = SIZES["S24"]
    assert (kind.teams(size, walkers, 4 * 228), kind.turns(size, walkers, 4 * 228)) == (teams, turns)


def test_a_team_makes_its_dependent_accesses_for_each_iteration_of_distribute() -> None:
    inputs, size = Inputs.at(), SIZES["S24"]
    once, thrice = (inputs.accesses_of(structure.PAIRS, size, walkers, 912) for walkers in (912, 2048))
    assert thrice == 3 * once
    assert structure.PAIRS.rounds(size) == 5, "1152 electrons, 256 at a time"
    assert structure.DISTANCES.rounds(size) == 2, "a chunk of 512"
    assert structure.RANK_ONE.rounds(size) == 1
