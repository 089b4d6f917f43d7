"""CloverLeaf's kernels, which the programs of two papers share: JACC's in OpenACC and AdaptiveCpp's in C++.

CloverLeaf solves Euler's equations on a staggered grid: a Lagrangian step (`lagrangian.py`), advection along one axis
after the other (`advection.py`), and the reflection of every field at the edges of the grid (`halo.py`). Arrays are
indexed [row, column] and have two rings of halo cells; an array of nodes has a row and a column more, an array of faces
one of the two. The order of launches, the arrays and the initial state are each program's own.
"""
