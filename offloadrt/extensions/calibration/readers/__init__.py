"""The files that can be calibrated from: `nsys.py`, `rocpd.py` and `benchmarks.py`; `kinds.py` tells them apart."""
