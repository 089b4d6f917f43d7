"""Algebra of whole numbers: what bounds and indices are made of.

``polynomial.py``  `Polynomial`: integer polynomials over loop variables, scalars and lengths. Open it first.
``operations.py``  `SymbolicOperation`: what is no polynomial, such as quotients and minima.
``intervals.py``   `Cut`: a range of a polynomial, and how conditions on such ranges combine.
"""
