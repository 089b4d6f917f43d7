"""A pushed kernel with its arguments, made ready once and pushed often."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs

from offloadrt.kernels import Kernel, Launch
from offloadrt.models.host.launch import launch_of
from offloadrt.models.openacc.clauses import copy
from offloadrt.models.openacc.jacc.arguments import Argument, Attribute
from offloadrt.models.openacc.jacc.dependences import Range
from offloadrt.models.openacc.jacc.devices.division import Divider, Division
from offloadrt.models.openacc.jacc.generation import GeneratedKernel, PushFlags
from offloadrt.models.openacc.lowering import lower_compute
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.mapping.map_item import MapItem
from offloadrt.runtime.mapping.program_pointers import ResolvedArrays


@attrs.frozen
class Effects:
    """What the compiler's code for a generated kernel takes, relative to that of the original program.

    Factors of the kernel's time, which are inputs of the program. generated: for being generated; restrict, var_opt:
    for each specialization.
    """

    generated: float = 1.0
    restrict: float = 1.0
    var_opt: float = 1.0

    def factor(self, flags: PushFlags) -> float:
        """Return the factor of a push with these flags."""
        factor = self.generated
        if flags & PushFlags.RESTRICT:
            factor *= self.restrict
        if flags & PushFlags.VAR_OPT:
            factor *= self.var_opt
        return factor


Stage = Literal["whole", "part", "combination"]
"""What a launch does of an execution: all of the kernel, a device's part of it, or the partial values combined."""


@attrs.define(eq=False)
class OnDevice:
    """A launch on one device.

    arrays: those that have to be present. known, arguments: where they lie, and the launch's arguments there, as of the
    last time.
    """

    launch: Launch
    given: Sequence[Any]
    arrays: Sequence[HostArray]
    known: ResolvedArrays | None = None
    arguments: list[Any] = attrs.field(factory=list)

    def lies_at(self, known: ResolvedArrays) -> None:
        """Note where the arrays lie now."""
        self.known = known
        at = dict(zip(self.arrays, known.pointers, strict=True))
        self.arguments = [
            at.get(argument, argument) if isinstance(argument, HostArray) else argument for argument in self.given
        ]


@attrs.frozen(eq=False)
class Push:
    """What `jacc_kernel_push` runs. name: the kernel's in reports, and what its policy knows it by."""

    name: str
    kernel: Kernel
    code: GeneratedKernel
    launch: Launch
    arguments: Sequence[Any]
    present: list[HostArray]
    absent: list[HostArray]
    """The arrays without PRESENT, which may be present all the same."""
    items: list[MapItem]
    """The map items of the absent ones, which are copied in and out for the launch."""
    reads: tuple[Range, ...]
    writes: tuple[Range, ...]
    division: Division | None
    """None when every device runs all of it: nobody divides, it cannot be divided, not all arrays are present, or the
    program says how many iterations there are.
    """
    _on_device: dict[tuple[int, Stage], OnDevice] = attrs.field(factory=dict)

    def on_device(self, number: int, stage: Stage) -> OnDevice:
        """Return what a device launches."""
        launched = self._on_device.get((number, stage))
        if launched is None:
            launched = self._on_device[number, stage] = self._launched(number, stage)
        return launched

    def _launched(self, number: int, stage: Stage) -> OnDevice:
        if stage == "whole":
            return OnDevice(self.launch, self.arguments, self.present)
        assert self.division is not None
        if stage == "part":
            arrays = [*self.present, *self.division.partial_values]
            return OnDevice(self.division.launches[number], self.division.arguments[number], arrays)
        combining = self.division.combining
        assert combining is not None
        used = dict.fromkeys(argument for argument in combining.arguments if isinstance(argument, HostArray))
        return OnDevice(combining.launch, combining.arguments, list(used))


def ready(
    name: str,
    code: GeneratedKernel,
    kernel: Kernel,
    args: tuple[Argument, ...],
    iterations: int | None,
    factor: float,
    divider: Divider | None,
) -> Push:
    """Make a push of generated code.

    Raises ValueError for an array that is an argument with PRESENT and one without.
    """
    values = code.arguments([argument.value for argument in args])
    phantom = any(argument.is_array and argument.value.phantom for argument in args)
    slower = functools.partial(_executed, name=name, factor=factor, phantom=phantom)
    arrays = [argument for argument in args if argument.is_array]
    absent = dict.fromkeys(argument.value for argument in arrays if not argument.attributes & Attribute.PRESENT)
    present = dict.fromkeys(argument.value for argument in arrays if argument.attributes & Attribute.PRESENT)
    both = next((array for array in absent if array in present), None)
    if both is not None:
        raise ValueError(f"kernel {kernel.name!r}: array {both.name!r} is an argument with PRESENT and one without")
    return Push(
        name,
        kernel,
        code,
        slower(launch_of(code.kernel, values, iterations=iterations)),
        values,
        list(present),
        list(absent),
        lower_compute("parallel", [copy(*absent)], list(absent), "none") if absent else [],
        tuple(argument.range for argument in arrays if not argument.writes),
        tuple(argument.range for argument in arrays if argument.writes),
        None if divider is None or absent or iterations is not None else divider.division(name, code, values, slower),
    )


def factor_of(effects: Mapping[str, Effects], kernel: Kernel, flags: PushFlags) -> float:
    """Return the factor of a kernel's time that the program states."""
    return effects.get(kernel.name, Effects()).factor(flags)


def _executed(launch: Launch, name: str, factor: float, phantom: bool) -> Launch:
    """Return a launch under this name that takes `factor` times as long; with a phantom it computes nothing."""
    slower = launch.slower(factor)
    kernel = attrs.evolve(slower.kernel, name=name, body=None if phantom else slower.kernel.body)
    return attrs.evolve(slower, kernel=kernel)
