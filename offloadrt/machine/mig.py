"""MIG: a GPU as several instances, each with SMs, copy engines and a part of memory, cache and bandwidth of its own.

A GPU has seven compute slices and eight memory slices. An instance is named by its compute slices and its memory, as
``nvidia-smi mig -lgip`` names it: 1g.5gb on an A100 of 40 GB, 1g.10gb on one of 80 GB. It takes adjacent memory slices
from certain places on (NVIDIA Multi-Instance GPU User Guide, Supported MIG Profiles), so not every split that would fit
by its sums is possible. What instances have in common is the link to the host. Two simplifications: an instance has a
copy engine for each direction, where a 1g instance has one for both; and one compute instance fills a GPU instance.
"""

from __future__ import annotations

import math
import re
from typing import Final

import attrs

from offloadrt.machine.profile.machine_spec import MachineSpec, ProfileError

COMPUTE_SLICES: Final = 7
MEMORY_SLICES: Final = 8

_PLACES: Final[dict[tuple[int, int], tuple[int, ...]]] = {
    (1, 1): (0, 1, 2, 3, 4, 5, 6),
    (1, 2): (0, 2, 4, 6),
    (2, 2): (0, 2, 4),
    (3, 4): (0, 4),
    (4, 4): (0,),
    (7, 8): (0,),
}
"""The memory slices at which an instance of so many compute and memory slices may begin."""


class ImpossibleSplit(ProfileError):
    """MIG instances that do not fit on the GPU together, or of a profile that it does not have."""


@attrs.frozen
class InstanceProfile:
    """An instance by its slices."""

    compute: int
    memory: int

    def name(self, mem_size: float) -> str:
        """Return its name on a GPU with so many bytes of memory: ``3g.40gb``."""
        return f"{self.compute}g.{math.floor(mem_size / 1e9 * self.memory / MEMORY_SLICES + 0.5)}gb"


def instances_of(spec: MachineSpec) -> list[InstanceProfile]:
    """Return the instances into which ``mig.instances`` splits the GPU.

    Raises ImpossibleSplit for a profile that the GPU does not have, and for a split that is not possible.
    """
    size, key = spec.value("mem.size"), "mig.instances"
    known = {profile.name(size): profile for profile in (InstanceProfile(*slices) for slices in _PLACES)}
    words = [] if (text := spec.text(key)) == "none" else re.split(r"[,\s]+", text.strip())
    if not words:
        raise ImpossibleSplit(
            spec.path, key, f"is none, but process.sharing is mig; name instances: {', '.join(known)}"
        )
    for word in words:
        if word not in known:
            raise ImpossibleSplit(spec.path, key, f"{word!r} is no profile of this GPU; there are {', '.join(known)}")
    profiles = [known[word] for word in words]
    compute = sum(profile.compute for profile in profiles)
    if compute > COMPUTE_SLICES:
        reason = f"{' '.join(words)} takes {compute} compute slices, and the GPU has {COMPUTE_SLICES}"
        raise ImpossibleSplit(spec.path, key, f"Insufficient Resources: {reason}")
    if not _fit(sorted(profiles, key=lambda profile: -profile.memory), frozenset()):
        places = {word: " or ".join(map(str, _PLACES[known[word].compute, known[word].memory])) for word in words}
        where = "; ".join(f"{word} begins at memory slice {at}" for word, at in places.items())
        raise ImpossibleSplit(spec.path, key, f"Insufficient Resources: {' '.join(words)} has no placement ({where})")
    return profiles


def _fit(profiles: list[InstanceProfile], taken: frozenset[int]) -> bool:
    """Tell whether there are places for all of these instances besides the memory slices that are taken."""
    if not profiles:
        return True
    first, *others = profiles
    for begin in _PLACES[first.compute, first.memory]:
        wanted = frozenset(range(begin, begin + first.memory))
        if not wanted & taken and _fit(others, taken | wanted):
            return True
    return False


def instance_spec(spec: MachineSpec, profile: InstanceProfile) -> MachineSpec:
    """Return the machine as a process in this instance finds its GPU.

    Raises ProfileError when the profile lacks an entry.
    """
    sms = spec.count("mig.slice_sms") * profile.compute
    if profile.compute == COMPUTE_SLICES:
        sms = spec.count("mig.all_sms")
    part, memory = sms / spec.count("gpu.sms"), profile.memory / MEMORY_SLICES
    return spec.with_overrides({
        "gpu.sms": sms,
        **{key: f"{spec.value(key) * part / 1e9!r} GFLOP/s" for key in ("gpu.fp64", "gpu.fp32")},
        **{key: f"{spec.value(key) * memory!r} B" for key in ("mem.size", "mem.reserved", "mem.l2")},
        "mem.bw": f"{spec.value('mem.bw') * memory / 1e9!r} GB/s",
    })  # fmt: skip
