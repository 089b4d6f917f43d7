"""The Rusanov update itself, without any device: bits, conservation, physics."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from offloadrt.papers.exahype.program import kernels
from offloadrt.papers.exahype.program.experiment import rusanov_reference
from offloadrt.papers.exahype.program.kernels import PatchDomain, PatchGeometry, grid_of

SMALL = [PatchGeometry(2, 4, 4, 2), PatchGeometry(3, 3, 5, 3)]


def updated(domain: PatchDomain, batch: int, dt_over_dx: float, in_place: bool) -> list[NDArray[np.float64]]:
    """All patches of the domain after one step of the kernel body, in batches."""
    geometry = domain.geometry
    results: list[NDArray[np.float64]] = []
    blocks = domain.with_halos()
    for start in range(0, len(blocks), batch):
        patches = blocks[start : start + batch]
        temporaries = np.full(len(patches) * geometry.temporary_values, np.nan)
        if in_place:
            out = [block[: geometry.output_values] for block in patches]
        else:
            out = [np.full(geometry.output_values, np.nan) for _ in patches]
        kernels.update_batch(geometry, patches, out, temporaries, dt_over_dx)
        results += out
    return results


@pytest.mark.parametrize("geometry", SMALL, ids=["2d", "3d"])
@pytest.mark.parametrize("batch", [1, 3, 6])
@pytest.mark.parametrize("in_place", [True, False])
def test_kernel_equals_the_reference_bit_by_bit(geometry: PatchGeometry, batch: int, in_place: bool) -> None:
    domain = PatchDomain.with_patches(geometry, 6)
    dt_over_dx = domain.dt_over_dx(0.5)
    expected = [rusanov_reference(block.reshape(geometry.input_shape), dt_over_dx) for block in domain.with_halos()]
    results = updated(domain, batch, dt_over_dx, in_place)
    assert [r.tobytes() for r in results] == [e.tobytes() for e in expected]


@pytest.mark.parametrize("geometry", SMALL, ids=["2d", "3d"])
def test_mass_is_conserved_on_a_periodic_box(geometry: PatchGeometry) -> None:
    domain = PatchDomain.with_patches(geometry, 6)
    before, start = domain.mass, domain.state.copy()
    for _ in range(10):
        domain.take(updated(domain, 4, domain.dt_over_dx(0.5), in_place=True))
    assert np.abs(domain.state - start).max() > 1e-2, "ten steps move the bump"
    assert domain.mass == pytest.approx(before, rel=1e-14 * 10)
    assert domain.state[..., 0].min() > 0.0


def test_a_uniform_flow_stays_as_it_is() -> None:
    geometry = SMALL[0]
    domain = PatchDomain.with_patches(geometry, 4)
    domain.state[...] = [1.0, 0.25, -0.5, 3.0]
    before = domain.state.tobytes()
    domain.take(updated(domain, 4, domain.dt_over_dx(0.5), in_place=False))
    assert domain.state.tobytes() == before


def test_patches_join_without_a_seam() -> None:
    """One box cut into four patches or kept as one gives the same numbers: halos carry what neighbours hold."""
    cut, whole = PatchGeometry(2, 4, 4, 2), PatchGeometry(2, 8, 4, 2)
    four, one = PatchDomain.with_patches(cut, 4), PatchDomain.with_patches(whole, 1)
    assert four.grid == (2, 2) and four.state.tobytes() == one.state.tobytes()
    for _ in range(3):
        dt_over_dx = one.dt_over_dx(0.4)
        four.take(updated(four, 4, dt_over_dx, in_place=True))
        one.take(updated(one, 1, dt_over_dx, in_place=True))
    assert four.state.tobytes() == one.state.tobytes()


def test_fluxes_and_speed_of_a_state_worked_out_by_hand() -> None:
    """density 2, velocity (3, -1), pressure 4: energy density 4 / 0.4 + (9 + 1) = 20."""
    flux, speed = kernels.flux_and_speed([2.0, 6.0, -2.0, 20.0], 0)
    assert flux == pytest.approx([6.0, 18.0 + 4.0, -6.0, (20.0 + 4.0) * 3.0])
    assert speed == pytest.approx(3.0 + math.sqrt(1.4 * 4.0 / 2.0))
    flux, speed = kernels.flux_and_speed([2.0, 6.0, -2.0, 20.0], 1)
    assert flux == pytest.approx([-2.0, -6.0, 2.0 + 4.0, -24.0])
    assert speed == pytest.approx(1.0 + math.sqrt(1.4 * 4.0 / 2.0))


@pytest.mark.parametrize(
    ("patches", "dimensions", "grid"),
    [(16, 2, (4, 4)), (12, 2, (4, 3)), (7, 2, (7, 1)), (8, 3, (2, 2, 2)), (1, 3, (1, 1, 1)), (24, 3, (4, 3, 2))],
)
def test_grid(patches: int, dimensions: int, grid: tuple[int, ...]) -> None:
    assert grid_of(patches, dimensions) == grid


@pytest.mark.parametrize("cfl", [0.0, 1.0, -1.0])
def test_cfl_number_out_of_range(cfl: float) -> None:
    with pytest.raises(ValueError, match="the CFL number lies between 0 and 1"):
        PatchDomain.with_patches(SMALL[0], 4).dt_over_dx(cfl)
