"""The ExaHyPE paper: offloading of a finite-volume solver from many host threads to one GPU.

`program/` is the solver, `memory_manager.py` its pools of device memory (`omp.GpuMemoryManager`), `claims.toml` what
the paper reports, `judges` how each report is checked, `figures.toml` what its scenarios draw.
"""
