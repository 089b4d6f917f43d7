"""The queue of one directive (LLVM's `AsyncInfoTy`): a stream taken at first use, and what is left to do after it has
drained.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import attrs

PostProcessing = Callable[[], Awaitable[None]]


@attrs.define(eq=False)
class DirectiveQueue:
    """cause: the number of the directive.

    kernel_error: what a kernel of this queue did wrong, raised at synchronization.
    lasts: the directive ends before its queue has drained, and the stream belongs to a `LastingQueue`.
    """

    cause: int
    stream: Any = None
    post_processing: list[PostProcessing] = attrs.field(factory=list)
    kernel_error: Exception | None = None
    lasts: bool = False
