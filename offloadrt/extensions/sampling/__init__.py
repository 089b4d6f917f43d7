"""Long programs that repeat themselves, of which a few steps are run (`--sample-phases`). Open `phases.py`."""
