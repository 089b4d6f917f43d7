"""From an entry to the runs that predict its values, or to the reason why none does."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import attrs
import msgspec

from offloadrt.study.errors import ParameterError, ScenarioNotFound, ScriptFailed, UserError
from offloadrt.study.independent.measured import EntryRun, MeasuredResult, ReportedValue
from offloadrt.study.independent.quantities import UnitMismatch, converted, unit_of
from offloadrt.study.independent.rules import PredictionRules, ProgramRule, ValueRule, filled, filled_text
from offloadrt.study.points import Point
from offloadrt.study.running import profiles
from offloadrt.study.scripts import registry
from offloadrt.study.scripts.definition import Scenario
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.spec import RunSpec


@attrs.frozen
class PlannedValue:
    """How one value is predicted; with a `reason` it is not. Others may need its run all the same."""

    value: ReportedValue
    reason: str = ""
    point: Point | None = None
    figure: str = ""
    unit: str = ""
    """The unit of the figure."""
    over: Point | None = None
    """The run by whose figure that of `point` is divided."""
    difference_to: str = ""
    """The value of the entry to which both are compared as differences."""

    @property
    def points(self) -> list[Point]:
        """Return the runs that it needs."""
        return [point for point in (self.point, self.over) if point is not None]


@attrs.frozen
class EntryPlan:
    """How the values of an entry are predicted."""

    entry: MeasuredResult
    values: Sequence[PlannedValue]


def plan(entry: MeasuredResult, rules: PredictionRules, file: str) -> EntryPlan:
    """Find the runs of an entry: those that it names itself, else those that the rules find.

    Raises UserError, with file, entry and field, for a run of the entry's own that cannot be made.
    """
    if entry.run is not None:
        return EntryPlan(entry, _by_own_run(entry, entry.run, rules, file))
    program = rules.program_of(entry)
    if program is None:
        return _refused(entry, "no rule knows its program; a table [result.run] would say which run predicts it")
    rule, groups = program
    if not rule.scenario:
        return _refused(entry, rule.reason)
    machine = rule.profile or rules.profile_of(entry)
    if machine is None:
        return _refused(entry, f"no profile stands for its machine ({entry.machine})")
    scenario = registry.find(rule.scenario)
    given = _of_conditions(rules, entry, scenario)
    values = [_by_rules(entry, value, rules, rule, groups, scenario, machine, given) for value in entry.values]
    return EntryPlan(entry, _without_loose_differences(values))


def _refused(entry: MeasuredResult, reason: str) -> EntryPlan:
    return EntryPlan(entry, [PlannedValue(value, reason) for value in entry.values])


def _by_own_run(entry: MeasuredResult, run: EntryRun, rules: PredictionRules, file: str) -> list[PlannedValue]:
    where = f"{file}: result {entry.id!r}: run"
    try:
        scenario = registry.find(run.scenario)
    except (ScenarioNotFound, ScriptFailed) as error:
        raise UserError(f"{where}.scenario: {error}") from None
    common = {**_of_conditions(rules, entry, scenario), **run.parameters}
    bound = _bound(scenario, common, f"{where}.parameters")
    machine = run.machine or rules.profile_of(entry)
    if machine is None:
        return [*_refused(entry, f"no profile stands for its machine ({entry.machine})").values]
    planned = []
    for value in entry.values:
        wanted = run.figures.get(value.name, "")
        if isinstance(wanted, str):
            rule = ValueRule(value.name, wanted, reason="its run names no figure for it")
            planned.append(_planned(value, rule, scenario, machine, bound, None))
            continue
        place = f"{where}.figures.{value.name}"
        own = {**common, **wanted.parameters}
        over = None if wanted.over is None else _bound(scenario, {**own, **wanted.over}, f"{place}.over")
        rule = ValueRule(value.name, wanted.figure, wanted.unit, difference_to=wanted.difference_to)
        planned.append(_planned(value, rule, scenario, machine, _bound(scenario, own, f"{place}.parameters"), over))
    return _without_loose_differences(planned)


def _bound(scenario: Scenario, parameters: Mapping[str, Value], where: str) -> dict[str, Value]:
    """Bind parameters that an entry itself gives. Raises UserError that says where."""
    try:
        return scenario.bind(parameters)
    except ParameterError as error:
        raise UserError(f"{where}.{error.parameter}: {error.message}") from None


def _of_conditions(rules: PredictionRules, entry: MeasuredResult, scenario: Scenario) -> dict[str, Value]:
    """Return what an entry's conditions set, of the parameters that the scenario has."""
    return {name: value for name, value in rules.conditions_of(entry.conditions).items() if name in scenario.parameters}


def _by_rules(
    entry: MeasuredResult,
    value: ReportedValue,
    rules: PredictionRules,
    program: ProgramRule,
    groups: Mapping[str, str],
    scenario: Scenario,
    machine: str,
    given: Mapping[str, Value],
) -> PlannedValue:
    matched = rules.value_of(program, entry, value, scenario.parameters)
    if matched is None:
        return PlannedValue(value, f"no rule knows which figure of {scenario.name} it is")
    rule, everything = matched.rule, {**groups, **matched.groups}
    try:
        common = {**given, **filled(program.parameters, everything), **matched.settings}
        bound = scenario.bind({**common, **filled(rule.parameters, everything)})
        over = None
        if rule.over is not None:
            divisor = {key: given for key, given in rule.over.items() if key in scenario.parameters}
            over = scenario.bind({**common, **filled(rule.parameters, everything), **filled(divisor, everything)})
    except ParameterError as error:
        return PlannedValue(value, f"{scenario.name}: {error}")
    except ValueError as error:
        return PlannedValue(value, f"its texts cannot be read: {error}")
    if over == bound:
        return PlannedValue(value, "it is a ratio, and its name does not say of what")
    to = [other.name for other in entry.values if re.fullmatch(rule.difference_to or "", other.name, re.IGNORECASE)]
    if rule.difference_to and not to:
        return PlannedValue(value, "it is compared by a difference, and the entry does not say to what")
    changed = msgspec.structs.replace(
        rule, figure=filled_text(rule.figure, everything), difference_to=to[0] if rule.difference_to else None
    )
    return _planned(value, changed, scenario, machine, bound, over)


def _planned(
    value: ReportedValue,
    rule: ValueRule,
    scenario: Scenario,
    machine: str,
    bound: Mapping[str, Value],
    over: Mapping[str, Value] | None,
) -> PlannedValue:
    if not rule.figure:
        return PlannedValue(value, rule.reason)
    unit = rule.unit or ("fraction" if over is not None else unit_of(rule.figure))
    try:
        converted(1.0, unit, value.unit)
        profiles.load(machine)
    except UnitMismatch as error:
        return PlannedValue(value, f"{rule.figure}: {error}")
    except UserError as error:
        return PlannedValue(value, str(error))
    reference, options = registry.reference(scenario), RunSpec(machine=machine)
    return PlannedValue(
        value,
        point=Point(reference, bound, options),
        figure=rule.figure,
        unit=unit,
        over=None if over is None else Point(reference, over, options),
        difference_to=rule.difference_to or "",
    )


def _without_loose_differences(values: Sequence[PlannedValue]) -> list[PlannedValue]:
    """Refuse differences to values that the entry does not have, or that are not predicted themselves."""
    predicted = {planned.value.name for planned in values if planned.point is not None}
    checked = []
    for planned in values:
        to = planned.difference_to
        if to and to not in predicted:
            planned = PlannedValue(planned.value, f"it is compared by its difference to {to}, which is not predicted")
        elif to == planned.value.name:
            planned = attrs.evolve(planned, reason="the others of its entry are compared by their difference to it")
        checked.append(planned)
    return checked
