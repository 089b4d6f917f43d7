from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from openacc_rig import MakeRig, Rig

from offloadrt import openacc as acc
from offloadrt.driver import open_driver
from offloadrt.machine import Machine, load
from offloadrt.sim import Simulation
from offloadrt.trace import Calls, Trace


@pytest.fixture
def acc_rig() -> MakeRig:
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
        return Rig(sim, machine, acc.OpenACC(machine, drivers, trace=trace, **options), trace, calls)

    return make
