"""Whole-number algebra: polynomials over loop variables and scalars, other operations on them, ranges of them."""
