"""One of everything that a package can add to offloadrt; the entry points stand in `pyproject.toml`."""

from pathlib import Path

SLOW_LINK = Path(__file__).with_name("t4-slow-link.toml")
"""The profile of a machine."""
