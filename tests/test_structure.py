"""The shape of the package: no import circles, one meaning for each class name, no long files."""

from __future__ import annotations

import ast
import functools
from collections import Counter
from pathlib import Path

import offloadrt

PACKAGE = Path(offloadrt.__file__).parent
FILES = sorted(path for path in PACKAGE.rglob("*.py") if "scenarios" not in path.relative_to(PACKAGE).parts)
LONGEST = 800
MOST_LINES, MOST_FILES = 48_000, 180
"""Of the core."""


def module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in FILES}


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports_of(module: str) -> set[str]:
    """Our modules that a module imports, wherever in it: inside a function and for annotations alone, too."""
    imported: set[str] = set()
    for node in ast.walk(tree(MODULES[module])):
        if isinstance(node, ast.Import):
            imported.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for name in (f"{node.module}.{alias.name}" for alias in node.names):
                imported.add(name if name in MODULES else node.module)
    return (imported & MODULES.keys()) - {module}


def on_circles(graph: dict[str, set[str]]) -> set[str]:
    """The modules that import themselves by way of others."""
    return {module for module in graph if module in reachable(graph, module)}


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    """Everything that `start` imports, directly or not; `start` itself only if it lies on a circle."""
    reached: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph[waiting.pop()] - reached
        reached |= new
        waiting.extend(new)
    return reached


def test_no_module_imports_itself_by_way_of_others() -> None:
    assert on_circles({module: imports_of(module) for module in MODULES}) == set()


def test_a_circle_would_be_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": {"f"}, "f": {"e"}, "g": {"a", "f"}}
    assert on_circles(graph) == {"a", "b", "c", "e", "f"}


def test_a_public_class_name_has_one_meaning() -> None:
    """`HostThread` is one idea with a class for each programming model."""
    classes = [
        node.name
        for path in FILES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    assert {name for name, times in Counter(classes).items() if times > 1} == {"HostThread"}


def test_the_core_can_be_carried() -> None:
    """What a newcomer has to know: a new feature pays for itself by what it makes needless."""
    core = [path for path in FILES if path.relative_to(PACKAGE).parts[0] not in ("extensions", "papers")]
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in core)
    assert (lines <= MOST_LINES, len(core) <= MOST_FILES) == (True, True), (lines, len(core))


def test_no_file_is_long() -> None:
    lengths = {module: len(path.read_text(encoding="utf-8").splitlines()) for module, path in MODULES.items()}
    assert {module for module, lines in lengths.items() if lines > LONGEST} == set()
