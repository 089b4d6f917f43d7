"""Claims: what a paper reports, one entry for each, in the file `claims.toml` of the paper's package.

An entry states its relation, its limits and the numbers that its judge needs, each of them once. `input` claims may be
put into a model and `calibrate` claims may fit a machine; a `predict` claim must emerge. Nothing reads claims but
`offloadrt validate` and the tests. `judging.py` says how a claim is judged, and `paper.py` what belongs to a paper.
"""

from __future__ import annotations

import importlib.resources
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import attrs
import msgspec


@attrs.frozen
class Claim:
    """One thing that a paper reports, and what has to come out for it to hold.

    Wide because it has one field for each key of an entry in `claims.toml`.
    """

    id: str
    paper: str
    where: str
    quote: str
    kind: Literal["quantity", "ordering", "trend", "mechanism"]
    role: Literal["input", "calibrate", "predict"]
    applies: str = ""
    relation: str = ""
    """What must hold, in the paper's words."""
    value: int | float | list[int | float | str] | None = None
    """The figure that the paper gives."""
    unit: str = ""
    lo: float | None = None
    """The lower end of the band around `value` that counts as right; None: it is open below."""
    hi: float | None = None
    """The upper end of that band; None: it is open above."""
    note: str = ""
    expression: str = ""
    """What the judge evaluates, with the names of limits and of what is given in braces."""
    at_least: float | None = None
    """What is judged keeps to these four limits; where none is stated, to the band."""
    at_most: float | None = None
    more_than: float | None = None
    less_than: float | None = None
    given: Mapping[str, Any] = attrs.field(factory=dict)
    """Other numbers and names that the judge needs; it gets them as keyword arguments."""

    @property
    def reported(self) -> str:
        """Say in short what the paper reports: the figure where there is one, else the relation."""
        if self.value is None:
            return self.relation or self.quote
        band = f" ({self.lo:g} or more)" if self.lo is not None and self.hi is None else ""
        if self.lo is not None and self.hi is not None:
            band = f" ({self.lo:g} to {self.hi:g})"
        return f"{self.value} {self.unit}{band}"

    @property
    def evaluated(self) -> str:
        """Say what the judge evaluates, with all numbers put in. Raises KeyError for a number that is not stated."""
        return self.expression.format_map({**attrs.asdict(self, recurse=False), **self.given})

    def is_below(self, figure: float) -> bool:
        """Tell whether a figure is too small for the claim."""
        least, beyond = (self.at_least, self.more_than) if self._has_limits else (self.lo, None)
        return (least is not None and figure < least) or (beyond is not None and figure <= beyond)

    def is_above(self, figure: float) -> bool:
        """Tell whether a figure is too large for the claim."""
        most, short_of = (self.at_most, self.less_than) if self._has_limits else (self.hi, None)
        return (most is not None and figure > most) or (short_of is not None and figure >= short_of)

    def admits(self, figure: float) -> bool:
        """Tell whether a figure keeps to the limits of the claim."""
        return not self.is_below(figure) and not self.is_above(figure)

    def outside(self, figures: Mapping[Any, float]) -> list[Any]:
        """List the places whose figures the claim does not admit."""
        return [place for place, figure in figures.items() if not self.admits(figure)]

    @property
    def _has_limits(self) -> bool:
        return any(limit is not None for limit in (self.at_least, self.at_most, self.more_than, self.less_than))


def claims_of(package: str) -> dict[str, Claim]:
    """Read the claims of the paper whose package this is, by id, in the order of its file.

    Raises ValueError for two claims of one id.
    """
    text = (importlib.resources.files(package) / "claims.toml").read_text(encoding="utf-8")
    claims = msgspec.convert(tomllib.loads(text)["claim"], list[Claim])
    by_id = {claim.id: claim for claim in claims}
    if len(by_id) < len(claims):
        raise ValueError(f"{package}: {_repeated(claim.id for claim in claims)}: several claims have this id")
    return by_id


def _repeated(ids: Iterable[str]) -> str:
    listed = list(ids)
    return next(claim_id for claim_id in listed if listed.count(claim_id) > 1)
