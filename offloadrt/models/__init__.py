"""The programming models that programs are written in: `openmp/`, `openacc/`, `stdpar/`, `cuda/`; they share `host/`.

A model has an `options.py` (what a program is told before its machine is built), a `program.py` (its devices and what
its threads share) and a `host_thread.py` (what the body of a thread can do). Models know nothing of one another. Open
`openmp/host_thread.py` first.
"""
