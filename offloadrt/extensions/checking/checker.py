"""The checker of a program: it observes a run, makes accesses from its events and passes them to the state machines."""

from __future__ import annotations

import hashlib
import sys
import sysconfig
from collections.abc import Callable, Hashable
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import attrs
from numpy.typing import NDArray

from offloadrt.address_map import AddressMap
from offloadrt.extensions.checking import recorded as rec
from offloadrt.extensions.checking.accesses import Access, Directive, Memories, Queued, Role, WatchedBlock
from offloadrt.extensions.checking.copies import CheckedCopies, is_rest_of_descriptor
from offloadrt.extensions.checking.cuda_calls import ReportedCalls
from offloadrt.extensions.checking.lifetimes import Lifetimes, Mappings, Tasks
from offloadrt.extensions.checking.mistakes import UNKNOWN, Mistake, Mistakes, Story, Waste
from offloadrt.extensions.checking.orders import References
from offloadrt.extensions.checking.races import LostUpdates, Races
from offloadrt.extensions.checking.recorded_faults import RecordedFaults
from offloadrt.extensions.checking.repairs import Costs, Repair, repairs_of
from offloadrt.extensions.checking.strands import Clock, Strand, Strands
from offloadrt.extensions.checking.uses import Watch, watched
from offloadrt.extensions.checking.versions import Versions
from offloadrt.extensions.checking.waste import Brought, DataOperation, Wastes
from offloadrt.runtime import events as ev
from offloadrt.runtime.events import HOST, MemoryUse
from offloadrt.runtime.host_array import POINTER_BYTES, HostArray
from offloadrt.runtime.mapping.data_environment import strided_pieces
from offloadrt.runtime.mapping.map_item import MapItem
from offloadrt.runtime.mapping.map_types import FROM, NON_CONTIG, PTR_AND_OBJ, TO
from offloadrt.runtime.mapping.present_table import Entry
from offloadrt.sim import Simulation
from offloadrt.study.running.execution import PROGRAM_ERRORS
from offloadrt.trace.events import plain_kernel

_PACKAGE = Path(__file__).resolve().parents[2]
_LIBRARY = sysconfig.get_path("stdlib")
_SPREADING = "jacc_"
"""The prefix of routines that keep an array on several devices and exchange it themselves. Which copy is the newest is
their responsibility, so versions are not compared for them.
"""
_OF_PROGRAMS = ("papers",)
"""The subfolders of this package whose modules count as programs: their lines are reported."""


@lru_cache(4096)
def _file_of_program(code: CodeType) -> str:
    """Return the name of the file in which a program has this code; "" if the code is no program's."""
    path = Path(code.co_filename)
    if path.is_relative_to(_PACKAGE):
        is_program = path.relative_to(_PACKAGE).parts[0] in _OF_PROGRAMS
    else:
        is_program = not code.co_filename.startswith(("<", _LIBRARY)) and "site-packages" not in path.parts
    return path.name if is_program else ""


def program_line() -> str:
    """Return ``file.py:line`` of the innermost running line of the program; an empty text if none is running."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if file := _file_of_program(frame.f_code):
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


class Checker:
    """Checks one run for mistakes and waste.

    Call `run.observe(checker)` before the run's machine is used, and `finish` after the run.

    `watch_kernel` makes the object that reports which memory a kernel uses, `watch_calls` the one to which a CUDA
    program reports its calls.
    """

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self._found = Mistakes()
        self._strands = Strands(sim)
        self._races = Races(self._strands, self._found)
        self._lost = lost = LostUpdates()
        self._versions = Versions(self._found)
        self._references = References(self._strands, self._versions, self._found)
        self._mappings = Mappings(self._found, lost.left_behind)
        self._lifetimes = lifetimes = Lifetimes(self._strands, self._found, self._mappings.is_left_behind)
        self._recorded = recorded = RecordedFaults(self._strands, self._found, self._mappings.at)
        self._wastes = Wastes()
        self._directives: dict[int, Directive] = {}
        self._nodes: dict[Hashable, str] = {}
        """For each node of a graph: the line of the program that added it."""
        self._queued = Queued()
        self._brought: dict[Strand, list[rec.KnownCopy]] = {}
        """By strand: what the recording says of the copies of the directive that the strand is in."""
        self._copied: dict[Strand, list[rec.KernelCopied]] = {}
        """By strand: what the kernel that it launches next reads only as it copies whole objects."""
        self._memories = Memories()
        self._descriptors: dict[Strand, dict[int, int]] = {}
        """By strand: the addresses of the descriptors that its directive maps, as flang does, with their bytes."""
        self._copies = CheckedCopies(
            sim, self._memories, self._races, self._versions, self._wastes, lifetimes, recorded, self._references
        )
        self._tasks = Tasks(self._strands, self._found)
        self._unknown: set[str] = set()
        self._ends_unseen: AddressMap[rec.EndUnseen] = AddressMap()
        self._freed_mapped: set[int] = set()
        """Addresses at which arrays begin that were freed and that the next directive maps."""
        self.not_known: list[str] = []
        """What cannot be known about a recorded program: a sentence each."""
        self.lost_results: list[str] = []
        """Results that kernels compute in private copies and nobody uses: a sentence each."""
        self.is_explained = False
        """Whether a race explains the error that ended the program."""
        self._finished = False
        self._old_at: dict[str, Story] = {}
        """By line of a directive that found a mapping which LLVM alone had kept: who made that."""
        self._cut = False  # the program crashed or was stopped (`ProgramCut`)
        self._unrun: set[str] = set()
        """Names of what regions map whose kernels did not end, for the program died before."""
        self._losing: set[str] = set()
        """Kernels of which a result is lost, and `_idle` names what they may read if it is not."""
        self._idle: set[str] = set()
        self._has_lines = True
        """Whether the program is Python, whose stack gives the line. A recording names its lines (`SourceNamed`)."""
        self._handlers: dict[type, Callable[[Any], None]] = {
            ev.Signalled: lambda event: self._strands.signalled(event.what),
            ev.TaskMade: self._task_made,
            ev.Awaited: lambda event: self._strands.take_over(event.what, event.queue),
            ev.QueueMarked: lambda event: self._strands.marked(event.queue, event.what),
            ev.StrandBegan: self._strand_began,
            ev.StrandEnded: self._strand_ended,
            rec.SourceNamed: self._source_named,
            ev.NodeMade: self._node_made,
            ev.DirectiveBegan: self._directive_began,
            ev.DirectiveLeft: self._directive_left,
            ev.QueueAwaited: self._queue_awaited,
            ev.ArrayMade: self._array_made,
            ev.ArrayFreed: self._array_freed,
            rec.MemoryEnded: lifetimes.freed,
            ev.HostUsed: self._host_used,
            ev.BlockAllocated: self._block_allocated,
            ev.BlockFreed: self._block_freed,
            rec.CopiesKnown: self._copies_known,
            ev.DataCopied: self._data_copied,
            ev.EntryEntered: self._entry_entered,
            ev.ItemFound: self._item_found,
            ev.EntryCounted: self._entry_counted,
            ev.EntryLeft: self._entry_left,
            ev.FreedCopied: lambda event: lifetimes.not_copied(event, self._directive(event.cause)),
            ev.ItemEnded: self._item_ended,
            ev.UpdateMissed: self._update_missed,
            ev.ItemsTaken: self._items_taken,
            ev.KernelSubmitted: self._kernel_submitted,
            ev.KernelRan: self._kernel_ran,
            ev.KernelEnded: lambda event: lost.kernel_ended(event.cause),
            rec.MessageBegan: self._message_began,
            rec.BufferUsed: self._buffer_used,
            rec.BlockNew: lambda event: self._versions.host_new(event.begin, event.begin + event.nbytes),
            rec.KernelCopied: lambda event: self._copied.setdefault(self._strands.current(), []).append(event),
            rec.KernelRaced: recorded.raced,
            rec.KernelStrayed: recorded.strayed,
            rec.MapStrayed: recorded.map_strayed,
            rec.DeviceMemoryUsed: recorded.device_memory_used,
            rec.ConstantKnown: recorded.constant_known,
            rec.ProgramCut: self._program_cut,
            rec.EndUnseen: self._end_unseen,
            ev.MapsUnordered: lambda event: self._races.unordered_maps.add(event.device),
            rec.ProgramDied: self._program_died,
            rec.ResultLost: self._result_lost,
            rec.VariableUnset: self._variable_unset,
            rec.FreedMapped: lambda event: self._freed_mapped.add(event.address),
            rec.NotKnown: lambda event: self.not_known.append(event.what),
        }

    watch_kernel = Watch
    watch_calls = ReportedCalls

    def watch_array(self, array: HostArray, values: NDArray[Any]) -> NDArray[Any]:
        """Return an array over the same values that reports each read and write by Python code to the checker.

        values: the values of `array`.
        """

        def note(low: int, high: int, writes: bool, exact: bool) -> None:
            self.handle(ev.HostUsed(array, array.address + low, high - low, writes, exact))

        return watched(values, note)

    def handle(self, event: object) -> None:
        """Pass one event of the program on to the parts that look for mistakes and waste; ignore other types."""
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event)

    def finish(self, ended: bool = True, model: str = "openmp") -> list[Mistake]:
        """Check what is left at the end of the program, and return all mistakes, the gravest first.

        ended: whether the program came to its end. If an error ended it, data that is left mapped is no mistake. model:
        the programming model in whose words advice is given.
        """
        self._recorded.finish()
        self._mappings.judge_deletes()
        if ended and not self._finished and not self._cut:
            self._finished = True
            self._mappings.finish(self._memories.leaked, self._lifetimes.freed_by)
            self._tasks.finish()
        return self._found.all(model)

    def runtime_faults(self) -> list[Mistake]:
        """Return errors of the runtime library in a correct program: first those that happened in this run.

        Then come those that can happen under another schedule.
        """
        return self._lost.all()

    def _program_cut(self, event: rec.ProgramCut) -> None:
        self._cut = True

    def _program_died(self, event: rec.ProgramDied) -> None:
        if event.at_exit:
            self._tasks.finish(died=True)
        if self._found.has("fatal error") or self._lost.has_died:
            return  # the emulated runtime has reported it too
        story = Story("the program", event.how, event.where, self.sim.now)
        # A kernel that worked on an old copy may have spoiled memory that the host came to later.
        old = self._old_at.get(event.where) or next(iter(self._old_at.values()), None)
        self._fatal(event.message or f"the program {event.how}", story, old)

    def _fatal(self, message: str, story: Story, old: Story | None) -> None:
        """Report what ended the program. old: who made the mapping, kept by LLVM, that its last directive found."""
        if old is None:
            self._found.add("fatal error", message, (story,), "")
        else:
            self._lost.died(message, old, story)

    def _result_lost(self, event: rec.ResultLost) -> None:
        """Note a result that nobody uses. It is no mistake: only the program knows whether the host wants it."""
        told = (
            f"{event.name} at {event.where} in kernel {plain_kernel(event.kernel)!r}: each launch writes a copy of its "
            f"own (firstprivate), and nobody uses that. If the host wants the result: map(tofrom: {event.name}), "
            f"or a reduction where threads share it"
        )
        self._losing.add(event.kernel)
        if told not in self.lost_results:
            self.lost_results.append(told)

    def _variable_unset(self, event: rec.VariableUnset) -> None:
        in_kernel = f" in kernel {plain_kernel(event.kernel)!r}" if event.kernel else ""
        story = Story(event.who, f"reads its own {event.name}{in_kernel}", event.where, self.sim.now)
        advice = (
            f"The thread has not written it: firstprivate({event.name}) brings the value from outside, and a reduction "
            "begins with its neutral element."
        )
        self._found.add("uninitialised data", event.name, (story,), advice, event.name)

    def wastes(self, costs: Costs, ended: bool = True) -> list[Waste]:
        """Return the needless operations of the program, the longest first. Call this once, after `finish`.

        costs: the durations of the run's copies, allocations and frees. ended: whether the program came to its end.
        """
        return sorted([waste for waste, _ in self.repairs(costs, ended)], key=lambda waste: -waste.time_s)

    def repairs(self, costs: Costs, ended: bool = True) -> list[tuple[Waste, Repair]]:
        """Return the needless operations, each with the change of the program that avoids it.

        Call it once, after `finish`. costs: the durations of the run's copies, allocations and frees. ended: whether
        the program came to its end. A waste is uncertain if a mistake concerns the same data: whoever mends the mistake
        may need the copy.
        """
        found = repairs_of(self.operations, costs, ended and not self._cut)
        return [(repair.waste(self._doubt(repair)), repair) for repair in found]

    def _doubt(self, repair: Repair) -> str:
        names = {operation.name for _, operation, _ in repair.wasted} & self._found.data
        if names:
            return f"a mistake is about {min(names)}: mend it first"
        unrun = self._tasks.some_left or any(operation.name in self._unrun for _, operation, _ in repair.wasted)
        if self._cut and unrun:
            return "the program died before a kernel had ended that may use it"
        unused = any(kind in ("unused allocation", "unread transfer") for kind, _, _ in repair.wasted)
        if unused and any(operation.name in self._idle for _, operation, _ in repair.wasted):
            return "a result of the kernel is lost, and its compiler leaves out what only that result needs"
        strays = unused and UNKNOWN in self._found.data
        return "a kernel fails to reach memory that is not known, which may be this: mend that first" if strays else ""

    @property
    def operations(self) -> list[DataOperation]:
        """Return the copies, allocations and frees of the run, in their order."""
        return self._wastes.operations

    @property
    def unknown_copies(self) -> str:
        """Return a sentence on copies that may be needless but whose bytes are not known; an empty text without any."""
        return self._wastes.unknown

    @property
    def unknown_kernels(self) -> list[str]:
        """Return the names of the kernels whose reads and writes are not known."""
        return sorted(set(map(plain_kernel, self._unknown)))

    # strands

    def _task_made(self, event: ev.TaskMade) -> None:
        strand = self._strands.current()
        self._tasks.made(event.what, self._line(strand) if self._has_lines else "")

    def _line(self, strand: Strand) -> str:
        """Return the line of the program that a strand has reached."""
        return strand.source or (program_line() if self._has_lines else "")

    def _strand_began(self, event: ev.StrandBegan) -> None:
        if event.queue is not None:
            self._strands.began_in(event.queue, event.name, event.after[0])
        elif event.task is None:
            self._strands.began(event.name, event.after)
        else:
            self._tasks.began(event.task, event.after)

    def _strand_ended(self, event: ev.StrandEnded) -> None:
        self._tasks.ended(event.what)
        self._strands.ended(event.what)

    def _message_began(self, event: rec.MessageBegan) -> None:
        begun = "begun", event.request
        name, where = f"{event.call} of {self._strands.current().name}", event.where or program_line()
        self._strands.signalled(begun)
        self._strands.began(name, (begun,), source=where)
        self._strands.current().is_message = True

    def _buffer_used(self, event: rec.BufferUsed) -> None:
        """Look for races only: what a message brings counts as written when the program has found it complete."""
        begin, end, strand, name = event.begin, event.begin + event.nbytes, self._strands.current(), event.array.name
        did = f"{'writes' if event.writes else 'reads'} {name} on the host"
        now = self.sim.now
        self._races.access(
            Access(HOST, begin, end, event.writes, True, strand, strand.epoch, did, strand.source, now, name)
        )

    def _source_named(self, event: rec.SourceNamed) -> None:
        self._has_lines = False
        strand = self._strands.current()
        strand.source = event.source
        self._tasks.named(strand, event.source)

    # directives

    def _node_made(self, event: ev.NodeMade) -> None:
        self._nodes[event.node] = self._line(self._strands.current())

    def _directive_began(self, event: ev.DirectiveBegan) -> None:
        where, name = self._line(self._strands.current()), event.name
        strand = self._strands.current() if event.queue is None else self._strands.entered(event.queue)
        if event.node is not None:
            name, where = f"{name} launched at {where}", self._nodes[event.node]
            strand.has_nodes = True
        self._directives[event.cause] = Directive(event.cause, event.device, name, where, strand, self.sim.now)

    def _queue_awaited(self, event: ev.QueueAwaited) -> None:
        directive = self._directives.get(event.cause)
        self._strands.queue_awaited(event.queue, self._strands.current() if directive is None else directive.strand)
        if directive is not None:
            directive.is_ordered = True

    def _directive_left(self, event: ev.DirectiveLeft) -> None:
        directive = self._directives[event.cause]
        directive.has_left = True
        if self._cut and directive.name == "target":
            self._unrun.update([entry.name for entry in directive.entries])
            self._copies.cut_off(directive)
        self._recorded.judge_strays(directive.strand)
        if not directive.held:
            self._flush(directive)
        self._distrust(directive)
        self._lost.directive_left(event.cause)
        self._mappings.directive_left(event.cause)
        if not isinstance(event.error, Exception):
            self._mappings.region_ended(event.cause)
        elif isinstance(event.error, PROGRAM_ERRORS) and not directive.is_refused:  # another error is no program's
            message, story = str(event.error).partition("\n")[0], self._story(directive, f"is in {directive.name}")
            if directive.gone is not None and self._mappings.ended_early(*directive.gone, story, directive.device):
                self.is_explained = True
            else:
                self._fatal(message, story, directive.old)
        # Events of a directive still come if it ended with an error or its work is delayed.
        if event.error is None and not directive.held:
            del self._directives[event.cause]

    def _directive(self, cause: int) -> Directive:
        """Return the directive with this number; for unknown numbers, a stand-in named "the runtime's own work"."""
        directive = self._directives.get(cause)
        if directive is None:
            strand = self._strands.current()
            directive = Directive(cause, 0, "the runtime's own work", self._line(strand), strand, self.sim.now)
        return directive

    def _story(self, directive: Directive, did: str) -> Story:
        return directive.story(did, self.sim.now)

    # the memory of the host

    def _array_made(self, event: ev.ArrayMade) -> None:
        array = event.array
        begin, end = array.address, array.address + array.nbytes
        if begin not in self._freed_mapped:  # otherwise it is the old memory, whose free and map may be unordered
            self._races.forget_host(begin, end)
            self._references.forget(begin, end)
        self._freed_mapped.discard(begin)
        self._versions.array_made(begin, end)
        self._wastes.array_made(begin, end)

    def _end_unseen(self, event: rec.EndUnseen) -> None:
        if self._ends_unseen.get(event.begin) is None:
            self._ends_unseen[event.begin] = event

    def _array_freed(self, event: ev.ArrayFreed) -> None:
        array = event.array
        if self._has_lines:
            self._lifetimes.freed(rec.MemoryEnded(array, program_line(), f"frees {array.name}"))
        self._host_access(ev.HostUsed(array, array.address, array.nbytes, True), *self._lifetimes.take_end(array))

    def _host_used(self, event: ev.HostUsed) -> None:
        if event.later:
            self._wastes.host_shown(event.begin, event.begin + event.nbytes)
            self._versions.host_shown(event.array.address, event.array.address + event.array.nbytes)
            return
        verb = "writes" if event.writes else "reads" if event.writes is False else "uses"
        self._host_access(event, f"{verb} {event.array.name} on the host" + (" atomically" if event.atomic else ""))

    def _host_access(self, event: ev.HostUsed, did: str, ends_at: str | None = None) -> None:
        begin, end, writes, exact = event.begin, event.begin + event.nbytes, event.writes, event.exact
        if not event.nbytes:
            return
        where = self._line(strand := self._strands.current())
        where = ends_at or (f"after {where}" if where and not self._has_lines else where)  # the directive before it
        now, name = self.sim.now, event.array.name
        access = Access(
            HOST, begin, end, bool(writes), exact, strand, strand.epoch, did, where, now, name, atomic=event.atomic,
            thread=event.thread,
        )  # fmt: skip
        if writes is not None or exact:  # otherwise it is not known whether it is used
            self._races.access(access)
        if ends_at is not None:
            return
        if event.array.freed:
            self._found.add("use after free", name, (access.story,), f"The program has freed {name} before.", name)
        self._wastes.host_used(begin, end, writes, exact)
        if writes is None:
            self._versions.host_maybe_written(begin, end)
        elif writes:
            self._versions.host_written(access)
        else:
            self._versions.host_read(access, self._memories.is_mapped(begin))

    # the memory of devices

    def _block_allocated(self, event: ev.BlockAllocated) -> None:
        directive = self._directive(event.cause)
        name = event.array.name if event.array is not None else rec.DEVICE_MEMORY
        begin, end = event.address, event.address + event.nbytes
        block = WatchedBlock(
            event.device, begin, end, name, self._story(directive, f"allocates it in {directive.name}")
        )
        block.cause, block.by_routine = event.cause, directive.name == "omp_target_alloc"
        host = event.host_address
        unseen = self._ends_unseen.before(host)
        block.end_unseen = unseen is not None and host < unseen[0] + unseen[1].nbytes
        block.was_used = self._races.was_used(event.device, host, host + event.nbytes)
        self._memories.add_block(block)
        self._races.forget(event.device, begin, end)
        self._versions.block_made(event.device, begin, end)
        if directive.strand.is_queue and event.array is None:  # a stream's block: other streams must come after
            did = f"allocates {name} in {directive.name}"
            access = directive.access(self.sim.now, event.device, begin, end, True, True, did, name, block=block)
            self._races.access(access)
        self._wastes.block_made(block, event.array, host, used=event.array is None and directive.maps)

    def _block_freed(self, event: ev.BlockFreed) -> None:
        directive = self._directive(event.cause)
        block = self._memories.pop_block(event.device, event.address)
        if block is None:
            return
        role: Role = "" if block.entry is None else "leaves"
        if block.entry is not None and not block.end_unseen:
            self._races.block_left(block, block.entry)
        did = f"frees {block.name}{' of the device' * (block.name != 'device memory')} in {directive.name}"
        access = directive.access(
            self.sim.now, event.device, block.begin, block.end, True, True, did, block.name, role, block
        )  # fmt: skip
        self._races.access(access)
        self._wastes.block_freed(block, access.story, event.cause)
        block.is_freed = True
        self._recorded.block_freed(block, event.host_address if event.array is not None else 0, access.story)

    def _entry_entered(self, event: ev.EntryEntered) -> None:
        entry, directive = event.entry, self._directive(event.cause)
        self._memories.add_entry(event.device, entry)
        directive.entries[entry] = event.device
        block = self._memories.block_at(event.device, entry.device_begin)
        if block is not None and entry.owned:
            block.entry = entry
        elif block is None:
            self._versions.entered(event.device, entry)
        told = self._story(directive, f"maps it in {directive.name}")
        is_region = directive.name.startswith("target") and "data" not in directive.name
        may_stay = not directive.name.startswith("target")
        descriptor = self._descriptors.get(directive.strand, {}).get(entry.host_begin) == entry.size
        self._mappings.entered(entry, told, directive, is_region, may_stay or descriptor)
        if not descriptor:  # otherwise it may be found, or stay, when a procedure has left that of its dummy argument
            self._lifetimes.entered(entry, told)
        self._references.entered(event.device, entry, directive)

    def _entry_counted(self, event: ev.EntryCounted) -> None:
        """Treat the data of an entry as ended when its last reference goes, though a queue may free the block later."""
        entry = event.entry
        if not self._strands.has_queues or not entry.is_unused or not entry.size:
            return
        directive = self._directive(event.cause)
        block = self._memories.block_at(event.device, entry.device_begin)
        if block is not None and block.entry is entry:
            role: Role = "" if directive.strand.is_queue else "leaves"
            did = f"ends the data of {entry.name or 'data'} in {directive.name}"
            ended = directive.access(
                self.sim.now, event.device, block.begin, block.end, True, True, did, block.name, role, block
            )
            self._races.access(ended)

    def _item_found(self, event: ev.ItemFound) -> None:
        directive = self._directive(event.cause)
        self._lifetimes.found(event, directive)
        if self._mappings.repeats(event, event.cause):
            directive.repeated.add(("h2d", event.begin))
        self._mappings.found(event, directive, self._references.is_absent(event, directive))
        if self._references.found(event, directive):
            self._copies.may_be_made(event, directive, "to the device in {} where it is the first user")
        if event.entry is None:
            return
        directive.entries[event.entry] = event.device
        if (old := self._mappings.old(event.entry)) is not None:
            self._old_at[directive.where] = directive.old = old
            if (array := event.item.array) is not None:
                directive.old_arrays.add(array.name)
            self._recorded.leave_out_strays(directive.strand)

    def _distrust(self, directive: Directive) -> None:
        """Judge nothing by the arrays of which a directive found a mapping that LLVM has kept by itself.

        A kernel gets one address of an array, so that it looks for the new parts of the array beside the old ones, and
        by the pointers in them.
        """
        if directive.old is None:
            return
        others = list(directive.entries)
        reached = [entry for entry in others if self._mappings.old(entry) is not None]
        while reached:
            names = directive.old_arrays.union(entry.name for entry in reached)
            begins = {pointer.pointee.host_begin for entry in reached for pointer in entry.shadow_pointers.values()}
            for entry in reached:
                self._mappings.set_old(entry)
                self._forget_bytes(directive.entries[entry], entry)
            others = [entry for entry in others if entry not in reached]
            reached = [entry for entry in others if entry.name in names or entry.host_begin in begins]

    def _forget_bytes(self, device: int, entry: Entry) -> None:
        begin, end = entry.device_begin, entry.device_begin + entry.size
        self._versions.device_maybe_written(device, begin, end, entry)
        block = self._memories.block_at(device, begin)
        self._wastes.device_used(block, entry, device, begin, end, reads=True, writes=True, exact=False)

    def _entry_left(self, event: ev.EntryLeft) -> None:
        self._memories.pop_entry(event.device, event.entry)
        if self._strands.concurrent:
            self._versions.left(event.device, event.entry)
        self._recorded.left(event.entry, self._mappings.left(event.entry))
        self._lifetimes.left(event.entry, self._directive(event.cause))
        self._lost.entry_left(event.entry)

    def _item_ended(self, event: ev.ItemEnded) -> None:
        directive = self._directive(event.cause)
        if event.entry is None and (event.in_place or self._is_described(directive, event.item)):
            return
        story = self._story(directive, f"unmaps it in {directive.name}")
        if self._mappings.repeats(event, event.cause):
            directive.repeated.add(("d2h", event.begin))
        if self._references.ended(event, directive, story):
            self._copies.may_be_made(event, directive, "from the device in {} where it is the last user")
        self._mappings.item_ended(directive, story, event.item, event.entry)
        if event.entry is None:
            return
        if self._mappings.old(event.entry) is not None:
            self._forget_bytes(event.device, event.entry)
        if self._mappings.is_left_behind(event.entry):
            self._lifetimes.ended(event.entry, directive)
        if event.item.flags.counted_down:
            self._lost.given_back(directive, event.entry)

    def _update_missed(self, event: ev.UpdateMissed) -> None:
        directive = self._directive(event.cause)
        if not directive.name.startswith("target") or self._is_described(directive, event.item):
            return  # `if_present` of OpenACC, which says so
        story, gone = f"updates {event.item.name or 'data'}", self._references.gone(event.device, event.item, directive)
        self._mappings.update_missed(self._story(directive, story), event.item, event.device, gone)

    def _is_described(self, directive: Directive, item: MapItem) -> bool:
        """Tell whether an item is a descriptor or a part of one; nobody misses it where the array itself is mapped."""
        known, rest = self._descriptors.get(directive.strand, {}), item.size + POINTER_BYTES
        is_part = known.get(item.begin - POINTER_BYTES) == rest or (item.begin in known and item.size == POINTER_BYTES)
        return not item.type & PTR_AND_OBJ and (is_part or known.get(item.begin) == item.size)

    def _items_taken(self, event: ev.ItemsTaken) -> None:
        """Note descriptors; report sections with gaps for which LLVM 22 moves other bytes than OpenMP says.

        flang maps a descriptor by an item that copies nothing, and by its parts, of which the address is attached.
        """
        attached = {item.base for item in event.items if item.type & PTR_AND_OBJ}
        self._descriptors[self._strands.current()] = {
            item.begin: item.size
            for item in event.items
            if item.begin in attached
            and not item.type & (TO | FROM)
            and is_rest_of_descriptor(item.size - POINTER_BYTES)
        }
        for item in event.items:
            if item.type & NON_CONTIG and strided_pieces(item, False) != strided_pieces(item, True):
                strand = self._strands.current()
                story = Story(
                    strand.name, f"updates a strided section of {item.name}", self._line(strand), self.sim.now
                )
                self._lost.misplaced(item.name, story)

    # queued work of a directive

    def _data_copied(self, event: ev.DataCopied) -> None:
        directive = self._directive(event.cause)
        entry = self._memories.entry_at(event.device, event.device_address)
        block = self._memories.block_at(event.device, event.device_address)
        if directive.strand.is_queue:
            directive.clock = Clock(directive.strand.clock)
        if self._reaches_nothing(event):
            name, way = event.array.name if event.array else "data", "to" if event.op == "h2d" else "from"
            told = self._story(directive, f"copies {name} {way} device memory in {directive.name}")
            self._nothing_there(told, rec.DEVICE_MEMORY)
            directive.is_refused = True
            return
        role: Role = ""
        if block is not None and entry is not None and block.entry is entry and not directive.strand.is_queue:
            if event.op == "h2d" and block.cause == event.cause:
                role = "enters"
                self._mappings.filled(entry)
            elif event.op == "d2h" and entry.is_unused:
                role = "leaves"
                begin, did = event.device_address, f"copies {entry.name} from the device in {directive.name}"
                copy = directive.access(
                    self.sim.now, event.device, begin, begin + event.nbytes, False, True, did, entry.name
                )
                self._lost.copied_back(entry, copy, event.cause)
            elif (event.op, event.host_address) in directive.repeated:
                role = "repeats"
        if entry is not None and directive.name.startswith("target update"):
            told = self._story(directive, f"updates {entry.name}")
            self._mappings.updated(directive, entry, told, event.device)
        brought = self._bytes_of(event, directive)
        if directive.waiting is not None:
            directive.waiting.append((event, entry, block, role, brought))
        elif not self._queued.hold(
            directive, lambda: self._copies.take(directive, event, entry, block, role, brought, self._has_lines)
        ):
            self._copies.take(directive, event, entry, block, role, brought, self._has_lines)

    def _copies_known(self, event: rec.CopiesKnown) -> None:
        self._brought[self._strands.current()] = list(event.copies)

    def _bytes_of(self, event: ev.DataCopied, directive: Directive) -> Brought | None:
        """Return what is known of the bytes of a copy: from the recording, or a digest of the host array before it."""
        if not self._has_lines:
            known = self._brought.get(directive.strand, [])
            wanted = event.op, event.host_address, event.nbytes
            for number, copy in enumerate(known):
                if (copy.op, copy.host_address, copy.nbytes) == wanted:
                    del known[number]
                    return Brought(copy.content, copy.brings_nothing, copy.is_watched)
        elif directive.strand.is_queue or directive.is_ordered:
            return None  # the bytes may change before the queue reaches the copy
        elif event.op in ("h2d", "d2h") and event.array is not None and not event.array.phantom:
            data = event.array.span(event.host_address, event.nbytes).bytes
            return None if data is None else Brought(hashlib.blake2b(data.data, digest_size=8).digest())
        return None

    def _flush(self, directive: Directive) -> None:
        waiting, directive.waiting = directive.waiting or [], None
        for event, entry, block, role, brought in waiting:
            self._copies.take(directive, event, entry, block, role, brought, self._has_lines)

    def _kernel_submitted(self, event: ev.KernelSubmitted) -> None:
        directive = self._directive(event.cause)
        self._recorded.judge_strays(directive.strand)
        self._distrust(directive)
        directive.kernel, uses = event.kernel, event.uses
        directive.copied = self._copied.pop(directive.strand, [])
        if event.kernel in self._losing:
            self._idle.update([entry.name for entry in directive.entries])
        if directive.strand.is_queue:
            directive.clock = Clock(directive.strand.clock)
        else:
            self._lost.submitted(directive)
        if uses is not None:
            if not self._queued.hold(directive, lambda: self._use(directive, uses)):
                self._use(directive, uses)
        elif directive.strand.is_queue or directive.is_ordered:
            self._queued.expect(directive)
        else:
            directive.waiting = []

    def _kernel_ran(self, event: ev.KernelRan) -> None:
        directive = self._directive(event.cause)
        if not directive.held:
            self._ran(directive, event)
            self._flush(directive)
            return
        for done in self._queued.ran(directive, lambda: self._ran(directive, event)):
            if done.has_left and not done.held:
                self._directives.pop(done.number, None)

    def _ran(self, directive: Directive, event: ev.KernelRan) -> None:
        self._use(directive, event.uses)
        self._lost.kernel_ended(event.cause)

    def _use(self, directive: Directive, uses: tuple[MemoryUse, ...]) -> None:
        spreads = directive.name.startswith(_SPREADING)
        in_kernel = f"in kernel {plain_kernel(directive.kernel)!r} of {directive.name}"
        for use in uses:
            begin, end, memory = use.begin, use.begin + use.nbytes, use.memory
            block, entry = self._memories.block_at(memory, begin), self._memories.entry_at(memory, begin)
            if spreads and entry is not None:
                use = attrs.evolve(use, name=entry.name)  # a pushed kernel gets addresses of the device
            self._wastes.kernel_used(use, block, entry)
            if use.maybe:
                if use.mapped:
                    self._unknown.add(directive.kernel)
                if memory != HOST and use.nbytes:
                    self._versions.device_maybe_written(memory, begin, end, entry)
                continue
            did = f"{'writes' if use.writes else 'reads'} {use.name}{' atomically' * use.atomic} {in_kernel}"
            if use.outside:
                told = self._story(directive, did)
                advice = f"The kernel reaches beyond what is mapped: map the whole section of {use.name} that it uses."
                self._found.add("outside of what is mapped", use.name, (told,), advice, use.name)
            if begin >= end:
                continue
            role: Role = "uses" if use.mapped and not directive.strand.is_queue else ""
            access = directive.access(
                self.sim.now, memory, begin, end, use.writes, use.exact, did, use.name, role, block, use.atomic
            )  # fmt: skip
            self._races.access(access)
            if role and block is not None and (mapped := block.entry) is not None:
                if block.was_used:
                    self._races.mapped_use(access, mapped.host_begin - mapped.device_begin)
                overwritten, held = self._races.is_overwritten, self._references.held
                self._mappings.needed(access, mapped, directive.number, overwritten, held)
            if spreads and self._memories.is_elsewhere(memory, begin):
                self._versions.device_maybe_written(memory, begin, end, entry)
            else:
                self._judge(access, entry, directive.copied)
            if use.writes and use.mapped and memory != HOST:
                self._lost.wrote(directive, access)

    def _judge(self, access: Access, entry: Entry | None, copied: list[rec.KernelCopied]) -> None:
        """Pass an access of a kernel on to the versions: a read is compared, a write makes a new version.

        entry: the mapping that holds the accessed device memory. copied: what the kernel reads only as it copies whole
        objects.
        """
        if access.memory == HOST:
            if access.writes:
                self._versions.host_written(access)
            else:
                self._versions.host_read(access, False, [one for one in copied if one.memory == HOST])
        elif entry is None and access.block is None:
            self._nothing_there(access.story, access.name)
        elif access.writes:
            self._versions.device_written(access, entry)
        elif not self._lifetimes.is_told(entry):  # otherwise the host's copy belongs to another array
            self._versions.device_read(access, entry, copied)

    def _reaches_nothing(self, event: ev.DataCopied) -> bool:
        """Tell whether one side of a copy is a device address where nothing is allocated."""
        sides = [(event.device, event.device_address)]
        if event.op == "d2d":
            sides.append((event.source, event.host_address))
        block_at, entry_at = self._memories.block_at, self._memories.entry_at
        return event.nbytes > 0 and any(block_at(*side) is None and entry_at(*side) is None for side in sides)

    def _nothing_there(self, story: Story, name: str) -> None:
        advice = "No block of the device lies there: it was freed, or never allocated."
        self._found.add("use after free", name, (story,), advice, name)
