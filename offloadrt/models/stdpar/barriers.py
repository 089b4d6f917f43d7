"""Where the barrier behind an offloaded algorithm stays.

The standard has every algorithm wait for its kernel. An implementation that elides barriers (AdaptiveCpp's compiler
pass) delays them to what comes first: an access to memory that may be offloaded, a call that it cannot look into, malloc
and free among them, an algorithm that returns a value, the function's return.
"""

from __future__ import annotations

from typing import Literal

import attrs

Marker = Literal["algorithm", "host_access", "stack_access", "extern_call", "return"]
"""What a host program does, as far as barriers go: it has called an algorithm that returns nothing, or is about to do
one of the others.
"""


@attrs.frozen
class Barriers:
    """A thread waits for its queue at each of these."""

    at: frozenset[Marker]


EVERY = Barriers(frozenset(("algorithm", "host_access", "extern_call", "return")))
"""Behind every algorithm; what follows finds nothing to wait for."""

ELIDED = Barriers(frozenset(("host_access", "extern_call", "return")))
"""As late as the compiler may; an access to the stack is harmless."""
