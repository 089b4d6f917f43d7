"""Finds scenarios: those that come with the package, and those in scripts of the user's own.

The package's scenarios are in `scenarios/` of a checkout, or in `offloadrt/scenarios` of a wheel; those in subfolders
have names like `questions/streams`. A script is imported with its folder at the end of `sys.path`, so that it hides no
other module. A file may hold several scenarios; `FILE.py:NAME` chooses one. A recording of a program (`app.rec`) is a
scenario as well (`ProgramFiles`), and so is an entry point of the group `offloadrt.scenarios` in another package.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import sys
import traceback
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from offloadrt.kernels.array_use import SourceRefused
from offloadrt.registry import regular
from offloadrt.study.errors import ScenarioNotFound, ScenarioRefused, UserError, did_you_mean, installed
from offloadrt.study.scripts.definition import Scenario, hint_of, is_source, reader_of
from offloadrt.study.scripts.listing import (
    PROGRAMS,
    SCENARIOS,
    ListedScenario,
    file_of,
    files,
    folder,
    grouped,
    indexed,
)
from offloadrt.study.scripts.tracebacks import script_failure

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_modules: dict[Path, ModuleType] = {}
_only_here: dict[str, Scenario] = {}
"""Scenarios that no other process can import, by their reference."""
loading: list[Path] = []
"""The scripts that are being imported, the innermost last."""


def load(path: Path) -> dict[str, Scenario]:
    """Load the scenarios of one file, by name, in the order of the file. Raises ScenarioNotFound, ScriptFailed."""
    path = path.resolve()
    module = _modules.get(path)
    if module is None:
        module = _modules[path] = _import(path)
    return {value.name: value for value in vars(module).values() if isinstance(value, Scenario) and value.path == path}


def _import(path: Path) -> ModuleType:
    try:
        regular(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ScenarioNotFound(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ScenarioNotFound(f"{path}: is no Python script (not UTF-8){hint_of(path)}") from None
    name = f"offloadrt_scenario_{path.stem}_{hashlib.sha256(os.fsencode(path)).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ScenarioNotFound(f"{path}: is no Python script (its name must end in .py)")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    loading.append(path)
    try:
        spec.loader.exec_module(module)
    except BaseException as error:  # a script may raise SystemExit, GeneratorExit or a class of its own
        del sys.modules[name]
        lines = [step.lineno for step in traceback.extract_tb(error.__traceback__) if step.filename == str(path)]
        if isinstance(error, KeyboardInterrupt):
            raise
        if isinstance(error, ScenarioRefused):
            raise ScenarioRefused(":".join(map(str, (path, *lines[-1:]))) + f": {error}") from None
        if isinstance(error, SourceRefused):  # which names file and line, and what to write instead
            raise UserError(str(error)) from None
        if isinstance(error, RecursionError) and not lines:
            raise UserError(
                f"{path}: Python cannot compile the script, because something in it is nested too deeply; divide its "
                "longest statement into several"
            ) from None
        if isinstance(error, ModuleNotFoundError) and (error.name or "").startswith("offloadrt."):
            raise PartNotInstalled(f"{path}: needs {error.name}, which is not installed") from None
        raise script_failure(error) from error
    finally:
        loading.pop()
    return module


class PartNotInstalled(UserError):
    """Raised for a script that imports a part of offloadrt (in `extensions/` or `papers/`) whose folder is missing."""


def shipped(subfolder: str = "") -> dict[str, Scenario]:
    """Load the package's scenarios in a subfolder, by default those in no subfolder; return them by name.

    Scenarios that need a part of the package that is not installed are left out.
    """
    scenarios: dict[str, Scenario] = {}
    for path in files(subfolder):
        with contextlib.suppress(PartNotInstalled):
            scenarios.update(load(path))
    return scenarios


def listed_in(path: Path) -> list[ListedScenario]:
    """Return name, machine, summary and group of each scenario in a file. Raises ScenarioNotFound, ScriptFailed."""
    scenarios = load(path)
    group = getattr(_modules[path.resolve()], "LISTED_AS", PROGRAMS)
    return [ListedScenario(found.name, found.machine, found.summary, group) for found in scenarios.values()]


def listed() -> list[ListedScenario]:
    """Return name, machine, summary and group of all scenarios: those of offloadrt first, then other packages'.

    Only entry points and files that the index of scenarios lacks are loaded. Raises ScriptFailed, UserError.
    """
    known = indexed()
    entries = [entry for path in files() for entry in (known[path] if path in known else listed_in(path))]
    entries += [
        ListedScenario(name, found.machine, found.summary, f"from the package {point.dist.name if point.dist else '?'}")
        for name, point in SCENARIOS.points().items()
        for found in [_of_package(point)]
    ]
    return grouped(entries)


def _of_package(point: EntryPoint) -> Scenario:
    """Load a scenario of another package. Raises UserError for an entry point that gives none."""
    given = installed(SCENARIOS, point.name)
    if not isinstance(given, Scenario):
        raise UserError(f"the scenario {point.name!r} ({point.value}) is none, but {given!r:.80}")
    return given


def is_shipped(scenario: Scenario) -> bool:
    """Tell whether a scenario came with the package."""
    return scenario.path is not None and folder() in scenario.path.parents


def find(reference: str) -> Scenario:
    """Find the scenario that `reference` names: a name, `FOLDER/NAME`, `FILE.py`, `FILE.py:NAME`, or a recording.

    Raises ScenarioNotFound, ScriptFailed, and UserError for a recording that cannot be read.
    """
    if reference in _only_here:
        return _only_here[reference]
    if reference.endswith(".toml"):
        raise ScenarioNotFound(
            f"{reference}: is the file of a machine or a runtime, and no scenario; "
            f"after a scenario's name, give it with --machine {reference} or --runtime {reference}"
        )
    if (reader := reader_of(reference)) is not None:
        return reader.scenario_of(Path(reference))
    if is_source(Path(reference)):
        raise ScenarioNotFound(f"{reference}: is no Python script{hint_of(Path(reference))}")
    subfolder, _, base = reference.rpartition("/")
    if subfolder.isidentifier() and (folder() / subfolder / f"{base}.py").is_file():
        return load(folder() / subfolder / f"{base}.py")[base]
    file, name = split(reference)
    if file is not None:
        scenarios = load(file)
        if name is None and len(scenarios) == 1:
            return next(iter(scenarios.values()))
        if name is None and scenarios:
            raise ScenarioNotFound(
                f"{file} holds several scenarios; write one of " + ", ".join(f"{file}:{n}" for n in scenarios)
            )
        if not scenarios:
            raise ScenarioNotFound(f"{file} holds no scenario: decorate an async function with @scenario")
        if name in scenarios:
            return scenarios[name]
        raise ScenarioNotFound(
            f"{file} holds no scenario {name}{did_you_mean(name or '', scenarios)} (it holds: {', '.join(scenarios)})"
        )
    file = file_of(reference)
    if file is not None and reference in (scenarios := load(file)):
        return scenarios[reference]
    others = SCENARIOS.points()
    if reference in others:
        return _of_package(others[reference])
    scenarios = shipped()
    if reference in scenarios:
        return scenarios[reference]
    if Path(reference).is_dir():
        raise ScenarioNotFound(f"{reference} is a folder; give the path of a script in it")
    if Path(reference).is_file():
        raise ScenarioNotFound(f"{reference} is no script (.py) and no recording (.rec); `stats` reads a log")
    known = ", ".join([*scenarios, *others]) or "none"
    raise ScenarioNotFound(
        f"no scenario is called {reference}{did_you_mean(reference, [*scenarios, *others])} "
        f"(known: {known}; or give a script's path)"
    )


def split(reference: str) -> tuple[Path | None, str | None]:
    """Divide a scenario's name as users write it, ``FILE.py:NAME``, into (file, name); a plain name has file None."""
    if reader_of(reference) is not None:
        return Path(reference), None
    file, colon, name = reference.rpartition(":")
    if colon and file.endswith(".py"):
        return Path(file), name
    if reference.endswith(".py") or "/" in reference or "\\" in reference:
        return Path(reference), None
    return None, None


def is_only_here(scenario: Scenario) -> bool:
    """Tell whether no other process can import a scenario: a local one, one in a notebook, one of an unguarded script.

    An unguarded script lacks `if __name__ == "__main__"`: importing it would run it again.
    """
    if reader_of(str(scenario.path)) is not None:
        return False
    function, has_file = scenario.function, scenario.path is not None and scenario.path.is_file()
    return not has_file or "<locals>" in function.__qualname__ or (function.__module__ == "__main__" and main_asks())


@cache
def main_asks() -> bool:
    """Tell whether the running script lacks `if __name__ == "__main__"`, so that importing it would run it again."""
    file = Path(getattr(sys.modules["__main__"], "__file__", None) or "")
    return file.suffix == ".py" and file.is_file() and "__main__" not in file.read_text("utf-8", "replace")


def reference(scenario: Scenario) -> str:
    """Return a text from which `find` gets this scenario, also in other processes unless none can import it."""
    if reader_of(str(scenario.path)) is not None:
        return str(scenario.path)
    for name, point in SCENARIOS.points().items():
        package = scenario.function.__module__.partition(".")[0]
        if point.module.partition(".")[0] == package and _of_package(point) is scenario:
            return name
    named = f"{scenario.path}:{scenario.name}"
    if is_only_here(scenario):
        _only_here[named] = scenario
    return named
