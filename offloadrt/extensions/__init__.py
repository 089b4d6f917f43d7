"""What the core does without: packages that use it, and that it finds by entry points (`offloadrt/registry.py`).

Each is whole in itself: its models or tools, its command, its readers. Which ones there are, and what each does, stands
in ARCHITECTURE.md; open the package that you need. `otm` is the smallest, `recording` the largest.
"""
