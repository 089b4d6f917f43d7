"""Figures made of results, by matplotlib: of a sweep, of a comparison, of where the time of host threads went.

``figures.py``  which figure a sweep has, the names of what it shows, and what papers report of it
``notebook.py`` what a notebook shows of results, in HTML
``panels.py``   the panels of a figure: lines and bars, their scales and their ticks
"""
