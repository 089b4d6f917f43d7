"""The fixture of this folder."""

from __future__ import annotations

import pytest
from hardware_rig import rigs_of
from openacc_rig import MakeRig, Rig

from offloadrt import openacc as acc


@pytest.fixture
def acc_rig() -> MakeRig:
    return rigs_of(Rig, acc.OpenACC, acc.OpenACCOptions)
