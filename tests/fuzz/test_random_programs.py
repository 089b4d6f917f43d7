"""Random programs that are right get no report, and planted mistakes get one.

`python -m bench.random_programs` tries as many as one likes. The oracle is `bench/random_programs/abstract.py`, which
shares nothing with the emulator.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from bench.random_programs.__main__ import MACHINES, Table, c_programs, checked, python_programs  # noqa: E402
from bench.random_programs.abstract import judged  # noqa: E402
from bench.random_programs.emit import scenario  # noqa: E402
from bench.random_programs.generate import correct, planted  # noqa: E402
from offloadrt.extensions.recording.toolchain import ToolchainMissing, find_compiler  # noqa: E402


def found(table: Table) -> float:
    """Return the part of the planted mistakes that was reported."""
    planted = sum(count for kind, count in table.programs.items() if kind != "none")
    return sum(count for kind, count in table.reported.items() if kind != "none") / planted


def test_a_seed_gives_one_program() -> None:
    assert correct(7) == correct(7) != correct(8)
    assert planted(7) == planted(7) != planted(8)


@pytest.mark.parametrize("seed", range(40))
def test_the_oracle_finds_each_planted_mistake_and_none_else(seed: int) -> None:
    assert judged(correct(seed)).problems == []
    assert judged(planted(seed)[1]).problems


def test_random_programs_in_python(tmp_path: Path) -> None:
    table = python_programs(12, 500, tmp_path)
    assert table.reported["none"] == 0
    assert not [what for what in table.wrong if "missed" not in what]
    assert found(table) >= 0.95


@pytest.mark.parametrize("seed", [393, 461, 842, 1232, 1349, 1495, 1748])
def test_a_planted_mistake_that_was_missed_once(seed: int, tmp_path: Path) -> None:
    """Races of copies that this run does not make, and a map that finds a mapping just before it is erased."""
    _, program = planted(seed)
    report, _ = checked(scenario(program, MACHINES[seed % len(MACHINES)]), tmp_path, "program")
    assert report.mistakes


def test_no_random_program_loses_an_update_where_regions_wait_for_their_kernels(tmp_path: Path) -> None:
    table = python_programs(12, 900, tmp_path, late=True)
    assert (table.reported["none"], table.lost, table.can_lose) == (0, 0, 0)
    assert not [what for what in table.wrong if "missed" not in what]


@pytest.mark.slow
def test_random_programs_in_c(tmp_path: Path) -> None:
    try:
        find_compiler("cc")
    except ToolchainMissing as missing:
        pytest.skip(str(missing))
    table = c_programs(20, 0, tmp_path)
    assert not [what for what in table.wrong if "printed" in what], "the host plugin computes what the oracle says"
    assert table.reported["none"] == 0
    assert found(table) >= 0.95
