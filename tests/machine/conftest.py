"""A machine in virtual time, for the tests of this folder."""

from collections.abc import Callable
from typing import Any

import pytest
from hardware_rig import HardwareRig, hardware


@pytest.fixture
def rig() -> Callable[..., HardwareRig]:
    def make(
        overrides: dict[str, object] | None = None, gear: Any = "turbo", devices: int = 1, profile: str = "alex-a100"
    ) -> HardwareRig:
        return HardwareRig(*hardware(profile, overrides, gear, devices))

    return make
