"""A scenario for tests of ranges: it takes an input that is known as a range only."""

from __future__ import annotations

from offloadrt import Run, scenario
from offloadrt.study.errors import ParameterError
from offloadrt.study.inputs import InputRange

UNKNOWN = InputRange(1.0, 16.0, "s", "invented", name="unknowns.unknown")


@scenario(machine="integrated-gpu")
async def fails_when_long(run: Run) -> None:
    """Takes as long as the input says, unless that is more than four seconds: then it fails."""
    if UNKNOWN.at() > 4.0:
        raise ParameterError("unknown", "more than four seconds")
    await run.sim.sleep(UNKNOWN.at())


@scenario(machine="integrated-gpu")
async def with_unknown(run: Run, takes_it: bool = True) -> None:
    """Takes as long as an input says that is known as a range only, or one second."""
    await run.sim.sleep(UNKNOWN.at() if takes_it else 1.0)
