"""Profiles of real machines: unit costs from files that a user can get from a machine.

Open ``calibration.py`` first: ``calibrate`` reads the files, measures entries of a base profile and says what disagrees
and what stays. ``readers/`` turns each kind of file into a ``DeviceTrace`` or rows of benchmarks; ``operations.py``
finds the operations of a trace that nothing disturbed; ``cuda_entries.py``, ``rocr_entries.py`` and
``benchmark_entries.py`` say which entry an operation belongs to. ``machines.py`` shows
profiles. There are no actors here.
"""
