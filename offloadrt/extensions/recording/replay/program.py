"""Replays a recorded program on an emulated machine: arrays at their addresses, directives, host threads."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

import attrs
import numpy as np

from offloadrt.address_map import AddressMap
from offloadrt.extensions.checking.recorded import KnownCopy
from offloadrt.extensions.recording.format.container import RunSummary
from offloadrt.extensions.recording.format.recording import (
    NONE,
    BufferPlace,
    ItemForm,
    Meta,
    OmptOperation,
    Recording,
    RecordingError,
    Site,
)
from offloadrt.extensions.recording.format.slots import MAYBE_LOADED, NEW_BLOCK, UNIFIED_SHARED_MEMORY, UNNAMED, Box
from offloadrt.extensions.recording.ompt import start_tool
from offloadrt.extensions.recording.replay.frames import PlacedArrays, TaskFrame
from offloadrt.extensions.recording.replay.kernels import RecordedKernels
from offloadrt.extensions.recording.replay.lowered import LoweredItem, LoweredProgram, first_byte
from offloadrt.extensions.recording.replay.observed import ObservedReplay, OperationLog, Oracle, Outcome
from offloadrt.extensions.recording.replay.tasks import TaskWalk
from offloadrt.kernels import Kernel
from offloadrt.machine import MachineSpec
from offloadrt.models import openmp as omp
from offloadrt.models.host.process import Process
from offloadrt.models.host.program import ProgramThread
from offloadrt.models.openmp import DevicePointer, HostArray, HostThread, OpenMP, Section
from offloadrt.models.openmp.lowering import Construct
from offloadrt.models.openmp.tasks import HiddenHelpers
from offloadrt.runtime.configurations.usm import translates
from offloadrt.runtime.errors import OffloadError
from offloadrt.runtime.host_array import Kind
from offloadrt.runtime.mapping.map_item import MapItems
from offloadrt.runtime.mapping.map_types import ATTACH, FROM, LITERAL, NON_CONTIG, PTR_AND_OBJ, TO
from offloadrt.study.running.statistics import StepSampler

if TYPE_CHECKING:  # most programs do not use MPI
    from offloadrt.extensions.recording.replay.messages import MessageBuffers
    from offloadrt.extensions.recording.replay.ranks import RankReplay, ReplayedPart

_SHOWN: Final = 3
_NOWHERE: Final = 1 << 62
"""Added to addresses of freed device memory, so that a later block at the same place is not taken for it."""


class ReplayRefused(RecordingError):
    """Raised for a replay that needs more than the recording contains."""


def requires_unified_shared_memory(meta: Meta) -> bool:
    """Tell whether the program has the directive `requires unified_shared_memory`."""
    return bool(meta.requires & UNIFIED_SHARED_MEMORY)


def unified_configuration(spec: MachineSpec) -> str:
    """Return the memory configuration that gives a program unified shared memory on this machine: usm or managed."""
    return "usm" if spec.flag("machine.apu") or translates(spec) else "managed"


def as_recorded(recording: Recording) -> str:
    """Return the memory configuration of the recorded run: usm if the program requires shared memory, else copy."""
    return "usm" if requires_unified_shared_memory(recording.meta) else "copy"


def check_configuration(recording: Recording, configuration: str) -> None:
    """Raise ReplayRefused unless the program works the same under this memory configuration, and its costs are known.

    The program must not rely on separate copies of host and device (`format/blocks.py` finds that). And the host's
    memory accesses between directives must have been recorded, because these pages migrate back to the host.
    """
    meta, recorded = recording.meta, as_recorded(recording)
    if configuration == recorded:
        return
    if recorded == "usm" and configuration == "copy":
        raise ReplayRefused(
            "configuration=copy: the program requires unified shared memory, so it need not map what its kernels use; "
            "take configuration=managed, or configuration=usm on an APU (--machine mi300a)"
        )
    if not meta.costs:
        raise ReplayRefused(
            f"configuration={configuration}: {recording.name} has no costs of kernels, so it is not known what these "
            "touch; build the program with `offloadrt cc`, `cxx` or `fc`, and record it again"
        )
    launches, traces = recording.columns["launch.teams"], recording.columns["launch.trace"]
    if untraced := int(np.count_nonzero((launches > 0) & (traces == NONE))):
        raise ReplayRefused(
            f"configuration={configuration}: of {untraced} launches in {recording.name} it was not recorded which "
            "pages they touch; record the program again with `--samples 1` or more"
        )
    if not meta.host_touches:
        raise ReplayRefused(
            f"configuration={configuration}: in {recording.name} the host's touches between directives were not "
            "recorded, so it is not known which pages come back; record the program again with them"
        )
    if meta.separate_copies and recorded == "copy":
        found = "; ".join(meta.separate_copies[:_SHOWN])
        raise ReplayRefused(
            f"configuration={configuration}: the program relies on host and device having copies of their own: {found}"
        )


def runs_of(runs: Sequence[RunSummary], threads: int | None, path: object) -> list[RunSummary]:
    """Return the processes among `runs` with this number of host threads; None: the number that was recorded first.

    Raises ReplayRefused, which names the file `path`, if the program was not recorded with that many.
    """
    known = list(dict.fromkeys(run.threads for run in runs))
    chosen = known[0] if threads is None else threads
    of_threads = [run for run in runs if run.threads == chosen]
    if not of_threads:
        recorded = ", ".join(map(str, known))
        raise ReplayRefused(
            f"threads={chosen}: {path} was recorded with {recorded}; which thread does what is known of no other "
            f"number: record it with `offloadrt record --threads {chosen}`"
        )
    return of_threads


def run_of(runs: Sequence[RunSummary], threads: int | None, process: int, path: object) -> RunSummary:
    """Return process number `process` of the run with this number of host threads.

    Raises ReplayRefused, which names the file `path`, if there is none.
    """
    of_threads = runs_of(runs, threads, path)
    if not 0 <= process < len(of_threads):
        raise ReplayRefused(f"process={process}: {path} has {len(of_threads)} processes, from 0")
    return of_threads[process]


def ranks_of(runs: Sequence[RunSummary], threads: int | None, ranks: int, path: object) -> list[RunSummary]:
    """Return the ranks of a run with `threads` threads, in order. ReplayRefused if not so many ranks were recorded."""
    of_threads = [run for run in runs_of(runs, threads, path) if run.ranks]
    recorded = max((run.ranks for run in of_threads), default=0)
    if not recorded:
        raise ReplayRefused(
            f"ranks={ranks}: {path} has no calls of MPI: record the program with them, as in "
            f"`offloadrt record -o app.rec mpiexec -n {ranks} ./app`"
        )
    if ranks != recorded:
        raise ReplayRefused(
            f"ranks={ranks}: {path} was recorded with {recorded}; what a rank of {ranks} does is known of no other "
            f"number: record it with `mpiexec -n {ranks}`"
        )
    by_rank = {run.rank: run for run in of_threads}
    if missing := [rank for rank in range(ranks) if rank not in by_rank]:
        raise ReplayRefused(f"ranks={ranks}: {path} has nothing of rank {missing[0]}")
    return [by_rank[rank] for rank in range(ranks)]


Place = HostArray | Section | DevicePointer


class _Mapped(int):
    """A routine's argument that is a device address of a mapped array; `host` is the host address that it copies."""

    host: int

    def __new__(cls, address: int, host: int) -> _Mapped:
        made = super().__new__(cls, address)
        made.host = host
        return made


@attrs.define(eq=False)
class Routines:
    """Calls the recorded OpenMP routines on the emulated machine."""

    _recording: Recording
    _program: LoweredProgram
    _own_device: int | None = None
    """The device of a rank that uses a single one; None: device numbers are those of the recording."""
    _blocks: AddressMap[DevicePointer] = attrs.field(factory=AddressMap)
    """By recorded address: the blocks of omp_target_alloc."""
    _freed: AddressMap[DevicePointer] = attrs.field(factory=AddressMap)
    """By recorded address: blocks of omp_target_alloc that were freed."""
    _at: str = ""
    """The current routine and its line, for messages."""

    async def run(self, t: HostThread, site: Site, items: int, shift_at: Callable[[int], int]) -> None:
        """Call a routine. Raises ReplayRefused if it cannot be replayed or uses memory that is not recorded.

        site, items: the call, and the number of its argument list. shift_at: returns what to add to a host address.
        """
        routine: Callable[..., Awaitable[object]] | None = getattr(self, f"_{site.call}", None)
        if routine is None:
            raise ReplayRefused(f"{self._recording.name}: {site.where}: calls of {site.call} are not replayed")
        places = self._recording.range_of("items", items)
        base, begin, array = (
            self._recording.columns[f"item.{name}"][places.start : places.stop].tolist()
            for name in ("base", "begin", "array")
        )
        words = [
            _Mapped(address, host + shift_at(host)) if number != NONE else address + shift_at(address)
            for address, host, number in zip(base, begin, array, strict=True)
        ]
        try:
            inspect.signature(routine).bind(t, *words)
        except TypeError:
            raise ReplayRefused(
                f"{self._recording.name}: {site.where}: {site.call} cannot have {len(words) - 1} arguments"
            ) from None
        self._at = f"{site.call} at {site.where}"
        try:
            await routine(t, *words)
        except LookupError as error:
            raise ReplayRefused(f"{self._recording.name}: {site.where}: {site.call}: {error.args[0]}") from None

    def _is_initial(self, number: int) -> bool:
        """Tell whether a recorded device number is that of the initial device, the number after the last device."""
        return number >= 1 << 31 or number == self._recording.meta.devices

    def _device(self, t: HostThread, number: int) -> int:
        """Return the number on this machine of a recorded device number."""
        if self._is_initial(number):
            return t.omp_get_initial_device()
        return number if self._own_device is None else self._own_device

    def _host(self, address: int, nbytes: int = 1) -> Section:
        array = self._program.at(address)
        if array is None or not array.holds(address, nbytes):
            raise LookupError(f"no array is known at {address:#x} ({nbytes} bytes)")
        return omp.section(array, address - array.address, nbytes)

    def _block(self, address: int) -> DevicePointer:
        found = self._blocks.before(address)
        if found is not None and address <= found[0] + found[1].nbytes:
            return found[1] + (address - found[0])
        if (freed := self._freed_block(address)) is not None:
            return freed
        raise LookupError(f"no block of device memory is known at {address:#x}")

    def _block_or_host(self, t: HostThread, address: int, nbytes: int, device: int) -> Place:
        """Return what lies at an address given for a device: a block, or host memory that the device can access.

        Raises OffloadError if it is a host address that the device cannot access: the program may have swapped the
        devices.
        """
        try:
            return self._block(address)
        except LookupError:
            array = self._program.at(address)
            if array is None:
                raise
        if t.program.devices[device].host_pointers:
            return self._host(address, nbytes)
        why = f"it takes the host's address of {array.name} for one of device {device}: are the two devices swapped?"
        raise OffloadError.now(t.program.sim, why, call=self._at, array=array.name, device=device)

    def _freed_block(self, address: int) -> DevicePointer | None:
        """Return a pointer to nothing for freed memory, so that its use is reported; None if none was freed there."""
        found = self._freed.before(address)
        if found is None or address > found[0] + found[1].nbytes or found[1].host is not None:
            return None
        return attrs.evolve(found[1], address=_NOWHERE | found[1].address) + (address - found[0])

    def block_at(self, address: int) -> DevicePointer | None:
        """Return the unfreed block of omp_target_alloc that holds a recorded device address; None if there is none."""
        found = self._blocks.before(address)
        return None if found is None or address >= found[0] + found[1].nbytes else found[1]

    def block_used_at(self, address: int, was_freed: bool) -> DevicePointer | None:
        """Return the block of omp_target_alloc that holds a device address which a kernel used; None if none does.

        address: as recorded. was_freed: whether the program had freed the block before; if not, a free now is ignored.
        """
        block = self.block_at(address)
        found = self._freed.before(address) if block is None and not was_freed else None
        return block if found is None or address >= found[0] + found[1].nbytes else found[1]

    def freed_at(self, address: int) -> int | None:
        """Return the device address in this run of a recorded one in a freed block; None if not freed, 0: unknown."""
        if self.block_at(address) is not None:
            return None
        found = self._freed.before(address)
        return 0 if found is None or address >= found[0] + found[1].nbytes else found[1].address + address - found[0]

    def _place(self, t: HostThread, address: int, offset: int, nbytes: int, device: int) -> Place:
        if self._is_initial(device):
            return self._host(address + offset, nbytes)
        if not isinstance(address, _Mapped):
            return self._block_or_host(t, address + offset, nbytes, self._device(t, device))
        host = address.host + offset
        if not t.program.num_devices:
            return self._host(host, nbytes)
        device = self._device(t, device)
        found = t.program.devices[device].table.lookup(host, nbytes)
        if not found.overlaps or found.pointer.address is None:  # the device uses the host's memory
            return self._host(host, nbytes)
        return DevicePointer(found.pointer.address, nbytes, device, phantom=True)

    # the routines, with C's arguments and the recorded result

    async def _omp_target_alloc(self, t: HostThread, nbytes: int, device: int, *rest: int) -> None:
        pointer = await t.omp_target_alloc(nbytes, self._device(t, device))
        if pointer is not None and rest[-1]:
            self._blocks.pop(rest[-1])
            self._blocks[rest[-1]] = pointer

    async def _omp_target_free(self, t: HostThread, address: int, device: int, *rest: int) -> None:
        block = self._blocks.pop(address)
        if block is None:
            await t.omp_target_free(self._freed_block(address))
            return
        self._freed.pop(address)
        self._freed[address] = block
        await t.omp_target_free(block)

    async def _omp_get_mapped_ptr(self, t: HostThread, address: int, device: int, *rest: int) -> None:
        array = self._program.at(address)
        if array is None or not array.holds(address, 1):
            return  # nothing is mapped there, and a search of the table for it is not worth a guess of its array
        place = omp.section(array, address - array.address)
        pointer = await t.omp_get_mapped_ptr(place, self._device(t, device))
        if pointer is not None and rest[-1]:
            self._blocks.pop(rest[-1])
            self._blocks[rest[-1]] = pointer

    async def _omp_target_is_present(self, t: HostThread, address: int, device: int, *rest: int) -> None:
        if self._program.at(address) is not None:
            await t.omp_target_is_present(self._host(address), self._device(t, device))

    async def _omp_target_is_accessible(
        self, t: HostThread, address: int, nbytes: int, device: int, *rest: int
    ) -> None:
        if self._program.at(address) is not None:
            await t.omp_target_is_accessible(self._host(address), nbytes, self._device(t, device))

    async def _omp_target_associate_ptr(
        self, t: HostThread, host: int, block: int, nbytes: int, offset: int, device: int, *rest: int
    ) -> None:
        await t.omp_target_associate_ptr(
            self._host(host, nbytes), self._block(block), nbytes, offset, self._device(t, device)
        )

    async def _omp_target_disassociate_ptr(self, t: HostThread, host: int, device: int, *rest: int) -> None:
        await t.omp_target_disassociate_ptr(self._host(host), self._device(t, device))

    async def _omp_target_memcpy(
        self, t: HostThread, dst: int, src: int, length: int, dst_offset: int, src_offset: int, into: int, out_of: int,
        *rest: int,
    ) -> None:  # fmt: skip
        if length:
            destination = self._place(t, dst, dst_offset, length, into)
            await t.omp_target_memcpy(destination, self._place(t, src, src_offset, length, out_of), length)

    async def _omp_target_memcpy_rect(self, t: HostThread, dst: int, src: int, *rest: int) -> None:
        if not dst and not src:  # asks how many dimensions it may have
            return
        box = Box.of((dst, src, *rest[:-1]))
        if box is None:
            raise LookupError("its dimensions were not recorded; record the program anew")
        to, begin = box.span(box.to_offsets, box.to_dimensions), box.span(box.from_offsets, box.from_dimensions)
        nowhere = (0,) * len(box.volume)
        if to[1]:
            await t.omp_target_memcpy_rect(
                self._place(t, dst, *to, rest[2]), self._place(t, src, *begin, rest[3]), box.element, box.volume,
                nowhere, nowhere, box.to_dimensions, box.from_dimensions,
            )  # fmt: skip

    async def _omp_target_memset(
        self, t: HostThread, address: int, byte: int, nbytes: int, device: int, *rest: int
    ) -> None:
        if self._is_initial(device):
            return
        place = self._place(t, address, 0, nbytes, device)
        if isinstance(place, DevicePointer):
            await t.omp_target_memset(place, byte, nbytes)
        else:  # nothing is copied: the host's own memory is set
            await t.host_access(place)

    # the asynchronous routines run in the task that they made
    _omp_target_memcpy_async = _omp_target_memcpy
    _omp_target_memcpy_rect_async = _omp_target_memcpy_rect
    _omp_target_memset_async = _omp_target_memset


_DATA: Final[Mapping[str, Literal["begin", "end", "update"]]] = {
    "__tgt_target_data_begin_mapper": "begin",
    "__tgt_target_data_begin_nowait_mapper": "begin",
    "__tgt_target_data_end_mapper": "end",
    "__tgt_target_data_end_nowait_mapper": "end",
    "__tgt_target_data_update_mapper": "update",
    "__tgt_target_data_update_nowait_mapper": "update",
}
_KINDS: Final[Mapping[str, Kind]] = {"global": "global", "link": "link"}
_KERNELS: Final = ("__tgt_target_kernel", "__tgt_target_kernel_nowait")


def own_device(recording: Recording, process: Process) -> int | None:
    """Return the number of the device that a rank uses in this replay, if the recorded rank used one device only.

    The ranks of a node take its devices in turn, as launchers bind them, whatever numbers were recorded. Returns None
    for a rank that used several devices: it keeps the recorded numbers.
    """
    if len(recording.device_numbers) > 1:
        return None
    machine = process.program.machine
    return (process.rank - machine.first_process) % max(1, len(process.program.devices))


@attrs.define(eq=False)
class ReplayedProgram:
    """Runs the directives of a recording as a program of OpenMP.

    declared: by name, kernels whose costs were not recorded. progress: called with (done, total), the numbers of
    directives. In its methods, t is the host thread that makes the step; numbers are those in the recording.
    """

    recording: Recording
    openmp: OpenMP
    host_time: float
    """Virtual seconds of host work for each second of it in the recording."""
    declared: dict[str, Kernel]
    progress: Callable[[int, int], object]
    process: Process | None = None
    """The MPI process, if all ranks are played together; None: one process is played alone."""
    oracle: Oracle = attrs.field(init=False)
    frame: TaskFrame = attrs.field(factory=TaskFrame)
    """Where the stack variables of the task lie whose record (step) is executed next."""
    _arrays: PlacedArrays = attrs.field(init=False)
    _lowered: LoweredProgram = attrs.field(init=False)
    _kernels: RecordedKernels = attrs.field(init=False)
    _routines: Routines = attrs.field(init=False)
    _log: OperationLog | None = attrs.field(init=False)
    _constructs: dict[tuple[int, int, int, TaskFrame], Construct] = attrs.field(factory=dict)
    """By (site, list of items, launch, frame): prepared constructs, valid until an array is allocated or freed."""
    _unseen: set[HostArray] = attrs.field(factory=set)
    """Arrays whose touches by the host are not all recorded."""
    _total: int = attrs.field(init=False)
    _observed: ObservedReplay | None = attrs.field(init=False, default=None)
    _messages: MessageBuffers | None = attrs.field(init=False, default=None)
    _ranks: RankReplay | None = attrs.field(init=False, default=None)
    _own_device: int | None = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.oracle = Oracle(self.recording)
        self._arrays = PlacedArrays(len(self.recording.dictionaries.arrays))
        self._lowered = LoweredProgram(self.openmp)
        most_threads = self.openmp.devices[0].machine.spec.count("sm.max_threads_per_team")
        self._own_device = None if self.process is None else own_device(self.recording, self.process)
        self._routines = Routines(self.recording, self._lowered, self._own_device)
        grid, block_at = self.openmp.declarations.grid, self._routines.block_used_at
        self._kernels = RecordedKernels(self.recording, most_threads, grid, block_at, self.declared)
        self._total = self.recording.directives
        if self.process is not None:
            from offloadrt.extensions.recording.replay.ranks import RankReplay

            self._ranks = RankReplay(self.recording, self.process, self.device_of)
        if self.openmp.tell is not None:
            self._observed = observed = ObservedReplay(self.openmp.tell, self.recording)
            if self._ranks is None and self.recording.dictionaries.mpi_calls:
                self._tell_messages(observed)
        configuration = self.openmp.devices[0].configuration.name
        compares = self.recording.meta.oracle and configuration == as_recorded(self.recording)
        compares = compares and self.openmp.num_devices > 0
        self._log = OperationLog(self.openmp.sim) if compares else None
        if self._log is not None:
            for device in self.openmp.devices:
                start_tool(device, self._log)

    def ends(self) -> None:
        """Report to an observer how the program ended."""
        if self._observed is not None:
            self._observed.ends()

    def has_roots(self, roots: Sequence[int]) -> None:
        """Note the initial tasks (`roots`); if nothing recorded orders them, their order in this run counts."""
        if self._observed is not None:
            is_known = self.recording.meta.exact and self.recording.dictionaries.beside.keys().isdisjoint(roots)
            self._observed.in_run_order = len(roots) > 1 and not is_known

    @property
    def offload(self) -> OpenMP:
        return self.openmp

    @property
    def helpers(self) -> HiddenHelpers:
        return self.openmp.helpers

    # memory

    async def allocates(self, t: ProgramThread, number: int) -> None:
        """Make an array that the program allocates, at its recorded address."""
        self.allocate(number)

    async def frees(self, t: ProgramThread, number: int, end: int) -> None:
        """Forget array `number`, which the program frees. end: index of `Dictionaries.ends`, NONE if unknown."""
        self.free(number, end)

    def place_arrays(self) -> None:
        """Make the arrays that exist from the beginning of the program, at their recorded addresses."""
        for number, array in enumerate(self.recording.dictionaries.arrays):
            if array.is_there:
                self.allocate(number, written=True)

    def allocate(self, number: int, *, written: bool = False, frame: TaskFrame | None = None) -> HostArray:
        """Make array `number` where `frame` has it; its pages exist if it is `written` or host accesses are unknown.

        Arrays at the same addresses are forgotten: a recording does not say when stack variables and small blocks end.
        """
        array, frame = self.recording.dictionaries.arrays[number], frame or self.frame
        address = array.address + frame.shifts.get(number, 0)
        while (other := self._lowered.overlapped(address, array.nbytes)) is not None:
            self._forget(other, freed=False)
        populated = written or not self.recording.meta.host_touches
        kind = _KINDS.get(array.origin, "heap")
        placed = self._lowered.array(array.name, address, array.nbytes, kind, written=populated, pointer=array.pointer)
        self._arrays.put(number, frame, placed)
        if array.origin == "mapped":
            self._unseen.add(placed)
        return placed

    def _shift_at(self, address: int) -> int:
        """Return what is added to a recorded address, and place the task's own variable that lies there."""
        number, shift = self.frame.at(address)
        if number != NONE and self._arrays.at(number, self.frame) is None:
            self.allocate(number, written=True)
        return shift

    def free(self, number: int, end: int = NONE) -> None:
        """Forget array `number`, and the constructs that use it. end: index of `Dictionaries.ends`, NONE if unknown."""
        array = self._arrays.at(number, self.frame)
        if array is None:
            return
        if self.recording.dictionaries.arrays[number].origin in ("malloc", "small"):
            self._arrays.freed(number, array)
        if self._observed is not None:
            self._observed.frees(array, None if end == NONE else self.recording.dictionaries.ends[end])
        self._forget(array, freed=True)
        if self._observed is not None:
            self._observed.leaves()

    def _forget(self, array: HostArray, freed: bool) -> None:
        self._lowered.free(array, freed)
        self._arrays.remove(array)
        self._constructs.clear()

    async def touch(self, t: ProgramThread, touches: int, thread: int) -> None:
        """Access, in this thread, the memory of recorded list `touches`; `thread` is the recorded thread's number."""
        columns, frame = self.recording.columns, self.frame
        for place in self.recording.range_of("touches", touches):
            number = int(columns["touch.array"][place])
            array = self._arrays.at(number, frame)
            kind = int(columns["touch.kind"][place])
            if array is None and (number in frame.shifts or kind == NEW_BLOCK):
                array = self.allocate(number, written=True, frame=frame)
            if array is None:  # another thread may have freed it before in this run
                array = self._arrays.gone(number)
            if array is not None:
                begin, nbytes = array.address + int(columns["touch.offset"][place]), int(columns["touch.bytes"][place])
                if kind not in (MAYBE_LOADED, NEW_BLOCK) and not kind & UNNAMED and not array.freed:
                    await t.program.devices[0].plugin.host_touch(begin, nbytes)
                if self._observed is not None:
                    self._observed.touched(array, begin, nbytes, kind, thread)

    # directives

    def knows_copies(self, number: int) -> None:
        """Report to an observer the copies of the next directive, list `number` of the recording; -1: there is none."""
        if self._observed is None or number == NONE:
            return
        copies: list[KnownCopy] = []
        for place in self.recording.range_of("copies", number):
            kind, host, nbytes, content, brings_nothing = (
                int(self.recording.columns[f"copy.{name}"][place])
                for name in ("kind", "host", "bytes", "content", "brings_nothing")
            )
            host += self._shift_at(host)
            array = self._lowered.at(host)
            is_watched = self._observed.tells_bytes and array is not None and array not in self._unseen
            op = "h2d" if kind == OmptOperation.H2D else "d2h"
            copies.append(KnownCopy(op, host, nbytes, content, bool(brings_nothing), is_watched))
        self._observed.knows_copies(tuple(copies))

    async def stops(self, t: ProgramThread, site_number: int, items: int) -> None:
        """Do nothing at a line where the host waits for parallel algorithms: each directive waits for its kernel."""

    async def run(self, t: ProgramThread, site_number: int, items: int, launch: int, operations: int) -> None:
        """Run a directive or routine, as numbered in the recording; compare its operations with those recorded."""
        assert isinstance(t, HostThread)
        site = self.recording.dictionaries.sites[site_number]
        t.sim.current.data["place"] = site.where
        if self._observed is not None:
            self._observed.comes_to(site.where)
            self._tell_findings(self._observed, site, launch)
        done = None if self._log is None else self._log.begin()
        if site.died:
            await self._dies_in(t, site_number, items, launch)
        elif site.is_algorithm:  # its kernels are the directives behind it
            pass
        elif site.call not in _DATA and site.call not in _KERNELS:
            await self._routines.run(t, site, items, self._shift_at)
        elif not self.recording.on_initial_device(site):  # its work is recorded as host work
            await t.run(self._construct_of(site_number, items, launch))
        if self._observed is not None:
            self._observed.leaves()
        self.oracle.directives += 1
        if done is not None:
            self.oracle.compare(site_number, items, operations, done)
        if self.oracle.directives % 1000 == 0:
            self.progress(self.oracle.directives, self._total)

    async def call_mpi(self, t: ProgramThread, call: int, parts: int) -> None:
        """Make MPI call number `call` with list number `parts` of arguments; leave it out if replayed alone."""
        if self._ranks is None:
            self.oracle.calls_left_out += 1
            if self._messages is not None:
                self._messages.tell(call, parts)
            return
        t.sim.current.data["place"] = self.recording.dictionaries.mpi_calls[call].where
        await self._ranks.call(call, parts)

    def device_of(self, part: ReplayedPart) -> int | None:
        """Return the number of the device whose memory holds an MPI call's buffer; None for host memory."""
        found = self._on_device(part)
        return None if found is None else found.device

    def _on_device(self, part: ReplayedPart) -> DevicePointer | None:
        """Return the device address of an MPI call's buffer; None if it is host memory."""
        if part.memory == BufferPlace.HOST or not self.openmp.num_devices:
            return None
        if part.memory == BufferPlace.GIVEN:
            return self._routines.block_at(part.address)
        for number, device in enumerate(self.openmp.devices):
            found = device.table.lookup(part.address, part.nbytes)
            if found.overlaps:
                address = found.pointer.address
                return None if address is None else DevicePointer(address, part.nbytes, number, phantom=True)
        return None

    def _tell_messages(self, observed: ObservedReplay) -> None:
        """Report what MPI calls do with their buffers, as this process is replayed without the other ranks."""
        from offloadrt.extensions.recording.replay.messages import MessageBuffers

        self._messages = MessageBuffers(
            observed, self.recording, self._on_device, lambda number: self._arrays.at(number, self.frame),
            self.openmp.next_directive,
        )  # fmt: skip

    async def _dies_in(self, t: HostThread, site_number: int, items: int, launch: int) -> None:
        """Run what is known of the directive in which the program died; nothing comes after it.

        For a region without a recorded launch, that is the begin of its maps: how far its kernel came is not known.
        """
        site = self.recording.dictionaries.sites[site_number]
        try:
            if site.call in _DATA or (site.call in _KERNELS and not self.recording.on_initial_device(site)):
                await t.run(self._construct_of(site_number, items, launch))
            elif site.call not in _KERNELS:
                await self._routines.run(t, site, items, self._shift_at)
        except (OffloadError, RecordingError):
            pass  # probably what the program died of, which is reported anyway

    def _construct_of(self, site_number: int, items: int, launch: int) -> Construct:
        key = site_number, items, launch, self.frame
        construct = self._constructs.get(key)
        if construct is None:
            site = self.recording.dictionaries.sites[site_number]
            construct = self._constructs[key] = self._construct(site, items, launch)
        return construct

    def _tell_findings(self, observed: ObservedReplay, site: Site, launch: int) -> None:
        """Report races and stray accesses of a launch, if it was traced itself."""
        columns = self.recording.columns
        if launch == NONE or not columns["launch.traced"][launch]:
            return
        arrays, device = self._arrays.seen_in(self.frame), max(0, site.device)
        observed.copies(self._kernels.copied(launch, arrays), device)
        findings = self.recording.dictionaries.findings.get(int(columns["launch.trace"][launch]))
        if findings is not None:
            kernel = self.recording.dictionaries.kernels[site.kernel]
            observed.launches(kernel, findings, arrays, device, self._routines.freed_at)

    def _construct(self, site: Site, items: int, launch: int) -> Construct:
        lowered = self._items(site, items)
        device = site.device if site.device >= 0 else None
        if self._own_device is not None:
            device = self._own_device
        if device is not None and device >= self.openmp.num_devices > 0:
            raise ReplayRefused(
                f"{self.recording.name}: {site.where}: the program uses device {device}; this machine has "
                f"{len(self.openmp.devices)}"
            )
        if (call := _DATA.get(site.call)) is not None:
            return self._lowered.data(call, lowered, device=device)
        if site.died:
            return self._lowered.data("begin", lowered, device=device, name="target")
        recorded = self._kernels.launch(site, launch, lowered, self._arrays.seen_in(self.frame))
        reached = list(recorded.reaches)
        return self._lowered.target(recorded.launch, lowered, device=device, follows=reached, blocks=recorded.blocks)

    def _size_of(self, form: ItemForm, place: int) -> int:
        """Return the bytes of an item; under a check, report a map beyond the end of its array, and end it there."""
        number, nbytes = (int(self.recording.columns[f"item.{name}"][place]) for name in ("array", "size"))
        if number == NONE or self._observed is None or form.type & (ATTACH | LITERAL | NON_CONTIG):
            return nbytes
        array, begin = self.recording.dictionaries.arrays[number], int(self.recording.columns["item.begin"][place])
        there = array.address + (array.own or array.nbytes) - begin
        if nbytes > there:
            self._observed.maps_beyond(array.name, nbytes, there, bool(form.type & (TO | FROM)))
        in_array = array.address + array.nbytes - begin  # more than `there`, unless another array lies behind it
        return min(nbytes, in_array) if in_array > 0 else nbytes

    def _items(self, site: Site, number: int) -> MapItems:
        columns, forms = self.recording.columns, site.items
        for place in self.recording.range_of("items", number):
            array = int(columns["item.array"][place])
            if (
                array != NONE and self._arrays.at(array, self.frame) is None
            ):  # a section that the program has freed, or will use again
                if self._observed is not None and self._arrays.was_freed(array):
                    self._observed.maps_freed(self.recording.dictionaries.arrays[array].address)
                self.allocate(array, written=True)
        lowered: list[LoweredItem] = []
        behind: list[LoweredItem] = []
        rows = zip(self.recording.range_of("items", number), forms, strict=True)
        for place, form in reversed(list(rows)):
            own, behind = behind[: form.components], behind[form.components :]
            if form.type & NON_CONTIG and not form.dimensions:
                raise ReplayRefused(
                    f"{self.recording.name}: {site.where}: the dimensions of {form.name!r}, a strided section, were "
                    "not recorded"
                )
            size = self._size_of(form, place)
            base, begin = int(columns["item.base"][place]), int(columns["item.begin"][place])
            if self.frame.shifts and not form.type & LITERAL:
                shift = self._shift_at(begin)  # a base may lie before its array
                base += self._shift_at(base) or shift * (not form.type & (ATTACH | PTR_AND_OBJ))
                begin += shift
            dimensions = tuple(omp.Dimension(*dimension) for dimension in form.dimensions)
            item = LoweredItem(
                base,
                first_byte(base, dimensions) if form.type & NON_CONTIG else begin,
                size,
                form.type,
                form.name,
                dimensions=dimensions,
                components=tuple(own),
            )
            behind.insert(0, item)
        lowered = behind
        try:
            return self._lowered.items(lowered)
        except ValueError as error:
            if self._observed is not None:  # the map was reported, and nothing comes after it
                raise OffloadError(str(error), call=site.where) from None
            raise ReplayRefused(f"{self.recording.name}: {site.where}: {error}") from None


async def replay(
    recording: Recording,
    program: OpenMP,
    *,
    host_time: float = 1.0,
    declared: Mapping[str, Kernel] | None = None,
    progress: Callable[[int, int], object] = lambda done, total: None,
    phases: StepSampler | None = None,
    process: Process | None = None,
) -> Outcome:
    """Run a recorded program, and return how its operations compare with the recorded ones.

    Called in an actor. host_time: virtual seconds for each second that a host thread worked; 0: host work takes no
    time. declared: kernels by name, whose costs were not recorded. phases: chooses which instances of repeated phases
    run; None: all. process: the rank's, if all ranks are replayed. Raises ReplayRefused if the recording lacks a part.
    """
    unknown = sorted({
        recording.dictionaries.kernels[site.kernel]
        for site in recording.dictionaries.sites
        if site.kernel != NONE and not recording.meta.costs and not recording.on_initial_device(site) and not site.died
        if program.tell is None  # a check needs no times
    } - set(declared or ()))  # fmt: skip
    if unknown:
        raise ReplayRefused(
            f"{recording.name}: no costs were recorded of the kernels {', '.join(unknown)}; declare them by name in a "
            "TOML file and name it as costs=FILE.toml"
            + (f" (the program {recording.meta.died})" if recording.meta.died is not None else "")
        )
    run = ReplayedProgram(recording, program, host_time, dict(declared or {}), progress, process)
    run.place_arrays()
    walk = TaskWalk(run, phases)
    roots = walk.roots()
    run.has_roots(roots)

    async def initial(t: HostThread) -> None:
        await walk.thread(t, roots[t.number])

    if roots:
        await (process or program).parallel(initial, num_threads=len(roots))
    run.ends()
    return run.oracle.outcome()
