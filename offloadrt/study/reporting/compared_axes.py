"""Which values of which parameters are compared, and with what.

`read_axes` reads what is swept, and `baseline_of` finds the parameters in which the baseline differs from the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from offloadrt.study.errors import ParameterError, ScriptFailed, UserError, did_you_mean
from offloadrt.study.reporting.results import Result
from offloadrt.study.scripts.definition import Scenario
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.sweep import Failure, SweepOutcome, read_axis, read_value


def read_axes(scenario: Scenario, axes: Mapping[str, Sequence[Any]]) -> dict[str, tuple[Value, ...]]:
    """Read the values of the axes, and of the scenario's own sweep when none of them has several.

    Raises UserError when the scenario has no sweep either; ParameterError for a bad value, and for one given twice.
    """
    if all(len(values) < 2 for values in axes.values()):
        axes = {**scenario.sweep, **axes}
    read = {name: read_axis(scenario, name, values) for name, values in axes.items()}
    if not swept_in(read):
        raise UserError(
            "compare: give a parameter the values to compare, as in configuration=copy,usm, or an option, as in "
            "--machine h100,mi300a"
        )
    return read


def swept_in(read: Mapping[str, Sequence[Value]]) -> dict[str, Sequence[Value]]:
    """Return the parameters that have several values."""
    return {name: values for name, values in read.items() if len(values) > 1}


def refuse_failures(
    outcome: SweepOutcome, swept: Iterable[str], baseline: Mapping[str, Value] | None = None
) -> list[Failure]:
    """Raise the first failure of a sweep over these parameters: UserError, or ScriptFailed of the program's own.

    With a baseline, variants that cannot be run do not count, and are returned; without one nothing can be compared.
    """
    refused = []
    for failure in outcome.failures:
        place = failure.point.axis_values
        of_variant = baseline is not None and any(place[name] != value for name, value in baseline.items())
        if failure.of_program or not of_variant:
            named = ", ".join(f"{name}={place[name]}" for name in swept)
            raise (ScriptFailed if failure.of_program else UserError)(f"compare: {named}: {failure.message}")
        refused.append(failure)
    return refused


def base_of(results: Sequence[Result], chosen: Mapping[str, Value]) -> Result:
    """Return the first of the results with the baseline's parameters."""
    return next(one for one in results if all(one.parameters[name] == value for name, value in chosen.items()))


def baseline_of(scenario: Scenario, read: Mapping[str, Sequence[Value]], given: Mapping[str, Any]) -> dict[str, Value]:
    """Return the parameters that variants of one case differ in, with their values in the baseline."""
    swept = swept_in(read)
    if not given:
        drawn = {} if scenario.figure is None else scenario.figure.baseline
        if drawn and all(value in swept.get(name, ()) for name, value in drawn.items()):
            return dict(drawn)
        return {name: values[0] for name, values in swept.items()}
    chosen = {}
    for name, text in given.items():
        if name not in swept:
            raise ParameterError(
                name, f"the baseline names it, and it has no two values{did_you_mean(name, swept)} "
                f"(compared: {', '.join(swept)})"
            )  # fmt: skip
        chosen[name] = read_value(scenario, name, text)
        if chosen[name] not in swept[name]:
            raise ParameterError(
                name, f"the baseline {chosen[name]} is not among the values {', '.join(map(str, swept[name]))}"
            )
    return chosen
