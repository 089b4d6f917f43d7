"""Which line of the program is running: the innermost one outside of the emulator and of the libraries."""

from __future__ import annotations

import sys
import sysconfig
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType

_PACKAGE = Path(__file__).resolve().parent.parent
_LIBRARY = sysconfig.get_path("stdlib")
_OF_PROGRAMS = ("papers",)
"""Folders of the package whose modules are programs."""


@lru_cache(4096)
def _is_program(code: CodeType) -> bool:
    path = Path(code.co_filename)
    if path.is_relative_to(_PACKAGE):
        return path.relative_to(_PACKAGE).parts[0] in _OF_PROGRAMS
    return not code.co_filename.startswith(("<", _LIBRARY)) and "site-packages" not in path.parts


def program_line() -> str:
    """Return ``file.py:line`` of the program, "" where none of its lines is being run."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if _is_program(frame.f_code):
            return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
