"""The queue of one directive (LLVM's `AsyncInfoTy`): a stream, and what is left to do after it has drained.

The stream is taken at first use.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import attrs

from offloadrt.driver import Touching
from offloadrt.kernels import Launch
from offloadrt.runtime.mapping.map_item import MapItem
from offloadrt.sim import Signal

PostProcessing = Callable[[], Awaitable[None]]


@attrs.frozen(eq=False)
class PreparedKernel:
    """A launch that is not carried out but becomes a node of a graph; its kernel's body computes the result."""

    launch: Launch
    touching: Touching


@attrs.define(eq=False)
class DirectiveQueue:
    """cause: the number of the directive.

    kernel_error: what a kernel of this queue did wrong, raised at synchronization. lasts: the directive ends before its
    queue has drained, and the stream belongs to a `AsyncQueue`, which keeps it. For a directive that is left early
    (`abandoned.py`): items, of which the first `mapped` are left to unmap; copy, the completion of one outside of the
    stream; private, which frees its private arguments. kept: what the memory configuration's hooks keep of it.
    """

    cause: int
    stream: Any = None
    post_processing: list[PostProcessing] = attrs.field(factory=list)
    ending: list[Any] = attrs.field(factory=list)
    kernel_error: Exception | None = None
    lasts: bool = False
    items: Sequence[MapItem] = ()
    mapped: int = 0
    copy: Signal | None = None
    private: PostProcessing | None = None
    kept: object = None


@attrs.define(eq=False)
class PreparedDirective(DirectiveQueue):
    """The queue of target regions that do not launch their kernels, but leave them to become nodes of a graph."""

    kernels: list[PreparedKernel] = attrs.field(factory=list)
