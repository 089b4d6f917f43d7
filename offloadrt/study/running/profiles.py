"""Machines as the user names them."""

from __future__ import annotations

import importlib.resources
import tomllib
from collections.abc import Mapping
from pathlib import Path

from offloadrt import machine as machines
from offloadrt.machine import MachineSpec, ProfileError
from offloadrt.study.errors import UserError


def load(
    machine: str,
    overrides: Mapping[str, str] | None = None,
    range_end: str | Mapping[str, str | float] = "mean",
    runtime: str | None = None,
) -> MachineSpec:
    """Load a machine and a runtime by name or file, with some entries replaced and ranges at the end asked for.

    None is the machine's default runtime.

    Raises UserError with file, key and reason; for a bad entry of `overrides` with `--set` instead of the file.
    """
    try:
        spec = machines.load(machine, range_end=range_end, runtime=runtime)  # type: ignore[arg-type]  # checked by load
    except ProfileError as error:
        raise UserError(str(error)) from None
    return _with_overrides(spec, overrides or {}, "--set")


def machine_of(name: str, path: Path | None, machine: str, chosen: str | None) -> str:
    """Return the machine that the user has chosen, else that of the scenario of this name and file.

    Raises UserError, with these, when the scenario's cannot be used.
    """
    if chosen is not None:
        return chosen
    try:
        load(machine)
    except UserError as error:
        raise UserError(f"{path}: scenario {name}, machine={machine!r}: {error}") from None
    return machine


def is_based_on(machine: str, base: str) -> bool:
    """Return whether `machine` is the profile `base`, a copy that kept its name, or a file built on it.

    `machine` is a name or a file. Raises UserError when it cannot be read.
    """
    load(machine)  # it and all that it is built on can be read
    parent: str | None = machine
    while parent is not None:
        header = tomllib.loads(_text(parent))["machine"]
        if base in (parent, header["name"]):
            return True
        parent = header.get("base")
    return False


def _text(machine: str) -> str:
    if machine in machines.available():
        return (importlib.resources.files(machines) / "profiles" / f"{machine}.toml").read_text(encoding="utf-8")
    return Path(machine).read_text(encoding="utf-8")


def override(spec: MachineSpec, key: str, value: str | float | bool, *, said: str = "set") -> MachineSpec:
    """Replace one more entry of the profile. Raises UserError with who said so, key, reason and file."""
    return _with_overrides(spec, {key: value}, said)


def _with_overrides(spec: MachineSpec, overrides: Mapping[str, str | float | bool], said: str) -> MachineSpec:
    try:
        return spec.with_overrides(overrides)
    except ProfileError as error:
        raise UserError(f"{said} {error.key}: {error.reason} ({error.path})") from None


def summaries() -> list[MachineSpec]:
    """Load all machines that come with the package, each with its default runtime."""
    return [load(name) for name in machines.available()]


def runtimes() -> list[MachineSpec]:
    """Load all runtimes that come with the package."""
    return [machines.load_runtime(name) for name in machines.available_runtimes()]
