"""Profiles of real machines: unit costs from profilers' and benchmarks' files that were recorded on a machine.

Open ``calibration.py`` first: ``calibrate`` reads the files, measures entries of a base profile, and lists which
entries disagree with the base and which stay. ``readers/`` turns each kind of file into a ``DeviceTrace`` or rows of
benchmarks; ``operations.py`` finds the operations of a trace that nothing disturbed; ``cuda_entries.py``,
``rocr_entries.py`` and ``benchmark_entries.py`` say to which entry an operation belongs. ``machines.py`` shows
profiles. There are no actors here.
"""
