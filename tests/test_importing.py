"""Programming models are imported by either form, also those of a package."""

from __future__ import annotations

import subprocess
import sys

from offloadrt.lazy import ModelFinder


def test_a_model_is_the_same_module_however_it_is_imported() -> None:
    code = (
        "import offloadrt.openmp, offloadrt.stdpar as stdpar\nfrom offloadrt.cuda import HostThread\n"
        "from offloadrt import cuda, openmp\nfrom offloadrt.models import openmp as home\n"
        "assert offloadrt.openmp is openmp is home and home.__spec__.name == 'offloadrt.models.openmp'\n"
        "assert HostThread is cuda.HostThread and stdpar is offloadrt.stdpar\n"
        "try:\n    import offloadrt.nonsense\nexcept ModuleNotFoundError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "No module named 'offloadrt.nonsense'\n", done.stderr


def test_what_asks_for_no_model_is_left_to_others() -> None:
    finder = next(each for each in sys.meta_path if isinstance(each, ModelFinder))
    assert finder.find_spec("numpy.openmp") is None and finder.find_spec("offloadrt.openmp.clauses") is None
