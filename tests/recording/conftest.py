"""Recordings for tests: of our own small programs, stored, and of ../shared's samples where they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from prototype_lines import raw_of

from offloadrt.extensions.recording.format import convert

FOLDER = "shared/capture/recording/recordings"
SAMPLES = next((up / FOLDER for up in Path(__file__).parents if (up / FOLDER).is_dir()), Path(FOLDER))


@pytest.fixture
def sample(tmp_path):
    """Converts a sample of ../shared to a recording, by its name."""

    def made(name: str) -> Path:
        lines = next(SAMPLES.glob(f"{name}.jsonl*"), None) if SAMPLES.is_dir() else None
        if lines is None:
            pytest.skip(f"{SAMPLES}/{name}.jsonl is not here")
        convert(raw_of(lines, tmp_path / f"{name}.raw"), tmp_path / f"{name}.rec")
        return tmp_path / f"{name}.rec"

    return made
