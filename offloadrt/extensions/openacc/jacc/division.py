"""A pushed kernel divided among devices: what each of them launches, owns afterwards and needs before."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal

import attrs
import numpy as np

from offloadrt.extensions.openacc.async_queue import AsyncQueue
from offloadrt.extensions.openacc.jacc.generation import GeneratedKernel
from offloadrt.extensions.openacc.multi_device import DividedKernel, Holders, Part, Transfer
from offloadrt.extensions.openacc.runtime_library import AsyncQueues, ResolvedArrays
from offloadrt.kernels import Kernel, KernelError, Launch
from offloadrt.kernels.memo import Memo
from offloadrt.kernels.ranges import Ranges
from offloadrt.models.host.directive import Work, launch_of
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.mapping.map_item import DirectiveQueue


@attrs.define(eq=False)
class PartialValues:
    """The arrays of partial values of one JACC runtime.

    devices: how many there are. make: makes an array of this name, so many elements and this type.
    """

    devices: int
    make: Callable[[str, int, np.dtype[np.generic]], HostArray]
    _arrays: dict[Hashable, list[HostArray]] = attrs.field(factory=dict)
    _targets: dict[HostArray, Sequence[HostArray]] = attrs.field(factory=dict)
    _present: dict[HostArray, None] = attrs.field(factory=dict)

    def of(
        self, kernel: DividedKernel, types: Sequence[np.dtype[np.generic]], targets: Sequence[HostArray]
    ) -> list[HostArray]:
        """Return the arrays of a kernel whose result goes to these arrays, in the order of its scalars."""
        assert kernel.combination is not None
        key = kernel, *types, *(array.address for array in targets)
        if key not in self._arrays:
            names = [partial.parameter for partial in kernel.combination.partials]
            self._arrays[key] = [self.make(name, self.devices, kind) for name, kind in zip(names, types, strict=True)]
            self._targets.update(dict.fromkeys(self._arrays[key], targets))
        return self._arrays[key]

    def to_create(self, arrays: Sequence[HostArray]) -> list[HostArray]:
        """Return those that are not on the devices yet, and count them as present from now on."""
        new = [array for array in arrays if array not in self._present]
        self._present.update(dict.fromkeys(new))
        return new

    def to_delete(self, gone: Sequence[HostArray]) -> list[HostArray]:
        """Return those that go with arrays that have left the devices."""
        addresses = {array.address for array in gone}
        leaving = [
            values for values in self._present if any(array.address in addresses for array in self._targets[values])
        ]
        for values in leaving:
            del self._present[values]
        return leaving


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


Communication = Literal["all-to-all", "needed"]
"""``all-to-all``: after a divided kernel every device sends its part to all others; ``needed``: before a kernel every
device gets those bytes that the analysis says it reads (all of them where that cannot be proven).
"""


@attrs.define(eq=False)
class Exchange:
    """The state of the exchange between the devices of one JACC runtime."""

    of_program: Sequence[OffloadDevice]
    """All devices of the program."""
    queues: AsyncQueues
    devices: int
    """How many of them take part, from device 0 on."""
    first_queue: int
    """The async value of the first queue for transfers; those below are for kernels."""
    run: Callable[[str, Work, int], Awaitable[None]]
    """Runs the work of a directive of this name on a device."""
    bytes: int = 0
    """Bytes that were sent so far."""
    seconds: float = 0.0
    """Seconds in which the host started transfers and waited for them, and for the combining kernels, so far."""
    _open: bool = False
    _holders: Holders = attrs.field(factory=Holders)
    _addresses: dict[int, dict[int, int]] = attrs.field(factory=dict)
    """Addresses by device, then by host address, as that of an array tells what it is whatever its type."""

    async def open(self) -> None:
        """Have every device reach the others' memory, once."""
        if self._open:
            return
        self._open = True

        async def reach(where: OffloadDevice, queue: DirectiveQueue) -> None:
            for other in range(self.devices):
                if other != where.number:
                    await where.plugin.reach(other)

        for number in range(self.devices):
            await self.run("jacc_init", reach, number)

    def placed(self, device: int, arrays: Iterable[HostArray], known: ResolvedArrays) -> None:
        """Note where arrays lie on a device, as far as they were looked up for a launch."""
        addresses = self._addresses.setdefault(device, {})
        for array, pointer in zip(arrays, known.pointers, strict=True):
            addresses[array.address] = pointer.address

    def forget(self, array: HostArray) -> None:
        """Forget an array that has left the devices."""
        self._holders.everywhere(array.address)

    def is_due(self, arrays: Iterable[HostArray]) -> bool:
        """Return whether any of these arrays is not right on some device."""
        return any(self._holders.is_divided(array.address, self.devices) for array in arrays)

    async def before(self, division: Division) -> None:
        """Send each device what it reads in its part."""
        fetch = self._holders.fetch
        await self._carry(
            by_pair(
                (array, fetch(array.address, device, ranges))
                for device, needed in enumerate(division.needed)
                for array, ranges in needed
            )
        )

    async def after(self, division: Division, communication: Communication) -> None:
        """Note that each device has its own parts right, and nobody else, and send them.

        Called after a divided kernel has run.
        """
        owned, holders = division.owned, self._holders
        if communication == "all-to-all" and not any(holders.is_tracked(array.address) for array in owned):
            await self._carry(division.to_all)  # afterwards they are right everywhere, as they were before
            return
        for array, ranges in owned.items():
            holders.wrote(array.address, ranges)
        await self.gather(owned if communication == "all-to-all" else division.partial_values, range(self.devices))

    async def gather(self, arrays: Collection[HostArray], devices: Collection[int]) -> None:
        """Send all of these arrays to these devices, as far as they do not have them."""
        fetch = self._holders.fetch
        await self._carry(
            by_pair((array, fetch(array.address, device, None)) for array in arrays for device in devices)
        )
        if len(devices) == self.devices:
            for array in arrays:
                self._holders.everywhere(array.address)

    async def _carry(self, pairs: Pairs) -> None:
        """Start all transfers, then wait for them: one call of the runtime; no time when there are none."""
        if not pairs:
            return

        async def exchange(where: OffloadDevice, queue: DirectiveQueue) -> None:
            async def of_source(source: int) -> None:
                sim.current.cause = queue.cause
                own = self.of_program[source]
                targets = [(target, pieces) for (sender, target), pieces in pairs.items() if sender == source]
                for target, pieces in targets:
                    await self._send(own, queue.cause, target, pieces)
                for target, _ in targets:
                    await self._queue(source, target).drain(own, queue.cause)

            async with sim.open_nursery() as nursery:
                for source in dict.fromkeys(sender for sender, _ in pairs):
                    nursery.spawn(of_source, source, name=f"exchange thread {source}")

        sim = self.queues.sim
        begin = sim.now
        await self.run("jacc_exchange", exchange, 0)
        self.seconds += sim.now - begin

    async def _send(self, where: OffloadDevice, cause: int, target: int, pieces: Sequence[Piece]) -> None:
        async def copies(where: OffloadDevice, queue: DirectiveQueue) -> None:
            from_addresses, to_addresses = self._addresses[where.number], self._addresses[target]
            exchange_data = where.plugin.exchange_data
            for array, transfer in pieces:
                source, destination = (
                    from_addresses[array.address] + transfer.offset,
                    to_addresses[array.address] + transfer.offset,
                )
                self.bytes += transfer.nbytes
                await exchange_data(queue, destination, source, transfer.nbytes, device=target)

        await self._queue(where.number, target).use(where, DirectiveQueue(cause), copies)

    def _queue(self, source: int, target: int) -> AsyncQueue:
        return self.queues.of(source, self.first_queue + target)
