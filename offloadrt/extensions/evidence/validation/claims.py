"""Claims: what a paper reports, one entry for each, in the file `claims.toml` of the paper's package.

An entry states its relation, its limits and the numbers that its judge needs, each of them once. An `input` claim may
be put into a model and a `calibrate` claim may fit a machine; a `predict` claim must emerge. A verdict is about a
mechanism (it is there), a shape (an order, a trend, a crossing) or a magnitude (a number). Nothing reads claims but
`offloadrt validate`, the figures that show what is published, and the tests. `judging.py` says how a claim is judged,
and what belongs to a paper.
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
"""What a verdict is about: that a mechanism exists; an order, a trend or a crossing; or a number."""
_JUDGED_KINDS: Mapping[str, JudgedKind] = {
    "mechanism": "mechanism", "ordering": "shape", "trend": "shape", "quantity": "magnitude",
}  # fmt: skip


class ClaimRefused(UserError, ValueError):
    """Raised for an entry of a claims file that cannot be read; says the file, the claim and the field."""


@attrs.frozen
class Claim:
    """One statement of a paper, and the limits that emulated figures must keep if the statement holds.

    `id` is its name, `paper` the paper's, `where` its place in the paper (section, figure or table), and `quote` the
    paper's words. `role` says what the emulator does with the statement's number: it is put in (`input`), parameters
    may be fitted to it (`calibrate`), or it is to come out (`predict`). `applies` says in words to what the statement
    applies; `unit` is the unit of all its numbers; `note` is a remark. `at_most`, `more_than` and `less_than` are
    limits as `at_least` is.
    """

    id: str
    paper: str
    where: str
    quote: str
    kind: Literal["quantity", "ordering", "trend", "mechanism"]
    """What kind of statement the paper makes."""
    role: Literal["input", "calibrate", "predict"]
    applies: str = ""
    relation: str = ""
    """What must hold, in the paper's words."""
    value: int | float | list[int | float | str] | None = None
    """The number, or the numbers, that the paper reports, in `unit`."""
    unit: str = ""
    lo: float | None = None
    """The lower end of the band around `value` within which a figure counts as right; None: no lower end."""
    hi: float | None = None
    """The upper end of that band; None: no upper end."""
    note: str = ""
    expression: str = ""
    """What the claim's judge (a function) evaluates, as text; `{name}` is a field of the claim or of `given`."""
    at_least: float | None = None
    """A limit for each judged figure. A claim without any of the four limits has the band `lo` to `hi` instead."""
    at_most: float | None = None
    more_than: float | None = None
    less_than: float | None = None
    given: Mapping[str, Any] = attrs.field(factory=dict)
    """Other numbers and names that the judge needs; it gets them as keyword arguments."""
    judged_as: JudgedKind | None = None
    """What the verdict is about, if it does not follow from `kind`."""
    fails_if: str = ""
    """What makes the claim fail, if no limits say so; a text with `{name}` as in `expression`."""
    by_construction: str = ""
    """Why the claim cannot fail, or only together with another claim. It is then not counted among those that hold."""
    cause: str = ""
    """Why the claim fails: the missing mechanism, or the reason to accept it. Printed only if it fails."""

    @property
    def judged_kind(self) -> JudgedKind:
        """Return what the verdict on the claim is about: a number, an order, a trend or a mechanism."""
        return self.judged_as or _JUDGED_KINDS[self.kind]

    @property
    def reported(self) -> str:
        """Return in short what the paper reports: a number, its unit and the band in which a figure counts as right.

        Without a number it is what must hold, in the paper's words, or the quotation.
        """
        if self.value is None:
            return self.relation or self.quote
        band = f" ({self.lo:g} or more)" if self.lo is not None and self.hi is None else ""
        if self.lo is not None and self.hi is not None:
            band = f" ({self.lo:g} to {self.hi:g})"
        return f"{self.value} {self.unit}{band}"

    @property
    def evaluated(self) -> str:
        """Return `expression` for the report, with the values of the claim's fields and of `given` in place of names.

        Raises KeyError for a name that is neither.
        """
        return self._filled(self.expression)

    @property
    def failing(self) -> str:
        """Return in words what would make the claim fail: `fails_if`, or figures beyond its limits; else nothing."""
        if self.fails_if:
            return self._filled(self.fails_if)
        low, beyond, most, short_of = self._limits
        edges = ((low, "below {:g}"), (beyond, "{:g} or less"), (most, "above {:g}"), (short_of, "{:g} or more"))
        said = [text.format(edge) for edge, text in edges if edge is not None]
        return f"a figure is {' or '.join(said)}" if said else ""

    def _filled(self, text: str) -> str:
        return text.format_map({**attrs.asdict(self, recurse=False), **self.given})

    def is_below(self, figure: float) -> bool:
        """Tell whether a figure lies below the limits of the claim."""
        least, beyond, _, _ = self._limits
        return (least is not None and figure < least) or (beyond is not None and figure <= beyond)

    def is_above(self, figure: float) -> bool:
        """Tell whether a figure lies above the limits of the claim."""
        _, _, most, short_of = self._limits
        return (most is not None and figure > most) or (short_of is not None and figure >= short_of)

    def admits(self, figure: float) -> bool:
        """Tell whether a figure lies within the limits of the claim."""
        return not self.is_below(figure) and not self.is_above(figure)

    def outside(self, figures: Mapping[Any, float]) -> list[Any]:
        """Return the keys of those figures that lie outside the limits of the claim."""
        return [place for place, figure in figures.items() if not self.admits(figure)]

    @property
    def _limits(self) -> tuple[float | None, float | None, float | None, float | None]:
        """Return the limits (at least, more than, at most, less than) that figures must keep; None is no limit."""
        stated = (self.at_least, self.more_than, self.at_most, self.less_than)
        return stated if any(limit is not None for limit in stated) else (self.lo, None, self.hi, None)


def claims_of(package: str) -> dict[str, Claim]:
    """Read the claims file of a paper's package; return the claims by id, in the file's order. Raises ClaimRefused."""
    file = importlib.resources.files(package) / "claims.toml"
    return read_claims(file.read_text(encoding="utf-8"), str(file))


def read_claims(text: str, file: str) -> dict[str, Claim]:
    """Read the text of a file of claims, by id.

    Raises ClaimRefused for a text that is no TOML, an unknown or missing field, a field with a wrong value, two claims
    with the same id, and a claim with an `expression` but neither limits nor `fails_if`.
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
