r"""Rules that find the run which predicts an entry, from the entry's texts: a TOML file with tables of patterns.

    [[machine]]                     # what an entry says of its machine, and the profile that stands for it
    pattern = "Tesla T4"
    profile = "t4"

    [[condition]]                   # what conditions set, where a scenario has such a parameter
    pattern = 'batch limit (?P<limit>\d+)'
    parameters = { batch_limit = "{limit}" }

    [[program]]                     # which program was measured, and how large it was
    match = { text = 'stream.*?(?P<n>\d{6,})' }
    scenario = "stream"
    parameters = { elements = "{n}" }

    [[setting]]                     # what a part of a value's name sets, which is then left out of the name
    pattern = 't(?P<percent>\d+)'
    parameters = { threshold = "{percent}" }

    [[value]]                       # the figure that predicts values of some names
    name = "batches.*"
    figure = "batches"

    [[program.value]]               # the same for one program, tried before
    name = ""
    units = "[mu]?s"
    figure = "kernel_s"

Patterns are Python's, are searched without regard to case, and those of values have to fit the whole name: as it
stands, or what settings leave of it, without its underscores at both ends. In parameters and figures `{group}` stands
for what a group has found, `{group|bytes}` for it as a number of bytes, and so on (`CONVERTERS`). The first program
whose patterns all fit is taken, and for each value the first rule that fits.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Container, Mapping
from typing import Any, Final, Literal

import attrs
import msgspec

from offloadrt.machine.profile import units
from offloadrt.study.errors import UserError
from offloadrt.study.independent.measured import MeasuredResult, ReportedValue
from offloadrt.study.scripts.parameters import Value


class MachineRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The profile that stands for the machines of some entries."""

    pattern: str
    profile: str


class ConditionRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a text among the conditions means for the parameters of a run that has them."""

    pattern: str
    parameters: Mapping[str, Value]


class ValueRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The figure that predicts values of some names."""

    name: str
    figure: str = ""
    """Empty: the values are not predicted, for a `reason`."""
    unit: str | None = None
    """The unit of the figure; None: the figure's name says it."""
    units: str = ".*"
    """A pattern that a value's unit has to fit."""
    conditions: str = ""
    """A pattern that has to be in what was measured or in the entry's conditions."""
    parameters: Mapping[str, Value] = msgspec.field(default_factory=dict)
    over: Mapping[str, Value] | None = None
    """Parameters of another run, by whose figure that of this run is divided; what the scenario lacks is left out."""
    difference_to: str | None = None
    """A pattern for the name of another value of the entry: both are compared as differences to the first that fits."""
    reason: str = ""


class ProgramRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The scenario that stands for the program of some entries."""

    match: Mapping[Literal["id", "what", "machine", "conditions", "kind", "text"], str]
    """Patterns by field; `text` is id and what in one."""
    scenario: str = ""
    """Empty: the entry is not predicted, for a `reason`."""
    parameters: Mapping[str, Value] = msgspec.field(default_factory=dict)
    profile: str | None = None
    """Instead of what `[[machine]]` says."""
    value: tuple[ValueRule, ...] = ()
    any_value: bool = True
    """Whether the rules for values of any program are for it, too."""
    reason: str = ""


@attrs.frozen
class MatchedValue:
    """What the rules say of one value."""

    rule: ValueRule
    groups: Mapping[str, str]
    """What the groups of its pattern have found."""
    settings: Mapping[str, Value]
    """Parameters that the value's name sets."""


class PredictionRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All rules, in order."""

    machine: tuple[MachineRule, ...]
    program: tuple[ProgramRule, ...]
    condition: tuple[ConditionRule, ...] = ()
    setting: tuple[ConditionRule, ...] = ()
    value: tuple[ValueRule, ...] = ()

    def profile_of(self, entry: MeasuredResult) -> str | None:
        """Return the profile that stands for an entry's machine; None where no rule knows it."""
        for rule in self.machine:
            if searched(rule.pattern, entry.machine):
                return rule.profile
        return None

    def program_of(self, entry: MeasuredResult) -> tuple[ProgramRule, dict[str, str]] | None:
        """Return the first program whose patterns all fit an entry, with what their groups found."""
        fields = {
            "id": entry.id,
            "what": entry.what,
            "machine": entry.machine,
            "conditions": entry.conditions,
            "kind": entry.kind,
            "text": f"{entry.id} {entry.what}",
        }
        for rule in self.program:
            matches = [searched(pattern, fields[field]) for field, pattern in rule.match.items()]
            if all(matches):
                groups: dict[str, str] = {}
                for match in matches:
                    groups.update(groups_of(match) if match else {})
                return rule, groups
        return None

    def value_of(
        self, program: ProgramRule, entry: MeasuredResult, value: ReportedValue, parameters: Container[str]
    ) -> MatchedValue | None:
        """Return what fits a value, rules of the program first; settings are tried that are for these parameters."""
        name, settings = value.name, dict[str, Value]()
        matched = self._value_named(program, entry, value, name, settings)
        for rule in self.setting if matched is None else ():
            match = re.search(rf"(?:^|_)(?:{rule.pattern})(?=_|$)", name, re.IGNORECASE)
            if match and all(parameter in parameters for parameter in rule.parameters):
                settings |= filled(rule.parameters, groups_of(match))
                name = (name[: match.start()] + name[match.end() :]).strip("_")
        return matched or (self._value_named(program, entry, value, name, settings) if settings else None)

    def _value_named(
        self,
        program: ProgramRule,
        entry: MeasuredResult,
        value: ReportedValue,
        name: str,
        settings: Mapping[str, Value],
    ) -> MatchedValue | None:
        for rule in (*program.value, *(self.value if program.any_value else ())):
            match = re.fullmatch(rule.name, name, re.IGNORECASE)
            said = f"{entry.what}; {entry.conditions}"
            if match and re.fullmatch(rule.units, value.unit, re.IGNORECASE) and searched(rule.conditions, said):
                return MatchedValue(rule, groups_of(match), settings)
        return None

    def conditions_of(self, text: str) -> dict[str, Value]:
        """Return the parameters that conditions set; an earlier rule has precedence."""
        parameters: dict[str, Value] = {}
        for rule in self.condition:
            if match := searched(rule.pattern, text):
                parameters = {**filled(rule.parameters, groups_of(match)), **parameters}
        return parameters


def parse(text: str, file: str) -> PredictionRules:
    """Read rules from the text of a file. Raises UserError that names file and field."""
    try:
        rules = msgspec.convert(tomllib.loads(text), PredictionRules)
        for pattern in _patterns(rules):
            re.compile(pattern)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{file}: {error}") from None
    except msgspec.ValidationError as error:
        said, _, path = str(error).partition(" - at `$")
        raise UserError(f"{file}: {path.rstrip('`').lstrip('.') or 'the file'}: {said}") from None
    except re.error as error:
        raise UserError(f"{file}: {error.pattern!r} is no pattern: {error}") from None
    return rules


def _patterns(rules: PredictionRules) -> list[str]:
    texts = [rule.pattern for rule in rules.machine]
    texts += [rule.pattern for rule in (*rules.condition, *rules.setting)]
    texts += [pattern for rule in rules.program for pattern in rule.match.values()]
    values = (*rules.value, *(one for rule in rules.program for one in rule.value))
    return texts + [text for one in values for text in (one.name, one.units, one.conditions, one.difference_to or "")]


def searched(pattern: str, text: str) -> re.Match[str] | None:
    """Search a text for a pattern, without regard to case."""
    return re.search(pattern, text, re.IGNORECASE)


def groups_of(match: re.Match[str]) -> dict[str, str]:
    """Return the named groups that have found something."""
    return {name: text for name, text in match.groupdict().items() if text}


def _bytes(text: str) -> str:
    return str(round(units.quantity(text.replace("KB", "kB"))[0]))


def _power_of_two(text: str) -> str:
    """Read `134M`, which stands for the power of two next to it."""
    number = float(text.rstrip("MGk")) * {"M": 1e6, "G": 1e9, "k": 1e3}.get(text[-1], 1.0)
    return str(min((1 << k for k in range(60)), key=lambda power: abs(power - number)))


CONVERTERS: Final[Mapping[str, Callable[[str], str]]] = {
    "bytes": _bytes,
    "power_of_two": _power_of_two,
    "thousands": lambda text: str(round(float(text) * 1000)),
    "kibi": lambda text: str(round(float(text) * 1024)),
    "exponent": lambda text: str(1 << int(text)),
    "percent": lambda text: repr(float(text) / 100.0),
}
"""What may stand behind `|`: how a text that was found becomes a parameter."""


def filled(parameters: Mapping[str, Value], groups: Mapping[str, str]) -> dict[str, Value]:
    """Put what was found into parameters; one whose group has found nothing is left out.

    Raises ValueError when a converter cannot read what was found.
    """
    made: dict[str, Value] = {}
    for name, value in parameters.items():
        if not isinstance(value, str):
            made[name] = value
            continue
        wanted = re.findall(r"\{(\w+)", value)
        if all(group in groups for group in wanted):
            made[name] = filled_text(value, groups)
    return made


def filled_text(text: str, groups: Mapping[str, str]) -> str:
    """Put what was found into a text. Raises KeyError for a group that has found nothing."""
    return re.sub(r"\{(\w+)(?:\|(\w+))?\}", lambda match: _filled_in(match, groups), text)


def _filled_in(match: re.Match[str], groups: Mapping[str, str]) -> str:
    text: Any = groups[match[1]]
    return CONVERTERS[match[2]](text) if match[2] else str(text)
