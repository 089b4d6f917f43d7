"""The files that can be calibrated from: `nsys.py`, `rocpd.py`, and those of `kinds.py`, which tells them apart."""
