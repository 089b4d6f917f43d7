"""What holds for all tests: property tests try the examples of the profile `quick`, unless another is asked for."""

import ctypes
import gc
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import property_examples  # noqa: F401  # its profiles
import pytest
from hypothesis import settings

settings.load_profile("quick")


CORE_ONLY = "OFFLOADRT_CORE_ONLY" in os.environ
"""Whether extensions and papers cannot be imported, and only the core's own tests run (a step of CI)."""
NAMES_OTHERS = re.compile(
    r"offloadrt\.(extensions|papers)|offloadrt import .*\b(openacc|stdpar)\b|\botm_rig\b"
    r"|\bimport mutant|\bomp\.((Gpu|Unified)MemoryManager|LoweredProgram)\b"
)
"""What a test of the core does not say: a test that names an extension or a paper is a test of theirs."""
TESTS_OF_OTHERS = {
    *("calibration", "checking", "compilers", "conformance", "openacc", "papers", "plugin", "recording", "stdpar"),
    *("fuzz", "scenarios"),
}
"""Folders of such tests."""


class Hidden:
    """Lets extensions and papers be not installed."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name in ("offloadrt.extensions", "offloadrt.papers"):
            raise ModuleNotFoundError(f"{name} is not installed", name=name)


if CORE_ONLY:
    sys.meta_path.insert(0, Hidden())


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out the tests of extensions and papers where these are hidden."""
    if not CORE_ONLY:
        return None
    if collection_path.is_dir():
        return True if collection_path.name in TESTS_OF_OTHERS else None
    text = collection_path.read_text(encoding="utf-8") if collection_path.suffix == ".py" else ""
    return True if collection_path.name != "conftest.py" and NAMES_OTHERS.search(text) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests of the core's files that say they need an extension, where there is none."""
    for item in items if CORE_ONLY else ():
        if item.get_closest_marker("needs_extensions"):
            item.add_marker(pytest.mark.skip(reason="what it uses by name is an extension's"))


_M_MMAP_THRESHOLD = -3
"""The number of the parameter in glibc's malloc.h."""


def pytest_collection_finish() -> None:
    """Have the memory of runs that have ended go back soon: a worker grew to gigabytes.

    Such a run is one cycle of a few thousand objects that may hold a hundred megabytes of arrays. The collector counts
    objects, and looks at old ones when there are a quarter more: what the tests have imported is out of its sight.
    glibc keeps large blocks that are freed once such blocks have been freed, unless it is told from which size on not.
    """
    hide_what_lasts()
    gc.set_threshold(700, 10, 2)
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(_M_MMAP_THRESHOLD, 1 << 20)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Hide what is left after the last test of a file, above all what caches keep: it came to millions of objects."""
    yield
    if nextitem is None or nextitem.path != item.path:
        hide_what_lasts()


def hide_what_lasts() -> None:
    """Free what nobody needs, and have the collector look at the rest no more."""
    gc.collect()
    gc.freeze()
    gc.collect()  # it now counts from nothing


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The figures that matplotlib would have saved, by the suffix of their files."""
    from matplotlib.figure import Figure

    kept: dict[str, Any] = {}
    monkeypatch.setattr(Figure, "savefig", lambda canvas, path, **_: kept.update({path.suffix: canvas}))
    return kept
