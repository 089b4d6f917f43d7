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
