"""Packages that import each of their names when it is first used.

This module loads no library, because `offloadrt` itself imports it.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

Source = Callable[[str], Any]
"""Returns what a name stands for; None if it does not know the name."""


def lazy(package: str, *sources: Source) -> tuple[list[str], Callable[[], list[str]], Source]:
    """Return `__all__`, `__dir__` and `__getattr__` of a package whose stub (`__init__.pyi`) says where its names are.

    Type checkers read the stub, too. A name that the stub imports only under `if TYPE_CHECKING` is not defined in the
    package; the first of `sources` that knows the name, such as a group of entry points (`entry_points`), loads it.
    """
    module = sys.modules[package]
    stub = ast.parse(Path(str(module.__file__)).with_suffix(".pyi").read_text(encoding="utf-8"))
    homes = {
        alias.asname or alias.name: (str(node.module), alias.name)
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    public: list[str] = next(ast.literal_eval(node.value) for node in stub.body if isinstance(node, ast.Assign))

    def getattr_of_package(name: str) -> Any:
        value = None
        if name in homes:
            home, there = homes[name]
            value = getattr(importlib.import_module(home), there)
        elif not name.startswith("_"):
            value = next((found for source in sources if (found := source(name)) is not None), None)
        if value is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(module, name, value)
        return value

    return public, lambda: sorted({*vars(module), *public}), getattr_of_package


def entry_points(kind: str, group: str) -> Source:
    """Return a function that loads objects by name from the entry points of `group`; `kind`: their sort, for errors."""

    def load(name: str) -> Any:
        from offloadrt.registry import Registry

        registry = Registry[Any](kind, group)
        return registry.load(name) if name in registry.points() else None

    return load


def model(name: str) -> ModuleType | None:
    """Return the programming model of that name as the module that a program imports; None if there is none."""
    from offloadrt.registry import Registry

    point = Registry[Any]("model", "offloadrt.models").points().get(name)
    if point is None:
        return None
    own = point.module.startswith("offloadrt.")  # `Model.module` is its package then; the model itself needs a runtime
    return importlib.import_module(point.module.rpartition(".")[0] if own else point.load().module)


class ModelFinder:
    """An import finder that makes `import offloadrt.NAME` work for the NAME of each programming model."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        home, _, asked = name.partition(".")
        loader: Any = self
        return ModuleSpec(name, loader) if home == "offloadrt" and model(asked) is not None else None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module = model(spec.name.partition(".")[2])
        assert module is not None
        spec.loader_state = module.__spec__  # the import system replaces it
        return module

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state
