"""Policies by name that are not offloadrt's own: a package's entry points, and classes in a file of the user's."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any


def offered(name: str, group: str) -> Any:
    """Return what a package offers in a group by that name, or `FILE.py:NAME` names; None for any other name.

    Raises ValueError for a file that cannot be loaded, or has no such name.
    """
    file, colon, own = name.rpartition(":")
    if colon and file.endswith(".py"):
        return _named_in(Path(file), own)
    for point in entry_points(group=group):
        if point.name == name:
            return point.load()
    return None


def names_of(group: str) -> list[str]:
    """Return the names that packages offer in a group."""
    return [point.name for point in entry_points(group=group)]


def as_object(found: Any) -> Any:
    """Return an object of a class that was offered; an object unchanged.

    Raises ValueError for a class that needs arguments.
    """
    try:
        return found() if isinstance(found, type) else found
    except TypeError as error:
        raise ValueError(str(error)) from None


def _named_in(path: Path, name: str) -> Any:
    module = f"offloadrt_policies_{path.stem}_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]}"
    if module not in sys.modules:
        spec = importlib.util.spec_from_file_location(module, path)
        assert spec is not None and spec.loader is not None
        loaded = sys.modules[module] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(loaded)
        except Exception as error:
            del sys.modules[module]
            what = (
                f"cannot be read: {error.strerror}"
                if isinstance(error, OSError)
                else f"{type(error).__name__}: {error}"
            )
            raise ValueError(f"{path}: {what}") from error
    if not hasattr(sys.modules[module], name):
        raise ValueError(f"{path}: has no {name}")
    return getattr(sys.modules[module], name)
