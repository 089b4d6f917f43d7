"""A pushed kernel divided among devices: what each of them launches, owns afterwards and needs before."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs

from offloadrt.compilers.multi_device import DividedKernel, Holders, Part, Transfer
from offloadrt.kernels import Kernel, KernelError, Launch
from offloadrt.kernels.memo import Memo
from offloadrt.kernels.ranges import Ranges
from offloadrt.models.host.launch import launch_of
from offloadrt.models.openacc.jacc.devices.partial_values import PartialValues
from offloadrt.models.openacc.jacc.generation import GeneratedKernel
from offloadrt.runtime.host_array import HostArray

Piece = tuple[HostArray, Transfer]
"""An array, and what of it one device sends to another one."""
Pairs = Mapping[tuple[int, int], Sequence[Piece]]
"""The pieces by sender and receiver, in the order in which they begin."""


@attrs.frozen(eq=False)
class Combining:
    """What every device launches after the exchange of partial values, with which arguments."""

    launch: Launch
    arguments: Sequence[Any]
    values: Sequence[HostArray]
    """The arrays of partial values, which no program knows of."""


@attrs.frozen(eq=False)
class Division:
    """The division of one kernel with one set of arguments. The sequences are by device."""

    code: DividedKernel
    arguments: Sequence[Sequence[Any]]
    owned: dict[HostArray, Sequence[Ranges]]
    """What each device has made of each array, the partial values included."""
    combining: Combining | None
    _parts: Sequence[Part] = attrs.field(repr=False)
    _of_name: Mapping[str, Any] = attrs.field(repr=False)
    _slower: Callable[[Launch], Launch] = attrs.field(repr=False)

    @property
    def partial_values(self) -> Sequence[HostArray]:
        """Return the arrays of them; none when nothing is reduced."""
        return () if self.combining is None else self.combining.values

    @functools.cached_property
    def source(self) -> str:
        """Return the source text of what is compiled for it."""
        combination = self.code.combination
        return self.code.source if combination is None else f"{self.code.source}{combination.source}"

    @functools.cached_property
    def write_bytes(self) -> int:
        """Return the most that a device sends to each other one, when all of its part is exchanged."""
        devices = range(len(self.arguments))
        return max(sum(nbytes for owned in self.owned.values() for _, nbytes in owned[device]) for device in devices)

    @functools.cached_property
    def launches(self) -> Sequence[Launch]:
        """Return what the devices launch, once the kernel is divided."""
        undivided = [*self._of_name.values()]
        return [
            self._slower(
                _accessing(launch_of(self.code.kernel, arguments_of_part), self.code.accessing(part.share, undivided))
            )
            for arguments_of_part, part in zip(self.arguments, self._parts, strict=True)
        ]

    @functools.cached_property
    def needed(self) -> Sequence[list[tuple[HostArray, Ranges | None]]]:
        """Return what each device reads in its part; None: all of the array."""
        return [[(self._of_name[name], ranges) for name, ranges in part.reads.items()] for part in self._parts]

    @functools.cached_property
    def to_all(self) -> Pairs:
        """Return what the devices send one another when each gets all that the others own."""
        holders = Holders()
        for array, ranges in self.owned.items():
            holders.wrote(array.address, ranges)
        devices = range(len(self.arguments))
        return by_pair(
            (array, holders.fetch(array.address, device, None)) for array in self.owned for device in devices
        )


def by_pair(transfers_of: Iterable[tuple[HostArray, Iterable[Transfer]]]) -> Pairs:
    """Arrange transfers by sender and receiver, in the order in which they were found."""
    pairs: dict[tuple[int, int], list[Piece]] = {}
    for array, transfers in transfers_of:
        for transfer in transfers:
            pairs.setdefault((transfer.source, transfer.target), []).append((array, transfer))
    return pairs


_DIVIDED: Memo[tuple[int, Callable[[Kernel], DividedKernel]], tuple[Kernel, DividedKernel]] = Memo()
"""Each kernel and what it was divided into, by its `id` and the pass: runs of a sweep share them."""


class Divider:
    """Divides kernels among so many devices, each kernel once. partial_values: of them, the arrays.

    refused: by kernel name, why one is not divided; every device then runs all of it.
    """

    def __init__(self, divide: Callable[[Kernel], DividedKernel], devices: int, partial_values: PartialValues) -> None:
        self.refused: dict[str, str] = {}
        self._divide = divide
        self._devices = devices
        self._partial_values = partial_values

    def division(
        self, name: str, code: GeneratedKernel, arguments: Sequence[Any], slower: Callable[[Launch], Launch]
    ) -> Division | None:
        """Return the parts of a launch; None for a kernel that cannot be divided, or not with these arguments."""
        try:
            key = id(code.kernel), self._divide
            if (divided := _DIVIDED.get(key)) is None:
                divided = _DIVIDED[key] = code.kernel, self._divide(code.kernel)
            return self._of(divided[1], arguments, slower)
        except KernelError as error:
            self.refused[name] = str(error)
            return None

    def _of(self, divided: DividedKernel, arguments: Sequence[Any], slower: Callable[[Launch], Launch]) -> Division:
        assert divided.original.analysis is not None
        by_address: dict[int, HostArray] = {}
        for argument in arguments:
            if isinstance(argument, HostArray) and by_address.setdefault(argument.address, argument) is not argument:
                raise KernelError(
                    f"kernel {divided.original.name!r}: array {argument.name!r} is two arguments of two types"
                )
        of_name = dict(zip(divided.original.analysis.parameters, arguments, strict=True))
        parts = divided.parts(self._devices, arguments)
        owned: dict[HostArray, Sequence[Ranges]] = {
            of_name[name]: [part.segments[name] for part in parts] for name in parts[0].segments
        }
        combining, values = None, None
        if (combination := divided.combination) is not None:
            targets = [of_name[name] for name in combination.used("write")]
            values = self._partial_values.of(divided, combination.types(arguments), targets)
            combined = combination.arguments(arguments, values)
            combining = Combining(slower(launch_of(combination.kernel, combined)), combined, values)
            for array in values:
                size = array.itemsize
                owned[array] = [((part.share.device * size, size),) for part in parts]
        given = [divided.arguments(part.share, arguments, values) for part in parts]
        return Division(
            divided,
            given,
            owned,
            combining,
            parts,
            of_name,
            slower,
        )


def _accessing(launch: Launch, part: float) -> Launch:
    """Return a launch of which that part of the iterations accesses memory."""
    return attrs.evolve(launch, accessing=part) if 0.0 < part < 1.0 else launch
