"""Constructs: directives as the compiler leaves them, lowered once and run whenever a thread comes to them.

    step = t.construct_target(update, psi, maps=omp.map(tofrom=psi), teams=108)
    for _ in range(1000):
        await t.run(step)

``t.target(…)`` does both at once. Lowering takes no virtual time either way; a program that runs one directive many
times saves the emulator's own by preparing it.
"""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Any, TypedDict

import attrs

from offloadrt.kernels import Kernel
from offloadrt.models.host.data_works import beginning, ending, updating
from offloadrt.models.host.directive import Work
from offloadrt.models.host.launch import check_arguments, check_sizes, launch_of
from offloadrt.models.host.section import Section
from offloadrt.models.openmp.clauses import Clause, Depend, Map, Maps, flatten
from offloadrt.models.openmp.declarations import Declarations
from offloadrt.models.openmp.initial_device import INITIAL_DEVICE, HostRegion
from offloadrt.models.openmp.lowering import defaultmap_item, lower_data, lower_target, lower_update
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.device_pointer import DevicePointer
from offloadrt.runtime.directive_queue import DirectiveQueue
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.launch.kernel_arguments import Pointees
from offloadrt.runtime.launch.target import target
from offloadrt.runtime.launch.touching import OffloadedRegion
from offloadrt.runtime.mapping.map_item import MapItems


@attrs.frozen(eq=False)
class Construct:
    """One lowered directive; any thread of the program may run it, any number of times."""

    name: str
    work: Work
    device: int | None = None
    nowait: bool = False
    depends: tuple[Depend, ...] = ()
    on_host: HostRegion | None = None
    """What it does on the initial device; None: nothing."""


class TargetClauses(TypedDict, total=False):
    """The clauses of ``target teams distribute parallel for``.

    maps: `map` clauses; an array argument that none names is mapped implicitly (a C array tofrom, a pointer as a
    zero-length section). teams, threads, iterations: launch configuration; a loop nest does the iterations that its
    source says, in as many teams as they fill and the runtime's default allows; any other kernel is one team with one
    iteration a thread unless given. is_device_ptr, has_device_addr: arguments that are device addresses already, as a
    managed array is. firstprivate, private: arrays of which the region gets its own copy. defaultmap: what implicit
    maps do (for ``defaultmap(to: aggregate)`` write ``{"aggregate": "to"}``). device: its number. nowait, depend: as a
    deferred task. `if_`: False runs it on the initial device.
    """

    maps: Map | Maps | Sequence[Map | Maps]
    teams: int | None
    threads: int | None
    iterations: int | None
    nowait: bool
    depend: Depend | Sequence[Depend]
    is_device_ptr: Any
    has_device_addr: Any
    firstprivate: Any
    private: Any
    defaultmap: str | Mapping[str, str]
    device: int | None
    if_: bool


_TARGET_CLAUSES = tuple(TargetClauses.__annotations__)


def check_clauses(given: Iterable[str]) -> None:
    """Raise TypeError for a keyword that is no clause of a target region."""
    for name in given:
        if name not in _TARGET_CLAUSES:
            near = difflib.get_close_matches(name, _TARGET_CLAUSES, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(_TARGET_CLAUSES)}"
            raise TypeError(f"target: no clause {name!r}; {hint}")


def target_construct(
    declarations: Declarations,
    kernel: Kernel,
    arguments: Sequence[Any],
    *,
    maps: Map | Maps | Sequence[Map | Maps] = (),
    teams: int | None = None,
    threads: int | None = None,
    iterations: int | None = None,
    nowait: bool = False,
    depend: Depend | Sequence[Depend] = (),
    is_device_ptr: Any = (),
    has_device_addr: Any = (),
    firstprivate: Any = (),
    private: Any = (),
    defaultmap: str | Mapping[str, str] = "default",
    device: int | None = None,
    if_: bool = True,
) -> Construct:
    """Make a target region; the clauses are those of `TargetClauses`.

    Raises TypeError and ValueError for what a compiler refuses.
    """
    check_sizes("target", teams=teams, threads=threads, iterations=iterations)
    check_arguments(kernel, arguments)
    copied, uninitialised = _as_sequence(firstprivate), _as_sequence(private)
    own = (*copied, *uninitialised)
    mapped, pointers, on_device = _as_sequence(maps), _as_sequence(is_device_ptr), _as_sequence(has_device_addr)
    _check_pointers(pointers)
    if own or on_device:
        _check_arrays(arguments, has_device_addr=on_device, firstprivate=copied, private=uninitialised)
        _check_not_private(mapped, own)
    managed = [pointer for pointer in pointers if isinstance(pointer, HostArray)]
    extra = [pointer for pointer in pointers if pointer not in arguments]
    items = MapItems(
        lower_target(
            mapped,
            [*arguments, *extra],
            declarations.mappers,
            firstprivate=copied,
            private=uninitialised,
            on_device=(*on_device, *managed),
            implicit=defaultmap_item(defaultmap),
        )
    )
    follows = [argument for argument in arguments if isinstance(argument, (DevicePointer, Pointees))]
    launch = launch_of(kernel, arguments, teams, threads, iterations, declarations.grid)
    offloaded = OffloadedRegion(launch, items, arguments, follows)

    def region(where: OffloadDevice, queue: DirectiveQueue) -> Awaitable[object]:
        return target(where, offloaded, queue, "target", declarations.globals.binding)

    where = device if if_ else INITIAL_DEVICE
    return Construct("target", region, where, nowait, _dependences(depend), HostRegion(launch, tuple(arguments), own))


def enter_data_construct(
    declarations: Declarations, clauses: Sequence[Clause], device: int | None = None, nowait: bool = False
) -> Construct:
    """Make a ``target enter data``. Raises ValueError for a clause that it does not take."""
    others, depends = _without_dependences(clauses)
    items = lower_data(others, "target enter data", declarations.mappers)
    return Construct("target enter data", beginning(items, "target enter data"), device, nowait, depends)


def exit_data_construct(
    declarations: Declarations, clauses: Sequence[Clause], device: int | None = None, nowait: bool = False
) -> Construct:
    """Make a ``target exit data``. Raises ValueError for a clause that it does not take."""
    others, depends = _without_dependences(clauses)
    items = lower_data(others, "target exit data", declarations.mappers)
    return Construct("target exit data", ending(items, "target exit data"), device, nowait, depends)


def update_construct(
    declarations: Declarations, clauses: Sequence[Clause], device: int | None = None, nowait: bool = False
) -> Construct:
    """Make a ``target update``. Raises ValueError for a clause that it does not take."""
    others, depends = _without_dependences(clauses)
    items = lower_update(others, declarations.mappers)
    specification = declarations.strided_update == "specification"
    return Construct("target update", updating(items, "target update", specification), device, nowait, depends)


def _without_dependences(clauses: Sequence[Clause]) -> tuple[list[Clause], tuple[Depend, ...]]:
    others: list[Clause] = [clause for clause in clauses if not isinstance(clause, Depend)]
    return others, tuple(clause for clause in clauses if isinstance(clause, Depend))


def _dependences(value: Any) -> tuple[Depend, ...]:
    depends = _as_sequence(value)
    for clause in depends:
        if not isinstance(clause, Depend):
            raise TypeError(f"target: depend takes omp.depend(in_=…, out=…, inout=…), not {clause!r}")
    return depends


def _check_pointers(pointers: Sequence[Any]) -> None:
    """Raise TypeError for what is no pointer that is_device_ptr takes."""
    for pointer in pointers:
        if not isinstance(pointer, DevicePointer) and not (isinstance(pointer, HostArray) and pointer.managed):
            raise TypeError(f"is_device_ptr takes device pointers and managed arrays, not {pointer!r}")


def _check_arrays(arguments: Sequence[Any], **clauses: Sequence[Any]) -> None:
    """Check the arrays of clauses: TypeError for what is no array, ValueError for one that the kernel does not get."""
    named = {
        argument.pointers if isinstance(argument, Pointees) else argument
        for argument in arguments
        if isinstance(argument, (HostArray, Pointees))
    }
    for clause, arrays in clauses.items():
        for array in arrays:
            if not isinstance(array, HostArray):
                raise TypeError(f"target: {clause} takes arrays of the program, not {array!r}")
            if array not in named:
                raise ValueError(f"target: {clause}({array.name}): the kernel has no such argument")


def _check_not_private(maps: Sequence[Any], own: Sequence[HostArray]) -> None:
    """Raise ValueError for an array that is both mapped and private."""
    for listed in flatten(maps):
        for item in listed.items if isinstance(listed, Map) else ():
            array = item.array if isinstance(item, Section) else item
            if array in own:
                raise ValueError(f"target: array {array.name!r} is in a map clause, so it cannot be private")


def _as_sequence(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)
