"""Where the accesses of a launch lie in their arrays.

isl (islpy) was tried for boxes and touched elements: it is exact under conditions, where ours bounds, but two to three
times slower on a guarded stencil, and it knows no products of variables, so that both would have to stay.

``boxes.py``      Rectangles of elements that an access may touch under its conditions, and their bytes. Open it first.
``touched.py``    How many different elements accesses touch (`footprint.py`: unions of runs of elements).
``reach.py``      The ranges in which an order of accesses lies, and the runs of neighbours within them.
``bounds.py``     Which access surely leaves its array.
"""
