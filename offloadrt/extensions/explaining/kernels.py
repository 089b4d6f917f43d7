"""`offloadrt kernels`: what the compilers know of the kernels and the objects of a program. Open `command.py` first."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, Final

import attrs
from rich.console import RenderableType
from rich.markup import escape

from offloadrt.cli.render import table_of
from offloadrt.kernels import ArrayUse, Kernel, KernelAnalysis, KernelError
from offloadrt.kernels.accesses import BRANCH, UNKNOWN_LOOP, ArrayAccess
from offloadrt.kernels.algebra import Polynomial
from offloadrt.kernels.counting import Range, extent
from offloadrt.registry import NotInstalled, Registry
from offloadrt.study import Scenario
from offloadrt.study.errors import installed
from offloadrt.study.scripts import registry
from offloadrt.study.scripts.tracebacks import script_failure

ANALYSES: Final = Registry[Any]("compiler's analysis", "offloadrt.analyses")
"""Further analyses: ``predicate`` divides a kernel over devices, as JACC; ``host_program`` ranks objects, for OTM."""


@attrs.frozen
class ArrayUseRecord:
    """How one iteration of a kernel uses an array; `laf` is the local access frequency: loads plus stores.

    `name` is the array's, and `reads` and `writes` are the loads and stores. `elements_read` and `elements_written` are
    the elements that come from or go to memory: an element that is used again counts once. `bytes` is their size.
    `pattern` is that of the least regular access. `level` is the number of loads from other arrays, each needed for the
    next, that come before the first access: 0 for ``a[i]``, 1 for ``a[b[i]]``.
    """

    name: str
    reads: float
    writes: float
    laf: float
    elements_read: float
    elements_written: float
    bytes: float
    pattern: str
    level: int

    @classmethod
    def of(cls, use: ArrayUse) -> ArrayUseRecord:
        """Convert a kernel's use of an array to the record that `--json` prints."""
        return cls(**{field.name: getattr(use, field.name) for field in attrs.fields(cls)})


@attrs.frozen
class KernelRecord:
    """A kernel as `--json` prints it: where it is, costs per iteration, arrays, and what the analysis had to guess.

    file, line: None if the kernel's costs are declared, so that it has no source. `flops_per_iteration` and
    `bytes_per_iteration` are those of one iteration of its loop nest. `guessed` are sentences about what the source
    does not say, such as how often an inner loop runs.
    """

    name: str
    file: str | None
    line: int | None
    flops_per_iteration: float
    bytes_per_iteration: float
    arrays: list[ArrayUseRecord]
    guessed: list[str]

    @classmethod
    def of(cls, kernel: Kernel) -> KernelRecord:
        """Convert a kernel to the record that `--json` prints."""
        found = kernel.analysis
        if found is None:
            costs = kernel.flops_per_iteration, kernel.bytes_per_iteration
            return cls(kernel.name, None, None, *costs, [ArrayUseRecord.of(use) for use in kernel.arrays], [])
        arrays = [ArrayUseRecord.of(use) for use in found.arrays]
        return cls(kernel.name, found.file, found.line, found.flops, found.bytes, arrays, list(found.guessed))


@attrs.frozen
class ObjectRecord:
    """An array of the function `host`, with its `rank` by global access frequency (`gaf`), 1 for the most accessed.

    The frequency sums over all target regions how often a region runs times the accesses in one iteration.
    """

    host: str
    name: str
    rank: int
    gaf: float


@attrs.frozen
class KernelsRecord:
    """The JSON record that `kernels` prints; `unread` are host functions whose source cannot be read, and why.

    `objects` are the arrays of the host functions, ranked by how often kernels access them.
    """

    kernels: list[KernelRecord]
    objects: list[ObjectRecord]
    unread: list[str]


_PAPERS: Final = Registry[Any]("paper", "offloadrt.papers")

_LAF = "LAF, an array's local access frequency: its loads and stores in one iteration of a kernel"
_GAF = (
    "GAF, an object's global access frequency: the sum over the target regions of how often a region runs, times the "
    f"LAF there. Where the source does not tell, a loop is assumed to make {UNKNOWN_LOOP:g} trips, and a branch to be "
    f"taken with probability {BRANCH:g}"
)

_HINTS = "say what is known with `expect`: expect(CONDITION, probability=0.1), expect(range(FIRST, LAST), trips=6)"


def kernels_of(reference: str) -> Iterable[RenderableType]:
    """Yield what the command `kernels` prints for a scenario's name or a script: what the source says of its kernels.

    These are accesses, index ranges and work of each kernel, and how often target regions run. Raises ScenarioNotFound,
    ScriptFailed.
    """
    kernels, programs, unread = _found(reference)
    if not kernels:
        yield _none_found(reference)
    for kernel in kernels:
        yield from declared(kernel) if kernel.analysis is None else analysed(kernel, kernel.analysis)
    if any(kernel.analysis is not None for kernel in kernels):
        yield f"\n{_LAF}"
        yield "bytes are of elements; a launch moves the sectors (a machine's mem.sector) in which they lie"
    for host, program in programs.items():
        yield from frequencies(host, program)
    if programs:
        yield f"\n{_GAF}"
    for message in unread:
        yield "\n" + escape(message)


def record_of(reference: str) -> KernelsRecord:
    """Return the kernels of a scenario or a script, and the arrays of its host functions, as a record for JSON.

    reference: the scenario's name or the script. Raises ScenarioNotFound, ScriptFailed.
    """
    kernels, programs, unread = _found(reference)
    objects = [
        ObjectRecord(host, entry.name, entry.rank, entry.gaf)
        for host, program in programs.items()
        for entry in program.objects
    ]
    return KernelsRecord([KernelRecord.of(kernel) for kernel in kernels], objects, unread)


def predicated_kernels_of(reference: str) -> Iterable[RenderableType]:
    """Yield the source of each kernel as JACC divides it among several devices, or why it cannot be divided.

    reference: a scenario or a script. Raises ScenarioNotFound, ScriptFailed; UserError if JACC is not installed.
    """
    kernels, _, _ = _found(reference)
    if not kernels:
        yield _none_found(reference)
    predicate: Callable[[Kernel], Any] = installed(ANALYSES, "predicate", "kernels --predicated: ")
    for kernel in kernels:
        try:
            divided = predicate(kernel)
        except KernelError as error:
            yield f"\n# {escape(str(error))}"
            continue
        yield "\n" + "\n".join(escape(f"# {line}") for line in _regions(divided))
        yield escape(divided.source.rstrip())
        if divided.combination is not None:
            scalars = ", ".join(f"{partial.scalar} ({partial.operator})" for partial in divided.combination.partials)
            yield f"# then, on every device, with the partial values of all: {escape(scalars)}"
            yield escape(divided.combination.source.rstrip())


def _host_program() -> type[Any] | None:
    """Return OTM's class that analyses host functions; None if OTM is not installed: then no object gets a rank."""
    try:
        found: type[Any] = ANALYSES.load("host_program")
    except NotInstalled:
        return None
    return found


def _regions(divided: Any) -> Iterable[str]:
    assert divided.original.analysis is not None
    yield f"{divided.original.name} ({divided.original.analysis.file}:{divided.original.analysis.line})"
    for region in divided.written:
        is_undivided = region.dimension is None
        yield f"{region.name}: " + (
            "all of it by every device" if is_undivided else f"divided along dimension {region.dimension}"
        )


def _none_found(reference: str) -> str:
    return f"{escape(reference)}: no kernel stands in its module, or in a module of a program that it imports"


def _found(reference: str) -> tuple[list[Kernel], dict[str, Any], list[str]]:
    """Return the kernels, OTM's analyses of host functions by name, and errors for functions that cannot be read."""
    path, name = registry.split(reference)
    if path is None or name is not None:
        chosen = registry.find(reference)
        scenarios, names = [chosen], chosen.function.__globals__
    else:
        scenarios = list(registry.load(path).values())
        files = ((getattr(module, "__file__", None), module) for module in [*sys.modules.values()])
        names = next((vars(module) for file, module in files if file == str(path.resolve())), {})
    kernels: dict[int, Kernel] = {}
    programs: dict[str, Any] = {}
    host_program = _host_program()
    for scenario in scenarios:
        kernels.update({id(kernel): kernel for kernel in _named(scenario)})
    for place in [names, *_modules_behind(names)]:
        kernels.update({id(value): value for value in place.values() if isinstance(value, Kernel)})
        if host_program is not None:
            programs.update({key: value for key, value in place.items() if isinstance(value, host_program)})
    unread: list[str] = []
    if host_program is None:
        return list(kernels.values()), programs, unread
    for scenario in scenarios:
        try:
            program = host_program.of(scenario.function)
        except KernelError as error:
            unread.append(str(error))
            continue
        kernels.update({id(region.kernel): region.kernel for region in program.regions})
        if program.objects:
            programs[scenario.name] = program
    return list(kernels.values()), programs, unread


def _named(scenario: Scenario) -> list[Kernel]:
    """Return the kernels that a scenario declares itself. Raises ScriptFailed."""
    try:
        return [] if scenario.kernels is None else list(scenario.kernels())
    except Exception as error:
        raise script_failure(error) from error


def _modules_behind(names: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """Yield the names in all loaded modules of those papers' programs that a script imports something from."""
    used = [
        value.__name__ if hasattr(value, "__path__") else getattr(value, "__module__", "") for value in names.values()
    ]
    homes = tuple({f"{_home(point.module)}." for point in _PAPERS.points().values()})
    programs = {_program(module) for module in used if isinstance(module, str) and module.startswith(homes)}
    for name, module in sorted(sys.modules.items()):
        if name.startswith(homes) and _program(name) in programs:
            yield vars(module)


def _home(judges: str) -> str:
    """Return the package that contains a paper and its siblings, from the name of the paper's module of judges."""
    paper = judges.rpartition(".")[0]
    return paper.rpartition(".")[0] or paper


def _program(module: str) -> str:
    """Return the first four parts of a module's name: its folder or file within a paper, as `zerocopy.qmcpack`."""
    return ".".join(module.split(".")[:4])


_ARRAY = ("array", "loads", "stores", "LAF", "elements in", "out", "bytes", "index", "after")


def declared(kernel: Kernel) -> Iterable[RenderableType]:
    """Show a kernel that declares its costs and has no source: the costs, and how it uses each array."""
    costs = f"{number(kernel.flops_per_iteration)} flops and {number(kernel.bytes_per_iteration)} bytes an iteration"
    yield f"\n[bold]{escape(kernel.name)}[/]: declared, {costs}"
    if kernel.arrays:
        table = table_of("", *_ARRAY, right=range(1, 7))
        for use in kernel.arrays:
            table.add_row(*_cells(use))
        yield table


def _cells(use: ArrayUse, near: bool = False) -> Iterable[str]:
    """Yield the cells of an array's row in a table with the headings `_ARRAY`."""
    yield escape(use.name)
    for value in (use.reads, use.writes, use.laf, use.elements_read, use.elements_written, use.bytes):
        yield number(value)
    yield f"{use.pattern}, near" if near else use.pattern
    yield "" if not use.level else "1 load" if use.level == 1 else f"{use.level} loads"


def analysed(kernel: Kernel, analysis: KernelAnalysis) -> Iterable[RenderableType]:
    """Show a kernel's loops, costs and arrays, from the analysis of its source."""
    yield f"\n[bold]{escape(kernel.name)}[/] ({escape(analysis.file)}:{analysis.line})"
    loops = []
    for loop in analysis.loops:
        first, end = ("data" if bound is None else bound.show(_variable) for bound in (loop.start, loop.stop))
        step = "" if loop.step == 1 else f", {loop.step}"
        loops.append(f"{'distributed ' if loop.distributed else ''}{loop.name} in range({first}, {end}{step})")
    yield escape("loops: " + "; ".join(loops))
    yield f"an iteration: {number(analysis.flops)} flops, {number(analysis.bytes)} bytes"
    if analysis.reductions:
        yield escape(
            "reductions: "
            + ", ".join(f"{reduction.target} ({reduction.operator})" for reduction in analysis.reductions)
        )
    table = table_of("", *_ARRAY, "read", "written", right=range(1, 7))
    for use in analysis.arrays:
        accesses = [access for access in analysis.accesses if access.array == use.name]
        ranges = (_show_ranges(access for access in accesses if access.kind == kind) for kind in ("read", "write"))
        table.add_row(*_cells(use, any(access.near is not None for access in accesses)), *map(escape, ranges))
    yield table
    if analysis.guessed:
        yield escape(f"assumed: {'; '.join(analysis.guessed)}")
        yield escape(_HINTS)
    if analysis.exact_at_launch:
        lines = ", ".join(map(str, analysis.exact_at_launch))
        yield f"conditions on an index count as 0.5 here, and exactly at a launch: line {lines}"


def frequencies(host: str, program: Any) -> Iterable[RenderableType]:
    """Show the target regions of a program, with how often each runs, and its objects by access frequency.

    host: the name of its host function. program: its regions and objects, a `HostProgram` (of the extension `otm`,
    which places each object in memory by its access frequency).
    """
    regions = table_of(f"\ntarget regions of {escape(host)}", "region", "runs", "line", "objects", right=(1, 2))
    for region in program.regions:
        regions.add_row(
            escape(region.kernel.name), number(region.frequency), str(region.line), escape(", ".join(region.objects))
        )
    yield regions
    objects = table_of("\nobjects by global access frequency", "rank", "object", "GAF", "regions", right=(0, 2))
    for entry in program.objects:
        names = dict.fromkeys(region.kernel.name for region in entry.regions)
        objects.add_row(str(entry.rank), escape(entry.name), number(entry.gaf), escape(", ".join(names)))
    yield objects


def number(value: float) -> str:
    """Return a number as text with six digits at most."""
    return f"{value:.6g}"


def _variable(symbol: str) -> str:
    return symbol.partition("@")[0]


def _show_ranges(accesses: Iterable[ArrayAccess]) -> str:
    """Return as text the index ranges of accesses to an array, one for each dimension: ``1 … n - 2, 0 … m - 1``."""
    dimensions: dict[int, list[Range | None]] = {}
    for access in accesses:
        for dimension, index in enumerate(access.index):
            ends = None if index is None or access.through else extent(index, access.path, {})
            dimensions.setdefault(dimension, []).append(ends)
    return ", ".join(_hull(ranges) for _, ranges in sorted(dimensions.items()))


def _hull(ranges: Sequence[Range | None]) -> str:
    known = [ends for ends in ranges if ends is not None]
    if not known or len(known) < len(ranges):
        return "any"
    lows = reduce(lambda kept, low: _kept(kept, low, 1), (low for low, _ in known), list[Polynomial]())
    highs = reduce(lambda kept, high: _kept(kept, high, -1), (high for _, high in known), list[Polynomial]())
    low = lows[0].show() if len(lows) == 1 else f"min({', '.join(bound.show() for bound in lows)})"
    high = highs[0].show() if len(highs) == 1 else f"max({', '.join(bound.show() for bound in highs)})"
    return low if low == high else f"{low} … {high}"


def _kept(bounds: Sequence[Polynomial], other: Polynomial, direction: int) -> list[Polynomial]:
    """Add a bound to others, and drop those surely not outermost: 1 keeps the smallest bounds, -1 the largest ones."""
    if any((other - bound).sign == direction or other == bound for bound in bounds):
        return list(bounds)
    return [bound for bound in bounds if (bound - other).sign != direction] + [other]
