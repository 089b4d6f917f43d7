"""The programming models of the core, `openmp/` and `cuda/`, and what all models share: `host/`.

A model has a `program.py` (its options, its devices and what its threads share) and a `host_thread.py` (what the body
of a thread can do). Models know nothing of one another; extensions have more. Open `openmp/host_thread.py` first.
"""
