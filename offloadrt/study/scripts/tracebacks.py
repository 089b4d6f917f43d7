"""The script's own traceback, without the frames of the emulator, Trio and the import machinery.

The environment variable OFFLOADRT_FULL_TRACEBACK shows them all, for work on the emulator itself.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
import traceback
from pathlib import Path
from types import FrameType, TracebackType

import attr
import outcome
import trio

from offloadrt.sim.story import leaves
from offloadrt.study.errors import ScriptFailed, did_you_mean
from offloadrt.study.scripts.listing import PACKAGE

_LIBRARIES = [Path(module.__file__).resolve().parent for module in (trio, outcome, attr) if module.__file__]
_HIDDEN = tuple(f"{folder}/" for folder in (*_LIBRARIES, PACKAGE))
_SHOWN = f"{PACKAGE / 'scenarios'}/"


def _own(filename: str) -> bool:
    """Tell whether a frame of that file belongs to the script, or to a library that the script called."""
    if os.environ.get("OFFLOADRT_FULL_TRACEBACK"):
        return True
    if filename.startswith(("<frozen importlib", "<attrs generated")):
        return False
    return filename.startswith(_SHOWN) or not filename.startswith(_HIDDEN)


def script_line() -> str:
    """Return the file and line at which the script runs now, as ` (FILE, line N)`; empty when none runs."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        code = frame.f_code
        if code.co_flags & inspect.CO_COROUTINE and _own(code.co_filename) and "site-packages" not in code.co_filename:
            return f" ({code.co_filename}, line {frame.f_lineno})"
        frame = frame.f_back
    return ""


def _prune(story: traceback.TracebackException) -> None:
    story.stack = traceback.StackSummary.from_list([frame for frame in story.stack if _own(frame.filename)])
    for name in ("__cause__", "__context__"):
        if (earlier := getattr(story, name)) is not None:
            _prune(earlier)
            if not earlier.stack:
                setattr(story, name, None)
    for member in story.exceptions or ():
        _prune(member)


def innermost(error: BaseException) -> BaseException:
    """Return the single exception inside exception groups; return `error` if there are different ones.

    If several threads raised the same error, return the first one, with a note of how many they were.
    """
    if not isinstance(error, BaseExceptionGroup):
        return error
    different = _different(error)
    return different[0] if len(different) == 1 else error


def _different(error: BaseException) -> list[BaseException]:
    """Return the errors inside exception groups, one for each type and line, with a note of how many there were."""
    kinds: dict[object, list[BaseException]] = {}
    for leaf in leaves(error):
        kinds.setdefault((type(leaf), _line(leaf) or _of_any_thread(leaf)), []).append(leaf)
    for first, *others in kinds.values():
        same = all(_of_any_thread(other) == _of_any_thread(first) for other in others)
        note = f"raised {len(others) + 1} times" + ("" if same else ", with other words by others")
        if others and note not in getattr(first, "__notes__", ()):
            first.add_note(note)
    return [members[0] for members in kinds.values()]


def _line(error: BaseException) -> tuple[str, int] | None:
    """Return file and line of the script where an error was raised, None when no frame is the script's."""
    files = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    return next((site for site in reversed(files) if _own(site[0])), None)


def _of_any_thread(error: BaseException) -> str:
    return re.sub(r"\bhost thread \d+", "host thread", str(error))


def _formatted(error: BaseException) -> str:
    story = traceback.TracebackException.from_exception(error, compact=True)
    _prune(story)
    text = "".join(story.format() if story.stack else story.format_exception_only()).rstrip("\n")
    if isinstance(error, AttributeError) and "Did you mean" not in text:  # Python says so from 3.12 on
        text = text.replace(str(error), str(error) + did_you_mean(str(error.name), dir(error.obj)), 1)
    return text


def unwrapped(error: BaseException) -> BaseException:
    """Return the single exception inside `error`, with a traceback of only the user's frames if there are any."""
    inner = innermost(error)
    frames = []
    trace = inner.__traceback__
    while trace is not None:
        if _own(trace.tb_frame.f_code.co_filename):
            frames.append(trace)
        trace = trace.tb_next
    shortened: TracebackType | None = None
    for frame in reversed(frames):
        shortened = TracebackType(shortened, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return inner if shortened is None else inner.with_traceback(shortened)


def script_failure(error: BaseException) -> ScriptFailed:
    """Make the error to raise from `error`, with its traceback of only the user's frames, or else its message, as text.

    An error that several threads raised at one line is shown once; different errors are shown one below the other.
    """
    return ScriptFailed("\n\n".join(_formatted(one) for one in _different(error)))
