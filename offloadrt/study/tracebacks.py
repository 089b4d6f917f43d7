"""The script's own traceback: what the user's code did, without the frames of the emulator, Trio and the import
machinery.
"""

from __future__ import annotations

import traceback
from pathlib import Path

import attr
import outcome
import trio

import offloadrt
from offloadrt.study.errors import ScriptFailed

_PACKAGE = Path(offloadrt.__file__).resolve().parent
_HIDDEN = tuple(
    str(Path(module.__file__).resolve().parent) + "/" for module in (trio, outcome, attr, offloadrt) if module.__file__
)
_SHOWN = str(_PACKAGE / "scenarios") + "/"


def _own(filename: str) -> bool:
    """Whether a frame of that file belongs to the script (or to a library that it called)."""
    if filename.startswith("<frozen importlib"):
        return False
    return filename.startswith(_SHOWN) or not filename.startswith(_HIDDEN)


def _prune(story: traceback.TracebackException) -> None:
    story.stack = traceback.StackSummary.from_list([frame for frame in story.stack if _own(frame.filename)])
    for name in ("__cause__", "__context__"):
        earlier = getattr(story, name)
        if earlier is not None:
            _prune(earlier)
            if not earlier.stack:
                setattr(story, name, None)
    for member in story.exceptions or ():
        _prune(member)


def innermost(error: BaseException) -> BaseException:
    """The one exception inside groups that hold a single one each; `error` itself when a group holds several."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def script_traceback(error: BaseException) -> str:
    """The text of the traceback of `error` with only the user's frames; the bare message when there are none."""
    story = traceback.TracebackException.from_exception(innermost(error), compact=True)
    _prune(story)
    text = "".join(story.format())
    if not story.stack and not isinstance(innermost(error), BaseExceptionGroup):
        text = "".join(story.format_exception_only())
    return text.rstrip("\n")


def script_failure(error: BaseException) -> ScriptFailed:
    """The error to raise from `error`, with the script's own traceback as its text."""
    return ScriptFailed(script_traceback(error))
