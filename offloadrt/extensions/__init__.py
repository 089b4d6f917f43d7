"""What the core does without: packages that use it, and that it finds by entry points (`offloadrt/registry.py`)."""
