"""What a compiler of C++ standard parallelism refuses."""

from __future__ import annotations


class CompilationRefused(Exception):
    """The implementation's compiler does not accept the program, which does not start.

    icpx: a kernel captures an array by reference. The message names the implementation, the algorithm and the array.
    """
