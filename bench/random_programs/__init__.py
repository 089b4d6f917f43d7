"""Random OpenMP programs that are right by construction, and such with one planted mistake: a yardstick for `check`.

`abstract.py` is a program's abstract form, and the oracle that says which reads are stale and which accesses race. It
shares nothing with the emulator. `generate.py` draws programs and plants mistakes; `emit.py` writes them as Python
scenarios and in C. The command is ``python -m bench.random_programs``.
"""
