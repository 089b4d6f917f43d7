"""What two machines differ in, entry by entry."""

from __future__ import annotations

import attrs

from offloadrt.machine.profile.entry import ProfileEntry
from offloadrt.machine.profile.machine_spec import MachineSpec


@attrs.frozen
class EntryDifference:
    """An entry that two machines have differently; None for a machine that does not have it."""

    key: str
    one: ProfileEntry | None
    other: ProfileEntry | None


def differences(one: MachineSpec, other: MachineSpec) -> list[EntryDifference]:
    """Return the entries whose value or range differs, in the order of the first machine, then of the second.

    Another source for the same number is no difference.  An entry that is only there to compare with is left out where
    one of the machines does not have it.
    """
    keys = [*one.entries, *(key for key in other.entries if key not in one.entries)]
    pairs = [EntryDifference(key, one.entries.get(key), other.entries.get(key)) for key in keys]
    return [pair for pair in pairs if _differs(pair.one, pair.other)]


def _differs(one: ProfileEntry | None, other: ProfileEntry | None) -> bool:
    if one is None or other is None:
        only = one or other
        return only is not None and not only.reference
    return (one.value, one.low, one.high) != (other.value, other.low, other.high)
