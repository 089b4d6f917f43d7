"""`RunSpec`: everything that decides a run's result besides its program, from the command line to the machine.

A new option needs two edits: its field here, and the code where it acts. The fields determine the command line with its
help, the key of a run in a sweep's `points.jsonl`, the JSON, what `compare` and `sweep` may vary, the command that
`why` prints, and the content of `explore`'s tokens. What does not change the result (sinks, progress, observers) is a
parameter of the call that makes the run.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, TypeGuard, get_args, get_type_hints

import attrs
import msgspec
from cyclopts import Parameter, Token

from offloadrt.study.errors import UserError

if TYPE_CHECKING:
    from offloadrt.sim.strategies import Strategy

    StrategyChoice: TypeAlias = str | Strategy
else:
    StrategyChoice = str  # what can be typed; an object of one's own comes from Python

GearName = Literal["native", "turbo"]


def _repeated(name: str, what: str, help: str) -> Parameter:
    """Make a command-line option that takes `key=value` and may be repeated; `what` shows the form of a value."""

    def read(kind: object, tokens: Sequence[Token]) -> dict[str, str]:
        from offloadrt.study.scripts.parameters import split_assignments

        return split_assignments([token.value for token in tokens], what=what, option=name)

    return Parameter(
        name=name, help=help, converter=read, n_tokens=-1, accepts_keys=False, negative=(), show_default=False
    )


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
Configuration = Annotated[
    str | None,
    Parameter(
        help="The memory configuration, whatever the program asks for: copy, usm, implicit_zero_copy, eager_maps, "
        "managed, managed+prefetch, otm, one of a package of yours, or FILE.py:CLASS."
    ),
]
Overrides = Annotated[
    Mapping[str, str],
    _repeated(
        "--set",
        "an override is written --set key=value",
        "Override an entry of the machine, as in `--set alloc.cudaFree=20us`; may be repeated.",
    ),
]
Environment = Annotated[
    Mapping[str, str],
    _repeated(
        "--env",
        "a variable is written --env NAME=VALUE",
        "Set an environment variable of the program, as in `--env HSA_XNACK=0`; may be repeated. With "
        "`configuration=environment` it also chooses the memory configuration, where a scenario takes that.",
    ),
]
Seed = Annotated[int, Parameter(help="Seed of the run's only random generator.")]
Gear = Annotated[GearName, Parameter(help="How Trio tasks are stepped; both give the same events.")]
Faults = Annotated[
    tuple[str, ...],
    Parameter(
        help="Inject a fault; may be repeated: `--faults cuMemAlloc:3` lets the third call of cuMemAlloc fail, "
        "`slow:h2d:10x@2ms` makes a copy engine slow; docs/how-to/faults.md has all of them.",
        negative=(),
        show_default=False,
    ),
]
MOST_RUNS: Final = 1_000_000
"""The most draws and repetitions; more would never end."""
_FROM_PYTHON = Parameter(parse=False)
"""Marks a field that is no option of the command line."""

_AXIS: Final = {"axis": True}
"""Marks a field that a sweep or a comparison may vary as it varies a parameter."""
_POLICY: Final = {"policy": True}
"""Marks a field whose policy replaces the program's own choice; it is a name or `FILE.py:CLASS`."""
_APART: Final = {"apart": True}
"""Marks a field that is not in a result's `options`, because the result has a field for it or needs none."""


def _is_whole(value: object) -> TypeGuard[int]:
    if type(value) is int:  # without importing NumPy, whose whole numbers are numbers too
        return True
    from offloadrt.kernels.integers import is_integer

    return is_integer(value)


def _seed(spec: RunSpec, attribute: attrs.Attribute[int], value: object) -> None:
    if not _is_whole(value):
        raise UserError(f"--seed {value!r}: it is no whole number")
    if value < 0:
        raise UserError(f"--seed {value}: it cannot be negative")


def _gear(spec: RunSpec, attribute: attrs.Attribute[str], value: object) -> None:
    if value not in (names := get_args(GearName)):
        raise UserError(f"--gear {value}: it can be {' or '.join(names)}")


def _repeat(spec: RunSpec, attribute: attrs.Attribute[int], value: object) -> None:
    if not (_is_whole(value) and 1 <= value <= MOST_RUNS):
        raise UserError(f"--repeat {value!r}: it can be 1 to {MOST_RUNS:,}")


def _flag(spec: RunSpec, attribute: attrs.Attribute[Any], value: object) -> None:
    if not isinstance(value, bool | None):
        raise UserError(f"--{attribute.name.replace('_', '-')} {value!r:.80}: it can be True or False")


def _texts(given: Sequence[str]) -> tuple[str, ...]:
    if isinstance(given, str) or not all(isinstance(text, str) for text in given):
        raise UserError(f'--faults {given!r}: a run takes a list of texts, as ["cuMemAlloc:3"]')
    return tuple(given)


def _by_name(given: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if not isinstance(given, Mapping | None):
        raise UserError(f"{given!r:.80}: overrides, environment, inputs and range_end are dicts by name")
    return dict(given or {})


def _ends(given: str | Mapping[str, str | float]) -> str | Mapping[str, str | float]:
    if isinstance(given, str):
        return {} if given == "mean" else given
    return _by_name(given)


def _told(value: object) -> str:
    return " ".join(value) if isinstance(value, tuple) else str(getattr(value, "name", value))


def _pairs(values: str | Mapping[str, Any]) -> object:
    """Return a hashable object by which attrs compares this field and hashes it: its items, or its text."""
    return values if isinstance(values, str) else frozenset(values.items())


@Parameter(name="*")
@attrs.frozen(kw_only=True)
class RunSpec:
    """Says how a run is made, apart from its program and its parameters. Equal specs give equal traces.

    Raises UserError for a seed, an engine (`gear`) or a number of repetitions that is not possible.
    """

    machine: Machine = attrs.field(default=None, metadata=_AXIS | _APART)
    """A profile's name or the path of a user's own file; None is the scenario's machine."""
    runtime: Runtime = attrs.field(default=None, metadata=_AXIS | _APART)
    """The offloading runtime, in the same way; None is the scenario's, or else the machine's default."""
    configuration: Configuration = attrs.field(default=None, metadata=_AXIS | _POLICY)
    """The memory configuration that the program gets whatever it asks for; None is the program's own choice."""
    allocator: Annotated[
        str | None,
        Parameter(
            help="How device memory (not managed or host memory) is allocated, whatever the program asks for: llvm, "
            "direct, malloc, one of a package of yours, or FILE.py:CLASS (see docs/how-to/policies.md)."
        ),
    ] = attrs.field(default=None, metadata=_AXIS | _POLICY)
    """The allocator (how device blocks are obtained) that the program gets; None is the program's own choice."""
    table_policy: Annotated[
        str | None,
        Parameter(
            help="Who enters the device table next: fifo, barging, one of a package of yours, or FILE.py:CLASS; by "
            "default what the runtime's table.handoff says."
        ),
    ] = attrs.field(default=None, metadata=_AXIS | _POLICY)
    """The lock policy (who enters the device table next) that the program gets; None is the program's own choice."""
    overrides: Overrides = attrs.field(factory=dict, converter=_by_name, eq=_pairs)
    """Entries of the machine's profile that are replaced, as in `{"alloc.cudaFree": "20 us"}`."""
    environment: Environment = attrs.field(factory=dict, converter=_by_name, eq=_pairs)
    """Environment variables of the program."""
    range_end: Annotated[str | Mapping[str, str | float], _FROM_PYTHON] = attrs.field(
        factory=dict, converter=_ends, eq=_pairs
    )
    """Where entries of the machine with a range are taken: the `low` or `high` end, or a fraction from 0 to 1; those
    that are not named are taken at the mean. A text is the end of all of them.
    """
    inputs: Annotated[Mapping[str, str | float], _FROM_PYTHON] = attrs.field(
        factory=dict, converter=_by_name, eq=_pairs
    )
    """Quantiles of the program's inputs with a range, by name; a name of no input of the program is ignored."""
    seed: Seed = attrs.field(default=0, validator=_seed, metadata=_APART)
    gear: Gear = attrs.field(default="turbo", validator=_gear)
    strategy: Annotated[
        StrategyChoice, Parameter(help="Order of what happens at one instant: fifo, random or random(N).")
    ] = "fifo"
    """A name, or an object of one's own (`sim/strategies`), which cannot be written to JSON or identify a result."""
    repeat: Annotated[int, Parameter(help="Runs with seeds counting up; the median run is reported.")] = attrs.field(
        default=1, validator=_repeat, metadata=_APART
    )
    hash: Annotated[
        bool | None,
        Parameter(
            help="Compute the trace hash: equal hashes mean equal runs, event by event.", negative=(), show_default=bool
        ),
    ] = attrs.field(default=None, validator=_flag, metadata=_APART)
    """Whether the trace is hashed; None: only if every event is recorded."""
    sample_phases: Annotated[
        bool,
        Parameter(
            help="Run a few instances of each repeated phase of a long program or recording, for all of them; the "
            "result says with which error.",
            negative=(),
        ),
    ] = attrs.field(default=False, validator=_flag, metadata=_APART)
    """Whether a few instances of the program's repeated phases stand for all (`Run.steps`)."""
    faults: Faults = attrs.field(default=(), converter=_texts)
    """Faults that are injected, each as `--faults` takes it (`machine/injection.py`)."""
    record: Annotated[bool, _FROM_PYTHON] = attrs.field(default=False, validator=_flag, metadata=_APART)
    """Whether every event is kept in memory, for a scenario that examines them."""

    @classmethod
    def of(cls, spec: RunSpec | None, fields: Mapping[str, Any]) -> RunSpec:
        """Return `spec`, or the default spec, with some fields replaced. Raises TypeError for an unknown field."""
        return cls(**fields) if spec is None else attrs.evolve(spec, **fields)

    @property
    def policies(self) -> dict[str, str | None]:
        """Return the user's memory configuration, allocator and table policy by field; None: the program chooses."""
        return {name: getattr(self, name) for name in POLICIES}

    def changed(self) -> dict[str, Any]:
        """Return the fields that are not at their defaults, by name.

        Only these are in the JSON of a spec, in the keys of cached results, and in the tokens that replay a run
        (`offloadrt explore`). So a new field of the class does not change what was written before.
        """
        return {name: value for name, default in _DEFAULTS.items() if (value := getattr(self, name)) != default}

    def options_of_result(self) -> dict[str, str | dict[str, str | float]]:
        """Return the `options` of a result: the fields not at their defaults, those with several entries first."""
        values = {name: value for name, value in self.changed().items() if name in _IN_OPTIONS}
        tables = {name: value for name, value in values.items() if isinstance(value, dict)}
        return tables | {name: _told(value) for name, value in values.items() if name not in tables}

    def to_json(self) -> bytes:
        """Encode the fields that are not at their defaults as a JSON object. Raises TypeError for a policy object."""
        return msgspec.json.encode(self.changed())

    @classmethod
    def from_json(cls, text: bytes | str) -> RunSpec:
        """Return the spec that `to_json` encoded. Raises TypeError for an unknown field, UserError for a bad value."""
        return cls(**msgspec.json.decode(text))

    def words(self) -> list[str]:
        """Return the command-line words that give this spec; options that may be repeated come last."""
        words: list[str] = []
        repeated: list[list[str]] = []
        for name, value in self.changed().items():
            option = options().get(name)
            if option is None:
                continue
            if isinstance(value, tuple | dict):
                texts = value if isinstance(value, tuple) else [f"{key}={text}" for key, text in value.items()]
                repeated.append([word for text in texts for word in (option, text)])
            elif value is True:
                words.append(option)
            else:
                words += [option, str(value)]
        return [*words, *(word for several in reversed(repeated) for word in several)]

    @property
    def ends(self) -> Mapping[str, str | float]:
        """Return `range_end` as a mapping from profile entries to positions in their ranges.

        Raises UserError if `range_end` is a text, that is, one position for all ranges.
        """
        if isinstance(self.range_end, str):
            raise UserError(f"range_end {self.range_end}: it is of all ranges; none can be taken elsewhere as well")
        return self.range_end

    def with_ends(self, ends: Mapping[str, str | float]) -> RunSpec:
        """Return the spec with these positions in the ranges of the machine's entries; other entries keep theirs.

        ends: by an entry's name "low", "high", or a position between (0.5: the geometric mean of its range). Raises
        UserError if `range_end` is one end for all ranges.
        """
        return attrs.evolve(self, range_end={**self.ends, **ends})

    def elsewhere(self, machine: str) -> RunSpec:
        """Return the spec for another machine, without overrides by numbers, and others where it has no such entry."""
        from offloadrt.study.running import profiles

        entries = profiles.load(machine, runtime=self.runtime).entries
        ends = self.range_end
        if not isinstance(ends, str):
            ends = {key: end for key, end in ends.items() if key in entries and entries[key].is_range}
        kept = {key: value for key, value in self.overrides.items() if key in entries and entries[key].choices}
        return attrs.evolve(self, machine=machine, overrides=kept, range_end=ends)


for _field in attrs.fields(RunSpec):  # cyclopts reads `__init__`, where attrs put the types that converters take
    RunSpec.__init__.__annotations__[_field.name] = _field.type


@functools.cache
def options() -> Mapping[str, str]:
    """Return the command-line option of each field that has one: `{"overrides": "--set", …}`."""
    spelled = {}
    hints: Mapping[str, Any] = get_type_hints(RunSpec, include_extras=True)
    for name, hint in hints.items():
        (parameter,) = (one for one in hint.__metadata__ if isinstance(one, Parameter))
        if parameter.parse is not False:
            names = tuple(parameter.name or ())
            spelled[name] = names[0] if names else f"--{name.replace('_', '-')}"
    return spelled


def _marked(mark: Mapping[str, bool]) -> tuple[str, ...]:
    return tuple(field.name for field in attrs.fields(RunSpec) if mark.items() <= field.metadata.items())


AXES: Final = _marked(_AXIS)
"""The fields that a sweep or a comparison may vary like a parameter."""
POLICIES: Final = _marked(_POLICY)
"""The fields whose policies replace the program's own choices."""
_IN_OPTIONS: Final = tuple(field.name for field in attrs.fields(RunSpec) if field.name not in _marked(_APART))
_DEFAULTS: Final = {field.name: getattr(RunSpec(), field.name) for field in attrs.fields(RunSpec)}
