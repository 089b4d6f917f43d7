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
