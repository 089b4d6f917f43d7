"""Running scenarios and making sense of what comes out. Open `running/execution.py` first.

`scenario` makes a scenario of an async function, `Run` is what that function receives, `find_scenario` and `execute`
run one from Python and return a `Result`, and a `RunSpec` says how. The package also has parameters and their errors,
the registry of scenarios, sweeps on any executor, comparisons, and tables of results. Names are imported at their first
use (`__init__.pyi` says from where): listing scenarios needs no machine.
"""

from offloadrt.lazy import lazy

__all__, __dir__, __getattr__ = lazy(__name__)
