"""The names of the C++ standard library: parallel algorithms, and the execution policies that they are called with."""

from __future__ import annotations

import enum
from typing import Final


class ExecutionPolicy(enum.Enum):
    """The policies of ``std::execution``.

    `SEQ` runs in the calling thread, `PAR` on threads that make progress independently of one another, `PAR_UNSEQ` also
    vectorised, which is what a GPU does.
    """

    SEQ = "seq"
    PAR = "par"
    PAR_UNSEQ = "par_unseq"


seq: Final = ExecutionPolicy.SEQ
par: Final = ExecutionPolicy.PAR
par_unseq: Final = ExecutionPolicy.PAR_UNSEQ

VOID: Final = ("for_each", "for_each_n", "transform", "fill", "fill_n", "copy")
"""Algorithms that return nothing, or an iterator, which the host knows without them."""

RETURNING: Final = ("transform_reduce", "reduce", "any_of", "all_of", "none_of")
"""Algorithms that return what they have computed: the caller cannot go on before they have ended."""

ALGORITHMS: Final = (*VOID, *RETURNING)
