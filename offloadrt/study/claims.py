"""Claims: what a paper reports, one entry for each, in the file `claims.toml` of the paper's package.

`input` claims may be put into a model and `calibrate` claims may fit a machine; a `predict` claim must emerge.
Nothing reads claims but `offloadrt validate` and the tests. `judging.py` says how a claim is judged, and `paper.py`
what belongs to a paper.
"""

from __future__ import annotations

import importlib.resources
import tomllib
from typing import Literal

import attrs
import msgspec


@attrs.frozen
class Claim:
    """One thing that a paper reports.

    `relation` says in words what must hold, `lo` and `hi` are the band that counts as right.
    """

    id: str
    paper: str
    where: str
    quote: str
    kind: Literal["quantity", "ordering", "trend", "mechanism"]
    role: Literal["input", "calibrate", "predict"]
    applies: str = ""
    relation: str = ""
    value: int | float | list[int | float | str] | None = None
    unit: str = ""
    lo: float | None = None
    hi: float | None = None
    note: str = ""

    @property
    def reported(self) -> str:
        """What the paper says, in short: the figure where there is one, else the relation."""
        if self.value is None:
            return self.relation or self.quote
        band = f" ({self.lo:g} or more)" if self.lo is not None and self.hi is None else ""
        if self.lo is not None and self.hi is not None:
            band = f" ({self.lo:g} to {self.hi:g})"
        return f"{self.value} {self.unit}{band}"


def claims_of(package: str) -> list[Claim]:
    """Read the claims of the paper whose package this is, in the order of its file."""
    text = (importlib.resources.files(package) / "claims.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text)["claim"], list[Claim])
