"""Running scenarios and making sense of what comes out. Open `running/execution.py` first.

`scenario` makes a scenario of an async function, `Run` is what that function receives, `find_scenario` and `execute`
run one from Python and return a `Result`, and a `RunSpec` says how. The package also has parameters and their errors,
the registry of scenarios, sweeps on any executor, comparisons, and tables of results. Names are imported at their first
use: listing scenarios needs no machine.
"""

from __future__ import annotations

from importlib import import_module
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

_LIGHTEST_FIRST = (
    "errors",
    "scripts.parameters",
    "scripts.definition",
    "spec",
    "running.run",
    "reporting.results",
    "questions",
)


def __getattr__(name: str) -> Any:
    if name == "find_scenario":
        value = import_module(f"{__name__}.scripts.registry").find
    elif name in __all__:
        homes = (vars(import_module(f"{__name__}.{home}")) for home in _LIGHTEST_FIRST)
        value = next(names[name] for names in homes if name in names)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value
