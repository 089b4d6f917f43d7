"""A real program's replay is the same in both gears, on every Python and under every hash seed."""

from __future__ import annotations

from pathlib import Path

import pytest
from other_pythons import MINORS, interpreter, printed
from traced_replays import CONFIGURATIONS, hashes

SCRIPT = Path(__file__).with_name("traced_replays.py")
NEEDS = "trio", "outcome", "attrs", "numpy", "sortedcontainers", "msgspec", "pint", "cyclopts"


@pytest.fixture(scope="module")
def native() -> str:
    return hashes("native")


def test_both_gears_replay_lulesh_with_one_history(native: str) -> None:
    assert hashes("turbo") == native
    assert len({line.split()[1] for line in native.splitlines()}) == len(CONFIGURATIONS)


@pytest.mark.slow
@pytest.mark.parametrize("minor", MINORS)
def test_every_python_replays_lulesh_with_one_history(minor: int, native: str) -> None:
    assert printed(interpreter(minor, *NEEDS), SCRIPT, hash_seed=str(minor)) == native
