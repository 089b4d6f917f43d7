"""Claims: what a paper reports, one entry for each, in the file `claims.toml` of the paper's package.

An entry states its relation, its limits and the numbers that its judge needs, each of them once. `input` claims may be
put into a model and `calibrate` claims may fit a machine; a `predict` claim must emerge. A verdict is about a
mechanism (it is there), a shape (an order, a trend, a crossing) or a magnitude (a number). Nothing reads claims but
`offloadrt validate`, the figures that show what is published, and the tests. `judging.py` says how a claim is
judged, and `judging.py` what belongs to a paper.
"""

from __future__ import annotations

import importlib.resources
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

import attrs
import msgspec

from offloadrt.study.errors import UserError, did_you_mean

JudgedKind: TypeAlias = Literal["mechanism", "shape", "magnitude"]
"""What a verdict is about: that something is there; an order, a trend or a crossing; a number."""
_JUDGED_KINDS: Mapping[str, JudgedKind] = {
    "mechanism": "mechanism", "ordering": "shape", "trend": "shape", "quantity": "magnitude",
}  # fmt: skip


class ClaimRefused(UserError, ValueError):
    """An entry of a file of claims cannot be read; the message names the file, the claim and the field."""


@attrs.frozen
class Claim:
    """One thing that a paper reports, and what has to come out for it to hold."""

    id: str
    paper: str
    where: str
    quote: str
    kind: Literal["quantity", "ordering", "trend", "mechanism"]
    """What the paper reports."""
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
    judged_as: JudgedKind | None = None
    """What the verdict is about, where that is not what `kind` says."""
    fails_if: str = ""
    """What makes it fail, where no limits say so; written as `expression` is."""
    by_construction: str = ""
    """Why the verdict cannot fail, or only with another one. While it holds, it is not counted."""
    cause: str = ""
    """Why it fails: the mechanism that is missing, or the reason to accept it. Printed only when it fails."""

    @property
    def judged_kind(self) -> JudgedKind:
        """Return what the verdict is about."""
        return self.judged_as or _JUDGED_KINDS[self.kind]

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
        return self._filled(self.expression)

    @property
    def failing(self) -> str:
        """Say what makes the claim fail: figures beyond its limits, or what its entry says."""
        if self.fails_if:
            return self._filled(self.fails_if)
        low, beyond, most, short_of = self._limits
        edges = ((low, "below {:g}"), (beyond, "{:g} or less"), (most, "above {:g}"), (short_of, "{:g} or more"))
        said = [text.format(edge) for edge, text in edges if edge is not None]
        return f"a figure is {' or '.join(said)}" if said else ""

    def _filled(self, text: str) -> str:
        return text.format_map({**attrs.asdict(self, recurse=False), **self.given})

    def is_below(self, figure: float) -> bool:
        """Tell whether a figure is too small for the claim."""
        least, beyond, _, _ = self._limits
        return (least is not None and figure < least) or (beyond is not None and figure <= beyond)

    def is_above(self, figure: float) -> bool:
        """Tell whether a figure is too large for the claim."""
        _, _, most, short_of = self._limits
        return (most is not None and figure > most) or (short_of is not None and figure >= short_of)

    def admits(self, figure: float) -> bool:
        """Tell whether a figure keeps to the limits of the claim."""
        return not self.is_below(figure) and not self.is_above(figure)

    def outside(self, figures: Mapping[Any, float]) -> list[Any]:
        """List the places whose figures the claim does not admit."""
        return [place for place, figure in figures.items() if not self.admits(figure)]

    @property
    def _limits(self) -> tuple[float | None, float | None, float | None, float | None]:
        """Return the smallest figure, the one to exceed, the largest, and the one to stay below."""
        stated = (self.at_least, self.more_than, self.at_most, self.less_than)
        return stated if any(limit is not None for limit in stated) else (self.lo, None, self.hi, None)


def claims_of(package: str) -> dict[str, Claim]:
    """Read the claims of the paper whose package this is, by id, in the order of its file.

    Raises ClaimRefused.
    """
    file = importlib.resources.files(package) / "claims.toml"
    return read_claims(file.read_text(encoding="utf-8"), str(file))


def read_claims(text: str, file: str) -> dict[str, Claim]:
    """Read the text of a file of claims, by id.

    Raises ClaimRefused for what is no TOML, an unknown field, a field that is missing or has no such value, two claims
    of one id, and a judged claim that nothing says how to fail.
    """
    try:
        entries = tomllib.loads(text).get("claim", [])
    except tomllib.TOMLDecodeError as error:
        raise ClaimRefused(f"{file}: is not valid TOML: {error}") from None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ClaimRefused(f"{file}: claim: a file of claims has tables [[claim]]")
    claims = [_claim(entry, f"{file}: claim {entry.get('id', number)}") for number, entry in enumerate(entries, 1)]
    by_id = {claim.id: claim for claim in claims}
    if len(by_id) < len(claims):
        raise ClaimRefused(f"{file}: {_repeated(claim.id for claim in claims)}: several claims have this id")
    return by_id


def _claim(entry: dict[str, Any], where: str) -> Claim:
    fields = attrs.fields_dict(Claim)
    for name in entry:
        if name not in fields:
            raise ClaimRefused(f"{where}: field {name}: there is none of this name{did_you_mean(name, fields)}")
    try:
        claim = msgspec.convert(entry, Claim)
    except msgspec.ValidationError as error:
        reason, _, field = str(error).partition(" - at `$.")
        raise ClaimRefused(f"{where}: field {field.rstrip('`')}: {reason}" if field else f"{where}: {reason}") from None
    for name in ("expression", "fails_if"):
        try:
            claim._filled(getattr(claim, name))
        except KeyError as error:
            raise ClaimRefused(f"{where}: field {name}: nothing of the claim is called {error}") from None
        except (IndexError, TypeError, ValueError) as error:
            raise ClaimRefused(f"{where}: field {name}: cannot be filled in: {error}") from None
    if claim.expression and not claim.failing:
        raise ClaimRefused(f"{where}: field fails_if: is missing, and no limits say when the claim fails")
    return claim


def _repeated(ids: Iterable[str]) -> str:
    listed = list(ids)
    return next(claim_id for claim_id in listed if listed.count(claim_id) > 1)
