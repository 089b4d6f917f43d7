"""Real data through the emulated device: the same bits whatever the schedule, and mass is conserved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from offloadrt.papers.exahype.program import Setup


def small(**given: Any) -> Setup:
    """Twelve real patches in all."""
    return Setup(**{"phantom": False, "scaling": "strong", "patches": 12, "batch": 4, "threads": 2} | given)


VARIANTS: list[dict[str, Any]] = [
    {"memory": "pool"},
    {"memory": "pool", "gather": "patch"},
    {"threads": 1},
    {"threads": 5, "batch": 1},
    {"threads": 5, "batch": 5, "memory": "pool"},
    {"threads": 3, "arrival": "enclave", "batch": 5},
    {"threads": 3, "arrival": "enclave", "batch": 5, "memory": "pool"},
    {"devices": 2},
]


@pytest.mark.parametrize("equations", ["euler2d", "euler3d"])
def test_every_variant_computes_the_same_bits(equations: str, update: Callable[..., Any]) -> None:
    numbers = [update(small(equations=equations)).updates[0].numbers]
    numbers += [update(small(equations=equations, **variant)).updates[0].numbers for variant in VARIANTS]
    assert all(found.equal_to_reference for found in numbers)
    assert len({found.crc32 for found in numbers}) == 1


@pytest.mark.parametrize("memory", ["map", "pool"])
def test_seeds_strategies_and_gears_compute_the_same_bits(memory: str, update: Callable[..., Any]) -> None:
    setup = small(memory=memory, threads=4, batch=2)
    runs = [
        update(setup),
        update(setup, gear="native"),
        update(setup, seed=1, strategy="random"),
        update(setup, seed=2, strategy="random", gear="native"),
        update(setup, allocator="direct"),
    ]
    numbers = [ran.updates[0].numbers for ran in runs]
    assert all(found.equal_to_reference for found in numbers)
    assert len({found.crc32 for found in numbers}) == 1
    assert runs[0].run.trace.hash() == runs[1].run.trace.hash(), "both gears, one trace"


@pytest.mark.parametrize("memory", ["map", "pool"])
@pytest.mark.parametrize("equations", ["euler2d", "euler3d"])
def test_mass_is_conserved_over_steps(equations: str, memory: str, update: Callable[..., Any]) -> None:
    ran = update(small(equations=equations, memory=memory), steps=3)
    masses = [updated.numbers.mass for updated in ran.updates]
    assert all(updated.numbers.equal_to_reference for updated in ran.updates)
    assert len({updated.numbers.crc32 for updated in ran.updates}) == 3, "the state changes with every step"
    assert masses[-1] == pytest.approx(masses[0], rel=1e-13)


@pytest.mark.parametrize("memory", ["map", "pool"])
def test_phantom_data_take_the_time_of_real_data(memory: str, update: Callable[..., Any]) -> None:
    real, phantom = update(small(memory=memory)), update(small(memory=memory, phantom=True))
    assert phantom.updates[0].numbers is None
    assert real.run.elapsed == phantom.run.elapsed
    assert real.run.trace.hash() == phantom.run.trace.hash()


def test_a_warm_up_leaves_the_numbers_as_they_are(update: Callable[..., Any]) -> None:
    setup = small(memory="pool")
    assert update(setup).updates[0].numbers == update(setup, warm_up=True).updates[0].numbers
