"""The checker of a program: its observer, which makes accesses of events and asks the state machines about them."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import attrs

from offloadrt.extensions.checking.accesses import Access, Directive, Memories, Queued, Role, WatchedBlock
from offloadrt.extensions.checking.lifetimes import Lifetimes, Mappings, RecordedFaults, Tasks
from offloadrt.extensions.checking.mistakes import Mistake, Mistakes, Story, Waste
from offloadrt.extensions.checking.races import Races
from offloadrt.extensions.checking.strands import Strand, Strands
from offloadrt.extensions.checking.versions import Versions
from offloadrt.extensions.checking.waste import Costs, DataOperation, Wastes
from offloadrt.runtime import events as ev
from offloadrt.runtime.events import HOST, DataCopied, MemoryUse, ProgramEvent
from offloadrt.runtime.mapping.present_table import Entry
from offloadrt.sim import Simulation
from offloadrt.trace.events import plain_kernel

_PACKAGE = Path(__file__).resolve().parents[2]
_LIBRARY = sysconfig.get_path("stdlib")
_SPREADING = "jacc_"
"""So begin the names of routines that keep data on several devices, and exchange it, by themselves: which copy is the
newest is their own affair."""
_OF_PROGRAMS = ("papers",)
"""Folders of the package whose modules are programs."""


@lru_cache(4096)
def _is_program(code: CodeType) -> bool:
    path = Path(code.co_filename)
    if path.is_relative_to(_PACKAGE):
        return path.relative_to(_PACKAGE).parts[0] in _OF_PROGRAMS
    return not code.co_filename.startswith(("<", _LIBRARY)) and "site-packages" not in path.parts


def program_line() -> str:
    """Return ``file.py:line`` of the program, "" where none of its lines is being run."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if _is_program(frame.f_code):
            return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


@attrs.frozen(eq=False)
class CheckedCopies:
    """Tells the state machines of each copy."""

    _sim: Simulation
    _memories: Memories
    _races: Races
    _versions: Versions
    _wastes: Wastes
    _lifetimes: Lifetimes
    _recorded: RecordedFaults

    def take(
        self,
        directive: Directive,
        event: DataCopied,
        entry: Entry | None,
        block: WatchedBlock | None,
        role: Role,
        has_lines: bool,
    ) -> None:
        """Take a copy, in the order of its directive's queue.

        entry, block: what lay on the device when the copy was submitted. has_lines: the program tells all that the host
        does, as a recording does not.
        """
        if not event.nbytes:
            return
        array = event.array
        name = array.name if array is not None else entry.name if entry is not None else "device memory"
        if event.op == "d2d":
            self._between_devices(directive, event, entry, block, name)
            return
        begin, end, device = event.device_address, event.device_address + event.nbytes, event.device
        did = f"copies {name} {'from' if event.op == 'd2h' else 'to'} the device in {directive.name}"
        told = directive.story(did, self._sim.now)
        if event.op == "attach":
            self._wastes.attached(told, name, entry, device, event.cause, begin, event.nbytes)
            self._versions.device_maybe_written(device, begin, end, entry)
            return
        if array is not None:
            self._lifetimes.copied(entry, event.op, directive.strand, told)
        if event.op == "d2h":
            self._recorded.copied_back(told, event.host_address)
        copy = DataOperation(event.op, told, name, device, event.cause, begin, event.nbytes)
        host_known = array is not None and not array.phantom and has_lines
        self._wastes.copied(copy, entry, event.host_address if array is not None else None, host_known)
        self._with_host(directive, event, entry, block, role, name, did)

    def _with_host(
        self,
        directive: Directive,
        event: DataCopied,
        entry: Entry | None,
        block: WatchedBlock | None,
        role: Role,
        name: str,
        did: str,
    ) -> None:
        """Take a copy between host and device as an access on both sides, and let it carry the version."""
        begin, host, nbytes, device = event.device_address, event.host_address, event.nbytes, event.device
        to_device, now = event.op == "h2d", self._sim.now
        if event.array is not None:
            self._races.access(directive.access(now, HOST, host, host + nbytes, not to_device, True, did, name))
        there = directive.access(now, device, begin, begin + nbytes, to_device, True, did, name, role, block)
        self._races.access(there)
        # A routine may copy between memory of which neither is the other's copy.
        is_counterpart = entry is not None and entry.host_begin - entry.device_begin == host - begin
        if event.array is None or (to_device and entry is not None and not is_counterpart):
            if to_device:
                self._versions.device_written(there, entry)
        elif to_device:
            self._versions.to_device(device, host, begin, nbytes, asked="update" in directive.name)
        else:
            self._versions.to_host(device, host, begin, nbytes, there, is_counterpart)

    def _between_devices(
        self, directive: Directive, event: DataCopied, entry: Entry | None, block: WatchedBlock | None, name: str
    ) -> None:
        """Take a copy from one block of device memory to another, on the same device or another one."""
        now, source, where = self._sim.now, event.source, directive.name
        begin, end = event.device_address, event.device_address + event.nbytes
        source_begin, source_end = event.host_address, event.host_address + event.nbytes
        did = f"copies {name} in {where}"
        self._races.access(directive.access(now, source, source_begin, source_end, False, True, did, name))
        did = f"copies to {name} in {where}"
        written = directive.access(now, event.device, begin, end, True, True, did, name)
        self._races.access(written)
        self._versions.between_devices(source, source_begin, written, entry)
        from_block = self._memories.block_at(source, source_begin)
        from_entry = self._memories.entry_at(source, source_begin)
        self._wastes.device_used(
            from_block, from_entry, source, source_begin, source_end, reads=True, writes=False, exact=True
        )
        self._wastes.device_used(block, entry, event.device, begin, end, reads=False, writes=True, exact=True)


class Checker:
    """Watches one run: `run.observe(checker)` before its machine is used, `finish` after it."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self._found = Mistakes()
        self._strands = Strands(sim)
        self._races = Races(self._strands, self._found)
        self._versions = Versions(self._found)
        self._mappings = Mappings(self._found)
        self._lifetimes = lifetimes = Lifetimes(self._strands, self._found)
        self._recorded = recorded = RecordedFaults(self._strands, self._found)
        self._wastes = Wastes()
        self._directives: dict[int, Directive] = {}
        self._queued = Queued()
        self._memories = Memories()
        self._copies = CheckedCopies(
            sim, self._memories, self._races, self._versions, self._wastes, lifetimes, recorded
        )
        self._tasks = Tasks(self._strands, self._found)
        self._unknown: set[str] = set()
        self._finished = False
        self._cut = False  # the program crashed or was stopped (`ProgramCut`)
        self._has_lines = True
        """Whether the program is Python; a recording names its lines (`SourceNamed`)."""
        self._handlers: dict[type, Callable[[Any], None]] = {
            ev.Signalled: lambda event: self._strands.signalled(event.what),
            ev.TaskMade: self._task_made,
            ev.Awaited: lambda event: self._strands.take_over(event.what, event.queue),
            ev.QueueMarked: lambda event: self._strands.marked(event.queue, event.what),
            ev.StrandBegan: self._strand_began,
            ev.StrandEnded: self._strand_ended,
            ev.SourceNamed: self._source_named,
            ev.DirectiveBegan: self._directive_began,
            ev.DirectiveLeft: self._directive_left,
            ev.QueueAwaited: self._queue_awaited,
            ev.ArrayMade: self._array_made,
            ev.ArrayFreed: self._array_freed,
            ev.MappedFreed: lifetimes.freed,
            ev.HostUsed: self._host_used,
            ev.BlockAllocated: self._block_allocated,
            ev.BlockFreed: self._block_freed,
            ev.DataCopied: self._data_copied,
            ev.EntryEntered: self._entry_entered,
            ev.ItemFound: lambda event: lifetimes.found(event, self._directive(event.cause)),
            ev.EntryCounted: self._entry_counted,
            ev.EntryLeft: self._entry_left,
            ev.FreedCopied: lambda event: lifetimes.not_copied(event, self._directive(event.cause)),
            ev.ItemEnded: self._item_ended,
            ev.UpdateMissed: self._update_missed,
            ev.KernelSubmitted: self._kernel_submitted,
            ev.KernelRan: self._kernel_ran,
            ev.KernelRaced: recorded.raced,
            ev.KernelStrayed: recorded.strayed,
            ev.MapStrayed: recorded.map_strayed,
            ev.ConstantKnown: recorded.constant_known,
            ev.ProgramCut: self._program_cut,
        }

    def handle(self, event: ProgramEvent) -> None:
        """Take an event of the program."""
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event)

    def finish(self, ended: bool = True, model: str = "openmp") -> list[Mistake]:
        """Judge what is left at the end of the program, once, and return all mistakes, the gravest first.

        ended: the program came to its end; of one that an error ended nothing is left over. model: in whose words
        advice is given.
        """
        if ended and not self._finished and not self._cut:
            self._finished = True
            self._mappings.finish(self._memories.leaked)
            self._tasks.finish()
        return self._found.all(model)

    def _program_cut(self, event: ev.ProgramCut) -> None:
        self._cut = True

    def wastes(self, costs: Costs, ended: bool = True) -> list[Waste]:
        """Return what was done for nothing, once, after `finish`, the most time first, unless a mistake contradicts."""
        wastes = self._wastes.finish(costs, ended and not self._cut)
        return [waste for waste in wastes if not self._found.contradict(waste)]

    @property
    def unknown_kernels(self) -> list[str]:
        """Return the kernels of which nothing says what they read and write."""
        return sorted(self._unknown)

    # strands

    def _task_made(self, event: ev.TaskMade) -> None:
        strand = self._strands.current()
        self._tasks.made(event.what, event.name, self._line(strand) if self._has_lines else "")

    def _line(self, strand: Strand) -> str:
        """Return the line of the program that a strand is at."""
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

    def _source_named(self, event: ev.SourceNamed) -> None:
        self._has_lines = False
        strand = self._strands.current()
        strand.source = event.source
        self._tasks.named(strand, event.source)

    # directives

    def _directive_began(self, event: ev.DirectiveBegan) -> None:
        where = self._line(self._strands.current())
        strand = self._strands.current() if event.queue is None else self._strands.entered(event.queue)
        self._directives[event.cause] = Directive(event.cause, event.device, event.name, where, strand, self.sim.now)

    def _queue_awaited(self, event: ev.QueueAwaited) -> None:
        directive = self._directives.get(event.cause)
        self._strands.queue_awaited(event.queue, self._strands.current() if directive is None else directive.strand)
        if directive is not None:
            directive.is_ordered = True

    def _directive_left(self, event: ev.DirectiveLeft) -> None:
        directive = self._directives[event.cause]
        directive.has_left = True
        if not directive.held:
            self._flush(directive)
        if isinstance(event.error, Exception) and not directive.is_refused:
            message = str(event.error).partition("\n")[0]
            self._found.add("fatal error", message, (self._story(directive, f"is in {directive.name}"),), "")
        # A directive that was left early, or whose work is held back, is still heard of; a plain one is over.
        if event.error is None and not directive.held:
            del self._directives[event.cause]

    def _directive(self, cause: int) -> Directive:
        """Return the directive of a number; one of the runtime's own for work that belongs to none."""
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
        self._races.forget(HOST, begin, end)
        self._versions.array_made(begin, end)
        self._wastes.array_made(begin, end)

    def _array_freed(self, event: ev.ArrayFreed) -> None:
        array = event.array
        if self._has_lines:
            self._lifetimes.freed(ev.MappedFreed(array, program_line(), f"frees {array.name}"))
        freed = ev.HostUsed(array, array.address, array.nbytes, True)
        self._host_access(freed, f"frees {array.name}", judged=False)

    def _host_used(self, event: ev.HostUsed) -> None:
        verb = "writes" if event.writes else "reads" if event.writes is False else "uses"
        self._host_access(event, f"{verb} {event.array.name} on the host" + (" atomically" if event.atomic else ""))

    def _host_access(self, event: ev.HostUsed, did: str, judged: bool = True) -> None:
        begin, end, writes, exact = event.begin, event.begin + event.nbytes, event.writes, event.exact
        if not event.nbytes:
            return
        if (where := self._line(strand := self._strands.current())) and not self._has_lines:
            where = f"after {where}"  # a recording says which directive came before
        now, name = self.sim.now, event.array.name
        access = Access(
            HOST, begin, end, bool(writes), exact, strand, strand.epoch, did, where, now, name, atomic=event.atomic
        )
        if writes is not None or exact:  # else it is not known whether anything is done to it
            self._races.access(access)
        if not judged:
            return
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
        name = event.array.name if event.array is not None else "device memory"
        begin, end = event.address, event.address + event.nbytes
        block = WatchedBlock(
            event.device, begin, end, name, self._story(directive, f"allocates it in {directive.name}")
        )
        block.cause, block.by_routine = event.cause, directive.name == "omp_target_alloc"
        self._memories.add_block(block)
        self._races.forget(event.device, begin, end)
        self._versions.block_made(event.device, begin, end)
        owner = (event.array, event.nbytes) if event.array is not None else (directive.where, event.nbytes)
        self._wastes.block_made(block, (event.device, *owner) if block.by_routine or event.array is not None else None)

    def _block_freed(self, event: ev.BlockFreed) -> None:
        directive = self._directive(event.cause)
        block = self._memories.pop_block(event.device, event.address)
        if block is None:
            return
        role: Role = "" if block.entry is None else "leaves"
        did = f"frees {block.name} of the device in {directive.name}"
        access = directive.access(
            self.sim.now, event.device, block.begin, block.end, True, True, did, block.name, role, block
        )  # fmt: skip
        self._races.access(access)
        self._wastes.block_freed(block, access.story, event.cause)

    def _entry_entered(self, event: ev.EntryEntered) -> None:
        entry, directive = event.entry, self._directive(event.cause)
        self._memories.add_entry(event.device, entry)
        block = self._memories.block_at(event.device, entry.device_begin)
        if block is not None and entry.owned:
            block.entry = entry
        elif block is None:
            self._versions.entered(event.device, entry)
        told = self._story(directive, f"maps it in {directive.name}")
        may_stay = not directive.name.startswith("target") or "data" not in directive.name
        self._mappings.entered(entry, told, may_stay)

        self._lifetimes.entered(entry, told)

    def _entry_counted(self, event: ev.EntryCounted) -> None:
        """Take the end of the last reference for the end of the data, though a queue may keep the block for a while."""
        entry = event.entry
        if not self._strands.has_queues or not entry.is_unused or not entry.size:
            return
        directive = self._directive(event.cause)
        block = self._memories.block_at(event.device, entry.device_begin)
        if block is not None and block.entry is entry:
            role: Role = "" if directive.strand.is_queue else "leaves"
            did = f"ends the data of {entry.name or 'data'} in {directive.name}"
            self._races.access(
                directive.access(
                    self.sim.now, event.device, block.begin, block.end, True, True, did, block.name, role, block
                )
            )

    def _entry_left(self, event: ev.EntryLeft) -> None:
        self._memories.pop_entry(event.device, event.entry)
        self._mappings.left(event.entry)
        self._lifetimes.left(event.entry, self._directive(event.cause))

    def _item_ended(self, event: ev.ItemEnded) -> None:
        if event.entry is None and event.in_place:
            return
        directive = self._directive(event.cause)
        story = self._story(directive, f"unmaps it in {directive.name}")
        self._mappings.item_ended(directive, story, event.item, event.entry)

    def _update_missed(self, event: ev.UpdateMissed) -> None:
        directive = self._directive(event.cause)
        if not directive.name.startswith("target"):
            return  # `if_present` of OpenACC, which says so
        self._mappings.update_missed(self._story(directive, f"updates {event.item.name or 'data'}"), event.item)

    # what is in the queue of a directive

    def _data_copied(self, event: ev.DataCopied) -> None:
        directive = self._directive(event.cause)
        entry = self._memories.entry_at(event.device, event.device_address)
        block = self._memories.block_at(event.device, event.device_address)
        if directive.strand.is_queue:
            directive.clock = dict(directive.strand.clock)
        if self._reaches_nothing(event):
            name, way = event.array.name if event.array else "data", "to" if event.op == "h2d" else "from"
            told = self._story(directive, f"copies {name} {way} device memory in {directive.name}")
            self._nothing_there(told, "device memory")
            directive.is_refused = True
            return
        role: Role = ""
        if block is not None and entry is not None and block.entry is entry and not directive.strand.is_queue:
            if event.op == "h2d" and block.cause == event.cause:
                role = "enters"
            elif event.op == "d2h" and entry.is_unused:
                role = "leaves"
        if directive.waiting is not None:
            directive.waiting.append((event, entry, block, role))
        elif not self._queued.hold(
            directive, lambda: self._copies.take(directive, event, entry, block, role, self._has_lines)
        ):
            self._copies.take(directive, event, entry, block, role, self._has_lines)

    def _flush(self, directive: Directive) -> None:
        waiting, directive.waiting = directive.waiting or [], None
        for event, entry, block, role in waiting:
            self._copies.take(directive, event, entry, block, role, self._has_lines)

    def _kernel_submitted(self, event: ev.KernelSubmitted) -> None:
        directive = self._directive(event.cause)
        directive.kernel, uses = event.kernel, event.uses
        if directive.strand.is_queue:
            directive.clock = dict(directive.strand.clock)
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
            self._use(directive, event.uses)
            self._flush(directive)
            return
        for done in self._queued.ran(directive, lambda: self._use(directive, event.uses)):
            if done.has_left and not done.held:
                self._directives.pop(done.number, None)

    def _use(self, directive: Directive, uses: tuple[MemoryUse, ...]) -> None:
        for use in uses:
            begin, end, memory = use.begin, use.begin + use.nbytes, use.memory
            self._wastes.kernel_used(use, self._memories)
            if use.maybe or directive.name.startswith(_SPREADING):
                if use.mapped:
                    self._unknown.add(directive.kernel)
                if memory != HOST and use.nbytes:
                    self._versions.device_maybe_written(memory, begin, end, self._memories.entry_at(memory, begin))
                continue
            verb = "writes" if use.writes else "reads"
            kernel = plain_kernel(directive.kernel)
            did = f"{verb} {use.name}{' atomically' * use.atomic} in kernel {kernel!r} of {directive.name}"
            if use.outside:
                told = self._story(directive, did)
                advice = f"The kernel reaches beyond what is mapped: map the whole section of {use.name} that it uses."
                self._found.add("outside of what is mapped", use.name, (told,), advice, use.name)
            if begin >= end:
                continue
            block = None if memory == HOST else self._memories.block_at(memory, begin)
            role: Role = "uses" if use.mapped and not directive.strand.is_queue else ""
            access = directive.access(
                self.sim.now, memory, begin, end, use.writes, use.exact, did, use.name, role, block, use.atomic
            )  # fmt: skip
            self._races.access(access)
            self._judge(access)

    def _judge(self, access: Access) -> None:
        """Compare versions: of what a kernel reads, or make one of what it writes."""
        if access.memory == HOST:
            if access.writes:
                self._versions.host_written(access)
            else:
                self._versions.host_read(access, False)
            return
        entry = self._memories.entry_at(access.memory, access.begin)
        if entry is None and access.block is None:
            self._nothing_there(access.story, access.name)
        elif access.writes:
            self._versions.device_written(access, entry)
        elif not self._lifetimes.is_told(entry):  # else the host's copy is another array's
            self._versions.device_read(access, entry)

    def _reaches_nothing(self, event: ev.DataCopied) -> bool:
        """Tell whether a side of a copy is an address of a device where nothing is allocated."""
        sides = [(event.device, event.device_address)]
        if event.op == "d2d":
            sides.append((event.source, event.host_address))
        block_at, entry_at = self._memories.block_at, self._memories.entry_at
        return event.nbytes > 0 and any(block_at(*side) is None and entry_at(*side) is None for side in sides)

    def _nothing_there(self, story: Story, name: str) -> None:
        advice = "No block of the device lies there: it was freed, or never allocated."
        self._found.add("use after free", name, (story,), advice, name)
