"""What goes wrong while a program is built for recording or recorded."""

from __future__ import annotations


class RecordingRefused(Exception):
    """Something that is needed to record is missing, or nothing was recorded; `str(error)` says what to do."""


class ToolchainMissing(RecordingRefused):
    """A compiler, its headers or a library is not there, or too old; the message says what to install."""
