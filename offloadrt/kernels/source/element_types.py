"""Which elements the arrays of a loop nest may have.

Only types are looked at, so that a phantom gets the same answer as an array.
"""

from __future__ import annotations

import numpy as np

from offloadrt.kernels.errors import KernelError


def check_type(kernel: str, parameter: str, given: object, is_complex: bool = False) -> None:
    """Raise KernelError for what a loop nest cannot take.

    given: the type of elements of what was passed for a parameter that is indexed, or the type of what is no array.
    is_complex: whether the parameter is annotated as an array of complex numbers.
    """
    if isinstance(given, np.dtype) and (given == np.complex128 if is_complex else _is_taken(given)):
        return
    if isinstance(given, np.dtype) and given.kind == "V" and given.names is None:
        what = "memory of no type was given; say what lies there, as in pointer.viewed(np.float64)"
    elif is_complex:
        what = f"{given} was given; pass an array of complex128, as {parameter} is annotated"
    elif given == np.complex128:
        what = f"{given} was given; annotate {parameter} as NDArray[np.complex128]"
    else:
        what = f"{given} was given; pass an array of bool, int8 to int64, uint8 to uint32, float32 or float64"
        if isinstance(given, np.dtype) and not given.isnative:
            what += ", in this machine's byte order"
    raise KernelError(f"kernel {kernel!r}: {parameter} is indexed in its source, but {what}")


def _is_taken(kind: np.dtype[np.generic]) -> bool:
    number = kind.kind in "bi" or (kind.kind == "u" and kind.itemsize < 8)
    return kind.isnative and (number or (kind.kind == "f" and 4 <= kind.itemsize <= 8))
