"""The fixture of this folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from openmp_rig import MakeRig, Rig

from offloadrt import openmp as omp
from offloadrt.driver import open_driver
from offloadrt.machine import Machine, load
from offloadrt.sim import Simulation
from offloadrt.trace import Calls, Trace


@pytest.fixture
def rig() -> MakeRig:
    def make(
        overrides: Mapping[str, object] | None = None,
        gear: Any = "turbo",
        devices: int = 1,
        strategy: Any = None,
        machine_name: str = "alex-a100",
        **options: Any,
    ) -> Rig:
        sim = Simulation(gear=gear) if strategy is None else Simulation(gear=gear, strategy=strategy)
        trace = Trace(sim)
        sim.observer = trace
        calls = Calls()
        machine = Machine(sim, load(machine_name, dict(overrides or {})), trace, calls, devices)
        drivers = [open_driver(machine, number) for number in range(devices)]
        return Rig(sim, machine, omp.OpenMP(machine, drivers, trace=trace, **options), trace, calls)

    return make
