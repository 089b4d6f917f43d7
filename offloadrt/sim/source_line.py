"""Where in the user's program an actor stands: file and line for messages, and what it called there.

A frame is the user's when its file is no part of this package, nor of Trio or another installed library.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Final

import outcome
import trio

_PACKAGE: Final = Path(__file__).resolve().parents[1]
_OTHERS: Final = tuple(f"{Path(str(module.__file__)).resolve().parent}/" for module in (trio, outcome))
_SCENARIOS: Final = f"{_PACKAGE / 'scenarios'}/"
"""In a wheel the scenarios lie inside the package; they are programs all the same."""

Frames = Iterable[tuple[FrameType, int]]
"""Frames with their lines, the innermost last."""


def is_users(file: str) -> bool:
    """Tell whether a file is of the user's program."""
    if file.startswith("<") or "site-packages" in file:
        return False
    return file.startswith(_SCENARIOS) or not file.startswith((f"{_PACKAGE}/", *_OTHERS))


def awaited(coroutine: Any) -> Iterator[tuple[FrameType, int]]:
    """Yield the frames of a coroutine that waits, down to the innermost one that it awaits."""
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "gi_frame", None)
        if frame is not None:
            yield frame, frame.f_lineno
        coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "gi_yieldfrom", None)


def running(frame: FrameType | None) -> Frames:
    """Return the frames of the calls that are in progress, `frame` as the innermost."""
    frames = []
    while frame is not None:
        frames.append((frame, frame.f_lineno))
        frame = frame.f_back
    return reversed(frames)


def raised(trace: TracebackType | None) -> Frames:
    """Return the frames that an error came through."""
    return traceback.walk_tb(trace)


def site(frames: Frames) -> str:
    """Return `FILE:LINE` of the innermost frame of the user's; empty when there is none."""
    return _split(frames)[0]


def _split(frames: Frames) -> tuple[str, FrameType | None]:
    """Return `FILE:LINE` of the innermost frame of the user's, and the frame of what it has called."""
    place, called = "", None
    wanted = True
    for frame, line in frames:
        file = frame.f_code.co_filename
        if is_users(file):
            place, called, wanted = f"{Path(file).name}:{line}", None, True
        elif wanted and not (place == "" and file.startswith(f"{_PACKAGE / 'sim'}/")):
            called, wanted = frame, False
    return place, called


def call(frames: Frames) -> tuple[str, str]:
    """Return `FILE:LINE` of the innermost frame of the user's, and the name of what it has called there.

    A name of Trio's begins with `trio.`, one of this package has its class in small letters, as in `run.parallel`.
    Both are empty when they are not known, the name also for what `async with` calls.
    """
    place, called = _split(frames)
    if called is None or called.f_code.co_name.startswith("__"):
        return place, ""
    name = called.f_code.co_qualname.rpartition("<locals>.")[2]
    head = name.partition(".")[0]
    if called.f_code.co_filename.startswith(f"{_PACKAGE}/"):
        return place, head.lower() + name[len(head) :] if "." in name else name
    for prefix, module in (("trio", trio), ("trio.lowlevel", trio.lowlevel)):
        if hasattr(module, head):
            return place, f"{prefix}.{name}"
    return place, name
