from typing import TYPE_CHECKING

from offloadrt.kernels import Kernel, atomic, expect, kernel
from offloadrt.sim import Simulation
from offloadrt.study import Figure, ParameterError, Range, Result, Run, Scenario, scenario, to_pandas, to_polars
from offloadrt.study.questions import compare, execute, sweep

if TYPE_CHECKING:  # a program finds these by entry points
    from offloadrt.extensions import openacc as openacc
    from offloadrt.extensions import stdpar as stdpar
    from offloadrt.extensions.explaining.questions import explain as explain
    from offloadrt.extensions.explaining.questions import report as report
    from offloadrt.extensions.explaining.questions import timeline as timeline
    from offloadrt.models import cuda, openmp

__version__: str

__all__ = [
    "Figure",
    "Kernel",
    "ParameterError",
    "Range",
    "Result",
    "Run",
    "Scenario",
    "Simulation",
    "__version__",
    "atomic",
    "compare",
    "cuda",
    "execute",
    "expect",
    "kernel",
    "openmp",
    "scenario",
    "sweep",
    "to_pandas",
    "to_polars",
]
