"""Where each entry of a profile is charged: in which part of a run its time passes, as `charged_in.toml` says."""

from __future__ import annotations

import importlib.resources
import tomllib
from collections.abc import Mapping
from functools import cache


@cache
def places() -> Mapping[str, tuple[str, ...]]:
    """Return, by name of a profile entry (a cost), the parts of a run's critical path that take longer if it is higher.

    The file `charged_in.toml` declares them. A name may end in `*`. A part is named after what works, such as "kernel"
    or "driver: cuMemFree", or after the wait for a lock or a server, such as "behind driver context".
    """
    text = (importlib.resources.files(__package__) / "charged_in.toml").read_text(encoding="utf-8")
    return {name: tuple(of_name) for name, of_name in tomllib.loads(text).items()}


@cache
def charged_in(key: str) -> tuple[str, ...] | None:
    """Return the parts of a critical path that take longer if the cost `key` is higher; None for an unlisted entry."""
    if key in places():
        return places()[key]
    beginnings = [name for name in places() if name.endswith("*") and key.startswith(name[:-1])]
    return places()[max(beginnings, key=len)] if beginnings else None
