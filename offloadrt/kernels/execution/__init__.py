"""Running a loop nest on real arrays: in the interpreter, or compiled by Numba, with the same results bit for bit.

``nest_body.py``       `NestBody`: the rewritten source, built for either way. Open it first.
``arithmetic.py``      The functions that it calls: loads, divisions, powers, complex numbers, the C library.
``mapped_section.py``  `MappedSection`: an array of which the device has a part.
"""
