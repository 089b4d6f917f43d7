"""Compares what the emulator computes with what papers report, machines were measured at, and the real runtime did.

`validation/` judges the claims of a paper: open `validation/judging.py` first. `independent/` predicts measurements
that nobody fitted to. `conformance/` replays recorded programs and compares, step by step, with what LLVM's runtime
did.
"""
