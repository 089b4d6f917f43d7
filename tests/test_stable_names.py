"""What semantic versions cover has documentation and types, and is used in a test: what 1.0.0 needs."""

from __future__ import annotations

import inspect
import re
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import offloadrt
from offloadrt import cuda, openacc, openmp, stdpar

ROOT = Path(__file__).parents[1]
MODULES = [offloadrt, openmp, openacc, stdpar, cuda]
NAMES = [
    (module, name)
    for module in MODULES
    for name in (*module.__all__, *(("explain", "report", "timeline") if module is offloadrt else ()))
    if not name.startswith("_") and not isinstance(getattr(module, name), ModuleType)
]


@cache
def words_of_tests() -> set[str]:
    return {
        word
        for path in (ROOT / "tests").rglob("*.py")
        if path != Path(__file__)
        for word in re.findall(r"\w+", path.read_text("utf-8"))
    }


def callables(value: Any) -> list[tuple[str, Any]]:
    """List what can be called of a name: itself, or the public methods that its own class has."""
    if not inspect.isclass(value):
        return [("", value)] if inspect.isfunction(value) else []
    return [(name, made) for name, made in vars(value).items() if inspect.isfunction(made) and name[0] != "_"]


@pytest.mark.parametrize(("module", "name"), NAMES, ids=lambda each: getattr(each, "__name__", each))
def test_a_stable_name_has_documentation_and_types(module: ModuleType, name: str) -> None:
    value = getattr(module, name)
    if inspect.isclass(value) or inspect.isfunction(value):
        assert inspect.getdoc(value), "no documentation"
        assert not [method for method, _ in callables(value) if method and not inspect.getdoc(getattr(value, method))]
    untyped = [
        f"{method}({parameter.name})"
        for method, function in callables(value)
        for parameter in inspect.signature(function).parameters.values()
        if parameter.annotation is parameter.empty and parameter.name not in ("self", "cls")
    ]
    assert untyped == []


def test_every_stable_name_and_method_is_used_in_a_test() -> None:
    unused = {
        ".".join(filter(None, (module.__name__.rpartition(".")[2], name, method)))
        for module, name in NAMES
        for method in ("", *(method for method, _ in callables(getattr(module, name))))
        if (method or name) not in words_of_tests()
    }
    assert unused == set()
