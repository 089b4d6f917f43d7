"""Calls that a program gets wrong: what each is told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from offloadrt.runtime.errors import OffloadError

Call = Callable[[Any], Awaitable[object]]


def is_told(run: Callable[[Call], object], wrong: Callable[[Any], Any], message: str) -> None:
    """Assert that a run of one wrong call ends with this message, and names the thread and the virtual time."""

    async def body(t: Any) -> None:
        await wrong(t)

    with pytest.raises((TypeError, ValueError, OffloadError), match=f"^{message}") as raised:
        run(body)
    assert raised.value.__notes__[0].startswith("raised in host thread 0 at t="), message
