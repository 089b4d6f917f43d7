"""What a machine's profile would have if nobody had measured anything on this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from offloadrt.machine.profile.entry import ProfileEntry
from offloadrt.machine.profile.machine_spec import (
    MACHINE,
    RUNTIME,
    as_written,
    default_runtime,
    files_of,
    scaled_entry,
)
from offloadrt.machine.profile.scaling import is_scalable


@attrs.frozen
class WithoutMeasurements:
    """The costs and rates that a machine's profile would have if nobody had measured anything on this machine."""

    entries: Mapping[str, ProfileEntry]
    """The entries that replace measured ones, scaled from other machines."""
    only_here: Sequence[str]
    """Measured entries without a counterpart from another machine; they stay."""


def left_out(name: str, runtime: str | None = None) -> WithoutMeasurements:
    """Return what the profile `name` would say, with a runtime (None: its default), if nothing had been measured there.

    Each measured entry is replaced: by the entry of the profile on which this one is based, or else by that of another
    machine, scaled by the speed of the part that it depends on, such as the core or the host's memory. Entries that
    depend on none (`scaling.py`: sizes, policies) are no costs and stay, as do values from data sheets. Raises
    ProfileError.
    """
    files = files_of(name, MACHINE)
    named = runtime if runtime is not None else default_runtime(files)
    spec = as_written(files, MACHINE)
    base = as_written(files[:-1], MACHINE) if len(files) > 1 else None
    homes = {path: as_written(files[: place + 1], MACHINE) for place, (path, _) in enumerate(files)}
    written, elsewhere = dict(spec.entries), dict(spec.elsewhere)
    if named is not None:
        of_runtime = as_written(files_of(named, RUNTIME), RUNTIME)
        written |= of_runtime.entries
        elsewhere |= of_runtime.elsewhere
        spec = attrs.evolve(spec, hosts={**spec.hosts, **of_runtime.hosts})
    found: dict[str, ProfileEntry] = {}
    only_here = []
    for key, entry in written.items():
        here = entry.measured_on in (None, spec.name) and entry.home == spec.path and "measure" in entry.source_type
        if not is_scalable(entry) or not (here or entry.measured_on == spec.name):
            continue
        other = base.entries.get(key) if base is not None and here else None
        if other is None or other.measured_on == spec.name:
            other = elsewhere.get(key)
        if other is None:
            only_here.append(key)
        else:
            found[key] = scaled_entry(other, spec, homes)
    return WithoutMeasurements(found, only_here)
