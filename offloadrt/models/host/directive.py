"""One directive or routine from its begin to its end, in the thread that runs it.

`in_directive` runs a directive on a device; what it does there is a function, its `Work`. `beginning`, `ending` and
`updating` return the `Work` of directives that only map, unmap or update data. `launch_of` makes the launch of a
kernel: the numbers of teams, threads and iterations. `Region` is a structured region, entered by ``async with``.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from types import CodeType, TracebackType
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

import attrs
import numpy as np

from offloadrt.driver import DriverError
from offloadrt.kernels import Kernel, KernelError, Launch
from offloadrt.kernels.integers import check_integers
from offloadrt.kernels.kernel import DEFAULT_THREADS
from offloadrt.models.host.arguments import CHECKED
from offloadrt.models.host.program import OffloadProgram
from offloadrt.runtime.device import OffloadDevice, report_failure
from offloadrt.runtime.errors import DeviceEnded, FreedHostMemory, MappingError
from offloadrt.runtime.events import DirectiveBegan, DirectiveLeft, WorkQueue
from offloadrt.runtime.mapping.data_environment import target_data_begin, target_data_end, target_data_update
from offloadrt.runtime.mapping.map_item import DirectiveQueue, MapItem
from offloadrt.runtime.mapping.map_types import ALWAYS, FROM, PRESENT
from offloadrt.runtime.plugins.plugin import GridDefaults
from offloadrt.sim import Signal
from offloadrt.sim.errors import AsyncOnly

_A_THREAD_EACH: Final = GridDefaults(sys.maxsize, DEFAULT_THREADS, DEFAULT_THREADS)
"""The grid of programming models that do not limit the number of teams: one thread for each iteration."""


def launch_of(
    kernel: Kernel,
    arguments: Sequence[Any],
    teams: int | None = None,
    threads: int | None = None,
    iterations: int | None = None,
    grid: GridDefaults = _A_THREAD_EACH,
) -> Launch:
    """Make the launch of a kernel. Of the arguments only shapes, types and numbers matter, not the arrays' values.

    A loop nest's number of iterations follows from its source. Any other kernel has `iterations`; by default it is one
    team with one iteration a thread. grid: the runtime's defaults for a loop without teams or threads. Raises
    KernelError when the iterations of a loop depend on a value that is not known.
    """
    per_team = kernel.threads_per_team if threads is None else threads
    known = None if kernel.analysis is None else arguments
    if kernel.analysis is not None and iterations is None:
        iterations = kernel.analysis.trip_count(*arguments)
    if iterations is None:
        return kernel.launch(teams or 1, per_team, None, known)
    if teams is None:
        teams, per_team = grid.over_threads(iterations, per_team)
    return kernel.launch(teams, per_team or grid.threads, iterations, known)


def check_logical(call: str, **clauses: object) -> None:
    """Raise TypeError, naming `call` and clause, for a clause (by name in `clauses`) that is no truth value."""
    for name, value in clauses.items():
        if not isinstance(value, (bool, np.bool_)):
            raise TypeError(f"{call}: {name} is {value!r:.80}, but must be True or False")


def construct_launch(
    construct: str,
    kernel: Kernel,
    arguments: Sequence[Any],
    teams: int | None,
    threads: int | None,
    iterations: int | None,
    grid: GridDefaults = _A_THREAD_EACH,
    clauses: tuple[str, str] = ("teams", "threads"),
    **logical: object,
) -> Launch:
    """Make the launch of a construct, or raise the error of a compiler that rejects the construct.

    construct: its name in messages. grid: the runtime's defaults for teams and threads. clauses: the model's names of
    the clauses for teams and threads. logical: the clauses that are true or false, by name. Raises ValueError for a
    number of teams or threads below 1 or of iterations below 0, TypeError for an object that is no kernel, for an array
    of another program and for a clause that is neither true nor false, KernelError for a wrong number of arguments.
    """
    check_logical(construct, **logical)
    sizes = ((clauses[0], teams, 1), (clauses[1], threads, 1), ("iterations", iterations, 0))
    check_integers(construct, [size for size in sizes if size[1] is not None])
    check_arguments(kernel, arguments)
    least, most = kernel.takes
    if not least <= len(arguments) <= most:
        names = ", ".join(_parameters(kernel))
        takes = "1 argument" if least == 1 else f"{least} arguments"
        raise KernelError(f"kernel {kernel.name!r} takes {takes} ({names}), not {len(arguments)}")
    return launch_of(kernel, arguments, teams, threads, iterations, grid)


def check_arguments(kernel: Kernel, arguments: Sequence[Any], made_by: str = "t.array(...)") -> None:
    """Raise TypeError if `kernel` is no kernel, or an argument is a list or a NumPy array instead of a program's array.

    made_by: the call that makes an array for kernels in the program's model, to be named in the message.
    """
    given: object = kernel
    if not isinstance(given, Kernel):
        called = getattr(given, "__name__", type(given).__name__)
        raise TypeError(f"{called} is no kernel: decorate its function with @kernel")
    for position, argument in enumerate(arguments):
        if isinstance(argument, list) or (isinstance(argument, np.ndarray) and argument.ndim):
            raise TypeError(
                f"kernel {kernel.name!r}: argument {_named(kernel, position)} is a {_type_of(argument)}, which no "
                f"device has; make it an array of the program with {made_by}"
            )


def _named(kernel: Kernel, position: int) -> str:
    names = () if kernel.body is None else _parameters(kernel)
    return repr(names[position]) if position < len(names) else str(position + 1)


def _parameters(kernel: Kernel) -> tuple[str, ...]:
    if kernel.analysis is not None:
        return kernel.analysis.parameters
    return tuple(inspect.signature(kernel.body).parameters) if callable(kernel.body) else ()


def _type_of(argument: Any) -> str:
    return f"NumPy array of shape {argument.shape}" if isinstance(argument, np.ndarray) else type(argument).__name__


def abandon(device: OffloadDevice, queue: DirectiveQueue, name: str) -> None:
    """Clean up after a directive that an exception or a cancellation has ended early, unless the device has ended.

    A new actor does so: it waits for what the directive has submitted, returns the directive's stream, unless that
    belongs to a queue of several directives (`queue.lasts`), and unmaps the directive's own maps, or the rest of those
    that it was about to unmap. Then it calls the functions that were to run after the queue, and what the memory
    configuration wants for this case (`MapHooks.left_early`). It copies nothing back. Only the end of the program waits
    for this actor. name: the directive's, for the actor's name. A real directive cannot be left early.
    """
    if device.ended is not None or device.sim.ending:
        return
    begun = queue.stream is not None or queue.post_processing or queue.mapped or queue.copy or queue.private
    left_early = device.hooks.left_early
    rest = None if left_early is None else left_early(queue)
    if begun or rest is not None:
        over = Signal(device.sim, f"rest of directive {queue.cause}")
        device.abandoned.append(over)
        device.sim.spawn(_bring_to_an_end, device, queue, rest, over, name=f"rest of directive {queue.cause} ({name})")


async def _bring_to_an_end(
    device: OffloadDevice, queue: DirectiveQueue, rest: Callable[[], None] | None, over: Signal
) -> None:
    """Finish what an abandoned directive has begun, and set `over`; a failing driver call ends the device."""
    born = device.sim.now
    try:
        await _end(device, queue, rest)
    except DriverError as error:
        report_failure(device, error)
        device.ended = device.ended or error
    device.machine.host_time.lived(device.sim.now - born)
    over.set()


async def _end(device: OffloadDevice, queue: DirectiveQueue, rest: Callable[[], None] | None) -> None:
    device.sim.current.cause = queue.cause
    mapped = [attrs.evolve(item, type=item.type & ~(FROM | ALWAYS | PRESENT)) for item in queue.items[: queue.mapped]]
    queue.mapped = 0
    await target_data_end(device, mapped, queue, "target")
    if rest is not None:
        rest()
    await device.plugin.synchronize(queue)
    await device.settle(queue)
    if queue.private is not None:
        await queue.private()


_FATAL: Final = "omptarget fatal error 1: failure of target construct while offloading is mandatory"
Work = Callable[[OffloadDevice, DirectiveQueue], Awaitable[object]]


class LastingQueue(WorkQueue, Protocol):
    """A queue that lives longer than the directives in it, such as an async queue of OpenACC."""

    async def use(self, device: OffloadDevice, queue: DirectiveQueue, work: Work, /) -> None:
        """Do `work` for one directive in this queue's stream; `queue` holds what belongs to that directive alone."""


async def in_directive(
    program: OffloadProgram[Any],
    name: str,
    device: int,
    work: Work,
    unmaps: Sequence[MapItem] = (),
    lasting: LastingQueue | None = None,
    mandatory: bool = True,
    make_queue: type[DirectiveQueue] = DirectiveQueue,
) -> OffloadDevice:
    """Do `work` as a directive with this name, a new number and a new queue, on a device; then drain that queue.

    unmaps: items whose mapping ends even if the directive is left before it has begun to unmap. lasting: a queue that
    outlives the directive and takes its work; it is not drained here. mandatory: whether a failing driver call is
    fatal; it is not for a routine that returns an error code. make_queue: the class of the directive's queue.

    Returns the device. Raises InvalidDevice for an unknown device, DeviceEnded for one that a fatal error has ended,
    and what the work raises; a MappingError's messages are all that LLVM would have printed. A failing construct ends
    the device, as it ends a real program. If it is left early, as at a timeout, another actor finishes it (`abandon`).
    """
    if program.globals.pending:
        await program.globals.load()
    where = program.device(device, name)
    if where.ended is not None:
        why = str(where.ended).partition("\n")[0]
        message = f"device {where.number} cannot be used any more: a fatal error has ended it: {why}"
        raise where.error(DeviceEnded, message, name, "") from where.ended
    actor = program.sim.running or program.sim.current
    number = program.next_directive()
    outer, actor.cause = actor.cause, number
    if (tell := where.tell) is not None:
        tell(DirectiveBegan(number, where.number, name, lasting))
    queue = make_queue(number, items=unmaps, mapped=len(unmaps))
    failed: BaseException | None = None
    try:
        await where.work(program.costs.directive)
        if lasting is None:
            await work(where, queue)
            if queue.stream is not None:
                await where.plugin.synchronize(queue)
            if queue.post_processing or queue.kernel_error is not None:
                await where.settle(queue)
        else:
            await lasting.use(where, queue, work)
    except MappingError as error:
        where.report(f"{name}: {_FATAL}")
        error.messages = tuple(where.messages)
        where.ended = failed = error
        raise
    except FreedHostMemory as error:
        where.ended = failed = error
        raise
    except DriverError as error:
        failed = error
        if mandatory:
            report_failure(where, error, f"{name}: {_FATAL}")
            where.ended = error
        else:
            report_failure(where, error)
            abandon(where, queue, name)
        raise
    except BaseException as error:
        failed = error
        abandon(where, queue, name)
        raise
    finally:
        actor.cause = outer
        if tell is not None:
            tell(DirectiveLeft(number, where.number, name, failed))
            failed = None  # an error that held its own frame would stay until the collector runs
    return where


def leave_region(program: OffloadProgram[Any], name: str, device: int, items: Sequence[MapItem]) -> None:
    """Leave a structured region early: end the mappings of the region's items without copying anything back."""
    queue = DirectiveQueue(program.next_directive(), items=items, mapped=len(items))
    abandon(program.device(device), queue, name)


def beginning(items: Sequence[MapItem], call: str) -> Work:
    """Return the function by which a directive begins to map these items. call: the directive's name in errors."""
    return lambda where, queue: target_data_begin(where, items, queue, call)


def ending(items: Sequence[MapItem], call: str) -> Work:
    """Return the function by which a directive ends the mapping of these items. call: its name in errors."""
    return lambda where, queue: target_data_end(where, items, queue, call)


def updating(items: Sequence[MapItem], call: str, specification: bool = False) -> Work:
    """Return the function by which a directive updates items. call: its name in errors.

    specification: whether strided sections are read as OpenMP specifies them, and not as LLVM 22 does.
    """
    return lambda where, queue: target_data_update(where, items, queue, call, specification)


T_co = TypeVar("T_co", covariant=True)


class Region(AsyncOnly, ABC, Generic[T_co]):
    """A structured region of a program: ``async with region as value``, where `begin` returns the value.

    A region that is not entered (`entered`) by `async with` maps nothing. That is a likely mistake, so a region warns
    if it is dropped in the line that makes it. A region that was stored in a variable may stay unused.
    """

    directive: ClassVar[str]
    entered = False
    _made_at: tuple[CodeType, int] | None = None

    def made(self) -> None:
        """Remember the program's line that makes this region, for the warning about a region that is never entered.

        A subclass's ``__init__`` calls this after it has checked the clauses. Only a method of the thread may call that
        ``__init__``: then the program is stack frame 3 (0 is this method), or 4 behind a wrapper that checks arguments.
        """
        program = next(each for each in (sys._getframe(3), sys._getframe(4)) if each.f_code is not CHECKED)
        self._made_at = program.f_code, program.f_lineno

    async def __aenter__(self) -> T_co:
        self.entered = True
        return await self.begin()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            await self.end()
        elif not issubclass(kind, Exception):
            self.leave()

    def __del__(self) -> None:
        if self.entered or sys.is_finalizing():
            return
        frame = sys._getframe(1)
        if self._made_at == (frame.f_code, frame.f_lineno):
            warnings.warn(f"region '{self.directive}' was never entered", RuntimeWarning, stacklevel=2)

    @abstractmethod
    async def begin(self) -> T_co: ...

    @abstractmethod
    async def end(self) -> None: ...

    @abstractmethod
    def leave(self) -> None:
        """Leave the region early, at a timeout or a cancellation, without copying data back."""
