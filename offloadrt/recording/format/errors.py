"""What can be wrong with the file of a recording; each message names the file."""

from __future__ import annotations


class RecordingError(ValueError):
    """A recording cannot be read, made or used."""


class NotARecording(RecordingError):
    """A file or folder is no recording."""


class RecordingDamaged(RecordingError):
    """A part of a recording is missing or cut off, or its parts contradict one another."""


class RecordingTooNew(RecordingError):
    """A recording was written in a later version of the format than this offloadrt reads."""
