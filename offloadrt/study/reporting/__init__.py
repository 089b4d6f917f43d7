"""Results and what is made of them: `results.py` has `Result`, the record of a run; open it first.

`table.py` puts the points of a sweep in a table, `compare.py` sets runs side by side (`compared_axes.py`: which ones),
`figures.py` draws a sweep: `panels.py` its lines and bars, `published.py` what papers report of them, `labels.py` the
names beside both.
"""
