"""The ExaHyPE paper: offloading of a finite-volume solver from many host threads to one GPU.

`program/` is the solver, `memory_manager.py` has its pools of device memory (`omp.GpuMemoryManager`). `claims.toml` has
the paper's claims, `judges.py` the checks of each, `figures.toml` what the scenarios' figures draw.
"""
