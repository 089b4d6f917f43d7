"""Which pages a fault on managed memory brings along: one policy, one file.

``prefetch.policy`` of the profile names a policy: an entry point of the group ``offloadrt.prefetch_policies``, or
``FILE.py:CLASS``.  ``prefetch.tree = false`` (the module parameter ``uvm_perf_prefetch_enable``) turns prefetching off,
whatever the policy.  A policy is pure: it gets the faulted pages of one block and returns the pages that migrate.  The
driver asks the same policy for faults of the GPU and of the host.
"""

from __future__ import annotations

from typing import Final, Protocol

import attrs

from offloadrt.kernels.integers import is_integer
from offloadrt.registry import Registry, broken


@attrs.frozen
class PrefetchRules:
    """The sizes and the threshold that a prefetch policy gets in addition to the state of a block."""

    pages: int
    """Pages of a block, a power of two."""
    big: int
    """Pages of a big page (``page.uvm_big``), a power of two."""
    threshold: float
    """Fraction of the pages of an aligned part (subtree) of a block that, once exceeded, brings all of that part."""


class PrefetchPolicy(Protocol):
    """Chooses which pages migrate together with faulted pages; each device has its own policy object."""

    name: str

    def brings(self, there: int, faulted: int, valid: int, thrashing: int, rules: PrefetchRules) -> int:
        """Return the pages of a block that migrate when pages of it fault. A set of pages is an int; bit k is page k.

        ``faulted`` are the pages with faults; ``there`` are pages that already are at the faulting processor; ``valid``
        are pages that belong to allocations; ``thrashing`` are pages that migrate to and fro, which the real driver
        leaves out. The driver adds the faulted pages, and drops pages that are not valid or are there already.
        """


def pages_brought(
    policy: PrefetchPolicy, there: int, faulted: int, valid: int, thrashing: int, rules: PrefetchRules
) -> int:
    """Return the answer of `policy.brings` with these arguments; RuntimeError if it is no set of a block's pages."""
    pages = policy.brings(there, faulted, valid, thrashing, rules)
    if not is_integer(pages) or pages < 0:
        raise broken("prefetch policy", policy, f"brings returns {pages!r:.80}, no set of pages")
    return int(pages)


PREFETCH_POLICIES: Final[Registry[PrefetchPolicy]] = Registry(
    "prefetch policy", "offloadrt.prefetch_policies", ("name", "brings()")
)
