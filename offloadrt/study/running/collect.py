"""Takes the figures of a finished run from the floors that counted them."""

from __future__ import annotations

import math
from collections.abc import Mapping

import attrs

from offloadrt.study.reporting.results import (
    Bytes,
    ManagedFigures,
    Result,
    SampledPhase,
    TimeShare,
)
from offloadrt.study.running.ledger import Ledger
from offloadrt.study.running.run import Run
from offloadrt.study.scripts.definition import Scenario
from offloadrt.study.scripts.parameters import Value
from offloadrt.trace.statistics import OTHER


def result(run: Run, scenario: Scenario, parameters: Mapping[str, Value], measured: Mapping[str, Value]) -> Result:
    """Make the record of a run that has ended, of what it counted in its measured windows."""
    ledger = run.measured
    return Result(
        scenario=scenario.name,
        parameters=dict(parameters),
        machine=run.spec.name,
        runtime=run.runtime,
        seed=run.seed,
        elapsed_s=run.elapsed,
        measured=dict(measured),
        calls=ledger.calls.statistics(),
        locks={
            name: attrs.evolve(lock, acquired=int(lock.acquired), contended=int(lock.contended))
            for name, lock in ledger.locks.items()
            if lock.acquired
        },
        devices=dict(ledger.engines),
        bytes=Bytes(**{direction: int(nbytes) for direction, nbytes in ledger.bytes.items()}),
        faults={name: int(count) for name, count in ledger.faults.items()},
        managed={name: ManagedFigures(*map(round, attrs.astuple(usage))) for name, usage in ledger.managed.items()},
        events=run.sim.timers_set,
        trace_hash=run.trace.hash() if run.trace is not None and run.trace.hashes else None,
        where_time_went=where_time_went(ledger),
        calls_outside=run.windows.calls_outside.statistics(),
        sections=dict(run.statistics.sections),
        algorithms={name: int(count) for name, count in ledger.algorithms.items()},
        phases=[
            SampledPhase(phase.threads, phase.instances, phase.skipped, phase.seconds, phase.error_s, phase.settled)
            for phase in run.windows.skipped
        ],
    )


def where_time_went(ledger: Ledger) -> dict[str, TimeShare]:
    """Divide host-thread time by what it went into, the largest first.

    Shares are of the lives of the host threads that ended in the measured windows. Where threads live on, they are of
    the time that is accounted for.
    """
    claimed = math.fsum(ledger.host_time.values())
    lives = max(ledger.lived_s, claimed)
    spent = {**ledger.host_time, OTHER: lives - claimed}
    shares = {name: TimeShare(dt, dt / lives) for name, dt in spent.items() if lives and dt > 0.0}
    return dict(sorted(shares.items(), key=lambda item: -item[1].total_s))
