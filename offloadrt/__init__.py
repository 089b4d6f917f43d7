"""offloadrt: an emulator of GPU-offloading runtimes in virtual time.

What a scenario script or a test needs::

    from offloadrt import kernel, openmp as omp, scenario

`scenario`, `Range`, `Figure`, `Run` and `ParameterError` make experiments (`offloadrt.study`), `kernel` and `Kernel`
describe device code (`offloadrt.kernels`), `Simulation` is virtual time (`offloadrt.sim`). `cuda`, `openmp`, `openacc`
and `stdpar` are programming models, which a package may add to.

What a notebook needs: `execute`, `sweep` and `compare` (`offloadrt.study.questions`), `explain`, `report` and
`timeline` (an extension's) ask what a scenario does, and `to_polars` and `to_pandas` make tables of the answers.

Each name is imported when it is first used, so `import offloadrt` costs nothing.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # Type checkers cannot see entry points, and scripts want the types of these, too.
    from offloadrt.extensions import openacc as openacc
    from offloadrt.extensions import stdpar as stdpar
    from offloadrt.extensions.explaining.questions import explain as explain
    from offloadrt.extensions.explaining.questions import report as report
    from offloadrt.extensions.explaining.questions import timeline as timeline
    from offloadrt.kernels import Kernel, atomic, expect, kernel
    from offloadrt.models import cuda, openmp
    from offloadrt.models.host.program import Model
    from offloadrt.registry import Registry
    from offloadrt.sim import Simulation
    from offloadrt.study import Figure, ParameterError, Range, Result, Run, Scenario, scenario, to_pandas, to_polars
    from offloadrt.study.questions import compare, execute, sweep

__version__ = "1.0.0"

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

_HOMES = {
    "offloadrt.kernels": ("Kernel", "atomic", "expect", "kernel"),
    "offloadrt.sim": ("Simulation",),
    "offloadrt.study": (
        "Figure", "ParameterError", "Range", "Result", "Run", "Scenario", "scenario", "to_pandas", "to_polars",
    ),
    "offloadrt.study.questions": ("compare", "execute", "sweep"),
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if (home := next((module for module, names in _HOMES.items() if name in names), None)) is not None:
        value: Any = getattr(importlib.import_module(home), name)
    elif not name.startswith("_") and (point := _models().points().get(name)) is not None:
        own = point.module.startswith(f"{__name__}.")  # `Model.module` is its package then; the model needs a runtime
        value = importlib.import_module(point.module.rpartition(".")[0] if own else point.load().module)
    elif not name.startswith("_") and (point := _functions().points().get(name)) is not None:
        value = point.load()
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_models().names(), *_functions().names()})


def _models() -> Registry[Model]:
    from offloadrt.registry import Registry

    return Registry("model", "offloadrt.models")  # `models.host.program` has it too, and imports what runs programs


def _functions() -> Registry[Any]:
    from offloadrt.registry import Registry

    return Registry("function", "offloadrt.functions")  # questions that an extension answers


class _Models:
    """Finds `import offloadrt.NAME` for each programming model: the module that `from offloadrt import NAME` gives."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        home, _, model = name.partition(".")
        loader: Any = self
        return ModuleSpec(name, loader) if home == __name__ and model in _models().points() else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module: ModuleType = getattr(sys.modules[__name__], spec.name.partition(".")[2])
        self._own = module.__spec__  # the import system replaces it
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._own


sys.meta_path.append(_Models())
