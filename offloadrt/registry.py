"""Finds objects that are chosen by name: the project's own, an installed package's, or those in a file of the user's.

Everything that can be chosen is an entry point, the project's own objects too (`pyproject.toml`), so that the objects
of other packages need no code of their own. `Registry` lists the names of one group without importing anything, and
loads the object of a name. This module imports nothing of the project: every floor may have a registry.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import attrs

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

T = TypeVar("T")
_PROJECT = "offloadrt"


def regular(path: Path) -> Path:
    """Return the path of an input unchanged. Raises OSError for a device, pipe or socket: reading it may never end."""
    if "\0" in str(path):
        raise OSError(errno.EINVAL, "its name has a NUL character")
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(errno.EINVAL, "it is a device, a pipe or a socket, and no file")
    return path


class NotInstalled(ValueError):
    """Raised for a name whose module is missing, because that part of the package is not installed."""


class Unusable(ValueError):
    """Raised for an entry point of another package that cannot be loaded, or is not of its kind."""


def broken(kind: str, policy: object, what: str) -> RuntimeError:
    """Return the error for a policy or other object whose answer breaks the rules.

    kind: what sort of object it is, for the message. what: what it does wrong.
    """
    name = getattr(policy, "name", type(policy).__name__)
    return RuntimeError(f"{kind} {name!r} (class {type(policy).__name__}): {what}")


def lacking(thing: object, needs: Sequence[str]) -> list[str]:
    """Return the names among `needs` that `thing` lacks; one with () behind it must be something that can be called."""
    has = [callable(getattr(thing, name[:-2], None)) if name[-1] == ")" else hasattr(thing, name) for name in needs]
    return [name.removesuffix("()") for name, there in zip(needs, has, strict=True) if not there]


@attrs.frozen
class Registry(Generic[T]):
    """All objects of one kind that can be chosen by name, for example all lock policies.

    They are found by entry points: each names such an object, or a class that is called without arguments. If two entry
    points have the same name, the project's own is taken.
    """

    kind: str
    """The name of the kind in error messages, such as "lock policy"."""
    group: str
    """The group of entry points, such as ``offloadrt.lock_policies``."""
    needs: tuple[str, ...] = ()
    """The attributes that an object must have, those that are called with () behind their names."""

    def names(self) -> list[str]:
        """Return the names, sorted, without importing anything."""
        return sorted(self.points())

    def points(self) -> Mapping[str, EntryPoint]:
        """Return the entry points by name, those of this package and those of other installed packages."""
        return _groups().get(self.group, {})

    def others(self) -> Mapping[str, EntryPoint]:
        """Return the entry points that other installed packages add, by name."""
        return {name: point for name, point in self.points().items() if not _is_own(point)}

    def load(self, text: str) -> Any:
        """Return what `text` names, without calling or checking it: a name, or `FILE.py:NAME`.

        Raises ValueError, with the names that exist, for an unknown name, and for a file that cannot be loaded;
        NotInstalled for a name whose module is missing; Unusable if another package's entry point cannot be loaded.
        """
        file, colon, name = text.rpartition(":")
        if colon and file.endswith(".py"):
            return _named_in(Path(file), name)
        if (point := self.points().get(text)) is None:
            raise ValueError(self.unknown(text))
        try:
            return point.load()
        except (Exception, SystemExit) as error:
            lacks = (isinstance(error, ModuleNotFoundError) and error.name) or "nothing"
            if lacks.startswith(f"{_PROJECT}.") or f"{point.value}.".replace(":", ".").startswith(f"{lacks}."):
                raise NotInstalled(f"the {self.kind} {text!r} is not installed: {error}") from None
            if _is_own(point):
                raise
            raise Unusable(f"the {self.kind} {text!r} ({point.value}) cannot be loaded: {_reason(error)}") from error

    def find(self, given: str | T) -> T:
        """Return the object that a text names, as `load` does; an object that is given is returned unchanged.

        Raises ValueError for an unknown name, a class that cannot be called, and an object that lacks one of `needs`.
        """
        if not isinstance(given, str):
            return self.checked(given)
        loaded = self.load(given)
        try:
            return self.checked(loaded() if isinstance(loaded, type) else loaded)
        except Unusable:
            raise
        except Exception as error:
            raise Unusable(f"the {self.kind} {given!r}: {_reason(error)}") from None

    def installed(self) -> Iterator[T]:
        """Yield the object of each name, sorted by name; skip names whose module is missing (`NotInstalled`)."""
        for name in self.names():
            with contextlib.suppress(NotInstalled):
                yield self.find(name)

    def checked(self, thing: Any) -> T:
        """Return `thing` if it has all required attributes (`needs`). Raises Unusable otherwise, and for a class."""
        missing = lacking(thing, self.needs)
        if missing or isinstance(thing, type):
            what = "is a class: give an object of it" if isinstance(thing, type) else f"lacks {', '.join(missing)}"
            raise Unusable(f"{getattr(thing, '__name__', type(thing).__name__)} is no {self.kind}: it {what}")
        found: T = thing
        return found

    def unknown(self, text: str) -> str:
        """Return the error message for an unknown name: the names that exist, and the most similar one."""
        names = self.names()
        hint = "".join(f"; did you mean {near}?" for near in get_close_matches(text, names, 1))
        return f"no {self.kind} {text!r}; there are: {', '.join(names)}{hint}"


def _reason(error: BaseException) -> str:
    """Return why something could not be loaded, with the line of the user's file that raised the error."""
    step = traceback.extract_tb(error.__traceback__)[-1]
    is_ours = step.filename.startswith(("<", str(Path(__file__).parent)))
    if isinstance(error, OSError) and is_ours:
        return f"cannot be read: {error.strerror}"
    return f"{type(error).__name__}: {error}" + ("" if is_ours else f" ({step.filename}:{step.lineno})")


@functools.cache  # what is installed does not change while a process runs
def _groups() -> Mapping[str, Mapping[str, EntryPoint]]:
    from importlib.metadata import distributions  # 20 ms, so only when it is needed; the scan itself takes 2 ms

    points: list[EntryPoint] = []
    for distribution in distributions():
        try:
            points += [point for point in distribution.entry_points if point.group.startswith(f"{_PROJECT}.")]
        except (TypeError, ValueError) as error:
            raise Unusable(f"{distribution.name}: its entry_points.txt cannot be read: {error}") from None
    if not any(map(_is_own, points)):
        points += _of_checkout()
    groups: dict[str, dict[str, EntryPoint]] = {}
    for point in sorted(points, key=lambda point: not _is_own(point)):
        groups.setdefault(point.group, {}).setdefault(point.name, point)
    return groups


def _is_own(point: EntryPoint) -> bool:
    return point.dist is None or _name_of(point.dist) == _PROJECT


@functools.cache  # a distribution parses all its metadata each time that it is asked for its name: 1 ms
def _name_of(distribution: Distribution) -> str:
    return distribution.name


def _of_checkout() -> list[EntryPoint]:
    """Return the project's own entry points from the checkout's `pyproject.toml`, when it is not installed."""
    import tomllib
    from importlib.metadata import EntryPoint

    try:
        text = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    except OSError:
        return []
    groups = tomllib.loads(text)["project"]["entry-points"]
    return [EntryPoint(name, value, group) for group, points in groups.items() for name, value in points.items()]


def forget() -> None:
    """Clear the cache of entry points, for a process that has installed a package, as a test does."""
    _groups.cache_clear()


def _named_in(path: Path, name: str) -> Any:
    """Execute a Python file and return its global `name`. Raises ValueError if that fails or the name is missing."""
    module = f"offloadrt_policies_{path.stem}_{hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:8]}"
    if module not in sys.modules:
        try:
            spec = importlib.util.spec_from_file_location(module, regular(path))
            assert spec is not None and spec.loader is not None
            loaded = sys.modules[module] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(loaded)
        except (Exception, SystemExit) as error:
            sys.modules.pop(module, None)
            raise ValueError(f"{path}: {_reason(error)}") from error
    if not hasattr(sys.modules[module], name):
        raise ValueError(f"{path}: has no {name}")
    return getattr(sys.modules[module], name)
