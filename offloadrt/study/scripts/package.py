"""Where the emulator's own files lie."""

from __future__ import annotations

from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).resolve().parents[2]
"""The folder `offloadrt`. Importing the package for its `__file__` would be an import circle."""
