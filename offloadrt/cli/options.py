"""Options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import attrs
from cyclopts import Parameter

if TYPE_CHECKING:
    from offloadrt.study.points import Options

ScenarioName = Annotated[str, Parameter(help="A scenario's name, a script, SCRIPT.py:NAME, or a recording.")]
ParameterValues = Annotated[
    str, Parameter(help="The scenario's parameters, as name=value (see `offloadrt show SCENARIO`).")
]
ExecutorKind = Annotated[
    Literal["process", "dask", "mpi"],
    Parameter(help="A pool of processes here, a dask cluster, or the ranks of an MPI job."),
]
Machine = Annotated[
    str | None,
    Parameter(
        help="A machine's name (see `offloadrt machines`) or a TOML file of your own. Commands that take several "
        "values of a parameter take several machines, runtimes and configurations as well: `--machine h100,mi300a`."
    ),
]
Runtime = Annotated[
    str | None,
    Parameter(
        help="An offloading runtime's name (see `offloadrt machines`) or a TOML file of your own; by default the "
        "scenario's, or else the machine's."
    ),
]
Seed = Annotated[int, Parameter(help="Seed of the run's only random generator.")]
Gear = Annotated[Literal["native", "turbo"], Parameter(help="How Trio tasks are stepped; both give the same events.")]
Strategy = Annotated[str, Parameter(help="Order of what happens at one instant: fifo, random or random(N).")]
Overrides = Annotated[
    list[str] | None,
    Parameter(
        name="--set",
        help="Override an entry of the machine, as in `--set alloc.cudaFree=20us`; may be repeated.",
        negative=(),
    ),
]
Environment = Annotated[
    list[str] | None,
    Parameter(
        name="--env",
        help="Set an environment variable of the program, as in `--env HSA_XNACK=0`; may be repeated. With "
        "`configuration=environment` it also chooses the memory configuration, where a scenario takes that.",
        negative=(),
    ),
]
Faults = Annotated[
    list[str] | None,
    Parameter(
        help="Inject a fault; may be repeated: `--faults cuMemAlloc:3` lets the third call of cuMemAlloc fail, "
        "`slow:h2d:10x@2ms` makes a copy engine slow; docs/how-to/faults.md has all of them.",
        negative=(),
    ),
]
Repeat = Annotated[int, Parameter(help="Runs with seeds counting up; the median run is reported.")]
Configuration = Annotated[
    str | None,
    Parameter(
        help="The memory configuration, whatever the program asks for: copy, usm, implicit_zero_copy, eager_maps, "
        "managed, managed+prefetch, otm, one of a package of yours, or FILE.py:CLASS."
    ),
]
Allocator = Annotated[
    str | None,
    Parameter(
        help="How device memory is allocated, whatever the program asks for: llvm, direct, malloc, one of a package of "
        "yours, or FILE.py:CLASS (see docs/how-to/policies.md)."
    ),
]
TablePolicy = Annotated[
    str | None,
    Parameter(
        help="Who enters the device table next: fifo, barging, one of a package of yours, or FILE.py:CLASS; by default "
        "what the runtime's table.handoff says."
    ),
]
Hash = Annotated[
    bool, Parameter(help="Compute the trace hash: equal hashes mean equal runs, event by event.", negative=())
]
Json = Annotated[
    bool,
    Parameter(name="--json", help="Print one JSON object instead of tables (see `offloadrt schema`).", negative=()),
]
SamplePhases = Annotated[
    bool,
    Parameter(
        help="Run a few instances of each repeated phase of a long program or recording, for all of them; the result "
        "says with which error.",
        negative=(),
    ),
]
Whole = Annotated[
    bool,
    Parameter(
        help="Run all of a long program, instead of a few instances of each of its repeated phases (see `run "
        "--sample-phases`).",
        negative=(),
    ),
]
Jobs = Annotated[int | None, Parameter(help="How many runs at a time; by default one a processor.")]


@Parameter(name="*")
@attrs.frozen(kw_only=True)
class RunOptions:
    """How runs are made: the options that all commands share which run scenarios."""

    machine: Machine = None
    runtime: Runtime = None
    configuration: Configuration = None
    allocator: Allocator = None
    table_policy: TablePolicy = None
    set_: Overrides = None
    env: Environment = None
    seed: Seed = 0
    gear: Gear = "turbo"
    strategy: Strategy = "fifo"
    repeat: Repeat = 1
    hash: Hash = False
    sample_phases: SamplePhases = False
    faults: Faults = None

    def several(self) -> tuple[RunOptions, dict[str, tuple[str, ...]]]:
        """Return these options without those that have several values, and the values of those, by name."""
        from offloadrt.study.points import PLACES

        axes = {name: texts for name in PLACES if len(texts := _values(getattr(self, name))) > 1}
        single: dict[str, Any] = dict.fromkeys(axes)
        return attrs.evolve(self, **single), axes

    def given(self, *, hash: bool = False) -> Options:
        """Return them as `study` takes them, with the trace hash when `hash` asks for it. Raises UserError."""
        from offloadrt.study.errors import UserError
        from offloadrt.study.points import Options

        for name in self.several()[1]:
            option = f"--{name.replace('_', '-')} {getattr(self, name)}"
            raise UserError(f"{option}: one run takes one; compare, sweep and report take several")
        return Options(
            machine=self.machine,
            runtime=self.runtime,
            configuration=self.configuration,
            allocator=self.allocator,
            table_policy=self.table_policy,
            overrides=overrides_of(self.set_),
            environment=_assignments(self.env, "a variable is written --env NAME=VALUE", "--env"),
            seed=self.seed,
            gear=self.gear,
            strategy=self.strategy,
            repeat=self.repeat,
            hash=self.hash or hash,
            sample_phases=self.sample_phases,
            faults=tuple(self.faults or ()),
        )


def _values(text: str | None) -> tuple[str, ...]:
    """Return the values that commas divide; the name of a file may have commas in it."""
    if text is None or "," not in text or Path(text).exists():
        return () if text is None else (text,)
    return tuple(value.strip() for value in text.split(","))


DEFAULTS = RunOptions()


def overrides_of(texts: list[str] | None) -> dict[str, str]:
    """Return the entries that `--set` names, by key. Raises UserError for one written wrongly."""
    return _assignments(texts, "an override is written --set key=value", "--set")


def _assignments(texts: list[str] | None, what: str, option: str) -> dict[str, str]:
    from offloadrt.study.scripts.parameters import split_assignments

    return split_assignments(texts or (), what=what, option=option)
