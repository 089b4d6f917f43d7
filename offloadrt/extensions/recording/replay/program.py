"""Replays a recorded program on an emulated machine: arrays at their addresses, directives, host threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

import attrs
import numpy as np

from offloadrt.extensions.checking.recorded import KnownCopy
from offloadrt.extensions.recording.format.container import RunSummary
from offloadrt.extensions.recording.format.recording import (
    NONE,
    BufferPlace,
    Meta,
    OmptOperation,
    Recording,
    RecordingError,
    Site,
)
from offloadrt.extensions.recording.format.slots import MAYBE_LOADED, NEW_BLOCK, UNIFIED_SHARED_MEMORY, UNNAMED
from offloadrt.extensions.recording.ompt import start_tool
from offloadrt.extensions.recording.replay.frames import PlacedArrays, TaskFrame
from offloadrt.extensions.recording.replay.kernels import RecordedKernels
from offloadrt.extensions.recording.replay.lowered import LoweredItem, LoweredProgram, first_byte
from offloadrt.extensions.recording.replay.observed import ObservedReplay, OperationLog, Oracle, Outcome
from offloadrt.extensions.recording.replay.routines import ReplayRefused, Routines
from offloadrt.extensions.recording.replay.tasks import TaskWalk
from offloadrt.kernels import Kernel
from offloadrt.machine import MachineSpec
from offloadrt.models import openmp as omp
from offloadrt.models.host.process import Process
from offloadrt.models.host.program import ProgramThread
from offloadrt.models.openmp import DevicePointer, HostArray, HostThread, OpenMP
from offloadrt.models.openmp.lowering import Construct
from offloadrt.models.openmp.tasks import HiddenHelpers
from offloadrt.runtime.configurations.usm import translates
from offloadrt.runtime.errors import OffloadError
from offloadrt.runtime.host_array import Kind
from offloadrt.runtime.mapping.map_item import MapItems
from offloadrt.runtime.mapping.map_types import ATTACH, FROM, LITERAL, NON_CONTIG, PTR_AND_OBJ, TO
from offloadrt.study.running.statistics import StepSampler

if TYPE_CHECKING:  # most programs do not use MPI
    from offloadrt.extensions.recording.replay.ranks import MessageBuffers, RankReplay, ReplayedPart

_SHOWN: Final = 3


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
        """Report to the observer of the replay, such as the checker, how the program ended."""
        if self._observed is not None:
            self._observed.ends()

    def has_roots(self, roots: Sequence[int]) -> None:
        """Tell the observer of the replay (a checker) whether this run's interleaving of threads counts as their order.

        It does if there are several initial tasks (`roots`, one per thread that OpenMP did not make) and the recording
        does not say what orders them; otherwise races between them would be reported that may not exist.
        """
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
        """Report to the observer of the replay, such as the checker, which copies the next directive makes.

        number: the list of the recording that has them; -1: there is none.
        """
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
            self._place_again(items)
            for place in self.recording.range_of("items", items):
                self._size_of(TO, place, "copies")
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
        """Make MPI call `call` (a number) with argument list `parts`; do nothing if this rank is replayed alone."""
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
        from offloadrt.extensions.recording.replay.ranks import MessageBuffers

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

    def _size_of(self, type_bits: int, place: int, did: str = "maps") -> int:
        """Return the bytes of an item; under a check, report one that reaches beyond its array, and end it there.

        did: what the program does with the bytes.
        """
        number, nbytes = (int(self.recording.columns[f"item.{name}"][place]) for name in ("array", "size"))
        if number == NONE or self._observed is None or type_bits & (ATTACH | LITERAL | NON_CONTIG):
            return nbytes
        array, begin = self.recording.dictionaries.arrays[number], int(self.recording.columns["item.begin"][place])
        there = array.address + (array.own or array.nbytes) - begin
        if nbytes > there:
            self._observed.maps_beyond(array.name, nbytes, there, bool(type_bits & (TO | FROM)), did)
        in_array = array.address + array.nbytes - begin  # more than `there`, unless another array lies behind it
        return min(nbytes, in_array) if in_array > 0 else nbytes

    def _place_again(self, items: int) -> None:
        """Place the arrays of a list of items that the program has freed, or that it will use again."""
        for place in self.recording.range_of("items", items):
            number = int(self.recording.columns["item.array"][place])
            if number != NONE and self._arrays.at(number, self.frame) is None:
                if self._observed is not None and self._arrays.was_freed(number):
                    self._observed.maps_freed(self.recording.dictionaries.arrays[number].address)
                self.allocate(number, written=True)

    def _items(self, site: Site, number: int) -> MapItems:
        columns, forms = self.recording.columns, site.items
        self._place_again(number)
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
            size = self._size_of(form.type, place)
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
