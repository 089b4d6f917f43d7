"""The figures that a paper's scenarios draw of their sweeps: tables `[figure.NAME]` of the paper's `figures.toml`."""

from __future__ import annotations

import importlib.resources
import tomllib
from collections.abc import Collection, Iterable
from typing import Any

import attrs
import msgspec

from offloadrt.study.errors import UserError, did_you_mean
from offloadrt.study.scripts.definition import Figure, PublishedPoint


class FigureRefused(UserError, ValueError):
    """Raised for a file of figures that cannot be read; the message names the file, the figure and the field."""


def figures_of(paper: str) -> dict[str, Figure]:
    """Read the figures of the paper of that name, by their names. Raises FigureRefused."""
    package = f"{__package__}.{paper}"
    file = importlib.resources.files(package) / "figures.toml"
    return read_figures(file.read_text(encoding="utf-8"), str(file), package)


def read_figures(text: str, file: str, package: str) -> dict[str, Figure]:
    """Read the text of a file of figures (drawings of sweeps), by name.

    file: the file's name, for errors. package: the paper's package, whose claims (the numbers that the paper reports)
    the figures show as published points.

    A table has the fields of `Figure`. With `like` it inherits the fields of another table that it does not set itself.
    With `named`, values get their names from the table `[names]`, which all figures of a paper share. `published` lists
    tables with the fields of `PublishedPoint`. Raises FigureRefused for invalid TOML, and for a field or a `like` that
    does not exist.
    """
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FigureRefused(f"{file}: is not valid TOML: {error}") from None

    def fields(name: str) -> dict[str, Any]:
        own = dict(tables["figure"][name])
        if "like" not in own:
            return own
        other = own.pop("like")
        if other not in tables["figure"]:
            raise FigureRefused(f"{file}: figure {name}: field like: there is no figure {other}")
        return {**fields(other), **own}

    figures = {}
    for name in tables.get("figure", {}):
        given = fields(name)
        if given.pop("named", False):
            given["names"] = tables["names"]
        where = f"{file}: figure {name}"
        points = given.pop("published", ())
        given["published"] = tuple(_published(point, package, f"{where}: published") for point in points)
        _check_fields(given, attrs.fields_dict(Figure), where)
        figures[name] = Figure(**given)
    return figures


def _check_fields(given: Iterable[str], known: Collection[str], where: str) -> None:
    for field in given:
        if field not in known:
            raise FigureRefused(f"{where}: field {field}: there is none{did_you_mean(field, known)}")


def _published(given: dict[str, Any], package: str, where: str) -> PublishedPoint:
    _check_fields(given, [name for name in attrs.fields_dict(PublishedPoint) if name != "package"], where)
    try:
        return msgspec.convert({"package": package, **given}, PublishedPoint)
    except msgspec.ValidationError as error:
        raise FigureRefused(f"{where}: {given.get('claim', 'a point without a claim')}: {error}") from None
