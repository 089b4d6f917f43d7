"""Typed parameters of a scenario, taken from the signature of its function.

`threads: Annotated[int, Range(1, 4096)] = 8` makes a parameter that reads `threads=16` from the command line, refuses
`threads=0` and `threads=many` in one sentence, and says `int, 1 to 4096` in `offloadrt show`. Types: int, float, bool,
str, Literal[...], each also `| None` (written `none`). Help comes from the docstring's `Parameters:` section, or else
from a text in the annotation.

An argument whose type is an attrs class stands for several parameters, the fields of the class, which scenarios share.

Numbers are written as people write them: `1M`, `64Ki`, `64KiB`, `20GB`, `10us`. k, M, G and T are powers of 1000, Ki,
Mi, Gi and Ti powers of 1024. A parameter has a unit when its name ends with one (`size_gb`, `nbytes`, `reported_s`); a
quantity is then turned into that unit. Other parameters take plain numbers.
"""

from __future__ import annotations

import functools
import inspect
import math
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Literal, Union

import attrs

from offloadrt.study.errors import ParameterError, ScenarioRefused, UnknownParameter, UserError, did_you_mean

_UNITS = {
    "s": "s",
    "ms": "ms",
    "us": "us",
    "ns": "ns",
    "gb": "GB",
    "mb": "MB",
    "gib": "GiB",
    "mib": "MiB",
    "kib": "KiB",
    "bytes": "B",
    "nbytes": "B",
    "seconds": "s",
    "milliseconds": "ms",
}
_POWERS = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12} | {
    f"{letter}i": 1 << 10 * power for power, letter in enumerate("KMGT", 1)
}
_NUMBER = re.compile(r"\s*([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?)\s*([^\W\d_]\S*)\s*")


def unit_of(name: str) -> str | None:
    """Return the suffix of a parameter's name that is a unit; None if there is none.

    >>> unit_of("size_gb"), unit_of("nbytes"), unit_of("threads")
    ('GB', 'B', None)
    """
    before, _, last = name.rpartition("_")
    return _UNITS.get(last) if before or len(last) > 2 else None


def read_int(name: str, text: str) -> int:
    """Return the whole number that `text` stands for: ``16``, ``0x10``, ``64Ki``, or ``20GB`` for a name in ``_gb``.

    Raises ValueError for a text that is no whole number, ParameterError for a unit that does not fit parameter `name`.
    """
    for base in (0, 10):
        try:
            return int(text, base)
        except ValueError:
            pass
    exact = _exact(name, text)
    if (isinstance(exact, float) and not math.isfinite(exact)) or exact != int(exact):
        raise ValueError(text)
    return int(exact)


def read_float(name: str, text: str) -> float:
    """Return the number that `text` stands for, in the unit of parameter `name`.

    Raises ValueError for a text that is no number, ParameterError for a unit that does not fit the parameter.
    """
    try:
        return float(_exact(name, text))
    except OverflowError:
        return math.inf


def _exact(name: str, text: str) -> Fraction | float:
    """Return the number in `text`, converted to the unit of the parameter. Raises what `read_int` raises."""
    try:
        return float(text)
    except ValueError:
        written = _NUMBER.fullmatch(text)
    if written is None:
        raise ValueError(text)
    number, suffix = Fraction(Decimal(written[1])), written[2]
    power = _POWERS.get("k" if suffix == "K" else suffix)
    if power is not None:
        return number * power
    from offloadrt.machine.profile import units  # here, for `from offloadrt import scenario` needs no machine

    try:
        given = units.unit(suffix)
    except units.UnitError:
        raise ValueError(text) from None
    own = unit_of(name)
    if own is None:
        if given.is_count:
            return number
        power_only = suffix.removesuffix("B")
        plain = f"; write {name}={written[1]}{power_only} for as many of them" if power_only in _POWERS else ""
        raise ParameterError(name, f"{text!r} is a quantity of {given.dimension}, and this is a plain number{plain}")
    wanted = units.unit(own)
    if given.dimension != wanted.dimension:
        raise ParameterError(
            name, f"{text!r} is a quantity of {given.dimension}, and this is a number of {own}, as in {name}=4{own}"
        )
    return number * Fraction(str(given.factor)) / Fraction(str(wanted.factor))


Value = int | float | bool | str | None
"""The value of a parameter; it can be stored as JSON without loss."""

_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})


@attrs.frozen
class Range:
    """The allowed numbers of a parameter: from `low` to `high`, both included; None leaves an end open."""

    low: float | None = None
    high: float | None = None

    def __attrs_post_init__(self) -> None:
        for end in (self.low, self.high):
            if not isinstance(end, int | float | None):
                raise TypeError(f"Range: its ends are numbers or None, and {end!r:.80} is neither")

    def holds(self, value: float) -> bool:
        """Tell whether `value` lies in the range."""
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)

    def __str__(self) -> str:
        if self.low is None and self.high is None:
            return "any"
        if self.high is None:
            return f"{self.low} or more"
        if self.low is None:
            return f"{self.high} or less"
        return f"{self.low} to {self.high}"


@attrs.frozen
class Parameter:
    """One parameter of a scenario: name, type, default and allowed values; it reads, checks and shows values."""

    name: str
    type: type[int] | type[float] | type[bool] | type[str]
    """The type of a value that is not None; the type of the choices when there are any."""
    choices: tuple[Value, ...] = ()
    range: Range = Range()
    optional: bool = False
    """Whether `none` is an accepted value."""
    required: bool = False
    default: Value = None
    help: str = ""

    @property
    def expected(self) -> str:
        """Return a description of valid values: `int, 1 to 4096`."""
        if self.choices:
            words = "one of " + ", ".join(str(choice) for choice in self.choices)
        elif self.type is bool:
            words = "true or false"
        else:
            words = {int: "int", float: "float", str: "text"}[self.type]
            if self.range != Range():
                words += f", {self.range}"
        return f"{words}, or none" if self.optional else words

    def read(self, text: str) -> Value:
        """Read the value that `text` stands for on a command line. Raises ParameterError."""
        if self.optional and text.strip().lower() == "none":
            return None
        if self.choices:
            for choice in self.choices:
                if str(choice) == text:
                    return choice
            near = _several(text) or did_you_mean(text, [str(choice) for choice in self.choices])
            raise ParameterError(self.name, f"{text!r} is not {self.expected}{near}")
        try:
            return self.check(_READERS[self.type](self.name, text))
        except ValueError:
            hint = _several(text)
            if not hint and self.type is int and text[:1].isdigit():
                hint = " (1M is 1000000, 1Mi is 1048576)"
            raise ParameterError(self.name, f"{text!r} is not a value: expected {self.expected}{hint}") from None

    def check(self, value: Any) -> Value:
        """Return `value` if it is valid for this parameter (an int passes for a float). Raises ParameterError."""
        if value is None and self.optional:
            return None
        if self.choices:
            if any(type(value) is type(choice) and value == choice for choice in self.choices):
                return typing.cast(Value, value)
            raise ParameterError(self.name, f"{value!r} is not {self.expected}")
        if self.type is float and type(value) is int:
            value = float(value)
        if type(value) is not self.type:
            raise ParameterError(self.name, f"{value!r} is not a value: expected {self.expected}")
        if isinstance(value, float) and not math.isfinite(value):
            raise ParameterError(self.name, f"{value!r} is not finite: expected {self.expected}")
        if isinstance(value, int | float) and not self.range.holds(value):
            raise ParameterError(self.name, f"{value} is out of range: expected {self.expected}")
        return typing.cast(Value, value)


def _several(text: str) -> str:
    """Return a hint for the message if `text` has several values where one is allowed, else the empty string."""
    if ".." in text:
        return "; a range is written as its values, as in 1,2,4,8, which compare, sweep and report take"
    return "; one run takes one value, and compare, sweep and report take several" if "," in text else ""


def _read_bool(text: str) -> bool:
    word = text.strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise ValueError(text)


_READERS: dict[type, Callable[[str, str], Value]] = {
    int: read_int,
    float: read_float,
    bool: lambda _, text: _read_bool(text),
    str: lambda _, text: text,
}
"""Functions that read a value from the parameter's name and the text, by type."""


def parameters_of(function: Callable[..., Any]) -> dict[str, Parameter]:
    """Return the parameters of a scenario's function, by name, in order, without the first argument, the run.

    Raises ScenarioRefused, with a message for the script's author, when the signature is not readable.
    """
    owner = f"scenario {function.__name__}"
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise ScenarioRefused(f"{owner}: a type in its signature is unknown: {error}") from None
    arguments = list(inspect.signature(function).parameters.values())
    if not arguments:
        raise ScenarioRefused(f"{owner}: the function takes the run as its first argument")
    declared: list[tuple[str, Any, Any]] = []
    for argument in arguments[1:]:
        if argument.kind in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD, argument.POSITIONAL_ONLY):
            raise ScenarioRefused(f"{owner}: {argument} cannot be a parameter; name it and give it a type")
        if argument.name not in hints:
            raise ScenarioRefused(f"{owner}: parameter {argument.name} has no type")
        hint = hints[argument.name]
        if attrs.has(hint):
            defaults = _group(argument, hint)
            declared += [(name, kind, getattr(defaults, name)) for name, kind in _fields(hint).items()]
        else:
            declared.append((argument.name, hint, argument.default))
    texts = parameter_help(function.__doc__ or "", [name for name, _, _ in declared])
    parameters: dict[str, Parameter] = {}
    for name, hint, default in declared:
        if name in parameters:
            raise ScenarioRefused(f"{owner}: two parameters are called {name}")
        parameter = _parameter(name, hint, texts.get(name, ""))
        if default is inspect.Parameter.empty:
            parameters[name] = attrs.evolve(parameter, required=True)
            continue
        try:
            parameters[name] = attrs.evolve(parameter, default=parameter.check(default))
        except ParameterError as error:
            raise ScenarioRefused(f"{owner}: the default of {error}") from None
    return parameters


def gathered(function: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments for a scenario's function; for an argument of an attrs class, make it from its fields."""
    arguments = dict(values)
    for argument, kind in _groups(function):
        given = {field: arguments.pop(field) for field in attrs.fields_dict(kind) if field in arguments}
        arguments.setdefault(argument.name, attrs.evolve(_group(argument, kind), **given))
    return arguments


@functools.lru_cache(maxsize=256)
def _groups(function: Callable[..., Any]) -> tuple[tuple[inspect.Parameter, type], ...]:
    """Return the arguments of a function that stand for several parameters, each with its attrs class."""
    hints = typing.get_type_hints(function)
    return tuple(
        (argument, kind)
        for name, argument in inspect.signature(function).parameters.items()
        if attrs.has(kind := hints.get(name, object))
    )


def check_fields(values: Any) -> None:
    """Check the values of the fields of `values`, an object of a parameter class. Raises ParameterError."""
    for name, hint in _fields(type(values)).items():
        _parameter(name, hint, "").check(getattr(values, name))


def _fields(kind: type) -> dict[str, Any]:
    """Return the types of the fields of a parameter class, by field name."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return {name: hints[name] for name in attrs.fields_dict(kind)}


def _group(argument: inspect.Parameter, kind: type) -> Any:
    """Return the default of an argument that stands for several parameters: an object of its attrs class."""
    return kind() if argument.default is argument.empty else argument.default


def _parameter(name: str, hint: Any, text: str) -> Parameter:
    allowed = Range()
    optional = False
    if typing.get_origin(hint) is Annotated:
        hint, *extras = typing.get_args(hint)
        for extra in extras:
            if isinstance(extra, Range):
                allowed = extra
            elif isinstance(extra, str):
                text = text or extra
    if typing.get_origin(hint) in (Union, types.UnionType):
        members = [member for member in typing.get_args(hint) if member is not type(None)]
        if len(members) != 1:
            raise ScenarioRefused(f"parameter {name}: a union of several types cannot be read from a command line")
        optional = len(members) < len(typing.get_args(hint))
        inner = _parameter(name, members[0], text)
        return attrs.evolve(inner, optional=optional, range=allowed if allowed != Range() else inner.range)
    if typing.get_origin(hint) is Literal:
        choices = typing.get_args(hint)
        return Parameter(name, type(choices[0]), choices=choices, help=text)
    if hint not in _READERS:
        raise ScenarioRefused(f"parameter {name}: type {hint!r} is not one of int, float, bool, str, Literal")
    return Parameter(name, hint, range=allowed, help=text)


def parameter_help(docstring: str, names: list[str]) -> dict[str, str]:
    """Return, by name in `names`, the texts of the lines `name: text` in a docstring's section `Parameters:`."""
    lines_of: dict[str, list[str]] = {}
    lines = inspect.cleandoc(docstring).splitlines()
    heads = [n for n, line in enumerate(lines) if line.strip().lower() in ("parameters:", "args:", "arguments:")]
    if not heads:
        return {}
    current, depth = None, 0
    for line in lines[heads[0] + 1 :]:
        indent = len(line) - len(line.lstrip())
        match = re.match(r"\s+(\w+)\s*:\s*(.*)", line)
        if match and match[1] in names and (current is None or indent <= depth):
            current, depth = match[1], indent
            lines_of[current] = [match[2].strip()]
        elif line.strip() and indent == 0:
            break
        elif current is not None and line.strip():
            lines_of[current].append(line.strip())
    return {name: " ".join(texts) for name, texts in lines_of.items()}


def split_assignment(text: str, *, what: str = "a parameter is written name=value") -> tuple[str, str]:
    """Split `name=value` at the equals sign. Raises UserError, whose message says `what` is expected."""
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise UserError(f"{text!r}: {what}")
    return name.strip(), value


def split_assignments(
    texts: Iterable[str], *, what: str = "a parameter is written name=value", option: str = "parameter"
) -> dict[str, str]:
    """Split texts `name=value` of `option`; return values by name. UserError for a bad text, a repeated name."""
    assigned: dict[str, str] = {}
    for text in texts:
        name, value = split_assignment(text, what=what)
        if name in assigned:
            raise UserError(f"{option} {name}: is given twice, as {assigned[name]} and as {value}")
        assigned[name] = value
    return assigned


def sweep_axes(owner: str, texts: Sequence[str], default: Mapping[str, tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
    """Read axes written as `name=v1,v2,...`; values stay texts. Without any text, return `default`.

    A given axis replaces the one of `default` with the same name. UserError, which names `owner`, if nothing is swept.
    """
    given = split_assignments(texts, what="an axis is written name=v1,v2,...")
    axes = dict(default) | {name: tuple(value.strip() for value in text.split(",")) for name, text in given.items()}
    if not axes:
        raise UserError(f"scenario {owner} has no sweep of its own: name the parameters to vary, as in threads=1,2,4,8")
    return axes


def bind(parameters: Mapping[str, Parameter], given: Mapping[str, Any], *, owner: str) -> dict[str, Value]:
    """Give every parameter its value in `given`: a text is read as on the command line, another value is checked.

    The other parameters take their defaults. Raises ParameterError, which names `owner`, for an unknown name, a bad
    value, and a required parameter that is missing.
    """
    read = {name: bind_one(parameters, name, value, owner=owner) for name, value in given.items()}
    bound = {}
    for name, parameter in parameters.items():
        if name in read:
            bound[name] = read[name]
        elif parameter.required:
            raise ParameterError(name, f"{owner} needs it: {parameter.expected}")
        else:
            bound[name] = parameter.default
    return bound


def bind_one(parameters: Mapping[str, Parameter], name: str, value: Any, *, owner: str) -> Value:
    """Return one parameter's value: a text is read as on the command line, another value is checked.

    Raises ParameterError, which names `owner`, for an unknown name and for a bad value.
    """
    if name not in parameters:
        known = ", ".join(parameters) or "none"
        raise UnknownParameter(name, f"{owner} has no such parameter{did_you_mean(name, parameters)} (it has: {known})")
    parameter = parameters[name]
    return parameter.read(value) if isinstance(value, str) else parameter.check(value)
