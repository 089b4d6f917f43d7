"""Sizes of the paper's patches and the work of their kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from offloadrt.papers.exahype.program import kernels
from offloadrt.papers.exahype.program.kernels import EQUATIONS


@pytest.mark.parametrize(
    ("equations", "patch", "unknowns", "input_bytes", "output_bytes", "volumes", "temporary_bytes"),
    [
        ("euler2d", 17, 4, 11_552, 9_248, 289, 2 * 11_552),
        ("euler3d", 5, 5, 13_720, 5_000, 125, 3 * 13_720),
        ("euler3d", 9, 5, 53_240, 29_160, 729, 3 * 53_240),
        ("ccz4", 5, 59, 161_896, 59_000, 125, 647_584),
        ("ccz4", 9, 59, 628_232, 344_088, 729, 2_512_928),
    ],
)
def test_sizes(
    equations: str, patch: int, unknowns: int, input_bytes: int, output_bytes: int, volumes: int, temporary_bytes: int
) -> None:
    geometry = EQUATIONS[equations].geometry(patch)
    assert geometry.unknowns == unknowns
    assert geometry.input_bytes == input_bytes
    assert geometry.output_bytes == output_bytes
    assert geometry.volumes == volumes
    assert geometry.temporary_bytes == temporary_bytes


def test_default_patch_and_its_errors() -> None:
    assert [equations.geometry().patch for equations in EQUATIONS.values()] == [17, 5, 5]
    with pytest.raises(ValueError, match="8: euler3d runs with patches of 5 or 9 volumes per dimension"):
        EQUATIONS["euler3d"].geometry(8)


class Tally:
    """A number that counts the operations done on it and its likes."""

    operations = 0

    def _count(self, *_: Any) -> Tally:
        Tally.operations += 1
        return Tally()

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __abs__ = _count
    sqrt = _count  # np.sqrt of an object calls its method

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any) -> Tally:
        return self._count()


@pytest.mark.parametrize("dimensions", [2, 3])
def test_operations_are_those_of_the_arithmetic(dimensions: int) -> None:
    unknowns = dimensions + 2
    Tally.operations = 0
    kernels.face_flux([Tally() for _ in range(unknowns)], [Tally() for _ in range(unknowns)], 0)
    assert Tally.operations == kernels.euler_flops_per_face(dimensions)
    Tally.operations = 0
    for _ in range(unknowns):
        faces = [Tally() for _ in range(dimensions)]
        kernels.advance(Tally(), faces, faces, 0.1)
    assert Tally.operations == kernels.euler_flops_per_update(dimensions)


def test_work_of_euler_is_that_of_its_faces_and_volumes() -> None:
    geometry = EQUATIONS["euler2d"].geometry(17)
    work = kernels.kernel_work(EQUATIONS["euler2d"], geometry)
    assert geometry.faces == 2 * 18 * 17
    assert work.flops_per_volume == pytest.approx((612 * 58 + 289 * 20) / 289)
    assert work.bytes_per_volume == pytest.approx((11_552 + 2 * 23_104 + 9_248) / 289)
    assert work.efficiency == 1.0


def test_work_of_ccz4_is_a_stated_range() -> None:
    ccz4 = EQUATIONS["ccz4"]
    low, mean, high = (kernels.kernel_work(ccz4, ccz4.geometry(5), where) for where in ("low", "mean", "high"))
    assert mean.flops_per_volume == pytest.approx(np.sqrt(10) * 1e4)
    assert low.flops_per_volume < mean.flops_per_volume < high.flops_per_volume
    assert mean.efficiency == pytest.approx(np.sqrt(10) / 100)
    assert low.efficiency < mean.efficiency < high.efficiency
    with pytest.raises(ValueError, match="low, mean or high"):
        kernels.kernel_work(ccz4, ccz4.geometry(5), "middle")
