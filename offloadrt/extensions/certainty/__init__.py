"""Draws of values in all uncertain ranges, for intervals and rankings of results. Open `draws.py`."""
