"""Running a loop nest on real arrays: in the interpreter, or compiled by Numba."""
