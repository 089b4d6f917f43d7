"""offloadrt: an emulator of GPU-offloading runtimes in virtual time.

What a scenario script or a test needs::

    from offloadrt import kernel, openmp as omp, scenario

`scenario`, `Range`, `Figure`, `Run` and `ParameterError` make experiments (`offloadrt.study`), `kernel` and `Kernel`
describe device code (`offloadrt.kernels`), `Simulation` is virtual time (`offloadrt.sim`). `cuda`, `openmp`, `openacc`
and `stdpar` are programming models, which a package may add to.

What a notebook needs: `execute`, `sweep` and `compare` (`offloadrt.study.questions`), `explain`, `report` and
`timeline` (an extension's) ask what a scenario does, and `to_polars` and `to_pandas` make tables of the answers.

Each name is imported when it is first used, so `import offloadrt` costs nothing; `__init__.pyi` says where each is.
"""

import sys

from offloadrt.lazy import ModelFinder, entry_points, lazy, model

__version__ = "1.0.0"

sys.meta_path.append(ModelFinder())
__all__, __dir__, __getattr__ = lazy(__name__, model, entry_points("function", "offloadrt.functions"))
