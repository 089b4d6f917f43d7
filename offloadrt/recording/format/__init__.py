"""The recording of a program: what it asked of the offloading runtime, in which order, and what its kernels cost.

Open `recording.py` first: it has the tables. `convert` makes a recording of the recorder's raw files (`slots.py`),
`RecordingFile` opens one. The format is described in `README.md`.
"""

from offloadrt.recording.format.container import RecordingFile, is_recording
from offloadrt.recording.format.convert import convert
from offloadrt.recording.format.recording import (
    NotARecording,
    Recording,
    RecordingDamaged,
    RecordingError,
    RecordingTooNew,
)

__all__ = [
    "NotARecording",
    "Recording",
    "RecordingDamaged",
    "RecordingError",
    "RecordingFile",
    "RecordingTooNew",
    "convert",
    "is_recording",
]
