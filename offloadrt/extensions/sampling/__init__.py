"""Runs a few steps of long programs that repeat themselves, to stand for all (`--sample-phases`). Open `phases.py`."""
