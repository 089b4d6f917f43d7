"""Where the judges of the stdpar claims look: the applications on the paper's four systems.

The machine that `offloadrt validate` names, and that `--set` changes, is the one with an A100; the others are as they
come. Ends of ranges and other choices of `--ranges` are tried on every system that has such an entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from offloadrt.study.points import Point
from offloadrt.study.reporting.results import Result
from offloadrt.study.running import profiles
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.spec import RunSpec
from offloadrt.study.validation.judging import Asking, Bench, Extent, JudgingGrid
from offloadrt.study.validation.measured import number

SCENARIO: Final = "stdpar"
MACHINE: Final = "isambard-a100"
MI100, MAX1550, MILAN = "isambard-mi100", "idc-max1550", "isambard-milan"
VENDORS: Final = {MACHINE: "nvcpp", MI100: "rocstdpar", MAX1550: "icpx"}
"""The vendor's implementation of each GPU."""
TITLES: Final = {MACHINE: "A100", MI100: "MI100", MAX1550: "Max 1550"}
APPLICATIONS: Final = ("minibude", "cloverleaf", "tealeaf")
"""The applications in the figure of mini-apps."""
HANDLER: Final = "device 0 page fault handler"
CANDIDATES: dict[str, dict[str, str]] = {}
SENSITIVITY: tuple[dict[str, Value], ...] = (
    {"application": "babelstream", "size": 1 << 22, "steps": 2},
    {"application": "cloverleaf", "size": 960, "steps": 1},
    {"application": "lulesh", "size": 30, "steps": 1},
)
"""Short runs that show whether an entry of the machine has any influence on times."""

bench = Bench.of("offloadrt.papers.stdpar")


@attrs.frozen
class ApplicationGrid(JudgingGrid):
    """Sizes and steps of the applications."""

    work: Mapping[str, Mapping[str, Value]]
    """Parameters of each application but LULESH."""
    lulesh: tuple[int, ...]
    """Problem sizes of LULESH: elements along an edge."""
    lulesh_steps: int

    @property
    def described(self) -> str:
        """Say in words how much is looked at."""
        emulated = [
            f"{name} {', '.join(f'{key} {value}' for key, value in parameters.items())}"
            for name, parameters in self.work.items()
        ]
        return f"{'; '.join(emulated)}; lulesh size {', '.join(map(str, self.lulesh))} steps {self.lulesh_steps}"

    def at(
        self, machine: str, parameters: Mapping[str, Value], *, scenario: str | None = None, record: bool = False
    ) -> Point:
        """Describe a run on one of the systems."""
        point = self.point(parameters, scenario=scenario, record=record)
        return point if machine == MACHINE else attrs.evolve(point, options=point.options.elsewhere(machine))

    def entry(self, machine: str, key: str) -> float:
        """Read an entry of a system, as runs on it have it."""
        options = self.at(machine, {}).options
        return profiles.load(machine, options.overrides, options.range_end or "mean", options.runtime).value(key)

    def of(self, application: str, implementation: str, **more: Value) -> dict[str, Value]:
        """Choose parameters of an application at its size here."""
        return {"application": application, "implementation": implementation, **self.work[application], **more}

    def of_lulesh(self, size: int, implementation: str, **more: Value) -> dict[str, Value]:
        """Choose parameters of LULESH."""
        given: dict[str, Value] = {"application": "lulesh", "implementation": implementation, "size": size}
        return {**given, "steps": self.lulesh_steps, **more}


def grid(extent: Extent, options: RunSpec) -> ApplicationGrid:
    """Choose where the judges look: from `full` over `quick` to `ends`, smaller problems and fewer steps."""
    full: dict[str, dict[str, Value]] = {
        "babelstream": {"size": 0, "steps": 10},
        "minibude": {"size": 0, "steps": 0},
        "cloverleaf": {"size": 3840, "steps": 5},
        "tealeaf": {"size": 4000, "steps": 20},
    }
    less: dict[str, dict[str, Value]] = {
        "babelstream": {"size": 0, "steps": 3},
        "minibude": {"size": 0, "steps": 2},
        "cloverleaf": {"size": 3840, "steps": 2},
        "tealeaf": {"size": 4000, "steps": 5},
    }
    if extent == "full":
        return ApplicationGrid(SCENARIO, full, (15, 30, 45, 60, 90), 10, options=options)
    if extent == "quick":
        return ApplicationGrid(SCENARIO, less, (30, 60), 3, options=options)
    least = less | {"cloverleaf": {"size": 3840, "steps": 1}, "tealeaf": {"size": 4000, "steps": 3}}
    return ApplicationGrid(SCENARIO, least, (30,), 2, options=options)


def runs(grid: ApplicationGrid, places: Iterable[tuple[str, Mapping[str, Value]]]) -> Asking[list[Result]]:
    """Make runs on systems; `yield from` it."""
    answers: list[Result] = yield [grid.at(machine, parameters) for machine, parameters in places]
    return answers


def facts(
    grid: ApplicationGrid, scenario: str, many: Iterable[Mapping[str, Value]] = ({},), machine: str = MACHINE
) -> Asking[list[dict[str, Value]]]:
    """Make recorded runs of a probe on a system, and return what they measured; `yield from` it."""
    answers: list[Result] = yield [grid.at(machine, parameters, scenario=scenario, record=True) for parameters in many]
    return [answer.measured for answer in answers]


def seconds(result: Result) -> float:
    """Read the time that the application's authors measure."""
    return number(result.measured["time_s"])


def handler_share(result: Result) -> float:
    """Compute the part of the time in which the page-fault handler is busy."""
    return result.devices[HANDLER].busy_s / result.elapsed_s
