"""What the papers report, and how each report is judged.

One TOML file a paper holds its claims. `input` claims may be put into a model and `calibrate` claims may fit a
machine; a `predict` claim must emerge. Nothing reads the claims but `offloadrt validate` and the tests. The module
of the same name judges them: one generator function a claim, which asks for runs and says what came out.
"""

from __future__ import annotations

import importlib.resources
import tomllib
from typing import Literal

import attrs
import msgspec

from offloadrt.study.errors import UserError, did_you_mean


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


def papers() -> list[str]:
    """The papers whose claims are here."""
    folder = importlib.resources.files(__name__)
    return sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml"))


def claims_of(paper: str) -> list[Claim]:
    """All claims of a paper, in the order of its file. Raises UserError for a paper that is not here."""
    if paper not in papers():
        raise UserError(
            f"--paper {paper}: no claims of it{did_you_mean(paper, papers())} (there are: {', '.join(papers())})"
        )
    text = (importlib.resources.files(__name__) / f"{paper}.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text)["claim"], list[Claim])
