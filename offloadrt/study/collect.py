"""Takes the figures of a finished run from the floors that counted them."""

from __future__ import annotations

from collections.abc import Mapping

from offloadrt.study.definition import Scenario
from offloadrt.study.parameters import Value
from offloadrt.study.results import (
    Bytes,
    CallFigures,
    DeviceFigures,
    LockFigures,
    Result,
    TimeShare,
)
from offloadrt.study.run import Run


def result(run: Run, scenario: Scenario, parameters: Mapping[str, Value], measured: Mapping[str, Value]) -> Result:
    """The record of a run that has ended."""
    return Result(
        scenario=scenario.name,
        parameters=dict(parameters),
        machine=run.spec.name,
        seed=run.seed,
        elapsed_s=run.elapsed,
        measured=dict(measured),
        calls=calls(run),
        locks=locks(run),
        devices=devices(run),
        bytes=moved(run),
        faults={},
        events=run.sim.events,
        trace_hash=run.trace.hash() if run.trace is not None else None,
        where_time_went=where_time_went(run),
    )


def calls(run: Run) -> dict[str, CallFigures]:
    """API calls by name, the costliest first."""
    return {
        name: CallFigures(call.count, call.total_s, call.mean_s, call.min_s, call.max_s)
        for name, call in run.calls.table().items()
    }


def locks(run: Run) -> dict[str, LockFigures]:
    """Every lock, by name."""
    if not run.is_built:
        return {}
    return {
        name: LockFigures(lock.acquired, lock.contended, lock.wait_s, lock.hold_s) for name, lock in run.locks.items()
    }


def devices(run: Run) -> dict[str, DeviceFigures]:
    """Every engine of every device, by name."""
    if not run.is_built:
        return {}
    return {name: DeviceFigures(engine.busy_s, engine.idle_s) for name, engine in run.engines.items()}


def moved(run: Run) -> Bytes:
    """Bytes copied on all devices, by direction."""
    totals = {"h2d": 0, "d2h": 0, "d2d": 0, "p2p": 0}
    for device in run.devices if run.is_built else ():
        for direction, nbytes in device.bytes_moved().items():
            totals[direction] += nbytes
    return Bytes(**totals)


def where_time_went(run: Run) -> dict[str, TimeShare]:
    """Host-thread time by what it went into, the largest share first."""
    if not run.is_built:
        return {}
    shares = run.host_time.shares()
    lived = run.host_time.lived_s
    found = {name: TimeShare(share * lived, share) for name, share in shares.items() if share > 0.0}
    return dict(sorted(found.items(), key=lambda item: -item[1].share))
