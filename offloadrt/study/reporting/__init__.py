"""Results and what is made of them. Open `results.py` first.

================  =====================================================================================================
``results.py``    `Result`, the record of a run, and the table that the points of a sweep make
``compare.py``    runs side by side, at one place or at many places drawn in the ranges of the machine
``figures.py``    the figure of a sweep, the names of what it shows, and what papers report of it
``panels.py``     its lines and bars; the figure of where the host threads' time went
``words.py``      how values are written: in words, and in the tables of a notebook
================  =====================================================================================================
"""
