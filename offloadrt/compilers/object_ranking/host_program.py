"""`HostProgram`: how often a program comes to its target regions, and so how often each object is accessed in all.

The host function is read as kernels are, by the same rules: a branch 0.5, a loop of unknown trip count 32, exceptions
never; `host/probabilities.py` says what jumps do to that. Calls of functions in files beside or below the host
function's are followed, also of methods of its own class. A function that is handed to something else
(``run.parallel(body)``) counts as called once there, but for `HostProgram.of` itself, which reads it only.

A target region is ``t.target(kernel, ...)``, or ``t.run(step)`` of a ``step = t.construct_target(kernel, ...)``.
`object_scope.py` tells which objects its arguments are. GAF of an object is Σ frequency of the region × LAF of the
array that it is there (OTM, section 4.1), its rank the place by GAF, 1 for the highest. Of equal ones the object that
the program makes or names first comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from offloadrt.compilers.host.flow import nodes_of
from offloadrt.compilers.host.frequencies import frequencies
from offloadrt.compilers.object_ranking.object_scope import TargetConstruct
from offloadrt.compilers.object_ranking.region_walk import RegionWalk
from offloadrt.kernels.kernel import Kernel
from offloadrt.kernels.source import Source


@attrs.frozen
class TargetRegion:
    """One place in the program that runs a kernel on a device."""

    kernel: Kernel
    frequency: float
    """Runs for each run of the host function."""
    objects: tuple[str, ...]
    """The object that is each of the kernel's arrays (`Kernel.arrays`), in their order."""
    file: str
    line: int

    def laf(self, name: str) -> float:
        """Add up the accesses to an object in each iteration of the region's loop."""
        total = 0.0
        for use, given in zip(self.kernel.arrays, self.objects, strict=True):
            if given == name:
                total += use.laf
        return total


@attrs.frozen
class ObjectFrequency:
    """An entry of OTM's table of objects."""

    name: str
    gaf: float
    """Global access frequency."""
    rank: int
    """1 for the object that is accessed most."""
    regions: tuple[TargetRegion, ...]
    """The regions that use it."""


@attrs.frozen
class HostProgram:
    """The target regions of a program, and the objects in the order of their rank."""

    regions: tuple[TargetRegion, ...]
    objects: tuple[ObjectFrequency, ...]

    @classmethod
    def of(cls, function: Callable[..., Any], kernels: Mapping[str, Kernel] | None = None) -> HostProgram:
        """Read a program from its host function.

        kernels: those that its source names in a way that cannot be followed, by what is written there, as in
        ``{"self.kernels.flux": flux}``. Raises SourceRefused for a region whose kernel or objects cannot be told, and
        KernelError when the source cannot be read.
        """
        walk = RegionWalk(Source.of(function, "host function"), _owner(function), kernels or {})
        often = frequencies(walk.pieces, walk.entry)
        # A place that several ways lead through, such as a `finally`, is in the graph once for each way. It is one
        # region, and comes where its last copy does, which is where it stands in the source.
        runs: dict[tuple[tuple[int, ...], tuple[str, ...]], tuple[TargetConstruct, float]] = {}
        for node in nodes_of(walk.pieces):
            if (construct := node.operation) is not None:
                key = node.origin, construct.objects
                _, before = runs.pop(key, (construct, 0.0))
                runs[key] = construct, before + often.get(node, 0.0)
        regions = tuple(
            TargetRegion(construct.kernel, frequency, construct.objects, construct.file, construct.line)
            for construct, frequency in runs.values()
        )
        gaf = dict.fromkeys(walk.objects, 0.0)
        for region in regions:
            for name in dict.fromkeys(region.objects):
                gaf[name] = gaf.get(name, 0.0) + region.frequency * region.laf(name)
        used = {name for region in regions for name in region.objects}
        ranked = sorted((name for name in gaf if name in used), key=lambda name: -gaf[name])
        objects = tuple(
            ObjectFrequency(name, gaf[name], rank, tuple(region for region in regions if name in region.objects))
            for rank, name in enumerate(ranked, start=1)
        )
        return cls(regions, objects)

    def object(self, name: str) -> ObjectFrequency:
        """Look up the entry of an object; KeyError when no region uses it."""
        for entry in self.objects:
            if entry.name == name:
                return entry
        raise KeyError(name)


def _owner(function: Callable[..., Any]) -> Any:
    """Look up the class of a method; None for other functions."""
    place = getattr(function, "__self__", None)
    if place is not None:
        return place if isinstance(place, type) else type(place)
    owner: Any = None
    names = function.__globals__
    for part in function.__qualname__.split(".")[:-1]:
        owner = names.get(part) if owner is None else getattr(owner, part, None)
        if not isinstance(owner, type):
            return None
    return owner
