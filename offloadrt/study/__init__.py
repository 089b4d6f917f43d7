"""Running scenarios and making sense of what comes out. Open `running/execution.py` first.

`scenario` makes a scenario of an async function, `Run` is what that function receives, `find_scenario` and `execute`
run one from Python and give a `Result`, and a `RunSpec` says how. Behind them: parameters and their errors, the
registry, points and sweeps on any executor, tables, figures, and validation against the claims of the papers. Names are
imported at their first use: listing scenarios needs no machine.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from offloadrt.study.errors import ParameterError, ScenarioNotFound, ScriptFailed, UserError
    from offloadrt.study.questions import execute
    from offloadrt.study.reporting.results import Result, to_pandas, to_polars
    from offloadrt.study.running.run import Run
    from offloadrt.study.scripts.definition import Figure, Scenario, scenario
    from offloadrt.study.scripts.parameters import Parameter, Range
    from offloadrt.study.scripts.registry import find as find_scenario
    from offloadrt.study.spec import RunSpec

__all__ = [
    "Figure",
    "Parameter",
    "ParameterError",
    "Range",
    "Result",
    "Run",
    "RunSpec",
    "Scenario",
    "ScenarioNotFound",
    "ScriptFailed",
    "UserError",
    "execute",
    "find_scenario",
    "scenario",
    "to_pandas",
    "to_polars",
]

_HOMES = {
    "errors": ("ParameterError", "ScenarioNotFound", "ScriptFailed", "UserError"),
    "reporting.results": ("Result", "to_pandas", "to_polars"),
    "questions": ("execute",),
    "running.run": ("Run",),
    "scripts.definition": ("Figure", "Scenario", "scenario"),
    "scripts.parameters": ("Parameter", "Range"),
    "spec": ("RunSpec",),
}


def __getattr__(name: str) -> Any:
    if name == "find_scenario":
        value = importlib.import_module(f"{__name__}.scripts.registry").find
    elif (home := next((module for module, names in _HOMES.items() if name in names), None)) is not None:
        value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value
