"""Replays a recorded program of C++ parallel algorithms on the model of C++ standard parallelism.

Each recorded algorithm becomes a call of that model, with the recorded counts of its kernels. The program's allocations
become the model's, at addresses of its own; the model takes them over or leaves them to the host. What the host
touches, and where AdaptiveCpp's compiler lets a barrier stay, is as recorded. All arrays are phantoms.

Under `sycl` and `native` the program has device memory and explicit copies. Arrays that kernels use lie in device
memory, what the host touches of them is copied, and the program waits for results, for copies, and before it reads the
clock.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Final, cast

import attrs
import numpy as np

from offloadrt.extensions.recording.format.recording import (
    NONE,
    Recording,
    RecordingDamaged,
    Site,
    Step,
    StopKind,
    TaskKind,
)
from offloadrt.extensions.recording.format.slots import MAYBE_LOADED, STORES
from offloadrt.extensions.recording.replay.frames import TaskFrame
from offloadrt.extensions.recording.replay.kernels import RecordedKernels
from offloadrt.extensions.recording.replay.observed import FIRST_POINTER
from offloadrt.extensions.recording.replay.routines import ReplayRefused
from offloadrt.extensions.recording.replay.tasks import TaskWalk
from offloadrt.extensions.stdpar import ExecutionPolicy, HostThread, Indirect, Marker, StdPar, UsmArray, section
from offloadrt.extensions.stdpar.algorithms import AlgorithmCall, direct
from offloadrt.extensions.stdpar.elision import ALGORITHMS
from offloadrt.kernels import Kernel, Launch
from offloadrt.kernels.kernel import DEFAULT_THREADS
from offloadrt.models.host.program import ProgramThread
from offloadrt.models.openmp.tasks import HiddenHelpers
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.plugins.plugin import GridDefaults
from offloadrt.study.running.statistics import StepSampler

_POLICIES: Final = {1: ExecutionPolicy.PAR, 2: ExecutionPolicy.PAR_UNSEQ}
_MARKERS: Final = {
    StopKind.ACCESS: Marker.HOST_ACCESS,
    StopKind.CALL: Marker.CALL,
    StopKind.EXIT: Marker.RETURN,
    StopKind.ALLOCATION: Marker.ALLOCATION,
}
_ELEMENTS, _POLICY, _ON_HOST, _KERNELS = range(4)
"""The indices of an algorithm's first items: elements, policy, whether it runs on the host, kernels. Its pointers
follow.
"""
_SMALLEST: Final = 1 << 10
"""The bytes of the smallest block that is recorded where it is allocated, and not when an algorithm is given it."""
_STACK_BYTES: Final = 1 << 20
"""The assumed size of the stack variables that kernels get by reference, in bytes."""


_Kernel = tuple[int, int, int]
"""The numbers of a recorded kernel's site, launch and list of items."""


@attrs.define(eq=False)
class _OpenCall:
    """An algorithm whose kernels have not all come yet in the recording."""

    site: int
    items: int
    awaited: int
    kernels: list[_Kernel] = attrs.field(factory=list)


class _TimedPartOver(Exception):
    """Ends a replay when the timed part is over and the rest is not needed."""


@attrs.define(eq=False)
class Timed:
    """Measures a part of a replayed program: from an algorithm call at one source line to the next one at another line.

    If both are the same line, it measures from the first call there to the last one; with n calls these are n - 1
    iterations of the loop around them.

    begin, end: these source lines. measure: makes the context in which a measured part runs.
    """

    begin: str
    end: str
    measure: Callable[[], AbstractAsyncContextManager[None]]
    left: int
    """The number of calls at `end` that are still to come."""
    is_all: bool
    """Whether the replay ends with the measured part."""
    skipped: int = 0
    """The number of calls at `begin` before the measured part."""
    laps: dict[str, list[float]] | None = None
    """By place: filled with the seconds from each call in the part to the next call; None: calls are not timed."""
    _open: AbstractAsyncContextManager[None] | None = None
    _lap: tuple[str, float] = ("", 0.0)

    @classmethod
    def at(
        cls,
        places: str,
        recording: Recording,
        measure: Callable[[], AbstractAsyncContextManager[None]],
        rounds: int = 0,
        *,
        skipped: int = 0,
        laps: dict[str, list[float]] | None = None,
    ) -> Timed:
        """Make a `Timed` from the text of its source lines: `FILE:LINE`, or `FILE:LINE-FILE:LINE`.

        places: that text. measure: makes the context in which a measured part runs. rounds: the replay ends after so
        many measurements; 0: it goes on to the end. skipped: how many calls at the first line come before the measured
        part. laps: a dict to fill with the seconds between calls, by source line. Raises ReplayRefused if no algorithm
        is called at a line.
        """
        both = re.fullmatch(r"(.+?:\d+)-(.+:\d+)", places)  # files may have hyphens in their names
        begin, end = (both[1], both[2]) if both else (places, places)
        sites, columns = recording.dictionaries.sites, recording.columns
        calls = {site.where: 0 for site in sites if site.is_algorithm}
        subjects, times = np.unique(
            columns["record.subject"][columns["record.step"] == Step.DIRECTIVE], return_counts=True
        )
        for subject, count in zip(subjects.tolist(), times.tolist(), strict=True):
            if sites[subject].is_algorithm:
                calls[sites[subject].where] += count
        for place in (begin, end):
            if place not in calls:
                raise ReplayRefused(f"{recording.name}: no algorithm is called at {place!r}, but at {', '.join(calls)}")
        there = calls[end] - skipped - (begin == end)
        if rounds > there:
            raise ReplayRefused(f"{recording.name}: {rounds} rounds, but it has {there}, from {begin} to {end}")
        left = rounds + skipped + (begin == end) if rounds else calls[end]
        return cls(begin, end, measure, left, bool(rounds), skipped, laps)

    async def passes(self, t: HostThread, place: str) -> None:
        """Begin or end the measurement if the algorithm call that the replay has reached is its beginning or its end.

        place: the source line of the call. A program with explicit copies first waits for the device.
        """
        is_open, is_end = self._open is not None, place == self.end
        begins = place == self.begin and not self.skipped and self.left > is_end
        if t.runtime.is_explicit and ((is_end and is_open) or begins or (self.laps is not None and is_open)):
            await t.wait()
        if self.laps is not None and is_open:
            self.laps.setdefault(self._lap[0], []).append(t.sim.now - self._lap[1])
        self._lap = place, t.sim.now
        if is_end:
            self.left -= 1
            if self._open is not None:
                opened, self._open = self._open, None
                await opened.__aexit__(None, None, None)
                if self.is_all and not self.left:
                    raise _TimedPartOver
        if begins and self._open is None:
            self._open = self.measure()
            await self._open.__aenter__()
        self.skipped -= self.skipped > 0 and place == self.begin


@attrs.define(eq=False)
class ReplayedAlgorithms:
    """Replays a recorded program of C++ parallel algorithms on an emulated machine.

    offload: the emulated runtime of parallel algorithms. progress: called with (done, total), the numbers of
    directives. timed: the part to measure, if any. helpers: runs deferred tasks; a program of algorithms has none. In
    its methods, t is the host thread that makes the step, and numbers are those in the recording: `number` of an array,
    `site_number` of a source line, `items` of a list of items, `parts` of a list of MPI arguments.
    """

    recording: Recording
    offload: StdPar
    host_time: float
    """Virtual seconds of host work for each second of it in the recording."""
    frame: TaskFrame = attrs.field(factory=TaskFrame, init=False)
    """Where the stack variables of the task lie whose record (step) is executed next."""
    progress: Callable[[int, int], object]
    timed: Timed | None = None
    policy: ExecutionPolicy | None = None
    """The execution policy for all parallel algorithms; None: as recorded."""
    algorithms: int = 0
    """How many algorithms were called."""
    helpers: HiddenHelpers = attrs.field(init=False)
    _arrays: list[UsmArray | None] = attrs.field(init=False)
    """By number: the recording's arrays; None: not allocated yet, or freed."""
    _kernels: RecordedKernels = attrs.field(init=False)
    _open: dict[ProgramThread, _OpenCall] = attrs.field(factory=dict)
    """By thread: the algorithm that it has begun and that lacks kernels."""
    _calls: dict[tuple[object, ...], AlgorithmCall] = attrs.field(factory=dict)
    """By thread, algorithm and kernels: prepared calls, valid until an array is allocated or freed."""
    _placed: dict[int, tuple[Launch, dict[tuple[int, ...], Launch]]] = attrs.field(factory=dict)
    """By `id` of a launch: the launch, and its variants whose arrays have other positions among the arguments."""
    _stacks: dict[ProgramThread, UsmArray] = attrs.field(factory=dict)
    _of_devices: frozenset[int] = attrs.field(init=False)
    """The numbers of arrays that lie in device memory if the program has explicit copies."""
    _computed: set[int] = attrs.field(factory=set)
    """The numbers of arrays in device memory that kernels may have written since the host last copied them."""
    _total: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        machine = self.offload.machine
        self._arrays = [None] * len(self.recording.dictionaries.arrays)
        grid = GridDefaults(sys.maxsize, DEFAULT_THREADS, DEFAULT_THREADS)
        self._kernels = RecordedKernels(self.recording, DEFAULT_THREADS, grid, lambda address, was_freed: None)
        self._total = self.recording.directives
        self._of_devices = _arrays_of_devices(self.recording)
        self.helpers = HiddenHelpers(machine, 0)

    # memory

    def place_arrays(self, t: HostThread) -> None:
        """Make the program's variables in host memory."""
        for number, array in enumerate(self.recording.dictionaries.arrays):
            if array.is_there:
                self._arrays[number] = t.array(array.name, array.nbytes, np.uint8, phantom=True)

    async def allocates(self, t: ProgramThread, number: int) -> None:
        """Allocate array `number` of the recording, unless it is scratch memory that an algorithm allocated.

        The implementation provides an algorithm's scratch memory, and keeps it.
        """
        thread, array = cast(HostThread, t), self.recording.dictionaries.arrays[number]
        self._calls.clear()
        name = array.name or f"array {number}"
        if array.origin == "scratch":
            self._arrays[number] = thread.runtime.unplaced(name, array.nbytes, np.uint8, True, "scratch")
            return
        of_host = _copies(thread) and number not in self._of_devices
        allocate = thread.foreign_malloc if of_host else thread.malloc
        thread.executor.is_late = array.nbytes < _SMALLEST
        self._arrays[number] = await allocate(name, array.nbytes, np.uint8, phantom=True)
        thread.executor.is_late = False

    async def frees(self, t: ProgramThread, number: int, end: int) -> None:
        """Free array `number` of the recording, unless it is a variable whose scope ends. end: not used."""
        if self.recording.dictionaries.arrays[number].is_there:
            return
        array, self._arrays[number] = self._arrays[number], None
        self._calls.clear()
        if array is not None and array.memory != "scratch":
            await cast(HostThread, t).free(array)

    async def touch(self, t: ProgramThread, number: int, thread: int) -> None:
        """Make the host accesses of recorded list `number`, unless they were made inside an algorithm's call.

        thread: not used.
        """
        host, columns = cast(HostThread, t), self.recording.columns
        if host in self._open:
            return
        for place in self.recording.range_of("touches", number):
            array, kind = self._arrays[int(columns["touch.array"][place])], int(columns["touch.kind"][place])
            if array is None or array.memory == "scratch" or kind == MAYBE_LOADED:
                continue
            offset = min(int(columns["touch.offset"][place]), array.nbytes)
            nbytes = min(int(columns["touch.bytes"][place]), array.nbytes - offset)
            if array.memory == "device":
                await self._copy(host, int(columns["touch.array"][place]), offset, nbytes, kind)
            else:
                await host.host_access(section(array, offset, nbytes), writes=bool(kind & STORES))

    async def _copy(self, t: HostThread, number: int, offset: int, nbytes: int, kind: int) -> None:
        """Copy what the host touches of device memory: to the host if a kernel may have written, back if it stores."""
        array = self._arrays[number]
        assert array is not None
        part = attrs.evolve(array, address=array.address + offset, shape=(nbytes,))
        if not kind & STORES and number in self._computed:
            self._computed.discard(number)
            await t.read(part)
        elif kind & STORES and nbytes:
            await t.write(part)

    async def call_mpi(self, t: ProgramThread, call: int, parts: int) -> None:
        """Do nothing for an MPI call, because this process is replayed alone."""

    def knows_copies(self, number: int) -> None:
        """Do nothing with what a recording knows of the next directive's copies: algorithms have no map clauses."""

    # algorithms

    async def stops(self, t: ProgramThread, site_number: int, items: int) -> None:
        """Make the host wait for earlier algorithms, at a line before which the compiler keeps that wait (barrier)."""
        site = self.recording.dictionaries.sites[site_number]
        kind = self._words(site, items, 1)[0]
        if kind not in _MARKERS:
            raise RecordingDamaged(f"{self.recording.name}: {site.where}: a barrier stays for a reason {kind}")
        if not (thread := cast(HostThread, t)).runtime.is_explicit:
            await thread.executor.meets(_MARKERS[StopKind(kind)], site.call, site.file, site.line)

    async def run(self, t: ProgramThread, site_number: int, items: int, launch: int, operations: int) -> None:
        """Begin a recorded algorithm, or add a kernel to the one begun; its last recorded kernel makes it run.

        site_number, items, launch, operations: the numbers in the recording of its source line, of the list of its
        items, of the kernel's launch, and of the list of recorded operations.
        """
        thread, site = cast(HostThread, t), self.recording.dictionaries.sites[site_number]
        t.sim.current.data["place"] = site.where
        if site.is_algorithm:
            if self.timed is not None:
                await self.timed.passes(thread, site.where)
            words = self._words(site, items, 4)
            if words[_ON_HOST]:
                self._count()
                with thread.runtime.calling(_name(site)):
                    await thread.executor.host_algorithm(_name(site), site.file, site.line)
                return
            call = _OpenCall(site_number, items, words[_KERNELS])
        else:
            known = self._open.pop(thread, None)
            if known is None or site.kernel == NONE or launch == NONE:
                raise ReplayRefused(
                    f"{self.recording.name}: {site.where}: {site.call} is a directive of OpenMP; a program that has "
                    "both those and parallel algorithms is not replayed"
                )
            call = known
            call.kernels.append((site_number, launch, items))
        if len(call.kernels) < call.awaited:
            self._open[thread] = call
            return
        self._count()
        await thread.invoke(self._call_of(thread, call))
        if _copies(thread):
            places = self.recording.range_of("items", call.items)
            self._computed.update(self.recording.columns["item.array"][places.start : places.stop].tolist())

    def _count(self) -> None:
        self.algorithms += 1
        if self.algorithms % 1000 == 0:
            self.progress(self.algorithms, self._total)

    def _call_of(self, t: HostThread, recorded: _OpenCall) -> AlgorithmCall:
        key = t, recorded.site, recorded.items, *recorded.kernels
        call = self._calls.get(key)
        if call is None:
            call = self._calls[key] = self._made(t, recorded)
        return call

    def _made(self, t: HostThread, recorded: _OpenCall) -> AlgorithmCall:
        site = self.recording.dictionaries.sites[recorded.site]
        name, words = _name(site), self._words(site, recorded.items, 4)
        policy, elements = _POLICIES.get(words[_POLICY]), words[_ELEMENTS]
        if policy is None or name not in ALGORITHMS:
            raise RecordingDamaged(
                f"{self.recording.name}: {site.where}: {site.call} with policy {words[_POLICY]} is no algorithm"
            )
        policy = self.policy or policy
        arguments = self._pointers(t, recorded.items)
        arrays: Sequence[UsmArray | None] = self._arrays
        if _copies(t):
            arrays = [
                array if array is not None and array.memory in ("device", "scratch") else None for array in arrays
            ]
        launches = []
        for kernel_site, launch, items in recorded.kernels:
            of_kernel = self.recording.dictionaries.sites[kernel_site]
            made, used = self._kernels.algorithm_launch(of_kernel, launch, items, arrays, elements)
            launches.append(self._with_arguments(made, used, arguments))
        kernel = launches[0].kernel if launches else Kernel(name)
        place = site.file, site.line
        return AlgorithmCall(name, policy, kernel, tuple(arguments), elements, 0, place=place, launches=tuple(launches))

    def _with_arguments(self, launch: Launch, used: Sequence[HostArray], arguments: list[Any]) -> Launch:
        """Return a launch whose arrays have positions among the algorithm's arguments; its counts refer to these.

        Arrays that are not among the arguments are appended as ones that the kernel finds through a pointer in memory.
        """
        numbers = {id(array): number for number, array in enumerate(direct(arguments))}
        places: list[int] = []
        for array in used:
            if id(array) not in numbers:
                numbers[id(array)] = len(numbers)
                assert isinstance(array, UsmArray)
                arguments.append(Indirect(array))
            places.append(numbers[id(array)])
        _, known = self._placed.setdefault(id(launch), (launch, {}))
        if (key := tuple(places)) not in known:
            counts = launch.counts
            if counts is not None:
                counts = attrs.evolve(
                    counts, arrays=tuple(attrs.evolve(use, **_at(places[use.position])) for use in counts.arrays)
                )
            arrays = tuple(attrs.evolve(use, **_at(places[use.position])) for use in launch.kernel.arrays)
            known[key] = attrs.evolve(launch, kernel=attrs.evolve(launch.kernel, arrays=arrays), counts=counts)
        return known[key]

    def _words(self, site: Site, items: int, least: int) -> list[int]:
        places = self.recording.range_of("items", items)
        words: list[int] = self.recording.columns["item.base"][places.start : places.stop].tolist()
        if len(words) < least:
            raise RecordingDamaged(f"{self.recording.name}: {site.where}: {site.call} lacks words: it has {len(words)}")
        return words

    def _pointers(self, t: HostThread, items: int) -> list[Any]:
        """Return what the algorithm's pointers point to: arrays, and the thread's stack."""
        columns, found = self.recording.columns, dict[int, UsmArray]()
        for place in self.recording.range_of("items", items)[FIRST_POINTER:]:
            number = int(columns["item.array"][place])
            array = self._stack_of(t) if number == NONE else self._arrays[number]
            if array is not None and not (_copies(t) and array.memory != "device"):
                found[id(array)] = array
        return list(found.values())

    def _stack_of(self, t: HostThread) -> UsmArray:
        if t not in self._stacks:
            self._stacks[t] = t.stack_array("stack", _STACK_BYTES, np.uint8, phantom=True)
        return self._stacks[t]


def _copies(t: HostThread) -> bool:
    """Tell whether the program has device memory and explicit copies, and runs on a device."""
    return t.runtime.is_explicit and t.executor.queue is not None


def _arrays_of_devices(recording: Recording) -> frozenset[int]:
    """Return the numbers of the arrays that lie in device memory if the program has explicit copies.

    These are the arrays that a kernel loads from, or that a kernel but not the host stores to. Others stay on the host,
    for example the coefficients of a solver that a kernel only sets to zero.
    """
    columns, loads, stores = recording.columns, set[int](), set[int]()
    launches = set(zip(columns["record.detail"].tolist(), columns["record.launch"].tolist(), strict=True))
    for items, launch in sorted(launches):
        if launch == NONE:
            continue
        given = [int(columns["item.array"][place]) for place in recording.range_of("items", items)]
        for use in recording.range_of("trace", int(columns["launch.trace"][launch])):
            item, number = int(columns["use.item"][use]), int(columns["use.array"][use])
            number = given[item] if 0 <= item < len(given) and given[item] != NONE else number
            loads |= {number} if columns["use.load_bytes"][use] else set()
            stores |= {number} if columns["use.store_bytes"][use] else set()
    by_host = set(columns["touch.array"][(columns["touch.kind"] & STORES) > 0].tolist())
    return frozenset(loads | (stores - by_host))


def _name(site: Site) -> str:
    return site.call.removeprefix("std::")


def _at(place: int) -> dict[str, Any]:
    return {"name": f"{place}", "position": place}


def check_recorded(recording: Recording) -> None:
    """Raise ReplayRefused unless the recording has which memory kernels and host access, and the kernels' costs.

    A replay of parallel algorithms needs both, because pages migrate to where they are accessed.
    """
    columns, meta = recording.columns, recording.meta
    if not meta.costs:
        lacks = "the costs of its kernels; build the program with `offloadrt cxx -stdpar`"
    elif ((columns["launch.teams"] > 0) & (columns["launch.trace"] == NONE)).any():
        lacks = "which pages some kernels touch; record it with `--samples 1` or more"
    elif not meta.host_touches:
        lacks = "what the host touches between algorithms; record it without `--no-host-touches`"
    else:
        return
    raise ReplayRefused(f"{recording.name} does not say {lacks}, and record it again")


async def replay_algorithms(
    recording: Recording,
    program: StdPar,
    *,
    host_time: float = 1.0,
    progress: Callable[[int, int], object] = lambda done, total: None,
    phases: StepSampler | None = None,
    timed: Timed | None = None,
    policy: ExecutionPolicy | None = None,
) -> int:
    """Run a recorded program of parallel algorithms; return how many it called.

    Raises ReplayRefused if the recording lacks what the replay needs. timed: the part to measure; no instance of a
    repeated phase is left out then, because measured parts may lie within phases.

    host_time: virtual seconds for each second that a host thread worked; 0: host work takes no time. progress: called
    with (done, total), the numbers of directives. policy: the execution policy for all algorithms; None: as recorded.
    phases: chooses which instances of repeated phases run; None: all.
    """
    run, walk = _begun(recording, program, host_time, progress, phases, timed, policy)
    roots = walk.roots()

    async def initial(t: HostThread) -> None:
        if not t.number:
            run.place_arrays(t)
        await walk.thread(t, roots[t.number])

    if roots:
        await program.parallel(initial, num_threads=len(roots))
    return run.algorithms


async def replay_on(t: HostThread, program: StdPar, recording: Recording, timed: Timed) -> None:
    """Run a recorded program of one thread on `t` up to the end of the timed part, without host work.

    Its parallel algorithms run under `par_unseq`, which all implementations offload everywhere. Raises ReplayRefused if
    the recording lacks what the replay needs.
    """
    run, walk = _begun(recording, program, 0.0, lambda done, total: None, None, timed, ExecutionPolicy.PAR_UNSEQ)
    run.place_arrays(t)
    with suppress(_TimedPartOver):
        for root in walk.roots():
            await walk.thread(t, root)


def _begun(
    recording: Recording,
    program: StdPar,
    host_time: float,
    progress: Callable[[int, int], object],
    phases: StepSampler | None,
    timed: Timed | None,
    policy: ExecutionPolicy | None,
) -> tuple[ReplayedAlgorithms, TaskWalk]:
    check_recorded(recording)
    if (recording.columns["task.kind"] == TaskKind.TARGET).any():
        raise ReplayRefused(f"{recording.name}: a deferred directive is not replayed with parallel algorithms")
    run = ReplayedAlgorithms(recording, program, host_time, progress, timed, policy)
    return run, TaskWalk(run, phases if timed is None else None)
