"""offloadrt: an emulator of GPU-offloading runtimes in virtual time.

What a scenario script or a test needs::

    from offloadrt import kernel, openmp as omp, scenario

`scenario`, `Range`, `Figure`, `Run` and `ParameterError` make experiments (`offloadrt.study`), `kernel` and `Kernel`
describe device code (`offloadrt.kernels`), `cuda`, `openmp`, `openacc` and `stdpar` are programming models
(`offloadrt.models`), `Simulation` is virtual time (`offloadrt.sim`). Each is imported when it is first used, so `import
offloadrt` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from offloadrt.kernels import Kernel, expect, kernel
    from offloadrt.models import cuda, openacc, openmp, stdpar
    from offloadrt.sim import Simulation
    from offloadrt.study import Figure, ParameterError, Range, Result, Run, Scenario, scenario, to_pandas, to_polars

__version__ = "0.2.0"

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
    "cuda",
    "expect",
    "kernel",
    "openacc",
    "openmp",
    "scenario",
    "stdpar",
    "to_pandas",
    "to_polars",
]

_HOMES = {
    "Figure": "offloadrt.study",
    "Kernel": "offloadrt.kernels",
    "ParameterError": "offloadrt.study",
    "Range": "offloadrt.study",
    "Result": "offloadrt.study",
    "Run": "offloadrt.study",
    "Scenario": "offloadrt.study",
    "Simulation": "offloadrt.sim",
    "expect": "offloadrt.kernels",
    "kernel": "offloadrt.kernels",
    "scenario": "offloadrt.study",
    "to_pandas": "offloadrt.study",
    "to_polars": "offloadrt.study",
}


def __getattr__(name: str) -> Any:
    if name in ("cuda", "openacc", "openmp", "stdpar"):
        value: Any = importlib.import_module(f"offloadrt.models.{name}")
    elif name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
