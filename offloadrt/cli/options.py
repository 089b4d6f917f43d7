"""Options that several commands take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

if TYPE_CHECKING:
    from offloadrt.study.points import Options

Machine = Annotated[
    str | None, Parameter(help="A machine's name (see `offloadrt machines`) or a TOML file of your own.")
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
Repeat = Annotated[int, Parameter(help="Runs with seeds counting up; the median run is reported.")]
Json = Annotated[bool, Parameter(name="--json", help="Print one JSON object instead of tables.", negative=())]
Predicated = Annotated[
    bool,
    Parameter(
        help="Show the source of each kernel for several devices instead (JACC's predicate-based filtering).",
        negative=(),
    ),
]
Jobs = Annotated[int | None, Parameter(help="How many runs at a time; by default one a processor.")]


def options_of(
    machine: str | None,
    runtime: str | None,
    seed: int,
    gear: str,
    strategy: str,
    overrides: list[str] | None,
    repeat: int,
    hash: bool,
    environment: list[str] | None = None,
) -> Options:
    """Turn the options of the command line into those that `study` takes. Raises UserError for one written wrongly."""
    from offloadrt.study.points import Options
    from offloadrt.study.scripts.parameters import split_assignments

    pairs = split_assignments(overrides or (), what="an override is written --set key=value", option="--set")
    variables = split_assignments(environment or (), what="a variable is written --env NAME=VALUE", option="--env")
    return Options(machine, runtime, pairs, variables, seed, gear, strategy, repeat, hash)
