"""Replays a recording as a program of `models/openmp`: host threads are actors, kernels have the recorded costs.

Open `program.py` first: it runs directives. `tasks.py` walks the records of a task, and has what the threads of a
parallel region share. `lowered.py` makes directives from what a compiler had lowered (`omp.LoweredProgram`).
`observed.py` compares the operations with those of the real runtime. `README.md` says what a replay may change.
"""

from offloadrt.extensions.recording.replay.observed import OperationDifference, Outcome
from offloadrt.extensions.recording.replay.program import check_configuration, replay
from offloadrt.extensions.recording.replay.routines import ReplayRefused

__all__ = ["OperationDifference", "Outcome", "ReplayRefused", "check_configuration", "replay"]
