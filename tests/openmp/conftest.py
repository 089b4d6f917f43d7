"""The fixture of this folder."""

from __future__ import annotations

import pytest
from hardware_rig import rigs_of
from openmp_rig import MakeRig, Rig

from offloadrt import openmp as omp


@pytest.fixture
def rig() -> MakeRig:
    return rigs_of(Rig, omp.OpenMP, omp.OpenMPOptions)
