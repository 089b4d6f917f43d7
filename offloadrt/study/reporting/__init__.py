"""Results and what is made of them. Open `results.py` first.

================  =====================================================================================================
``results.py``    `Result`, the record of a run, and the table that the points of a sweep make
``compare.py``    runs side by side, at one place or at many places drawn in the ranges of the machine
``words.py``      how values are written: in words, and in the tables of a notebook
================  =====================================================================================================
"""
