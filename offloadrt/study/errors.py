"""Mistakes of the user, each reported in one message.

The command line prints such an error without a traceback and exits with code 2, or 3 for a script that failed.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from offloadrt.registry import Registry


class UserError(Exception):
    """Raised when a request of the user cannot be carried out; `str(error)` is the whole message."""


class ParameterError(UserError):
    """Raised for a scenario's parameter that is unknown, unreadable, out of range, or inconsistent with another.

    Scenarios raise it themselves for combinations that their signature cannot express.
    """

    def __init__(self, parameter: str, message: str) -> None:
        super().__init__(parameter, message)
        self.parameter = parameter
        self.message = message

    def __str__(self) -> str:
        return f"parameter {self.parameter}: {self.message}"


class UnknownParameter(ParameterError):
    """Raised for a name of a parameter that the scenario does not have."""


class ScenarioNotFound(UserError):
    """Raised when there is no scenario of that name, or no readable script at that path."""


class ScenarioRefused(UserError, TypeError):
    """Raised when a function decorated with `@scenario` cannot be a scenario, or its return value is no result."""


class ScriptFailed(Exception):
    """Raised when the user's script raised an error, the ``__cause__``; `str(error)` is the script's traceback."""


@contextlib.contextmanager
def writing(path: Path) -> Iterator[Path]:
    """Yield the path of a temporary file beside `path`, which the body writes and which then replaces `path`.

    So a full disk, or Ctrl-C, leaves the old file. A path that is no file, such as /dev/stdout, is written directly. An
    OSError of the body becomes a UserError that names the path.
    """
    part = beside(path)
    try:
        yield part
        if part is not path and part.exists():
            part.replace(path)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        if part is not path:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)


def beside(path: Path) -> Path:
    """Return the path of the temporary file for `path`; `path` itself where it is no file, such as /dev/stdout."""
    if (path.exists() and not path.is_file()) or path.is_symlink():
        return path
    return path.with_name(f".{path.stem}.part{path.suffix}")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean a, b?` with the closest known words; an empty text if none is close."""
    near = difflib.get_close_matches(word, sorted(known), n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def installed(parts: Registry[Any], name: str, option: str = "") -> Any:
    """Load the object `name` from a registry. Raises UserError, which begins with `option`, if it cannot be loaded."""
    try:
        return parts.load(name)
    except ValueError as error:
        raise UserError(f"{option}{error}") from None


def library(name: str, extra: str = "study") -> Any:
    """Import the module `name`, which the optional `extra` of this package installs. Raises UserError without it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise UserError(f"this needs {package}, which is not installed: pip install 'offloadrt[{extra}]'") from None
