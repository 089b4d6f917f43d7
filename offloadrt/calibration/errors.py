"""What is wrong with a file that is calibrated from."""

from __future__ import annotations


class CalibrationError(ValueError):
    """A file that cannot be read, or that has nothing to calibrate from; the message names the file and the reason."""
