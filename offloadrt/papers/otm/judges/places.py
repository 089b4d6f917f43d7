"""Where the judges of the OTM claims look: the Rodinia programs and a synthetic one, below and above 16 GB.

Sizes are bytes of all arrays, in 1e9, on the machine as it is. The smaller grids divide the device's memory and all
sizes by the same number: what matters is how one stands to the other. `fitting` sizes are below the memory that is
free, `over` above its 16 GB.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from offloadrt.study.points import Point
from offloadrt.study.reporting.results import Result
from offloadrt.study.running import profiles
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.spec import RunSpec
from offloadrt.study.validation.judging import Asking, Bench, Extent, JudgingGrid
from offloadrt.study.validation.measured import number

SCENARIO = "rodinia"
SYNTHETIC = "unified_memory"
MACHINE = "summitdev-p100"
BENCHMARKS = ("bfs", "cfd", "srad")
EXPLICIT, UM, OTM = "explicit", "um", "otm"
CANDIDATES: dict[str, dict[str, str]] = {
    "otm.reserve": {"otm.reserve": "512 MiB"},
    "otm.strict": {"otm.strict": "true"},
    "otm.evicts": {"otm.evicts": "true"},
}
"""Where the authors' public runtime differs from the paper's text.

It has less memory to place objects in, leaves a byte free, and lets better-ranked objects take the place of others.
"""
SENSITIVITY: tuple[dict[str, Value], ...] = (
    {"benchmark": "bfs", "placement": EXPLICIT, "size_gb": 0.25},
    {"benchmark": "bfs", "placement": UM, "size_gb": 0.625},
    {"benchmark": "srad", "placement": UM, "size_gb": 0.25},
    {"benchmark": "cfd", "placement": OTM, "size_gb": 0.625},
)
"""Runs that show whether an entry of the machine matters at all, in the smallest grid's part of the memory."""
_MEMORY = ("mem.size", "mem.reserved", "otm.reserve")

bench = Bench.of("offloadrt.papers.otm")

Place = tuple[str, float, str]
"""Benchmark, size in GB, and placement."""


@attrs.frozen
class RodiniaGrid(JudgingGrid):
    """Sizes of Rodinia and of the synthetic program, in GB."""

    fitting: tuple[float, ...]
    """Sizes of Rodinia that fit into the device's memory."""
    over: tuple[float, ...]
    """Sizes of Rodinia above it."""
    small: float
    """A size of the synthetic program that fits."""
    large: float
    """A size of the synthetic program that does not."""
    part: float
    """The part of the device's memory, and of all sizes, that is used."""

    @property
    def described(self) -> str:
        """Say in words how much is measured."""
        sizes = ", ".join(f"{size:g}" for size in (*self.fitting, *self.over))
        emulated = f"Rodinia at {sizes} GB, the synthetic program at {self.small:g} and {self.large:g} GB"
        return emulated if self.part == 1.0 else f"{emulated}, all sizes and the device's memory times {self.part:g}"

    def point(self, parameters: Mapping[str, Value], *, scenario: str | None = None, record: bool = False) -> Point:
        """Describe one run on the machine with so much memory."""
        return self.at(scenario or self.scenario, parameters, {}, record=record)

    def at(
        self, scenario: str, parameters: Mapping[str, Value], overrides: Mapping[str, str], *, record: bool = False
    ) -> Point:
        """Describe a run with entries of the machine replaced."""
        point = JudgingGrid.point(self, parameters, scenario=scenario, record=record)
        changed = {**point.options.overrides, **overrides}
        if self.part != 1.0:
            spec = profiles.load(point.options.machine or MACHINE, changed, runtime=point.options.runtime)
            changed |= {key: f"{round(spec.value(key) * self.part)} B" for key in _MEMORY}
        return attrs.evolve(point, options=attrs.evolve(point.options, overrides=changed))

    def sized(self, size: float, parameters: Mapping[str, Value]) -> dict[str, Value]:
        """Add a size that goes with the memory to some parameters."""
        return {**parameters, "size_gb": size * self.part}


def grid(extent: Extent, options: RunSpec) -> RodiniaGrid:
    """Choose where the judges look: from `full` over `quick` to `ends`, fewer sizes and less of the memory."""
    places: dict[str, tuple[tuple[float, ...], tuple[float, ...], float, float, float]] = {
        "full": ((2.0, 4.0, 8.0, 12.0, 14.0), (18.0, 20.0, 24.0, 28.0, 32.0), 8.0, 24.0, 1.0),
        "quick": ((8.0, 14.0), (18.0, 24.0, 32.0), 8.0, 24.0, 0.125),
        "ends": ((8.0, 14.0), (18.0, 24.0), 8.0, 24.0, 0.03125),
    }
    return RodiniaGrid(SCENARIO, *places[extent], options=options)


def runs(grid: RodiniaGrid, places: Iterable[Place]) -> Asking[dict[Place, Result]]:
    """Run Rodinia at these places; a judge uses it with `yield from`."""
    wanted = list(dict.fromkeys(places))
    results = yield [
        grid.point(grid.sized(size, {"benchmark": benchmark, "placement": placement}))
        for benchmark, size, placement in wanted
    ]
    return dict(zip(wanted, results, strict=True))


def synthetic(grid: RodiniaGrid, many: Iterable[tuple[float, Mapping[str, Value]]]) -> Asking[list[Result]]:
    """Run the synthetic program at these sizes.

    The host reads what kernels have written; explicit copies bring it back anyway.
    """
    answers: list[Result] = yield [
        grid.point(grid.sized(size, {"read_result": True, **parameters}), scenario=SYNTHETIC)
        for size, parameters in many
    ]
    return answers


def seconds(result: Result) -> float:
    """Read the time of computation and data transfer, as the paper measures it."""
    return number(result.measured["time_s"])


def handler_share(result: Result) -> float:
    """Compute the part of the time in which the page-fault handler is busy."""
    return result.devices["device 0 page fault handler"].busy_s / result.elapsed_s


def sizes(values: Iterable[float]) -> str:
    """Write sizes: `18, 20 GB`."""
    return ", ".join(f"{size:g}" for size in values) + " GB"


def in_gb(values: Mapping[float, float]) -> dict[str, float]:
    """Name the sizes of a curve: `{"18": …}`."""
    return {f"{size:g}": value for size, value in values.items()}
