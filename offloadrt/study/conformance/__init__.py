"""Conformance: programs that were recorded on LLVM's runtime are replayed, and every step is compared.

`recorded.py` reads the recordings, `replay.py` runs one of them through the emulated runtime, `conform.py` runs all
of a folder and reports the differences; open `replay.py` first.
"""
