"""Machines as the user names them."""

from __future__ import annotations

from collections.abc import Mapping

from offloadrt import machine as machines
from offloadrt.machine import MachineSpec, ProfileError
from offloadrt.study.errors import UserError


def load(
    machine: str, overrides: Mapping[str, str] | None = None, range_end: str | Mapping[str, str] = "mean"
) -> MachineSpec:
    """The profile of that name, or in that file, with some entries replaced and ranges at the end asked for.

    Raises UserError with file, key and reason.
    """
    try:
        return machines.load(machine, overrides=overrides or {}, range_end=range_end)  # type: ignore[arg-type]  # checked by load
    except ProfileError as error:
        raise UserError(str(error)) from None


def override(spec: MachineSpec, key: str, value: str | float | bool) -> MachineSpec:
    """The profile with one more entry replaced. Raises UserError with file, key and reason."""
    try:
        return spec.with_overrides({key: value})
    except ProfileError as error:
        raise UserError(str(error)) from None


def summaries() -> list[MachineSpec]:
    """All machines that come with the package."""
    return [load(name) for name in machines.available()]
