"""Conformance: programs that were recorded on LLVM's runtime are replayed, and every step is compared.

`conform.py` reads the recordings, runs one of them, or all of a folder, through the emulated runtime and reports the
differences; open it first.
"""
