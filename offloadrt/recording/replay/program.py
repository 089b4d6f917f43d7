"""A recorded program on an emulated machine: its arrays at their addresses, its directives, its host threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal

import attrs

from offloadrt.kernels import Kernel
from offloadrt.models import openmp as omp
from offloadrt.models.openmp import HostThread, LoweredItem, LoweredProgram, OpenMP
from offloadrt.models.openmp.construct import Construct
from offloadrt.recording.format.recording import NONE, ItemForm, Recording, Site
from offloadrt.recording.replay.changes import ReplayRefused, as_recorded
from offloadrt.recording.replay.kernels import RecordedKernels
from offloadrt.recording.replay.observed import ObservedReplay
from offloadrt.recording.replay.oracle import OperationLog, Oracle, Outcome
from offloadrt.recording.replay.routines import Routines
from offloadrt.recording.replay.tasks import ChoosesInstances, TaskWalk
from offloadrt.runtime.errors import OffloadError
from offloadrt.runtime.host_array import HostArray, Kind
from offloadrt.runtime.mapping.map_item import ATTACH, LITERAL, NON_CONTIG, MapItems

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


@attrs.define(eq=False)
class ReplayedProgram:
    """Runs the directives of a recording on a program of OpenMP."""

    recording: Recording
    openmp: OpenMP
    host_time: float
    """Virtual seconds of the host for each second that the program worked when it was recorded."""
    declared: dict[str, Kernel]
    progress: Callable[[int, int], object]
    oracle: Oracle = attrs.field(init=False)
    arrays: list[HostArray | None] = attrs.field(init=False)
    """The arrays of the recording, by number; None: not allocated, or freed."""
    _lowered: LoweredProgram = attrs.field(init=False)
    _kernels: RecordedKernels = attrs.field(init=False)
    _routines: Routines = attrs.field(init=False)
    _log: OperationLog | None = attrs.field(init=False)
    _constructs: dict[tuple[int, int, int], Construct] = attrs.field(factory=dict)
    """By site, list of items and launch, while the arrays are the same."""
    _total: int = attrs.field(init=False)
    _observed: ObservedReplay | None = attrs.field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self.oracle = Oracle(self.recording)
        self.arrays = [None] * len(self.recording.dictionaries.arrays)
        self._lowered = LoweredProgram(self.openmp)
        most_threads = self.openmp.devices[0].machine.spec.count("sm.max_threads_per_team")
        self._routines = Routines(self.recording, self._lowered)
        grid, block_at = self.openmp.declarations.grid, self._routines.block_at
        self._kernels = RecordedKernels(self.recording, most_threads, grid, block_at, self.declared)
        self._total = self.recording.directives
        if self.openmp.observer is not None:
            self._observed = ObservedReplay(self.openmp.observer, self.recording)
        configuration = self.openmp.devices[0].configuration.name
        compares = self.recording.meta.oracle and configuration == as_recorded(self.recording)
        compares = compares and self.openmp.num_devices > 0
        self._log = OperationLog(self.openmp.sim) if compares else None
        for device in self.openmp.devices:
            device.tool = self._log

    def has_roots(self, count: int) -> None:
        """Take the number of initial tasks."""
        if self._observed is not None:
            self._observed.in_run_order = count > 1

    # memory

    def place_arrays(self) -> None:
        """Place the arrays that are there from the beginning."""
        for number, array in enumerate(self.recording.dictionaries.arrays):
            if array.origin != "malloc":
                self.allocate(number, written=True)

    def allocate(self, number: int, *, written: bool = False) -> None:
        """Place an array. Its pages are there when the program has written it, or nobody recorded when it does.

        What lay there is forgotten: of stacks and small blocks no recording says when they end.
        """
        array = self.recording.dictionaries.arrays[number]
        while (other := self._lowered.overlapped(array.address, array.nbytes)) is not None:
            self._forget(next(place for place, old in enumerate(self.arrays) if old is other), other, freed=False)
        populated = written or not self.recording.meta.host_touches
        kind = _KINDS.get(array.origin, "heap")
        self.arrays[number] = self._lowered.array(
            array.name, array.address, array.nbytes, kind, written=populated, pointer=array.pointer
        )

    def free(self, number: int, end: int = NONE) -> None:
        """Forget an array, and whatever was prepared with it. end: where the memory of one ends that is mapped."""
        array = self.arrays[number]
        if array is None:
            return
        if self._observed is not None:
            self._observed.frees(array, None if end == NONE else self.recording.dictionaries.ends[end])
        self._forget(number, array, freed=True)
        if self._observed is not None:
            self._observed.leaves()

    def _forget(self, number: int, array: HostArray, freed: bool) -> None:
        self._lowered.free(array, freed)
        self.arrays[number] = None
        self._constructs.clear()

    async def touch(self, t: HostThread, number: int) -> None:
        """Touch what the host touched before a record."""
        columns = self.recording.columns
        for place in self.recording.range_of("touches", number):
            array = self.arrays[int(columns["touch.array"][place])]
            if array is not None:
                begin, nbytes = array.address + int(columns["touch.offset"][place]), int(columns["touch.bytes"][place])
                await t.program.devices[0].plugin.host_touch(begin, nbytes)
                if self._observed is not None:
                    self._observed.touched(array, begin, nbytes, int(columns["touch.kind"][place]))

    # directives

    async def run(self, t: HostThread, site_number: int, items: int, launch: int, operations: int) -> None:
        """Run a directive or a routine, and compare what was done with what the real runtime did."""
        site = self.recording.dictionaries.sites[site_number]
        t.sim.current.data["place"] = site.where
        if self._observed is not None:
            self._observed.comes_to(site.where)
            self._tell_findings(self._observed, site, launch)
        done = None if self._log is None else self._log.begin()
        if site.call not in _DATA and site.call not in _KERNELS:
            await self._routines.run(t, site, items)
        elif not self.recording.on_initial_device(site):  # what that did is recorded as work of the host
            key = site_number, items, launch
            construct = self._constructs.get(key)
            if construct is None:
                construct = self._constructs[key] = self._construct(site, items, launch)
            await t.run(construct)
        if self._observed is not None:
            self._observed.leaves()
        self.oracle.directives += 1
        if done is not None:
            self.oracle.compare(site_number, operations, done)
        if self.oracle.directives % 1000 == 0:
            self.progress(self.oracle.directives, self._total)

    def _tell_findings(self, observed: ObservedReplay, site: Site, launch: int) -> None:
        """Tell what the launch that was traced did wrong, but not of those that have its trace for lack of one."""
        columns = self.recording.columns
        if launch == NONE or not columns["launch.traced"][launch]:
            return
        findings = self.recording.dictionaries.findings.get(int(columns["launch.trace"][launch]))
        if findings is not None:
            kernel = self.recording.dictionaries.kernels[site.kernel]
            observed.launches(kernel, findings, self.arrays, max(0, site.device))

    def _construct(self, site: Site, items: int, launch: int) -> Construct:
        lowered = self._items(site, items)
        device = site.device if site.device >= 0 else None
        if device is not None and device >= self.openmp.num_devices > 0:
            raise ReplayRefused(
                f"{self.recording.name}: {site.where}: the program uses device {device}; this machine has "
                f"{len(self.openmp.devices)}"
            )
        if (call := _DATA.get(site.call)) is not None:
            return self._lowered.data(call, lowered, device=device)
        recorded = self._kernels.launch(site, launch, lowered, self.arrays)
        reached = list(recorded.reaches)
        return self._lowered.target(recorded.launch, lowered, device=device, follows=reached, blocks=recorded.blocks)

    def _tell_of_reach(self, form: ItemForm, place: int) -> None:
        """Tell of a map that reaches beyond the end of its array."""
        number = int(self.recording.columns["item.array"][place])
        if number == NONE or self._observed is None or form.type & (ATTACH | LITERAL | NON_CONTIG):
            return
        array, columns = self.recording.dictionaries.arrays[number], self.recording.columns
        nbytes = int(columns["item.size"][place])
        there = array.address + (array.own or array.nbytes) - int(columns["item.begin"][place])
        if nbytes > there:
            self._observed.maps_beyond(array.name, nbytes, there)

    def _items(self, site: Site, number: int) -> MapItems:
        columns, forms = self.recording.columns, site.items
        for place in self.recording.range_of("items", number):
            array = int(columns["item.array"][place])
            if array != NONE and self.arrays[array] is None:  # a section that the program has freed, or will use again
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
            self._tell_of_reach(form, place)
            item = LoweredItem(
                int(columns["item.base"][place]),
                int(columns["item.begin"][place]),
                int(columns["item.size"][place]),
                form.type,
                form.name,
                dimensions=tuple(omp.Dimension(*dimension) for dimension in form.dimensions),
                components=tuple(own),
            )
            behind.insert(0, item)
        lowered = behind
        try:
            return self._lowered.items(lowered)
        except ValueError as error:
            if self._observed is not None:  # the map has been told of; nothing can come after it
                raise OffloadError(str(error), call=site.where) from None
            raise ReplayRefused(f"{self.recording.name}: {site.where}: {error}") from None


async def replay(
    recording: Recording,
    program: OpenMP,
    *,
    host_time: float = 1.0,
    declared: Mapping[str, Kernel] | None = None,
    progress: Callable[[int, int], object] = lambda done, total: None,
    phases: ChoosesInstances | None = None,
) -> Outcome:
    """Run a recorded program, and return how its operations compare with the recorded ones.

    Called in an actor. host_time: virtual seconds for each second that a host thread worked; 0: only the order of the
    program remains. declared: kernels by name, whose costs were not recorded. phases: chooses which instances of
    repeated phases are run; all are without it. Raises ReplayRefused.
    """
    unknown = sorted({
        recording.dictionaries.kernels[site.kernel]
        for site in recording.dictionaries.sites
        if site.kernel != NONE and not recording.meta.costs and not recording.on_initial_device(site)
        if program.observer is None  # a check asks for no times
    } - set(declared or ()))  # fmt: skip
    if unknown:
        raise ReplayRefused(
            f"{recording.name}: no costs were recorded of the kernels {', '.join(unknown)}; declare them by name in a "
            "TOML file and name it as costs=FILE.toml"
        )
    run = ReplayedProgram(recording, program, host_time, dict(declared or {}), progress)
    run.place_arrays()
    walk = TaskWalk(run, phases)
    roots = walk.roots()
    run.has_roots(len(roots))

    async def initial(t: HostThread) -> None:
        await walk.thread(t, roots[t.number])

    if roots:
        await program.parallel(initial, num_threads=len(roots))
    return run.oracle.outcome()
