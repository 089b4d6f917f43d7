"""Where each entry of a profile is charged: in which part of a run its time passes, as `charged_in.toml` says."""

from __future__ import annotations

import importlib.resources
import tomllib
from collections.abc import Mapping
from functools import cache


@cache
def places() -> Mapping[str, tuple[str, ...]]:
    """Return, by name of a profile entry, the parts of the critical path in which that entry's cost shows.

    The file `charged_in.toml` declares them. A name may end in `*`. A part may also be the wait for a lock or a server.
    """
    text = (importlib.resources.files(__package__) / "charged_in.toml").read_text(encoding="utf-8")
    return {name: tuple(of_name) for name, of_name in tomllib.loads(text).items()}


@cache
def charged_in(key: str) -> tuple[str, ...] | None:
    """Return the parts of the critical path in which an entry's cost shows; None if `charged_in.toml` has none."""
    if key in places():
        return places()[key]
    beginnings = [name for name in places() if name.endswith("*") and key.startswith(name[:-1])]
    return places()[max(beginnings, key=len)] if beginnings else None
