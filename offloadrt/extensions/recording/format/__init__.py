"""The recording of a program: its calls of the offloading runtime in order, and the costs of its kernels.

Open `recording.py` first: it has the tables. `convert` makes a recording of the recorder's raw files (`slots.py`),
`RecordingFile` opens one. `README.md` describes the format.
"""

from offloadrt.extensions.recording.format.container import RecordingFile, is_recording
from offloadrt.extensions.recording.format.convert import convert
from offloadrt.extensions.recording.format.recording import (
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
