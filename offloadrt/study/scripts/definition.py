"""A scenario: an async function that runs one experiment, its default machine, and the figure that its sweep draws.

`ProgramFiles` reads files that are programs but no scripts, such as recordings.
"""

from __future__ import annotations

import ast
import inspect
import math
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any, Final, Protocol, overload

import attrs

from offloadrt.registry import Registry
from offloadrt.study.errors import ParameterError, ScenarioRefused, did_you_mean
from offloadrt.study.scripts.parameters import Parameter, Value, bind, bind_one, gathered, parameters_of

if TYPE_CHECKING:
    from rich.console import RenderableType

    from offloadrt.kernels import Kernel

Function = Callable[..., Awaitable[Any]]


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


@attrs.frozen
class PublishedPoint:
    """A value from a paper, the entry `claim` of a `claims.toml`, drawn beside the emulated values of a figure.

    Each package in `papers/` has a `claims.toml`. It states the claim's unit, source and role: whether the value is to
    be predicted, or served as input or for calibration. The value is drawn only if there are runs with the parameters
    `at` on the scenario's machine.
    """

    package: str
    """The name of the paper's package, whose `claims.toml` has the claim."""
    claim: str
    at: Mapping[str, Any] = attrs.field(factory=dict)
    """The parameters of the runs that the value is about. A list has several values; for the x axis, two numbers are
    the ends of a range. If the parameter of the x axis is not named, it may have any value.
    """
    over: Mapping[str, Any] = attrs.field(factory=dict)
    """If given, the claim is a ratio: `y` of the run with these parameters divided by `y` of the runs `at`."""
    times: Mapping[str, Any] = attrs.field(factory=dict)
    """If given, the claim is a ratio: `y` of the runs `at` divided by `y` of the run with these parameters."""
    per: str | None = None
    """The id of another claim; the value drawn is that of `claim` divided by the other one's."""
    band: bool = False
    """Whether the paper itself states a band instead of a value, such as an order of magnitude."""
    along_x: bool = False
    """Whether the value is a position on the x axis, such as the one where a curve saturates."""
    what: str = ""
    """The statistic over several runs that the paper reports, as `mean`; it is written at the value. Empty: none."""


@attrs.frozen
class Figure:
    """Describes the figure (diagram) that a sweep of a scenario draws.

    It shows `y` (a measured number, or a column of the table such as `elapsed_s`) over `x` (a parameter; texts are put
    side by side in the order of the sweep).

    Each value of `lines` gives one line, each value of `panels` one panel; other swept parameters become lines.
    """

    x: str
    y: str
    lines: tuple[str, ...] = attrs.field(default=(), converter=_names)
    panels: str | None = None
    xlabel: str | None = None
    ylabel: str | None = None
    title: str | None = None
    legend: str | None = None
    """Title of the legend; by default the names of the parameters in `lines`."""
    names: Mapping[str, str] = attrs.field(factory=dict)
    """Names for values of parameters, in the titles of panels and in the legend.

    A panel for a value without a name has the parameter and the value as its title.
    """
    bars: bool = False
    """Whether bars are drawn instead of lines, for text values along x that have no order."""
    log: bool = True
    """Whether axes are logarithmic; base 2 along x. Bars have a linear y axis, and so have ratios to a baseline unless
    they are far apart.
    """
    baseline: Mapping[str, Any] = attrs.field(factory=dict)
    """If given, the figure shows ratios: `y` of the baseline run, which has these values and the same other parameters,
    divided by `y`. `offloadrt compare` uses it as its baseline, too.
    """
    published: tuple[PublishedPoint, ...] = ()
    """The values of `y` that the paper reports."""


@attrs.frozen(eq=False)
class Scenario:
    """An experiment, made by the decorator `@scenario` of a function. Calling the object calls the function."""

    name: str
    function: Function
    machine: str
    parameters: Mapping[str, Parameter]
    runtime: str | None = None
    """The profile of the runtime that the program was built for; None is the machine's default."""
    figure: Figure | None = None
    sweep: Mapping[str, tuple[Any, ...]] = attrs.field(factory=dict)
    """The axes of `offloadrt sweep NAME`, with their values, if the user gives none."""
    measures: tuple[str, ...] = ()
    """The figures that `offloadrt compare` compares besides the elapsed time, unless the user names some."""
    results: tuple[str, ...] = ()
    """The returned figures that must not depend on the schedule; `offloadrt explore` compares them."""
    shrinks: tuple[str, ...] = ()
    """The parameters that `offloadrt explore` may reduce to find a smaller run with the same failure."""
    path: Path | None = None
    """The file that defines the scenario."""
    kernels: Callable[[], Iterable[Kernel]] | None = None
    """Returns the kernels for `offloadrt kernels`, where they are not in modules that the scenario's file imports."""

    def returned_names(self) -> list[str] | None:
        """Return the names of the returned figures, read from the source; None where the source does not show them."""
        try:
            ahead: list[ast.AST] = [*ast.iter_child_nodes(ast.parse(dedent(inspect.getsource(self.function))).body[0])]
        except (OSError, TypeError, SyntaxError):
            return None
        names: list[str] = []
        while ahead:
            node = ahead.pop()
            if isinstance(node, ast.Return) and node.value is not None:
                keys = node.value.keys if isinstance(node.value, ast.Dict) else [None]
                texts = [key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
                if len(texts) < len(keys):
                    return None
                names += texts
            elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                ahead += ast.iter_child_nodes(node)
        return names

    @property
    def summary(self) -> str:
        """Return the first sentence of the scenario's docstring."""
        paragraph = " ".join(self.description.partition("\n\n")[0].split())
        return re.split(r"(?<=\.) (?=[A-Z`])", paragraph)[0]

    @property
    def description(self) -> str:
        """Return the scenario's docstring, without its section on parameters."""
        lines = inspect.cleandoc(self.function.__doc__ or "").splitlines()
        for number, line in enumerate(lines):
            if line.strip().lower() in ("parameters:", "args:", "arguments:"):
                lines = lines[:number]
                break
        return "\n".join(lines).strip()

    def bind(self, given: Mapping[str, Any]) -> dict[str, Value]:
        """Return a value for every parameter: the given one or the default; texts are read as on the command line."""
        return bind(self.parameters, given, owner=f"scenario {self.name}")

    def bind_one(self, name: str, value: Any) -> Value:
        """Check and return one parameter's value; a text is read as on the command line. Raises ParameterError."""
        return bind_one(self.parameters, name, value, owner=f"scenario {self.name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Awaitable[Any]:
        return self.function(*args, **gathered(self.function, kwargs))


@overload
def scenario(function: Function, /) -> Scenario: ...
@overload
def scenario(
    *, machine: str = ..., runtime: str | None = ..., name: str | None = ..., figure: Figure | None = ...,
    sweep: Mapping[str, Sequence[Any]] | None = ..., measures: Sequence[str] = ..., results: Sequence[str] = ...,
    shrinks: Sequence[str] = ..., kernels: Callable[[], Iterable[Kernel]] | None = ...,
) -> Callable[[Function], Scenario]: ...  # fmt: skip
def scenario(
    function: Function | None = None, /, *, machine: str = "alex-a100", runtime: str | None = None,
    name: str | None = None, figure: Figure | None = None, sweep: Mapping[str, Sequence[Any]] | None = None,
    measures: Sequence[str] = (), results: Sequence[str] = (), shrinks: Sequence[str] = (),
    kernels: Callable[[], Iterable[Kernel]] | None = None,
) -> Scenario | Callable[[Function], Scenario]:  # fmt: skip
    """Make a scenario of an async function whose first argument is the `Run`; the other arguments are parameters.

    `machine` and `runtime` name the profiles to use unless the user chooses others. `sweep` and `figure` are the axes
    and the diagram of `offloadrt sweep`. `measures` are the returned numbers that `offloadrt compare` shows besides the
    elapsed time, `results` those that must be the same under every schedule, `shrinks` the parameters that `offloadrt
    explore` may reduce after a failure. `kernels` returns kernels that `offloadrt kernels` would not find. Raises
    ScenarioRefused for a parameter without a type or of a type that a command line cannot give, and when `sweep`,
    `shrinks` or a published value names an unknown parameter.
    """

    def decorate(function: Function) -> Scenario:
        if isinstance(function, str):
            raise ScenarioRefused(f"@scenario({function!r}): its options have names, as in @scenario(machine='t4')")
        if not inspect.isfunction(function) or not inspect.iscoroutinefunction(function):
            raise ScenarioRefused(
                f"scenario {getattr(function, '__name__', f'{function!r:.80}')}: write it as `async def`"
            )
        parameters = parameters_of(function)
        axes = {axis: tuple(values) for axis, values in (sweep or {}).items()}
        for axis, values in axes.items():
            if axis not in parameters:
                raise ScenarioRefused(
                    f"scenario {function.__name__}: its sweep names {axis}, which is no parameter of it"
                )
            for value in values:
                parameters[axis].check(value)
        for point in figure.published if figure is not None else ():
            _check_published(point, parameters, function.__name__)
        for shrunk in _names(shrinks):
            if shrunk not in parameters or parameters[shrunk].type is not int:
                raise ScenarioRefused(
                    f"scenario {function.__name__}: shrinks names {shrunk}, which is no parameter with a whole number"
                )
        return Scenario(
            name=name or function.__name__, function=function, machine=machine, runtime=runtime,
            parameters=parameters, figure=figure, sweep=axes, measures=_names(measures), results=_names(results),
            shrinks=_names(shrinks), kernels=kernels,
            path=Path(inspect.getsourcefile(function) or function.__code__.co_filename).resolve(),
        )  # fmt: skip

    return decorate if function is None else decorate(function)


def _check_published(point: PublishedPoint, parameters: Mapping[str, Parameter], owner: str) -> None:
    """Check a published point's position. Raises ScenarioRefused for an unknown parameter or value."""
    for field in ("at", "over", "times"):
        for name, value in getattr(point, field).items():
            where = f"scenario {owner}: the published point {point.claim} of its figure: {field}.{name}"
            if name not in parameters:
                raise ScenarioRefused(f"{where}: there is no such parameter{did_you_mean(name, parameters)}")
            for one in value if isinstance(value, list) else [value]:
                if one not in (math.inf, -math.inf):
                    try:
                        parameters[name].check(one)
                    except ParameterError as error:
                        raise ScenarioRefused(f"{where}: {error.message}") from None


class ProgramFiles(Protocol):
    """Reads files of one kind that are programs, such as recordings; an entry point of `offloadrt.program_files`.

    The entry point's name is the suffix of the files' names, without the dot. UserError for an unreadable file.
    """

    sources: Collection[str]
    """Suffixes of source files from which such a program is made, such as ".cpp"."""

    def holds(self, path: Path) -> bool:
        """Tell from the content of a file or folder whether it is of this kind, whatever its name is."""

    def hint(self, path: Path) -> str:
        """Explain how to make such a file from a source or a binary; return an empty text for other files."""

    def scenario_of(self, path: Path) -> Scenario:
        """Make the scenario that runs the program in a file."""

    def shown(self, path: Path) -> Iterable[RenderableType]:
        """Yield what `offloadrt show` prints for a file."""

    def statistics(self, path: Path) -> Iterable[RenderableType]:
        """Yield what `offloadrt stats` prints for a file."""

    def kernels(self, path: Path) -> Iterable[RenderableType]:
        """Yield what `offloadrt kernels` prints for a file."""

    def record_of(self, path: Path) -> Any:
        """Return what `offloadrt show --json` prints for a file."""

    def statistics_record(self, path: Path) -> Any:
        """Return what `offloadrt stats --json` prints for a file."""

    def kernels_record(self, path: Path) -> Any:
        """Return what `offloadrt kernels --json` prints for a file."""


PROGRAM_FILES: Final = Registry[ProgramFiles]("kind of program file", "offloadrt.program_files", ("sources", "holds"))


def reader_of(reference: str) -> ProgramFiles | None:
    """Return the reader for a file or folder that a reference names; None for scripts and scenario names."""
    path = Path(reference)
    if path.suffix == ".py" or (not path.suffix and not path.exists()):
        return None  # nearly all references, which need no reader
    if path.suffix.removeprefix(".") not in PROGRAM_FILES.points() and not path.exists():
        return None
    return next((reader for reader in PROGRAM_FILES.installed() if reader.holds(path)), None)


def hint_of(path: Path) -> str:
    """Return how to run a program file that is no Python script, as an installed file reader says; empty if unknown."""
    return next(filter(None, (reader.hint(path) for reader in PROGRAM_FILES.installed())), "")


def is_source(path: Path) -> bool:
    """Tell by its suffix whether a file is source code, not Python, that an installed reader has a hint for."""
    if path.suffix in ("", ".py"):
        return False
    return any(path.suffix.lower() in reader.sources for reader in PROGRAM_FILES.installed())
