"""Readers of the files for calibration: `nsys.py`, `rocpd.py`, and `kinds.py`, which recognizes a file's kind."""
