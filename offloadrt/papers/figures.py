"""What the sweeps of a paper's scenarios draw: the tables `[figure.NAME]` of `figures.toml` in its package."""

from __future__ import annotations

import importlib.resources
import tomllib
from typing import Any

from offloadrt.study.scripts.definition import Figure


def figures_of(paper: str) -> dict[str, Figure]:
    """Read the figures of the paper of that name, by their names.

    A table has the fields of `Figure`. With `like` it has those of another table that it does not replace; with
    `named`, values are called as in the table `[names]`, which the figures of a paper share. Raises TypeError for a
    field that does not exist.
    """
    file = importlib.resources.files(f"{__package__}.{paper}") / "figures.toml"
    tables = tomllib.loads(file.read_text(encoding="utf-8"))

    def fields(name: str) -> dict[str, Any]:
        own = dict(tables["figure"][name])
        return {**fields(own.pop("like")), **own} if "like" in own else own

    figures = {}
    for name in tables["figure"]:
        given = fields(name)
        if given.pop("named", False):
            given["names"] = tables["names"]
        figures[name] = Figure(**given)
    return figures
