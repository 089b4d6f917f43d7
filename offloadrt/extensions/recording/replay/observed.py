"""Events of a replay for an observer besides those of every program: lines, and the host's touches; the oracle.

Touches are recorded in stretches of 64 KiB. A touch of a stretch that several arrays share may be of any of them, so it
is not reported; in a recording for a check, it is reported as one that may have been. How threads that OpenMP did not
make are ordered is not recorded: in a program that has some, every directive counts as ordered behind those that began
before it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import attrs

from offloadrt.extensions.checking.recorded import (
    DEVICE_MEMORY,
    BlockNew,
    BufferUsed,
    ConstantKnown,
    CopiesKnown,
    DeviceMemoryUsed,
    EndUnseen,
    FreedMapped,
    KernelAccess,
    KernelCopied,
    KernelRaced,
    KernelStrayed,
    KnownCopy,
    MapStrayed,
    MemoryEnded,
    MessageBegan,
    NotKnown,
    ProgramCut,
    ProgramDied,
    ResultLost,
    SourceNamed,
    VariableUnset,
)
from offloadrt.extensions.recording.format.blocks import STRETCH
from offloadrt.extensions.recording.format.findings import Findings, KernelStray, Party, StrayKind
from offloadrt.extensions.recording.format.recording import (
    NONE,
    ArrayEnd,
    EndKind,
    OmptOperation,
    Recording,
    Site,
    Step,
    TaskKind,
    TaskTree,
)
from offloadrt.extensions.recording.format.slots import (
    ATOMICALLY,
    EXACT,
    LOADS,
    MAYBE_LOADED,
    MAYBE_STORED,
    NEW_BLOCK,
    OWN_THREAD,
    STORES,
    UNIFIED_SHARED_MEMORY,
    is_fortran,
)
from offloadrt.runtime.events import (
    HOST,
    Awaited,
    DirectiveBegan,
    DirectiveLeft,
    HostUsed,
    KernelEnded,
    KernelSubmitted,
    MemoryUse,
    Signalled,
    StrandEnded,
    Tell,
)
from offloadrt.runtime.host_array import POINTER_BYTES, HostArray
from offloadrt.runtime.mapping.map_item import MapItem
from offloadrt.runtime.mapping.map_types import LITERAL
from offloadrt.sim import Simulation
from offloadrt.study.reporting.words import counted

FIRST_POINTER: Final = 4
"""The index of the first pointer among the items of an algorithm, behind its four numbers."""
_STRAYS: Final = {
    StrayKind.AFTER: "behind the end of what is mapped",
    StrayKind.BEFORE: "before the beginning of what is mapped",
    StrayKind.HOST: "memory of the host that is not mapped, at {at}",
    StrayKind.CRASH: "no memory, at {at}, and crashes",
    StrayKind.STACK: "beyond the end of its thread's stack, and crashes",
    StrayKind.FREED: DEVICE_MEMORY,
}
_ENDS: Final = {
    EndKind.FREE: "frees {}",
    EndKind.REALLOC: "moves {} by realloc",
    EndKind.MUNMAP: "gives {} back by munmap",
    EndKind.SCOPE: "leaves the scope of {}",
}


_MOST_NAMES: Final = 6


class ObservedReplay:
    """Passes to the observer of a replay, such as the checker, what the replay itself does not show.

    These are source lines, the host's memory accesses, and mistakes that the recorder saw.
    """

    def __init__(self, tell: Tell, recording: Recording) -> None:
        self.in_run_order = False
        """Whether directives count as ordered in the way they run here."""
        self._tell = tell
        self.tells_bytes = bool((recording.columns["touch.kind"] & EXACT).any())
        """Whether it was recorded which single bytes the host touches."""
        self._recording = recording
        self._shares_heap = bool(recording.meta.requires & UNIFIED_SHARED_MEMORY)
        self._given: dict[str, None] = {}
        self._partly: dict[str, None] = {}
        self._shared: Counter[int] = Counter()
        """By number of a 64 KiB stretch: how many arrays begin or end in it."""
        columns = recording.columns
        ends = set(
            columns["record.subject"][columns["record.step"] == Step.FREE].tolist() if recording.meta.exact else ()
        )
        for number, array in enumerate(recording.dictionaries.arrays):
            self._shared.update(_ends(array.address, array.address + array.nbytes))
            if array.origin == "constant":
                tell(ConstantKnown(array.name, array.address, array.nbytes))
            elif array.origin == "mapped" and number not in ends:
                tell(EndUnseen(array.address, array.nbytes))
        tell(SourceNamed("the beginning of the program"))
        if recording.meta.ended != "exit":
            tell(ProgramCut())

    def ends(self) -> None:
        """Report, at the end of the program, reads of variables that were not set, and how the program died if it did.

        Report also uses of device memory by host code, which are right if the program requires unified shared memory;
        and what the recording does not show, about which a checker can say nothing.
        """
        meta = self._recording.meta
        for name, where, thread in meta.unset:
            self._tell(VariableUnset(f"host thread {thread}", name, where))
        of_devices = [] if meta.requires & UNIFIED_SHARED_MEMORY else meta.device_uses
        for name, where, thread, writes in of_devices:
            self._tell(DeviceMemoryUsed(f"host thread {thread}", name, f"after {where}", writes))
        death = meta.died
        if death is not None:
            self._tell(ProgramDied(death.how, death.where, death.message, death.is_at_exit))
        for what in self._unseen():
            self._tell(NotKnown(what))

    def _unseen(self) -> Iterator[str]:
        meta = self._recording.meta
        if meta.exact is False:
            yield (
                "it was recorded without `--check`, so that of the host's accesses only stretches of 64 KiB are known, "
                "and of a kernel one launch of each shape"
            )
        if meta.instrumented is False or not meta.host_touches:
            yield "what the host reads and writes: its code was not compiled by `offloadrt cc`, or not to be watched"
        if meta.halted and meta.died is None:
            together = "; a run of all ranks tells which of them wait for one another" if meta.mpi else ""
            yield f"whether the program would have ended: it was stopped while {meta.halted}{together}"
        beside = self._recording.dictionaries.beside
        if beside and not beside.keys().isdisjoint(TaskTree(self._recording.columns).roots()):  # not libomp's helpers
            yield (
                "all that orders the program's first thread and those that it makes itself (pthread_create, "
                "std::thread): this is taken to be ordered as it ran, so that a race between them may be missed"
            )
        elif meta.exact and len(TaskTree(self._recording.columns).roots()) > 1:
            yield (
                "what orders the threads that the program makes itself (pthread_create, std::thread) in code that "
                "`offloadrt cc` did not compile, so that a race that is told between them may be none"
            )
        if meta.orders_left_out:
            yield (
                "all that orders threads: they use atomics and locks more often than is recorded (262,144 times a "
                "thread, 4,096 of them), so that a race that is told between them may be none"
            )
        if captured := self._captured_stack():
            yield (
                f"what algorithms do with variables of the stack that they capture by reference ({_listed(captured)}): "
                "such a program crashes on devices that cannot use the host's memory, or runs there on the host"
            )
        if self._given:
            yield f"code that `offloadrt cc` did not compile was given {_listed(self._given)}, and may have used them"
        if self._partly:
            yield f"the host's accesses to {_listed(self._partly)} are too scattered to tell each byte apart"

    def _captured_stack(self) -> list[str]:
        """List where algorithms are given addresses of a thread's stack, of which a recording has no array."""
        columns, sites = self._recording.columns, self._recording.dictionaries.sites
        is_call = columns["record.step"] == Step.DIRECTIVE
        subjects, details = (columns[f"record.{name}"][is_call].tolist() for name in ("subject", "detail"))
        found = dict[str, None]()
        for site, items in dict.fromkeys(zip(subjects, details, strict=True)):
            words = self._recording.range_of("items", items)[FIRST_POINTER:] if sites[site].is_algorithm else ()
            if any(int(columns["item.array"][place]) == NONE for place in words):
                found[sites[site].where] = None
        return [*found]

    def comes_to(self, where: str) -> None:
        """Report that the running thread reaches a directive at the source line `where`."""
        if self.in_run_order:
            self._tell(Awaited(self))
        self._tell(SourceNamed(where))

    def knows_copies(self, copies: tuple[KnownCopy, ...]) -> None:
        """Report the copies that the next directive of the running thread makes, as they were recorded."""
        self._tell(CopiesKnown(copies))

    def leaves(self) -> None:
        """Report that the running thread has finished its directive."""
        if self.in_run_order:
            self._tell(Signalled(self))

    def frees(self, array: HostArray, end: ArrayEnd | None) -> None:
        """Report that the running thread frees an array; end: where and how, None if that is not known."""
        if self.in_run_order:
            self._tell(Awaited(self))
        if end is not None:
            who = "another thread" if end.elsewhere else ""
            self._tell(MemoryEnded(array, end.where, _ENDS[end.how].format(array.name), who))

    def launches(
        self,
        kernel: str,
        findings: Findings,
        arrays: Sequence[HostArray | None],
        device: int,
        freed: Callable[[int], int | None],
    ) -> None:
        """Report the races and the stray accesses that the recording has of a traced launch.

        A stray access is one to memory that the kernel may not use. freed: returns where a freed block of
        omp_target_alloc lay in this run, by its recorded address; None if it is not freed. kernel: its name. findings:
        these races and accesses. arrays: by number, the recording's arrays as they are now.
        """

        def name_of(number: int) -> str:
            array = arrays[number] if number != NONE else None
            return "" if array is None else array.name

        for race in findings.races:
            first, second = (_access(party) for party in race.parties)
            name = race.name or name_of(race.array) or DEVICE_MEMORY
            self._tell(KernelRaced(kernel, device, name, (first, second)))
        for stray in findings.strays:
            if stray.kind == StrayKind.LOST:
                self._tell(ResultLost(kernel, stray.name, stray.party.where))
                continue
            if stray.kind == StrayKind.UNSET:
                who = f"thread {stray.party.thread} of team {stray.party.team}"
                self._tell(VariableUnset(who, stray.name, stray.party.where, kernel))
                continue
            how = _STRAYS[stray.kind].format(at=f"0x{stray.offset:x}")
            was: tuple[int, int, int] | None = None
            name = name_of(stray.array)
            if stray.kind == StrayKind.FREED and stray.array != NONE:
                array = self._recording.dictionaries.arrays[stray.array]
                was, name = (device, 0, array.address + stray.offset), array.name
            elif stray.kind == StrayKind.FREED:
                address = freed(stray.offset)
                if address is None:
                    continue  # in this run it is freed later, so this is an ordinary use
                was = device, address, 0
            host = stray.offset if stray.kind == StrayKind.HOST and not name else 0
            beside = self._shares_heap and stray.kind in (StrayKind.AFTER, StrayKind.BEFORE)
            if beside:
                how = how.replace("what is mapped", "its memory")
            access, section = _access(stray.party), _in_elements(name, stray)
            self._tell(KernelStrayed(kernel, device, name, access, how, was, host, stray.name, section, beside))

    def copies(self, copied: Iterable[tuple[bool, tuple[int, int]]], device: int) -> None:
        """Report the bytes that the running thread's next launch reads only because it copies whole objects.

        copied: for each range, whether it is in an array of the host, and its addresses (begin, end). device: the
        number of the device.
        """
        for on_host, (begin, end) in copied:
            self._tell(KernelCopied(HOST if on_host else device, begin, end))

    def uses_device(self, where: str, call: str, cause: int, device: int, use: MemoryUse) -> None:
        """Report that an MPI call of the running thread uses device memory, like a directive with one memory access.

        where, call: the call's source line and name. cause: the number of the directive that stands for the call.
        device: the number of the device whose memory it is. use: the access to the memory.
        """
        self.comes_to(where)
        self._tell(DirectiveBegan(cause, device, call))
        self._tell(KernelSubmitted(cause, device, call, (use,)))
        self._tell(KernelEnded(cause))
        self._tell(DirectiveLeft(cause, device, call))
        self.leaves()

    @contextmanager
    def message(self, request: Hashable, call: str, where: str) -> Iterator[None]:
        """Report what happens in the body of ``with`` as done by a message that `request` stands for.

        call, where: the name of the MPI call that begins the message, and its source line.
        """
        self._tell(MessageBegan(request, call, where))
        yield
        self._tell(StrandEnded(request))

    def uses_buffer(self, array: HostArray, begin: int, nbytes: int, writes: bool, call: str) -> None:
        """Report that a message of MPI call `call` reads, or `writes`, `nbytes` bytes of `array` at address `begin`."""
        self._tell(BufferUsed(array, begin, nbytes, writes, call))

    def completes(self, request: Hashable) -> None:
        """Report that the running thread knows that the message for which `request` stands is complete."""
        self._tell(Awaited(request))

    def maps_beyond(self, name: str, nbytes: int, there: int, copies: bool, did: str) -> None:
        """Report that the running thread maps more bytes of array `name` than it has from the map's begin on.

        nbytes, there: the bytes that it maps, and those that the array has there. copies: whether the map copies them.
        did: what the report says the thread does with them: "maps", or a verb for a routine such as omp_target_memcpy.
        """
        self._tell(MapStrayed(name, nbytes, there, copies, did))

    def maps_freed(self, address: int) -> None:
        """Report that the running thread maps memory at an address that the program has freed."""
        self._tell(FreedMapped(address))

    def touched(self, array: HostArray, begin: int, nbytes: int, kind: int, thread: int) -> None:
        """Report a memory access of the host by the running thread, unless those bytes might belong to another array.

        begin: the address of the first byte. kind: bits of `recording.format.slots`: LOADS, STORES, EXACT (every byte
        is accessed), OWN_THREAD; or MAYBE_LOADED, MAYBE_STORED (code without instrumentation got the address),
        NEW_BLOCK. thread: the number in the recording of the thread that did it.
        """
        if kind == NEW_BLOCK:
            self._tell(BlockNew(begin, nbytes))
            return
        if kind == MAYBE_LOADED:
            self._tell(HostUsed(array, begin, nbytes, False, exact=False, later=True))
            return
        if kind == MAYBE_STORED:
            self._tell(HostUsed(array, begin, nbytes, None, exact=False))
            self._given[array.name] = None
            return
        exact = bool(kind & EXACT)
        if not exact and self._recording.meta.exact:
            self._partly[array.name] = None
        end = begin + nbytes
        first, last = begin // STRETCH, (end - 1) // STRETCH
        low = (first + 1) * STRETCH if self._shared[first] > 1 and not exact else begin
        high = last * STRETCH if self._shared[last] > 1 and not exact else end
        if self._recording.meta.exact:  # of other arrays all is known, so that what this one may have had counts
            for one, other in ((begin, min(low, end)), (max(high, low), end)):
                self._may_touch(array, one, other, kind)
        begin, end = low, high
        if begin >= end:
            return
        if self.in_run_order:
            self._tell(Awaited(self))
        for writes in [way == STORES for way in (LOADS, STORES) if kind & way]:
            own = thread if kind & OWN_THREAD else None
            self._tell(HostUsed(array, begin, end - begin, writes, exact, bool(kind & ATOMICALLY), thread=own))
        self.leaves()

    def _may_touch(self, array: HostArray, begin: int, end: int, kind: int) -> None:
        """Report that the running thread may have accessed some of these bytes, or others beside them."""
        if begin < end and kind & STORES:
            self._tell(HostUsed(array, begin, end - begin, None, exact=False))
        elif begin < end:
            self._tell(HostUsed(array, begin, end - begin, False, exact=False, later=True))


def _listed(names: Iterable[str]) -> str:
    """Join names to a text, of which only the first few are listed."""
    first = list(names)
    more = len(first) - _MOST_NAMES
    return ", ".join(first[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _access(party: Party) -> KernelAccess:
    return KernelAccess(party.thread, party.team, party.writes, party.atomic, party.where)


def _in_elements(name: str, stray: KernelStray) -> str:
    """Return which element a stray access reaches, and which are mapped, as a section of C; for Fortran in bytes."""
    section = stray.section
    if section is None:
        return "beyond what is mapped"
    element, end = section.element, section.begin + section.nbytes
    of_fortran = is_fortran(stray.party.where)
    is_whole = element and not (section.begin % element or section.nbytes % element or section.reached % element)
    if is_whole and re.fullmatch(r"[A-Za-z_][\w.>-]*", name) and not of_fortran:
        first, count, index = section.begin // element, section.nbytes // element, section.reached // element
        return f"{name}[{index}], where {name}[{first}:{count}] is mapped"
    told = f"its byte {section.reached}, where bytes {section.begin} to {end - 1} are mapped"
    if of_fortran and section.reached >= end:
        told += " (if a clause names a section with gaps: flang 22 maps it as if it had none)"
    return told


def _ends(begin: int, end: int) -> set[int]:
    return {begin // STRETCH, max(begin, end - 1) // STRETCH}


Operations = Counter[tuple[int, int]]
"""How often each operation (kind, bytes) occurs."""

_KINDS: Final = {
    "alloc": OmptOperation.ALLOC,
    "h2d": OmptOperation.H2D,
    "attach": OmptOperation.H2D,
    "d2h": OmptOperation.D2H,
    "delete": OmptOperation.DELETE,
    "associate": OmptOperation.ASSOCIATE,
    "disassociate": OmptOperation.DISASSOCIATE,
}
_WITHOUT_BYTES: Final = (OmptOperation.DELETE, OmptOperation.DISASSOCIATE)


@attrs.frozen
class OperationDifference:
    """Operations at a source line that only the emulator or only the real runtime did, and for how many directives.

    where: the line. call: the directive's entry point in the runtime. emulated, recorded: the operations that only the
    emulator did, and those that only the real runtime did.
    """

    where: str
    call: str
    directives: int
    emulated: tuple[str, ...]
    recorded: tuple[str, ...]

    def __str__(self) -> str:
        sides = [
            f"only {side}: {', '.join(operations)}"
            for side, operations in (("emulated", self.emulated), ("recorded", self.recorded))
            if operations
        ]
        return f"{self.where} ({self.call}, {counted(self.directives, 'directive')}): {'; '.join(sides)}"


@attrs.frozen
class Outcome:
    """The result of a replay: how many directives ran, and how their operations differ from the recorded ones.

    equal: the number of compared directives with equal operations. differences: what differs, by source line.
    """

    directives: int
    compared: int
    """The number of directives whose operations were compared; 0 under a configuration other than the recorded one."""
    equal: int
    moved: int
    """Directives that differ only because threads came in another order: LLVM's present table lets the first of several
    threads that map a shared array copy it, and the last one unmap it.
    """
    differences: tuple[OperationDifference, ...]
    calls_left_out: int = 0
    """MPI calls that were left out because the process is played without the other ranks."""

    @property
    def agrees(self) -> bool:
        return not self.differences


class OperationLog:
    """Counts the operations (copies, allocations, launches) of the directive that each thread runs in a replay.

    It is a tool, in the sense of OMPT, on all devices.
    """

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        self._of_actor: dict[object, Operations] = {}

    def begin(self) -> Operations:
        """Begin to count the operations of a directive that the running thread begins; return the counter."""
        operations = self._of_actor[self._sim.current] = Counter()
        return operations

    def target_map(self, device: int, call: str, items: Sequence[MapItem]) -> None:
        """Do nothing; map items are not compared."""

    def target_data_op(
        self, device: int, op: str, array: HostArray | None, host_address: int, device_address: int, nbytes: int
    ) -> None:
        """Count an operation of the runtime on device memory for the directive that the running thread is in.

        op: its kind, such as alloc or h2d. nbytes: its bytes. The other parameters are those of `Tool`, and not used.
        """
        for each in ("d2h", "h2d") if op == "d2d" else (op,):  # the recorder's device copies by way of the host
            kind = _KINDS[each]
            self._note(kind, 0 if kind in _WITHOUT_BYTES else nbytes)

    def target_submit(self, device: int, kernel: str) -> None:
        """Count the launch of a kernel for the directive that the running thread is in."""
        self._note(OmptOperation.SUBMIT, 0)

    def _note(self, kind: OmptOperation, nbytes: int) -> None:
        if (operations := self._of_actor.get(self._sim.current)) is not None:
            operations[int(kind), nbytes] += 1


@attrs.define(eq=False)
class Oracle:
    """Compares what the emulator does for each directive with what the real runtime did when the program was recorded.

    Compared are the operations: copies, allocations and launches. `outcome` sums up by source line. directives: how
    many have run; compared: of how many of them the operations were compared.
    """

    recording: Recording
    directives: int = 0
    compared: int = 0
    calls_left_out: int = 0
    """MPI calls that were left out because the process is played without the other ranks."""
    _differing: list[tuple[int, Operations, Operations, bool]] = attrs.field(factory=list)
    """Differing directives: (site, emulated operations, recorded ones, whether another order of threads explains it).
    """
    _shared: set[int] | None = None
    _lists: dict[int, Operations] = attrs.field(factory=dict)

    def compare(self, site: int, items: int, number: int, emulated: Operations) -> None:
        """Compare the operations of one directive in the replay (`emulated`) with the recorded ones.

        number: of the list of recorded operations; -1: nothing was recorded. site, items: the numbers of the
        directive's source line (site) and of its list of items.
        """
        if number < 0:
            return
        recorded = self._lists.get(number)
        if recorded is None:
            columns = self.recording.columns
            places = self.recording.range_of("operations", number)
            rows = slice(places.start, places.stop)
            kinds, sizes = columns["operation.kind"][rows].tolist(), columns["operation.bytes"][rows].tolist()
            recorded = self._lists[number] = Counter(zip(kinds, sizes, strict=True))
        self.compared += 1
        if emulated != recorded:
            moved = self._depends_on_order(site, items, (emulated - recorded) + (recorded - emulated))
            self._differing.append((site, emulated, recorded, moved))

    def _depends_on_order(self, site: int, items: int, different: Operations) -> bool:
        """Tell whether all differing operations are ones that LLVM does for the first or the last user only.

        Each map of an array that several threads map either allocates the array and copies it, or finds it mapped; each
        unmap either copies it back and deletes it, or leaves it mapped.
        """
        columns, places = self.recording.columns, self.recording.range_of("items", items)
        rows = slice(places.start, places.stop)
        arrays, sizes = columns["item.array"][rows].tolist(), columns["item.size"][rows].tolist()
        forms = self.recording.dictionaries.sites[site].items
        allowed: Operations = Counter()
        shared = 0
        for form, array, size in zip(forms, arrays, sizes, strict=False):  # the items of a routine are no maps
            if array not in self._shared_arrays() or form.type & LITERAL:
                continue
            shared += 1
            allowed[int(OmptOperation.H2D), size] += 1
            allowed[int(OmptOperation.D2H), size] += 1
            allowed[int(OmptOperation.H2D), POINTER_BYTES] += 1  # the pointer is attached when its block is new
        blocks = [count for (kind, _), count in different.items() if kind == OmptOperation.ALLOC]
        deleted = different[int(OmptOperation.DELETE), 0]
        copies = {key: count for key, count in different.items() if key[0] in (OmptOperation.H2D, OmptOperation.D2H)}
        others = sum(different.values()) - sum(blocks) - deleted - sum(copies.values())
        fits = all(count <= allowed[key] for key, count in copies.items())
        return fits and not others and max(sum(blocks), deleted) <= shared

    def _shared_arrays(self) -> set[int]:
        """Return the numbers of arrays that several threads or deferred tasks map."""
        if self._shared is None:
            users: dict[int, set[int]] = {}
            columns = self.recording.columns
            first, count = columns["task.first"].tolist(), columns["task.count"].tolist()
            threads, kinds = columns["task.thread"].tolist(), columns["task.kind"].tolist()
            steps, lists = columns["record.step"].tolist(), columns["record.detail"].tolist()
            for task, (begin, records) in enumerate(zip(first, count, strict=True)):
                who = -task - 1 if kinds[task] in (TaskKind.TARGET, TaskKind.EXPLICIT) else threads[task]
                for record in range(begin, begin + records):
                    if steps[record] == Step.DIRECTIVE and lists[record] >= 0:
                        places = self.recording.range_of("items", lists[record])
                        for array in columns["item.array"][places.start : places.stop].tolist():
                            users.setdefault(array, set()).add(who)
            self._shared = {array for array, whose in users.items() if array != NONE and len(whose) > 1}
        return self._shared

    def outcome(self) -> Outcome:
        """Return how many directives did the same operations as recorded, and the differences by source line."""
        mine: Operations = Counter()
        theirs: Operations = Counter()
        for _, emulated, recorded, _ in self._differing:
            mine += emulated
            theirs += recorded
        equal = self.compared - len(self._differing)
        if mine == theirs:
            return Outcome(self.directives, self.compared, equal, len(self._differing), (), self.calls_left_out)
        moved = sum(1 for *_, depends in self._differing if depends)
        differences = tuple(self._differences())
        return Outcome(self.directives, self.compared, equal, moved, differences, self.calls_left_out)

    def _differences(self) -> Iterator[OperationDifference]:
        by_site: dict[int, list[tuple[Operations, Operations]]] = {}
        for number, emulated, recorded, depends in self._differing:
            if depends:
                continue
            by_site.setdefault(number, []).append((emulated, recorded))
        for number, pairs in sorted(by_site.items()):
            site: Site = self.recording.dictionaries.sites[number]
            more: Operations = Counter()
            less: Operations = Counter()
            for emulated, recorded in pairs:
                more += emulated - recorded
                less += recorded - emulated
            yield OperationDifference(site.where, site.call, len(pairs), _words(more), _words(less))


def _words(operations: Operations) -> tuple[str, ...]:
    names = {int(kind): kind.name.lower() for kind in OmptOperation}
    return tuple(
        f"{count} x {names.get(kind, f'operation {kind}')}" + (f" of {nbytes} B" if nbytes else "")
        for (kind, nbytes), count in sorted(operations.items())
    )
