"""Numbers held against numbers: what the emulator says beside what papers, machines and the real runtime say.

`validation/` judges the claims of a paper: open `validation/judging.py` first. `independent/` predicts measurements
that nobody fitted to. `conformance/` replays recorded programs and compares, step by step, with what LLVM's runtime
did.
"""
