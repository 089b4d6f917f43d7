"""What belongs to a paper whose reports can be checked; `validate` is given one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from offloadrt.registry import Registry
from offloadrt.study.errors import UserError, did_you_mean
from offloadrt.study.input_range import InputRange
from offloadrt.study.points import Point
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.spec import RunSpec
from offloadrt.study.validation.judging import Bench, Extent, JudgingGrid

SensitivityRun: TypeAlias = Mapping[str, Value] | tuple[str, Mapping[str, Value]]
"""Parameters of the paper's scenario, or another scenario and its parameters."""

RARELY_USED = (
    "acc.", "access_counter.", "ats.", "graph.", "hip.", "mempool.", "mig.", "mps.", "numa.", "process.", "runlist.",
    "stream.", "teams.",
)  # fmt: skip
"""Groups of entries whose mechanisms no program of a paper uses, but those that it names in `uses`.

They can neither turn a verdict nor age a report.
"""


def may_matter(entry: str, uses: Collection[str] = ()) -> bool:
    """Tell whether a program of a paper can meet the mechanism that this entry of a machine belongs to."""
    return entry in uses or not entry.startswith(RARELY_USED)


@attrs.frozen
class Paper:
    """A paper's claims, the judges that check them, and where the judges look."""

    name: str
    machine: str
    """The machine that its claims are about."""
    bench: Bench
    """The claims of the paper and their judges."""
    grid: Callable[[Extent, RunSpec], JudgingGrid]
    """Makes the grid on which its judges run, full or reduced."""
    sensitivity: Sequence[SensitivityRun]
    """Short runs that show whether an entry of the machine has any influence on times."""
    candidates: Mapping[str, Mapping[str, str]]
    """Mechanisms without a source that a machine may have, by entry: what to override to switch one on."""
    runtime: str | None = None
    """The runtime that its programs were built for; None is the machine's default."""
    inputs: Mapping[str, InputRange] = attrs.field(factory=dict)
    """Inputs of its programs that its authors leave open, by name."""
    other_machines: Sequence[str] = ()
    """Further machines that its judges look at."""
    uses: Collection[str] = ()
    """Entries of rarely used mechanisms (``RARELY_USED``) that its programs do use."""


def sensitivity_points(runs: Sequence[SensitivityRun], grid: JudgingGrid) -> list[Point]:
    """Describe a paper's sensitivity runs on the machine of a grid."""
    named = [run if isinstance(run, tuple) else (grid.scenario, run) for run in runs]
    return [grid.point(parameters, scenario=scenario) for scenario, parameters in named]


PAPERS: Final = Registry[Paper]("paper", "offloadrt.papers")


def paper_named(name: str) -> Paper:
    """Import the paper of that name. Raises UserError, with the names that exist, for any other name."""
    known = PAPERS.names()
    if name not in known:
        raise UserError(f"--paper {name}: no claims of it{did_you_mean(name, known)} (there are: {', '.join(known)})")
    return PAPERS.find(name)
