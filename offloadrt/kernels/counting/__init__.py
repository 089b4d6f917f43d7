"""Counting iterations: how often the blocks of a loop nest run once the arguments of a launch are known.

``counting.py``      `Counting`: runs of a block, exact for affine bounds. Open it first.
``summation.py``     Sums over loops that depend on one another, without adding one by one.
``index_ranges.py``  The smallest and the largest value of an index.
"""
