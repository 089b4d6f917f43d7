"""The ExaHyPE scenario from its outside: figures that follow from one another, and mistakes in one message."""

from __future__ import annotations

from typing import Any

import pytest

from offloadrt import ParameterError
from offloadrt.study import Result, execute, find_scenario


def exahype(**parameters: Any) -> Result:
    """One run of the scenario."""
    return execute(find_scenario("exahype"), parameters)


def test_measured_times_are_elapsed_over_volumes() -> None:
    result = exahype(threads=3, batch=2, patches=5)
    volumes = 3 * 5 * 17 * 17
    assert result.measured["volumes"] == volumes
    assert result.measured["time_per_volume_s"] == result.elapsed_s / volumes
    assert result.measured["time_per_volume_per_thread_s"] == result.elapsed_s / (volumes / 3)


def test_strong_scaling_divides_the_patches() -> None:
    result = exahype(threads=3, batch=2, patches=12, scaling="strong")
    assert result.measured["patches"] == 12
    assert result.measured["batches"] == 6


def test_real_numbers_are_compared_with_the_reference() -> None:
    result = exahype(threads=2, batch=2, patches=2, phantom=False)
    assert result.measured["equal_to_reference"] is True
    assert abs(float(result.measured["mass_change"] or 0.0)) < 1e-9


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"memory": "unified"}, "map, pool, managed, managed.prefetch"),
        ({"equations": "ccz4", "phantom": False}, "sizes and its work only"),
        ({"patch": 8, "equations": "euler3d"}, "5 or 9 volumes per dimension"),
        ({"threads": 0}, "threads"),
        ({"equations": "mhd"}, "euler2d"),
    ],
)
def test_a_mistake_is_one_clear_message(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        exahype(**parameters)
