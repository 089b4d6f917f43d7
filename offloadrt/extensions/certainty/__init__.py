"""Draws of places in all uncertain ranges, for the intervals and the orders of results. Open `draws.py`."""
