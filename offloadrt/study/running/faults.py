"""The faults of a run, as the user names them."""

from __future__ import annotations

from collections.abc import Sequence

from offloadrt.driver import CALLS
from offloadrt.machine.injection import EVERYWHERE, FORMS, BadFault, FaultPlan
from offloadrt.study.errors import UserError, did_you_mean


def plan_of(faults: Sequence[str]) -> FaultPlan:
    """Read the faults of a run. Raises UserError, also for a call that no driver library has."""
    if isinstance(faults, str) or not all(isinstance(text, str) for text in faults):
        raise UserError(f'--faults {faults!r}: a run takes a list of texts, as ["cuMemAlloc:3"]')
    if EVERYWHERE in faults:
        raise UserError(
            f"--faults {EVERYWHERE}: is an option of `offloadrt explore` only, which makes a run for each fault"
        )
    try:
        plan = FaultPlan.parse(faults)
    except BadFault as error:
        raise UserError(f"--faults {error}") from None
    for fault in plan.faults:
        if fault.kind == "call" and fault.name and fault.name not in CALLS:
            hint = did_you_mean(fault.name, CALLS) or f"; a fault is written {', '.join(FORMS)}"
            raise UserError(f"--faults {fault.text}: no driver library has a call {fault.name}{hint}")
    return plan
