"""The shape of the package: no import circles, one meaning for each class name, no long files, no wide classes."""

from __future__ import annotations

import ast
import functools
from collections import Counter
from pathlib import Path

import offloadrt

PACKAGE = Path(offloadrt.__file__).parent
FILES = sorted(path for path in PACKAGE.rglob("*.py") if "scenarios" not in path.relative_to(PACKAGE).parts)
LONGEST = 800
WIDEST = 16


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


def public_members(node: ast.ClassDef) -> set[str]:
    """The methods and fields of a class without an underscore, but for what it inherits."""
    names: set[str] = set()
    for part in node.body:
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(part.name)
            if part.name == "__init__":
                names |= attributes_set_in(part)
        elif isinstance(part, ast.Assign | ast.AnnAssign):
            targets = part.targets if isinstance(part, ast.Assign) else [part.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return {name for name in names if not name.startswith("_")}


def attributes_set_in(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    return {
        node.attr
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


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


def test_no_file_is_long() -> None:
    lengths = {module: len(path.read_text(encoding="utf-8").splitlines()) for module, path in MODULES.items()}
    assert {module for module, lines in lengths.items() if lines > LONGEST} == set()


def test_a_wide_class_says_why_it_is_wide() -> None:
    wide = {
        f"{path.relative_to(PACKAGE)}: {node.name}": ast.get_docstring(node) or ""
        for path in FILES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ClassDef) and len(public_members(node)) > WIDEST
    }
    assert [name for name, docstring in wide.items() if "Wide because" not in docstring] == []


def test_public_members_are_methods_and_fields_however_they_are_written() -> None:
    (node,) = ast.parse(
        """
class Wide:
    a = 1
    b: int
    _c: int = 0

    def __init__(self) -> None:
        self.d, self._e = 1, 2
        self.f: int = 3
        self.d.inner = 4

    async def g(self) -> None: ...

    @property
    def h(self) -> int: ...
"""
    ).body
    assert isinstance(node, ast.ClassDef)
    assert public_members(node) == set("abdfgh")
